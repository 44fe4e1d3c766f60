//! Rules for the journal that every store follows.

use std::sync::Arc;

use porchlight_ports::{Appended, Note};

use crate::fixtures::{Subject, T0, batch, session_id};

pub async fn appends_are_idempotent_and_never_overwrite(subject: &dyn Subject) {
    let (store, id) = (subject.store(), session_id(T0));
    assert_eq!(store.newest(id).await.unwrap(), None);
    assert_eq!(
        store.append(id, 0, batch(0), T0).await.unwrap(),
        Appended::New
    );
    let later = T0.plus_ms(500);
    assert_eq!(
        store.append(id, 0, batch(0), later).await.unwrap(),
        Appended::Repeated
    );
    assert_eq!(
        store.append(id, 0, batch(9), later).await.unwrap(),
        Appended::Conflict
    );
    assert_eq!(
        store.append(id, 1, batch(1), later).await.unwrap(),
        Appended::New
    );
    assert_eq!(
        store.append(id, 0, batch(9), later).await.unwrap(),
        Appended::Conflict
    );
    assert_eq!(
        store.append(id, 1, batch(1), later).await.unwrap(),
        Appended::Repeated
    );
    let entries = store.read(id, 0, 10).await.unwrap();
    let read: Vec<_> = entries
        .iter()
        .map(|entry| (entry.seq, entry.received_at, entry.batch.clone()))
        .collect();
    assert_eq!(read, [(0, T0, batch(0)), (1, later, batch(1))]);
    assert_eq!(store.newest(id).await.unwrap(), Some((1, later)));
    assert_eq!(store.count(id).await.unwrap(), 2);
}

pub async fn batches_come_back_in_order_in_parts(subject: &dyn Subject) {
    let (store, id, other) = (subject.store(), session_id(T0), session_id(T0));
    for seq in [3_u32, 0, 300, 1, 70_000] {
        store.append(id, seq, batch(seq), T0).await.unwrap();
        store.append(other, seq, batch(seq + 1), T0).await.unwrap();
    }
    let seqs = |entries: Vec<porchlight_ports::JournalEntry>| -> Vec<u32> {
        entries.into_iter().map(|entry| entry.seq).collect()
    };
    assert_eq!(
        seqs(store.read(id, 0, 10).await.unwrap()),
        [0, 1, 3, 300, 70_000]
    );
    assert_eq!(seqs(store.read(id, 0, 2).await.unwrap()), [0, 1]);
    assert_eq!(seqs(store.read(id, 2, 2).await.unwrap()), [3, 300]);
    assert_eq!(seqs(store.read(id, 301, 2).await.unwrap()), [70_000]);
    assert!(store.read(id, 70_001, 2).await.unwrap().is_empty());
    assert!(store.read(session_id(T0), 0, 2).await.unwrap().is_empty());
}

pub async fn batches_are_counted_in_any_order_and_once(subject: &dyn Subject) {
    let (store, id) = (subject.store(), session_id(T0));
    let mut count = 0;
    for seq in [5_u32, 0, 5, 9, 3, 0, 10, 4, 2, 1, 6] {
        let appended = store.append(id, seq, batch(seq), T0).await.unwrap();
        count += u32::from(appended == Appended::New);
        assert_eq!(store.count(id).await.unwrap(), count, "after {seq}");
    }
    assert_eq!(store.newest(id).await.unwrap(), Some((10, T0)));
}

pub async fn acknowledged_and_missing_batches_are_reported(subject: &dyn Subject) {
    let (store, id) = (subject.store(), session_id(T0));
    let reported = async |ranges_max| {
        let acknowledged = store.acknowledged(id, ranges_max).await.unwrap();
        let ranges = acknowledged.missing.iter();
        let ranges: Vec<_> = ranges.map(|range| (range.first, range.last)).collect();
        (acknowledged.next_seq, ranges)
    };
    assert_eq!(reported(9).await, (0, vec![]));
    let mut seqs: Vec<u32> = Vec::new();
    // The last numbers are in other partitions of the CQL store; whole partitions without a batch
    // separate them.
    for seq in [0, 1, 4, 2, 9, 9, 3, 70_000, 1_000_000] {
        store.append(id, seq, batch(seq), T0).await.unwrap();
        seqs.push(seq);
        seqs.sort_unstable();
        let mut expected = (0, Vec::new());
        for &seq in &seqs {
            if seq > expected.0 {
                expected.1.push((expected.0, seq - 1));
            }
            expected.0 = seq + 1;
        }
        assert_eq!(reported(9).await, expected, "after {seq}");
    }
    assert_eq!(reported(2).await, (1_000_001, vec![(5, 8), (10, 999_999)]));
    assert_eq!(reported(1).await, (1_000_001, vec![(5, 999_999)]));
}

pub async fn one_of_several_concurrent_bodies_is_stored(subject: &dyn Subject) {
    let (store, id) = (subject.store(), session_id(T0));
    for seq in 0..8 {
        let tasks: Vec<_> = (0..8)
            .map(|body| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let batch = batch(seq * 100 + body % 4);
                    (
                        store.append(id, seq, batch.clone(), T0).await.unwrap(),
                        batch,
                    )
                })
            })
            .collect();
        let mut taken = Vec::new();
        let mut outcomes = Vec::new();
        for task in tasks {
            let (outcome, batch) = task.await.unwrap();
            if outcome == Appended::New {
                taken.push(batch);
            } else {
                outcomes.push((outcome, batch));
            }
        }
        assert_eq!(taken.len(), 1);
        for (outcome, batch) in outcomes {
            let same = batch == taken[0];
            assert_eq!(outcome == Appended::Repeated, same);
        }
        let entries = store.read(id, seq, 1).await.unwrap();
        assert_eq!(entries[0].batch, taken[0]);
    }
}

pub async fn notes_are_a_set(subject: &dyn Subject) {
    let (store, id) = (subject.store(), session_id(T0));
    assert_eq!(store.notes(id).await.unwrap(), []);
    let notes = [
        Note::Quarantined { seq: 4 },
        Note::Skipped {
            first: 300,
            last: 301,
        },
        Note::Skipped { first: 2, last: 3 },
        Note::Skipped { first: 2, last: 3 },
        Note::Quarantined { seq: 1 },
    ];
    for note in notes {
        store.note(id, note).await.unwrap();
    }
    let mut expected = notes.to_vec();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(store.notes(id).await.unwrap(), expected);
    assert_eq!(store.notes(session_id(T0)).await.unwrap(), []);
}
