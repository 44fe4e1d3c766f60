//! Tests the writer on the in-memory engine: groups, full queues, failures, and the data left after
//! a power loss.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use porchlight_ports::{Appended, Journal, Sessions, Snapshot, Snapshots, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{COMMIT_GROUP_MAX, COMMIT_QUEUE_MAX};
use porchlight_store::MemoryStore;
use porchlight_store::engine::memory::MemoryEngine;
use porchlight_store::engine::{Durability, Space};

use crate::fixtures::{T0, batch, fresh, new_session, session_id, start, tenant};

fn on(engine: &MemoryEngine) -> Arc<MemoryStore> {
    MemoryStore::on(engine.clone(), Arc::new(|_, _| {}), Arc::new(|_| {})).unwrap()
}

/// Appends this number of batches to a session. The engine applies none until the committer has been
/// asked for all of them. Returns the outcomes in order.
async fn append_all_at_once(
    (engine, store): (&MemoryEngine, &MemoryStore),
    id: SessionId,
    count: u32,
) -> Vec<StoreResult<Appended>> {
    let mut appends: Vec<_> = (0..count)
        .map(|seq| store.append(id, seq, batch(seq), T0))
        .collect();
    // The first poll asks the committer.
    let first_polls: Vec<_> = engine.hold(|| {
        let appends = appends.iter_mut();
        appends.map(|append| poll_once(append.as_mut())).collect()
    });
    let mut outcomes = Vec::new();
    for (append, first_poll) in appends.into_iter().zip(first_polls) {
        outcomes.push(match first_poll {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => append.await,
        });
    }
    outcomes
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn writes_during_a_sync_form_the_next_group() {
    let engine = MemoryEngine::new();
    let store = on(&engine);
    for outcome in append_all_at_once((&engine, &store), session_id(T0), 200).await {
        assert_eq!(outcome.unwrap(), Appended::New);
    }
    let (applied, synced) = engine.applied_and_synced();
    assert_eq!(applied, synced);
    // The committer may take the first append alone.
    assert!(applied <= 2, "200 appends in {applied} groups");
    assert_eq!(engine.acknowledged(), applied);
}

#[tokio::test]
async fn a_full_queue_refuses_and_keeps_accepted_operations() {
    let engine = MemoryEngine::new();
    let store = on(&engine);
    let asked = COMMIT_QUEUE_MAX + COMMIT_GROUP_MAX + 500;
    let id = session_id(T0);
    let outcomes = append_all_at_once((&engine, &store), id, asked as u32).await;
    let (mut taken, mut refused) = (Vec::new(), 0);
    for (seq, outcome) in (0..).zip(outcomes) {
        match outcome {
            Ok(Appended::New) => taken.push(seq),
            Err(StoreError::Overloaded) => refused += 1,
            other => panic!("{seq}: {other:?}"),
        }
    }
    // The engine had at most one group, and the queue was full.
    assert!(refused >= 500 && taken.len() >= COMMIT_QUEUE_MAX);
    taken.sort_unstable();
    assert_eq!(store.count(id).await.unwrap() as usize, taken.len());
    let mut seqs: Vec<u32> = Vec::new();
    while let Ok(entries) = store
        .read(id, seqs.last().map_or(0, |last| last + 1), 1_000)
        .await
        && !entries.is_empty()
    {
        seqs.extend(entries.iter().map(|entry| entry.seq));
    }
    assert_eq!(seqs, taken);
}

#[tokio::test]
async fn a_failed_write_is_fatal_and_reported_once() {
    let engine = MemoryEngine::new();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&reasons);
    let store = MemoryStore::on(
        engine.clone(),
        Arc::new(|_, _| {}),
        Arc::new(move |reason: &str| hook.lock().unwrap().push(reason.to_owned())),
    )
    .unwrap();
    let id = session_id(T0);
    assert_eq!(
        store.append(id, 0, batch(0), T0).await.unwrap(),
        Appended::New
    );
    engine.fail_after(0);
    for seq in 1..4 {
        let failed = store.append(id, seq, batch(seq), T0).await;
        assert!(
            matches!(failed, Err(StoreError::Unavailable(_))),
            "{failed:?}"
        );
    }
    let read = store.find(id).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    store.close().await;
    let reasons = reasons.lock().unwrap().clone();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("an injected failure"), "{reasons:?}");

    let store = on(&engine.after_power_loss());
    assert_eq!(store.count(id).await.unwrap(), 1);
}

#[tokio::test]
async fn a_panic_in_an_operation_is_fatal() {
    let reports = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&reports);
    let store = MemoryStore::on(
        MemoryEngine::new(),
        Arc::new(|_, _| {}),
        Arc::new(move |_: &str| {
            hook.fetch_add(1, Ordering::SeqCst);
        }),
    )
    .unwrap();
    let answer = store
        .committer()
        .write(|_| -> Result<(), _> { panic!("ordered") })
        .await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))));
    store.close().await;
    assert_eq!(reports.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_store_held_only_by_its_own_hook_ends_with_its_writer() {
    let engine = MemoryEngine::new();
    let held = Arc::new(Mutex::new(None::<Arc<MemoryStore>>));
    let (hook, (gone, wait)) = (Arc::clone(&held), std::sync::mpsc::sync_channel(1));
    let on_durable = Arc::new(move |_, _| {
        // Keeps the hook's state alive as long as the writer has the hook.
        drop(hook.lock());
    });
    let on_fatal = Arc::new(move |_: &str| gone.send(()).unwrap());
    let store = MemoryStore::on(engine.clone(), on_durable, on_fatal).unwrap();
    *held.lock().unwrap() = Some(Arc::clone(&store));
    drop(held);
    engine.fail_after(0);
    let id = session_id(T0);
    assert!(store.append(id, 0, batch(0), T0).await.is_err());
    drop(store);
    wait.recv_timeout(Duration::from_secs(20)).unwrap();
    let ended = wait.recv_timeout(Duration::from_secs(20));
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[tokio::test]
async fn an_operation_that_fails_leaves_nothing_behind() {
    let store = on(&MemoryEngine::new());
    let key = || b"\xfetest".to_vec();
    let put = |value: &'static [u8], fails: bool| {
        store.committer().write(move |txn| {
            txn.put(Space::State, key(), value.to_vec());
            txn.put(Space::State, key(), [value, b"!"].concat());
            if fails {
                return Err(StoreError::Damaged("ordered".to_owned()));
            }
            Ok(())
        })
    };
    put(b"a", false).await.unwrap();
    let (failed, passed, failed_too) =
        tokio::join!(put(b"b", true), put(b"c", false), put(b"d", true));
    assert!(failed.is_err() && passed.is_ok() && failed_too.is_err());
    let value = store
        .read_inline(|read| read.get(Space::State, &key()))
        .unwrap();
    assert_eq!(value.as_deref(), Some(&b"c!"[..]));
}

#[tokio::test]
async fn snapshots_wait_for_no_sync_and_batches_survive_without_them() {
    let engine = MemoryEngine::new();
    let store = on(&engine);
    let id = session_id(T0);
    let snapshot = |next_seq| Snapshot {
        generation: 1,
        next_seq,
        state: vec![1; 50],
    };
    store.put_snapshot(id, snapshot(1)).await.unwrap();
    assert_eq!(engine.applied_and_synced(), (1, 0));
    store.append(id, 0, batch(0), T0).await.unwrap();
    store.put_snapshot(id, snapshot(2)).await.unwrap();
    assert_eq!(engine.applied_and_synced(), (3, 1));

    let store = on(&engine.after_power_loss());
    assert_eq!(store.count(id).await.unwrap(), 1);
    assert_eq!(store.newest_snapshot(id).await.unwrap(), Some(snapshot(1)));
    assert_eq!(
        store.append(id, 1, batch(1), T0).await.unwrap(),
        Appended::New
    );
}

#[tokio::test]
async fn a_damaged_row_is_an_error_and_not_absent() {
    let engine = MemoryEngine::new();
    let store = on(&engine);
    let start = start(tenant(), T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    store.append(id, 0, batch(0), T0).await.unwrap();
    let mut start_key = vec![b's'];
    start_key.extend_from_slice(&id.to_bytes());
    assert!(engine.tamper(Space::State, &start_key, |value| value[5] ^= 1));
    let mut batch_key = vec![b'j'];
    batch_key.extend_from_slice(&id.to_bytes());
    batch_key.extend_from_slice(&[0; 4]);
    assert!(engine.tamper(Space::Journal, &batch_key, |value| value.truncate(20)));
    assert!(matches!(store.find(id).await, Err(StoreError::Damaged(_))));
    assert!(matches!(
        store.read(id, 0, 9).await,
        Err(StoreError::Damaged(_))
    ));
    let again = store.append(id, 0, batch(0), T0).await;
    assert!(matches!(again, Err(StoreError::Damaged(_))), "{again:?}");
    let other = session_id(T0);
    assert_eq!(
        store.append(other, 0, batch(0), T0).await.unwrap(),
        Appended::New
    );
}

#[tokio::test]
async fn queued_operations_run_without_a_waiting_caller() {
    let engine = MemoryEngine::new();
    let store = on(&engine);
    let id = session_id(T0);
    engine.hold(|| {
        for seq in 0..3 {
            let mut append = store.append(id, seq, batch(seq), T0);
            assert!(poll_once(append.as_mut()).is_pending());
        }
    });
    store.close().await;
    assert_eq!(on(&engine.after_power_loss()).count(id).await.unwrap(), 3);
}

#[tokio::test]
async fn a_continuous_run_of_groups_is_complete_at_any_length() {
    let engine = MemoryEngine::new();
    let store = on(&engine);
    let key = vec![0xfe];
    for _ in 0..70_000 {
        let key = key.clone();
        store
            .committer()
            .run(1, Durability::Buffered, move |txn| {
                txn.put(Space::State, key, fresh().to_be_bytes().to_vec());
                Ok(())
            })
            .await
            .unwrap();
    }
    store.close().await;
    on(&engine.after_power_loss()).close().await;
    // Slot 3 holds the marker of group 65,539.
    let marker = [0, 0, 0, 0, 3];
    assert!(engine.tamper(Space::Journal, &marker, |value| value[0] ^= 1));
    let open = MemoryStore::on(
        engine.after_power_loss(),
        Arc::new(|_, _| {}),
        Arc::new(|_| {}),
    );
    assert!(open.is_err());
}
