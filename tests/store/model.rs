//! Runs random operations on both stores and compares them with plain maps, with reopenings in
//! between.

use std::collections::BTreeMap;
use std::sync::Arc;

use porchlight_ports::{Appended, JournalEntry, Snapshot, StartOutcome, Store};
use porchlight_schema::ids::{SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::SessionEnd;
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use porchlight_store::engine::memory::MemoryEngine;
use proptest::prelude::*;

use crate::fixtures::{Folder, T0, batch, end_at, message, new_session, open, start, tenant};

const SESSIONS: usize = 4;

#[derive(Debug, Clone)]
enum Op {
    Append {
        session: usize,
        seq: u32,
        body: u32,
    },
    /// Appends batches concurrently, so that they form one group.
    AppendMany {
        session: usize,
        seqs: Vec<u32>,
    },
    Start {
        session: usize,
    },
    End {
        session: usize,
        at: i64,
    },
    Snapshot {
        session: usize,
        generation: u64,
        next_seq: u32,
    },
    Sweep {
        before: i64,
    },
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS;
    prop_oneof![
        8 => (session.clone(), 0_u32..12, 0_u32..2)
            .prop_map(|(session, seq, body)| Op::Append { session, seq, body }),
        4 => (session.clone(), prop::collection::vec(0_u32..40, 1..20))
            .prop_map(|(session, seqs)| Op::AppendMany { session, seqs }),
        3 => session.clone().prop_map(|session| Op::Start { session }),
        2 => (session.clone(), 0_i64..100).prop_map(|(session, at)| Op::End { session, at }),
        2 => (session, 0_u64..3, 0_u32..5)
            .prop_map(|(session, generation, next_seq)| Op::Snapshot { session, generation, next_seq }),
        1 => (0_i64..100).prop_map(|before| Op::Sweep { before }),
        1 => Just(Op::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    batches: [BTreeMap<u32, u32>; SESSIONS],
    started: [bool; SESSIONS],
    ended: [Option<SessionEnd>; SESSIONS],
    snapshots: [Option<(u64, u32)>; SESSIONS],
}

impl Model {
    fn append(&mut self, session: usize, seq: u32, body: u32) -> Appended {
        match self.batches[session].get(&seq) {
            None => {
                self.batches[session].insert(seq, body);
                Appended::New
            }
            Some(there) if *there == body => Appended::Repeated,
            Some(_) => Appended::Conflict,
        }
    }

    fn sweep(&mut self, before: TimestampMs) -> u64 {
        let mut swept = 0;
        for session in 0..SESSIONS {
            if self.ended[session].is_some_and(|end| end.completed_at < before) {
                self.batches[session].clear();
                self.started[session] = false;
                self.ended[session] = None;
                self.snapshots[session] = None;
                swept += 1;
            }
        }
        swept
    }
}

/// Returns a body that encodes its `seq` and which of two bodies it is.
fn body_of(seq: u32, body: u32) -> u32 {
    seq * 2 + body
}

enum Place {
    Memory(MemoryEngine),
    Disk(Folder),
}

enum Opened {
    Memory(Arc<MemoryStore>),
    Disk(Arc<porchlight_store::EmbeddedStore>),
}

impl Opened {
    fn at(place: &Place) -> Self {
        match place {
            Place::Memory(engine) => Self::Memory(
                MemoryStore::on(engine.clone(), Arc::new(|_, _| {}), Arc::new(|_| {})).unwrap(),
            ),
            Place::Disk(folder) => Self::Disk(open(folder.path()).unwrap()),
        }
    }

    fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => store.as_ref(),
            Self::Disk(store) => store.as_ref(),
        }
    }

    async fn sweep(&self, before: TimestampMs) -> u64 {
        match self {
            Self::Memory(store) => store.sweep(before, u64::MAX).await,
            Self::Disk(store) => store.sweep(before, u64::MAX).await,
        }
        .unwrap()
    }
}

async fn run(place: Place, ops: &[Op]) {
    let tenant = tenant();
    let starts: Vec<_> = (0..SESSIONS)
        .map(|n| start(tenant, T0.plus_ms(n as i64)))
        .collect();
    let ids: Vec<SessionId> = starts.iter().map(|start| start.session_id).collect();
    let mut model = Model::default();
    let mut opened = Opened::at(&place);
    for op in ops {
        let store = opened.store();
        match op {
            Op::Append { session, seq, body } => {
                let sent = batch(body_of(*seq, *body));
                let appended = store.append(ids[*session], *seq, sent, T0).await.unwrap();
                assert_eq!(appended, model.append(*session, *seq, *body));
            }
            Op::AppendMany { session, seqs } => {
                let id = ids[*session];
                let appends = seqs
                    .iter()
                    .map(|seq| store.append(id, *seq, batch(body_of(*seq, 0)), T0));
                let outcomes = futures_util::future::join_all(appends).await;
                for (seq, outcome) in seqs.iter().zip(outcomes) {
                    assert_eq!(outcome.unwrap(), model.append(*session, *seq, 0));
                }
            }
            Op::Start { session } => {
                let outcome = store.start(new_session(&starts[*session])).await.unwrap();
                assert_eq!(outcome == StartOutcome::Created, !model.started[*session]);
                model.started[*session] = true;
            }
            Op::End { session, at } => {
                let end = end_at(T0.plus_ms(*at));
                let body = message(MessageEvent::SessionStopped);
                let outcome = store.end(ids[*session], end, None, body).await.unwrap();
                assert_eq!(outcome.is_some(), model.started[*session]);
                if let Some(outcome) = outcome {
                    assert_eq!(outcome.is_first, model.ended[*session].is_none());
                    assert_eq!(outcome.end, *model.ended[*session].get_or_insert(end));
                }
            }
            Op::Snapshot {
                session,
                generation,
                next_seq,
            } => {
                let written = (*generation, *next_seq);
                let snapshot = Snapshot {
                    generation: written.0,
                    next_seq: written.1,
                    state: vec![3],
                };
                store.put_snapshot(ids[*session], snapshot).await.unwrap();
                let newest = &mut model.snapshots[*session];
                *newest = (*newest).max(Some(written));
            }
            Op::Sweep { before } => {
                let before = T0.plus_ms(*before);
                assert_eq!(opened.sweep(before).await, model.sweep(before));
            }
            Op::Reopen => {
                drop(opened);
                opened = Opened::at(&place);
            }
        }
    }
    drop(opened);
    compare(Opened::at(&place).store(), &model, &ids).await;
}

async fn compare(store: &dyn Store, model: &Model, ids: &[SessionId]) {
    for (session, id) in ids.iter().enumerate() {
        let expected: Vec<_> = model.batches[session]
            .iter()
            .map(|(seq, body)| JournalEntry {
                seq: *seq,
                received_at: T0,
                batch: batch(body_of(*seq, *body)),
            })
            .collect();
        assert_eq!(store.read(*id, 0, 100).await.unwrap(), expected);
        assert_eq!(store.count(*id).await.unwrap() as usize, expected.len());
        let row = store.find(*id).await.unwrap();
        assert_eq!(row.is_some(), model.started[session]);
        assert_eq!(row.and_then(|row| row.end), model.ended[session]);
        let newest = store.newest_snapshot(*id).await.unwrap();
        let newest = newest.map(|snapshot| (snapshot.generation, snapshot.next_seq));
        assert_eq!(newest, model.snapshots[session]);
    }
    let live: Vec<_> = store.live(ShardSet::ALL, None, 10).await.unwrap();
    let expected = (0..ids.len()).filter(|n| model.started[*n] && model.ended[*n].is_none());
    assert_eq!(
        live.iter()
            .map(|row| row.start.session_id)
            .collect::<Vec<_>>(),
        expected.map(|n| ids[n]).collect::<Vec<_>>()
    );
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_store_matches_the_model(ops in prop::collection::vec(op(), 1..80)) {
        block_on(run(Place::Memory(MemoryEngine::new()), &ops));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_store_matches_the_model(ops in prop::collection::vec(op(), 1..60)) {
        block_on(run(Place::Disk(Folder::new()), &ops));
    }
}
