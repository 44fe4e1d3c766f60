//! Tests the tables of nodes and owners, and the writes under generations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use porchlight_core::ownership::{
    Change, Incarnation, Member, MemberRow, MemberStatus, NodeName, Outcome, OwnerRow, ReadMode,
};
use porchlight_core::webhook::{Change as LaneChange, Queued, State, Update};
use porchlight_ports::{
    Appended, Clock, Insights, Journal, NodesTable, Outbox, Ownership, Sessions,
};
use porchlight_schema::ids::{SessionId, Shard, ShardSet};
use porchlight_schema::limits::REMOTE_SESSION_TTL_MS;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use porchlight_store::cql::{CqlStore, Role, written_generation};
use porchlight_world::SystemClock;

use super::costs::REMOVAL_TIMEOUT;
use super::options;
use crate::cql_server::CqlServer;
use crate::fixtures::{
    T0, batch, end_at, insight, message, new_session, put_endpoint, start, tenant,
};

/// An owner of all shards in the generation set by a test, or of no shard if it is 0.
#[derive(Default)]
pub struct Owner(AtomicU64);

impl Owner {
    pub fn acts_in(&self, generation: u64) {
        self.0.store(generation, Ordering::Release);
    }
}

impl Ownership for Owner {
    fn generation(&self, _shard: Shard) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|&generation| generation > 0)
    }
}

async fn node(keyspace: &str) -> Option<(Arc<CqlStore>, Arc<Owner>)> {
    let owner = Arc::new(Owner::default());
    let role = Role::Node {
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|_| {}),
        ownership: Arc::clone(&owner) as _,
    };
    let store = CqlStore::open(options(keyspace.to_owned())?, role, Arc::new(SystemClock)).await;
    Some((store.unwrap(), owner))
}

fn member(name: &str, life: u64) -> Member {
    Member {
        node: NodeName(name.to_owned()),
        incarnation: Incarnation(life),
    }
}

/// Applies changes and checks the outcome of each.
async fn check(store: &CqlStore, changes: impl IntoIterator<Item = (Change, Outcome)>) {
    for (change, expected) in changes {
        let mut outcome = store.change_nodes(&change).await;
        while outcome == Outcome::Unknown {
            // A busy machine leaves the outcome unknown: none of these changes is applied twice.
            store.members(ReadMode::Serial).await.unwrap();
            outcome = store.change_nodes(&change).await;
        }
        assert_eq!(outcome, expected, "{change:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_join_send_heartbeats_are_declared_dead_and_rejoin() {
    let Some((store, _)) = node(&CqlServer::fresh_keyspace()).await else {
        return;
    };
    let (first, second) = (member("a:1", 1 << 20), member("a:1", 2 << 20));
    let join = |member: &Member, after| Change::Join {
        member: member.clone(),
        after,
    };
    let heartbeat = |member: &Member, heartbeat, status| Change::Heartbeat {
        member: member.clone(),
        heartbeat,
        status,
    };
    let gone = |member: &Member, heartbeat| Change::MarkDead {
        member: member.clone(),
        heartbeat,
    };
    use Outcome::{Applied, Refused};
    let changes = [
        (join(&first, None), Applied),
        (join(&second, None), Refused),
        (heartbeat(&first, 1, MemberStatus::Up), Applied),
        (heartbeat(&second, 1, MemberStatus::Up), Refused),
        (gone(&first, 0), Refused),
        (heartbeat(&first, 2, MemberStatus::Leaving), Applied),
        (gone(&first, 2), Applied),
        (heartbeat(&first, 3, MemberStatus::Up), Refused),
        (join(&second, Some(Incarnation(7))), Refused),
        (join(&second, Some(first.incarnation)), Applied),
        (heartbeat(&first, 4, MemberStatus::Up), Refused),
        (heartbeat(&second, 1, MemberStatus::Up), Applied),
        (join(&member("b:1", 5), None), Applied),
        (
            Change::Leave {
                member: member("b:1", 5),
            },
            Applied,
        ),
    ];
    check(&store, changes).await;
    let row = |member: Member, heartbeat, status| MemberRow {
        member,
        heartbeat,
        status,
        clock: None,
    };
    let expected = [
        row(second, 1, MemberStatus::Up),
        row(member("b:1", 5), 0, MemberStatus::Gone),
    ];
    for mode in [ReadMode::Plain, ReadMode::Serial] {
        let mut rows = store.members(mode).await.unwrap();
        let clocks = rows.iter_mut().map(|row| row.clock.take());
        let clocks: Vec<_> = clocks.collect();
        assert_eq!(rows, expected);
        // Only a heartbeat carries the time of the sender's clock.
        let sent_ago_ms = clocks[0].map(|sent_at| SystemClock.now().since_ms(sent_at));
        assert!((0..60_000).contains(&sent_ago_ms.unwrap()));
        assert_eq!(clocks[1], None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_is_claimed_once_in_each_generation() {
    let Some((store, _)) = node(&CqlServer::fresh_keyspace()).await else {
        return;
    };
    let (a, b) = (member("a:1", 1), member("b:1", 1));
    let shard = Shard(200);
    let claim = |member: &Member, from| Change::Claim {
        shard,
        member: member.clone(),
        from,
    };
    let release = |member: &Member, generation| Change::Release {
        shard,
        member: member.clone(),
        generation,
    };
    use Outcome::{Applied, Refused};
    assert_eq!(store.owner(shard).await.unwrap(), None);
    check(
        &store,
        [
            (claim(&a, 0), Applied),
            (claim(&b, 0), Refused),
            (release(&b, 1), Refused),
            (claim(&b, 1), Applied),
            (release(&a, 1), Refused),
            (release(&b, 2), Applied),
        ],
    )
    .await;
    let row = |generation, holder: Option<&Member>| OwnerRow {
        shard,
        generation,
        holder: holder.cloned(),
    };
    assert_eq!(store.owner(shard).await.unwrap(), Some(row(2, None)));
    check(&store, [(claim(&a, 2), Applied)]).await;
    assert_eq!(store.owners().await.unwrap(), [row(3, Some(&a))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seq_used_by_another_node_is_detected() {
    let keyspace = CqlServer::fresh_keyspace();
    let (Some((a, _)), Some((b, _))) = (node(&keyspace).await, node(&keyspace).await) else {
        return;
    };
    let start = start(tenant(), T0);
    a.start(new_session(&start)).await.unwrap();
    let id = start.session_id;
    let put = async |store: &CqlStore, seq, number| {
        let appended = store.append(id, seq, batch(number), T0);
        appended.await.unwrap()
    };
    assert_eq!(put(&a, 0, 0).await, Appended::New);
    assert_eq!(put(&b, 1, 1).await, Appended::New);
    assert_ne!(put(&a, 1, 1).await, Appended::Conflict);
    assert_eq!(put(&b, 2, 2).await, Appended::New);
    // The knowledge that each node caches about the other node's batches expires after this time.
    tokio::time::sleep(Duration::from_millis(REMOTE_SESSION_TTL_MS)).await;
    assert_eq!(put(&a, 2, 9).await, Appended::Conflict);
    assert_eq!(put(&a, 2, 2).await, Appended::Repeated);
    assert_eq!(put(&b, 0, 9).await, Appended::Conflict);
    assert_eq!(put(&a, 3, 3).await, Appended::New);
    assert_eq!(a.count(id).await.unwrap(), 4);
}

async fn waiting(store: &CqlStore, tenant: Tenant, session_id: SessionId) -> Vec<Queued> {
    let endpoint = Outbox::endpoint(store, tenant).await.unwrap().unwrap();
    let lane = store.lane(tenant, endpoint.id, session_id, None);
    lane.await.unwrap().waiting
}

/// Records one more attempt of the session's first message. Returns whether that was possible.
async fn tried(store: &CqlStore, tenant: Tenant, session_id: SessionId) -> bool {
    let endpoint = Outbox::endpoint(store, tenant).await.unwrap().unwrap();
    let before = waiting(store, tenant, session_id).await[0];
    let after = Queued {
        attempts: before.attempts + 1,
        state: State::Waiting,
        due_at: Some(T0.plus_ms(i64::from(before.attempts) * 1_000 + 1_000)),
        ..before
    };
    let change = LaneChange {
        updates: vec![Update {
            before,
            after,
            report: None,
        }],
        manual_done: None,
    };
    let committed = store.commit(tenant, endpoint.id, session_id, change).await;
    committed.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_follows_its_shard_and_never_goes_back() {
    let keyspace = CqlServer::fresh_keyspace();
    let (Some((a, of_a)), Some((b, of_b))) = (node(&keyspace).await, node(&keyspace).await) else {
        return;
    };
    let tenant = tenant();
    put_endpoint(&*a, tenant, true).await;
    let start = start(tenant, T0);
    a.start(new_session(&start)).await.unwrap();
    let session_id = start.session_id;
    let attempts = async |store: &CqlStore| waiting(store, tenant, session_id).await[0].attempts;

    assert!(
        !tried(&a, tenant, session_id).await,
        "a node without shards changes no cursor"
    );
    of_a.acts_in(1);
    assert!(tried(&a, tenant, session_id).await);
    assert_eq!(attempts(&b).await, 1, "read, not remembered");
    of_b.acts_in(2);
    assert!(tried(&b, tenant, session_id).await);
    assert!(tried(&b, tenant, session_id).await);
    // The first node was stopped, and continues before it notices that: its write sorts below.
    assert!(tried(&a, tenant, session_id).await);
    assert_eq!(attempts(&b).await, 3);
    of_a.acts_in(0);
    assert_eq!(
        attempts(&a).await,
        3,
        "the node reads the cursor of the newest generation"
    );
    of_b.acts_in(0);
    of_a.acts_in(3);
    assert_eq!(
        attempts(&a).await,
        3,
        "the cached entry was of generation 1"
    );
    assert!(tried(&a, tenant, session_id).await);
    assert_eq!(attempts(&b).await, 4);
    // A node serves on its own, and then several nodes serve again.
    of_a.acts_in(written_generation(1, 0));
    assert!(tried(&a, tenant, session_id).await);
    of_b.acts_in(written_generation(1, 4));
    assert_eq!(attempts(&b).await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_stored_by_another_node_after_the_end_is_found() {
    let keyspace = CqlServer::fresh_keyspace();
    let (Some((owner, acts)), Some((other, _))) = (node(&keyspace).await, node(&keyspace).await)
    else {
        return;
    };
    acts.acts_in(1);
    let now = TimestampMs(jiff::Timestamp::now().as_millisecond());
    let start = start(tenant(), now);
    let id = start.session_id;
    owner.start(new_session(&start)).await.unwrap();
    // The other node has seen the session, and caches it as recording for a moment.
    other.append(id, 0, batch(0), now).await.unwrap();
    let body = message(MessageEvent::SessionStopped);
    owner.end(id, end_at(now), None, body).await.unwrap();
    commit_insight(&owner, id, 1, 1).await;
    // The node that has seen the end settles the session itself. Another one finds it by its mark.
    assert_eq!(to_score(&owner).await, []);
    assert_eq!(found_after_start(&keyspace).await, [id]);
    other.append(id, 1, batch(1), now).await.unwrap();
    assert!(!owner.settle(id).await.unwrap(), "one batch is not covered");
    assert_eq!(owner.count(id).await.unwrap(), 2);
    assert_eq!(found_after_start(&keyspace).await, [id]);
    commit_insight(&owner, id, 2, 2).await;
    assert!(owner.settle(id).await.unwrap());
    assert_eq!(left_after_removal(&keyspace).await, []);
    assert!(
        owner.settle(id).await.unwrap(),
        "a settled session settles a second time"
    );
}

/// Returns the sessions to score that a node without a cache finds. It owns all shards.
async fn found_after_start(keyspace: &str) -> Vec<SessionId> {
    let (store, acts) = node(keyspace).await.unwrap();
    acts.acts_in(2);
    to_score(&store).await
}

/// Waits until the owner has removed its marks, and returns the sessions that are still found. The
/// owner sends its deletes with its next verification.
async fn left_after_removal(keyspace: &str) -> Vec<SessionId> {
    let began = Instant::now();
    loop {
        let left = found_after_start(keyspace).await;
        if left.is_empty() || began.elapsed() >= REMOVAL_TIMEOUT {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn to_score(store: &CqlStore) -> Vec<SessionId> {
    store.to_score(ShardSet::ALL, None, 10).await.unwrap()
}

/// Commits an insight that covers this number of batches.
async fn commit_insight(store: &CqlStore, id: SessionId, revision: u32, batches: u32) {
    let mut insight = insight(batches);
    insight.record.revision = revision;
    let body = message(MessageEvent::InsightUpdated);
    let committed = store.commit_insight(id, insight, body, Vec::new()).await;
    assert!(committed.unwrap());
}
