//! Rules for organizations and API keys that every store follows.

use porchlight_ports::Organization;
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::key::{KeyKind, KeyRecord, Role};
use porchlight_schema::session::{Env, Tenant};

use crate::fixtures::{Subject, T0, fresh};

fn organization(name: &str) -> Organization {
    Organization {
        id: OrganizationId::new(T0, u128::from(fresh())),
        name: name.to_owned(),
        created_at: T0,
    }
}

fn hash() -> [u8; 32] {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&fresh().to_be_bytes());
    hash
}

pub async fn an_organization_is_created_once(subject: &dyn Subject) {
    let store = subject.store();
    let name = format!("b-{}", fresh());
    let (first, second) = (organization(&name), organization(&name));
    let other = organization(&format!("a-{}", fresh()));
    assert_eq!(store.organization(first.clone()).await.unwrap(), first);
    assert_eq!(store.organization(second).await.unwrap(), first);
    assert_eq!(store.organization(other.clone()).await.unwrap(), other);
    let all = store.organizations().await.unwrap();
    let ours: Vec<_> = all
        .into_iter()
        .filter(|stored| stored.name == first.name || stored.name == other.name)
        .collect();
    assert_eq!(ours, [other, first]);
}

pub async fn a_key_is_created_and_revoked_once(subject: &dyn Subject) {
    let store = subject.store();
    let organization_id = OrganizationId::new(T0, u128::from(fresh()));
    let record = |at: i64, organization_id| KeyRecord {
        id: KeyId::new(T0.plus_ms(at), u128::from(fresh())),
        tenant: Tenant {
            organization_id,
            env: Env::Sandbox,
        },
        kind: KeyKind::Secret,
        last4: "abcd".to_owned(),
        created_at: T0.plus_ms(at),
        expires_at: Some(T0.plus_ms(1_000_000)),
        revoked_at: None,
        name: None,
        last_used_at: None,
        role: Role::Admin,
    };
    let (hash_a, hash_b, hash_c) = (hash(), hash(), hash());
    let (a, b) = (record(20, organization_id), record(10, organization_id));
    let c = record(5, OrganizationId::new(T0, u128::from(fresh())));
    for (hash, record) in [(hash_a, &a), (hash_b, &b), (hash_c, &c)] {
        assert_eq!(store.find_key(hash).await.unwrap(), None);
        store.put_key(hash, record.clone()).await.unwrap();
        assert_eq!(store.find_key(hash).await.unwrap().as_ref(), Some(record));
    }
    let ours = store.list_keys(Some(organization_id)).await.unwrap();
    assert_eq!(ours, [b.clone(), a.clone()]);
    let all = store.list_keys(None).await.unwrap();
    assert!(all.contains(&a) && all.contains(&b) && all.contains(&c));
    assert!(all.is_sorted_by_key(|record| record.created_at));

    let revoked = store.revoke_key(a.id, T0.plus_ms(50)).await.unwrap();
    assert_eq!(
        revoked.as_ref().and_then(|record| record.revoked_at),
        Some(T0.plus_ms(50))
    );
    let again = store.revoke_key(a.id, T0.plus_ms(90)).await.unwrap();
    assert_eq!(again, revoked);
    store.put_key(hash_a, a.clone()).await.unwrap();
    assert_eq!(
        store.find_key(hash_a).await.unwrap(),
        revoked,
        "a repeat revives nothing"
    );
    assert_eq!(store.find_key(hash_b).await.unwrap(), Some(b));
    let unknown = KeyId::new(T0, u128::from(fresh()));
    assert_eq!(store.revoke_key(unknown, T0).await.unwrap(), None);
}
