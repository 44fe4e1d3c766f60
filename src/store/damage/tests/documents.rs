//! Tests that a damaged document affects neither other documents nor sessions that it does not
//! concern.

use porchlight_core::privacy::Mark;
use porchlight_ports::{Collection, DocumentKind, Documents};
use porchlight_schema::privacy::Subject;

use super::*;
use crate::tables::kinds;

/// Returns the key of the row with a document.
fn row_key(collection: Collection, key: &[u8]) -> Vec<u8> {
    [b"#", collection.key().as_slice(), key].concat()
}

/// Returns the key of the document with the mark of a session.
fn mark_key(session_id: SessionId) -> Vec<u8> {
    let mut key = vec![1];
    key.extend(tenant(1).organization_id.to_bytes());
    key.push(1);
    key.extend(Subject::SessionId(session_id).key());
    key
}

async fn write(store: &MemoryStore, collection: Collection, key: &[u8], data: &[u8]) {
    let data = Some(data.to_vec());
    let written = store.replace_document(collection, key.to_vec(), None, data);
    assert!(written.await.unwrap());
}

#[tokio::test]
async fn a_damaged_document_is_listed_as_empty_and_can_be_removed() {
    let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
    let open = Collection::of_service(DocumentKind::OpenPrivacyRequest);
    for (key, data) in [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")] {
        write(&store, open, key, data).await;
    }
    assert_eq!(break_rows(&store, row_key(open, b"b")), 1);
    let listed = async |limit| {
        let documents = store.documents(open, None, limit).await.unwrap();
        let documents = documents.into_iter();
        let all: Vec<_> = documents
            .map(|document| (document.key, document.data))
            .collect();
        all
    };
    let expected = [(b"a", &b"1"[..]), (b"b", b""), (b"c", b"3")];
    let expected = expected.map(|(key, data)| (key.to_vec(), data.to_vec()));
    assert_eq!(listed(9).await, expected);
    assert_eq!(listed(2).await, expected[..2]);
    let read = store.document(open, b"b".to_vec()).await;
    assert!(matches!(read, Err(StoreError::Damaged(_))), "never absent");
    let replace = async |expected: &[u8]| {
        let expected = Some(expected.to_vec());
        store
            .replace_document(open, b"b".to_vec(), expected, None)
            .await
    };
    assert!(matches!(replace(b"2").await, Err(StoreError::Damaged(_))));
    assert!(replace(b"").await.unwrap());
    assert_eq!(listed(9).await.len(), 2);
}

#[tokio::test]
async fn a_damaged_mark_keeps_its_session_and_no_other() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (marked, other) = (start(&store, 1).await, start(&store, 2).await);
        for session_id in [marked, other] {
            end(&store, session_id).await;
        }
        let marks = Collection::of_service(DocumentKind::PrivacyMark);
        let held = serde_json::to_vec(&Mark {
            held: true,
            ..Mark::default()
        });
        write(&store, marks, &mark_key(marked), &held.unwrap()).await;
        let row = row_key(marks, &mark_key(marked));
        assert_eq!(damage_in(way, &store, row.clone()).await, 1);
        assert_eq!(store.sweep(T0.plus_ms(1), u64::MAX).await.unwrap(), 1);
        assert!(store.find(marked).await.unwrap().is_some());
        assert!(store.find(other).await.unwrap().is_none());

        let mut report = store.check();
        assert_eq!(report.damaged.len(), 1, "{:?}", report.damaged);
        let mark = &report.damaged[0];
        assert!(mark.is_privacy_mark());
        assert_eq!(mark.id, format!("{} production", tenant(1).organization_id));
        assert_eq!(kinds::name(Space::State, &row).id, mark.id);
        store.quarantine(&mut report).await.unwrap();
        assert_eq!(store.sweep(T0.plus_ms(1), u64::MAX).await.unwrap(), 1);
    }
}

#[tokio::test]
async fn a_session_with_a_damaged_start_stays_while_any_session_is_held() {
    for way in [Way::Payload, Way::Checksum, Way::Later] {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (held, damaged, good) = (
            start(&store, 1).await,
            start(&store, 2).await,
            start(&store, 3).await,
        );
        for session_id in [held, damaged, good] {
            end(&store, session_id).await;
        }
        assert_eq!(damage_in(way, &store, of_session(b's', damaged)).await, 1);
        let marks = Collection::of_service(DocumentKind::PrivacyMark);
        let mark = |held| {
            let mark = Mark {
                held,
                suppressed: true,
                ..Mark::default()
            };
            serde_json::to_vec(&mark).unwrap()
        };
        write(&store, marks, &mark_key(held), &mark(true)).await;
        assert_eq!(store.sweep(T0.plus_ms(1), u64::MAX).await.unwrap(), 1);
        assert!(store.find(good).await.unwrap().is_none());
        // After the release, the mark that remains keeps no session.
        let released =
            store.replace_document(marks, mark_key(held), Some(mark(true)), Some(mark(false)));
        assert!(released.await.unwrap());
        assert_eq!(store.sweep(T0.plus_ms(1), u64::MAX).await.unwrap(), 2);
    }
}
