//! Rules for documents that every store follows.

use porchlight_ports::{Collection, DocumentKind};
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::session::{Env, Tenant};

use crate::fixtures::{Subject, T0, fresh};

fn collection() -> Collection {
    let tenant = Tenant {
        organization_id: OrganizationId::new(T0, u128::from(fresh())),
        env: Env::Sandbox,
    };
    Collection::of_tenant(DocumentKind::PrivacyRequest, tenant)
}

pub async fn a_document_is_replaced_only_if_it_is_as_expected(subject: &dyn Subject) {
    let (store, collection) = (subject.store(), collection());
    let (key, old, new) = (b"one".to_vec(), b"old".to_vec(), b"new".to_vec());
    let replace = |expected: Option<&Vec<u8>>, data: Option<&Vec<u8>>| {
        store.replace_document(collection, key.clone(), expected.cloned(), data.cloned())
    };
    assert!(!replace(Some(&old), Some(&new)).await.unwrap());
    assert!(replace(None, Some(&old)).await.unwrap());
    assert!(!replace(None, Some(&new)).await.unwrap());
    assert_eq!(
        store.document(collection, key.clone()).await.unwrap(),
        Some(old.clone())
    );
    assert!(replace(Some(&old), Some(&new)).await.unwrap());
    assert!(!replace(Some(&old), None).await.unwrap());
    assert!(replace(Some(&new), None).await.unwrap());
    assert_eq!(store.document(collection, key.clone()).await.unwrap(), None);
    assert!(replace(None, None).await.unwrap());
}

pub async fn documents_are_listed_by_collection_in_order(subject: &dyn Subject) {
    let (store, ours, theirs) = (subject.store(), collection(), collection());
    for (collection, key) in [(ours, "c"), (ours, "a"), (theirs, "b"), (ours, "b")] {
        let (key, data) = (
            key.as_bytes().to_vec(),
            format!("data of {key}").into_bytes(),
        );
        assert!(
            store
                .replace_document(collection, key, None, Some(data))
                .await
                .unwrap()
        );
    }
    let keys = async |after: Option<&str>, limit| {
        let after = after.map(|after| after.as_bytes().to_vec());
        let found = store.documents(ours, after, limit).await.unwrap();
        let keys = found.into_iter().map(|document| {
            assert_eq!(
                document.data,
                [b"data of ", document.key.as_slice()].concat()
            );
            String::from_utf8(document.key).unwrap()
        });
        keys.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(None, 10).await, "a b c");
    assert_eq!(keys(None, 2).await, "a b");
    assert_eq!(keys(Some("b"), 10).await, "c");
    assert_eq!(keys(Some("c"), 10).await, "");
}
