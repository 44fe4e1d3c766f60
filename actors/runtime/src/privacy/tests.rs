//! Tests that nodes learn of changed marks, regardless of the node that changed them.

use porchlight_ports::Document;
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::session::Env;
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_store::engine::memory::MemoryEngine;
use porchlight_store::engine::{Durability, Engine, Space, Write};

use super::*;
use crate::rounds::ROUNDS_MAX;

fn store() -> Arc<MemoryStore> {
    MemoryStore::new(Arc::new(|_, _| {})).unwrap()
}

fn tenant(number: u128) -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(TimestampMs(5), number),
        env: Env::Sandbox,
    }
}

fn subject() -> Subject {
    Subject::DeliveryId("d".to_owned())
}

#[tokio::test]
async fn a_stale_owner_does_not_repeat_a_change_that_was_undone() {
    let (store, tenant, subject) = (store(), tenant(9), subject());
    let marks = Marks::default();
    let set = async |restricted: bool, may_change: bool| {
        let change = |mark: &mut Mark| mark.restricted = restricted;
        let may_change = || may_change;
        let changing = marks.change(&*store, tenant, &subject, may_change, change);
        changing.await
    };
    set(true, true).await.unwrap();
    assert!(marks.of(tenant, &subject).restricted);
    set(false, true).await.unwrap();
    // The first owner resumes: it read the mark before the restriction, when there was none.
    set(true, false).await.unwrap_err();
    marks.refresh(&*store).await.unwrap();
    assert!(!marks.has_any(tenant));
}

/// Restricts the subject of a tenant as a node of this release does.
async fn restrict(node: &Marks, store: &MemoryStore, tenant: Tenant) {
    let change = |mark: &mut Mark| mark.restricted = true;
    let subject = subject();
    let changing = node.change(store, tenant, &subject, || true, change);
    changing.await.unwrap();
}

/// Writes the mark of a restriction without counting the change.
async fn write_uncounted(store: &MemoryStore, tenant: Tenant) {
    let mut key = vec![MARK];
    key.extend(tenant_key(tenant));
    key.extend(subject().key());
    let mark = Some(br#"{"restricted":true}"#.to_vec());
    let written = store.replace_document(collection(), key, None, mark);
    assert!(written.await.unwrap());
}

/// Restricts the subject of a tenant as a node of an earlier release does, which lists nothing.
async fn restrict_as_earlier_release(store: &MemoryStore, tenant: Tenant) {
    write_uncounted(store, tenant).await;
    let stored = store.document(collection(), vec![0]).await.unwrap();
    let count = stored.as_deref().map_or(0, |bytes| {
        u64::from_be_bytes(bytes.try_into().expect("a count has eight bytes"))
    });
    let next = Some((count + 1).to_be_bytes().to_vec());
    let counted = store.replace_document(collection(), vec![0], stored, next);
    assert!(counted.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_the_marks_of_changed_tenants_only() {
    let (store, node, other) = (store(), Marks::default(), Marks::default());
    restrict(&node, &store, tenant(1)).await;
    assert!(other.refresh(&*store).await.unwrap());
    // A read of this tenant would find the mark.
    write_uncounted(&store, tenant(2)).await;
    for number in [3, 4] {
        restrict(&node, &store, tenant(number)).await;
    }
    assert!(other.refresh(&*store).await.unwrap());
    assert!(!other.refresh(&*store).await.unwrap());
    for reader in [&node, &other] {
        let has_any = [1, 2, 3, 4].map(|number| reader.has_any(tenant(number)));
        assert_eq!(has_any, [true, false, true, true]);
        assert_eq!(reader.count(tenant(3)), 1);
    }
    // A removed mark is dropped from memory.
    let release = |mark: &mut Mark| mark.restricted = false;
    let subject = subject();
    let changing = other.change(&*store, tenant(3), &subject, || true, release);
    changing.await.unwrap();
    node.refresh(&*store).await.unwrap();
    assert!(!node.has_any(tenant(3)) && !other.has_any(tenant(3)));
    assert!(node.has_any(tenant(4)));
}

#[tokio::test(start_paused = true)]
async fn a_node_learns_of_the_changes_of_an_earlier_release() {
    let (store, node, other) = (store(), Marks::default(), Marks::default());
    restrict_as_earlier_release(&store, tenant(1)).await;
    node.refresh(&*store).await.unwrap();
    assert!(node.has_any(tenant(1)));
    restrict(&other, &store, tenant(2)).await;
    restrict_as_earlier_release(&store, tenant(3)).await;
    node.refresh(&*store).await.unwrap();
    assert!(node.has_any(tenant(2)) && node.has_any(tenant(3)));
    restrict(&other, &store, tenant(4)).await;
    node.refresh(&*store).await.unwrap();
    assert!(node.has_any(tenant(4)) && other.has_any(tenant(3)));
}

/// Overwrites a document of the collection of marks, so that its row has no valid checksum.
fn damage(engine: &MemoryEngine, key: &[u8]) {
    let row = [b"#", collection().key().as_slice(), key].concat();
    assert!(engine.get(Space::State, &row).unwrap().is_some());
    let write = Write {
        space: Space::State,
        key: row,
        value: Some(vec![0xee; 40]),
    };
    engine.apply(vec![write], Durability::Synced).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_damaged_mark_concerns_only_its_subject() {
    let engine = MemoryEngine::new();
    let store = MemoryStore::on(engine.clone(), Arc::new(|_, _| {}), Arc::new(|_| {})).unwrap();
    let (node, other) = (Marks::default(), Marks::default());
    for number in [1, 2] {
        restrict(&node, &store, tenant(number)).await;
    }
    let key = [&[MARK], tenant_key(tenant(1)).as_slice(), &subject().key()].concat();
    damage(&engine, &key);
    // A node that has read no marks yet reads all of them.
    assert!(other.refresh(&*store).await.unwrap());
    assert_eq!(other.of(tenant(1), &subject()), Mark::of_damaged());
    assert!(other.of(tenant(2), &subject()).restricted);
    let another = Subject::DeliveryId("e".to_owned());
    assert_eq!(other.of(tenant(1), &another), Mark::default());
    // The damaged mark does not change, and others do.
    let change = |mark: &mut Mark| mark.restricted = true;
    let subject = subject();
    let changing = node.change(&*store, tenant(1), &subject, || true, change);
    assert!(matches!(changing.await, Err(StoreError::Damaged(_))));
    for marked in [tenant(1), tenant(2)] {
        let changing = node.change(&*store, marked, &another, || true, change);
        changing.await.unwrap();
    }
    other.refresh(&*store).await.unwrap();
    assert!(other.of(tenant(1), &another).restricted);
    assert!(
        node.of(tenant(1), &subject).held,
        "a damaged mark keeps its hold"
    );
}

#[tokio::test]
async fn a_release_keeps_the_protection_of_a_later_release() {
    let (store, node, tenant, subject) = (store(), Marks::default(), tenant(1), subject());
    let key = [&[MARK], tenant_key(tenant).as_slice(), &subject.key()].concat();
    let mark = br#"{"restricted":true,"embargoed":true}"#.to_vec();
    let written = store.replace_document(collection(), key.clone(), None, Some(mark));
    assert!(written.await.unwrap());
    let release = |mark: &mut Mark| mark.restricted = false;
    let changing = node.change(&*store, tenant, &subject, || true, release);
    changing.await.unwrap();
    let stored = store.document(collection(), key).await.unwrap().unwrap();
    let stored: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored["restricted"], false);
    assert_eq!(stored["embargoed"], true);
    assert!(node.of(tenant, &subject).keeps());
}

#[tokio::test(start_paused = true)]
async fn nodes_learn_of_changes_although_the_count_or_the_list_is_damaged() {
    let engine = MemoryEngine::new();
    let store = MemoryStore::on(engine.clone(), Arc::new(|_, _| {}), Arc::new(|_| {})).unwrap();
    let (node, other) = (Marks::default(), Marks::default());
    for number in 1..4 {
        restrict(&node, &store, tenant(number)).await;
    }
    other.refresh(&*store).await.unwrap();
    for (key, number) in [([0], 4), ([2], 5)] {
        damage(&engine, &key);
        assert!(Marks::default().refresh(&*store).await.unwrap());
        restrict(&node, &store, tenant(number)).await;
        other.refresh(&*store).await.unwrap();
        assert!(other.has_any(tenant(number)));
        let counted = store.document(collection(), key.to_vec()).await;
        assert!(counted.unwrap().is_some(), "the count is written again");
    }
}

/// A store in which another writer is faster a thousand times.
#[derive(Default)]
struct Contended {
    replacements: AtomicU64,
}

#[async_trait::async_trait]
impl Documents for Contended {
    async fn document(&self, _: Collection, _: Vec<u8>) -> StoreResult<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn replace_document(
        &self,
        _: Collection,
        _: Vec<u8>,
        _: Option<Vec<u8>>,
        _: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        Ok(self.replacements.fetch_add(1, Ordering::Relaxed) >= 1_000)
    }

    async fn documents(
        &self,
        _: Collection,
        _: Option<Vec<u8>>,
        _: usize,
    ) -> StoreResult<Vec<Document>> {
        Ok(Vec::new())
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_always_loses_fails_after_a_bounded_number_of_rounds() {
    let store = Contended::default();
    let added = changes::add(&store, tenant(1)).await;
    assert!(matches!(added, Err(StoreError::Overloaded)));
    assert_eq!(store.replacements.into_inner(), u64::from(ROUNDS_MAX));
}
