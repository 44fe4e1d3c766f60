//! The invariants that are checked at the end. They are numbered; a failure names its number.
//!
//! 1. Nothing acknowledged is lost: every acknowledged batch is in the journal with its
//!    acknowledged body, and the insight covers it.
//! 2. An emitted event is never withdrawn, and a closed one never changed, while its session lives
//!    (`phone.rs` checks this).
//! 3. Every session ends, by stop, silence or age, and gets an insight (`node.rs` waits for it).
//! 4. Memory stays bounded: nothing is in flight and no actor is left when there is no more work
//!    (`node.rs`).
//! 5. The final insight is, except for its commit time, byte for byte that of a fault-free run of
//!    the same batches.
//! 6. Messages have consecutive numbers; `session.started` is the first, `session.stopped` occurs
//!    once, and `insight.updated` once for each revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::System;
use porchlight_actors::messages;
use porchlight_actors::scoring::ScoringPool;
use porchlight_ports::{
    Insights, Journal, JournalEntry, NewSession, Note, PodRow, SessionFilter, SessionRow, Sessions,
    StoredInsight,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::InsightView;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::EndReason;
use porchlight_store::MemoryStore;
use porchlight_store::engine::memory::MemoryEngine;

use crate::node::in_system;
use crate::store::block_on;
use crate::world::World;

/// The final state of a session in the store.
struct Final {
    row: SessionRow,
    journal: Vec<JournalEntry>,
    notes: Vec<Note>,
    pod: Option<PodRow>,
    insight: StoredInsight,
}

/// Judges the world by the stored data after the last node has stopped.
pub(crate) fn judge(world: &Arc<World>, engine: MemoryEngine) {
    let finals = in_system(async {
        let store = MemoryStore::on(engine, Arc::new(|_, _| {}), Arc::new(|_| {})).unwrap();
        let listed =
            block_on(store.list(world.tenant, &SessionFilter::default(), 200, None)).unwrap();
        if listed.rows.len() != world.plan.scripts.len() {
            world.report(format!(
                "{} sessions were made of {} starts",
                listed.rows.len(),
                world.plan.scripts.len()
            ));
        }
        let mut finals = Vec::new();
        for index in 0..world.plan.scripts.len() {
            let start = world.log(index).start.clone();
            finals.extend(start.and_then(|start| examine(world, index, &store, start.session_id)));
        }
        finals
    });
    let expected = insights_without_faults(world, &finals);
    for (index, (found, expected)) in finals.iter().zip(&expected).enumerate() {
        let (found, expected) = (
            rendered(&found.row, &found.insight),
            rendered(&found.row, expected),
        );
        if found != expected {
            world.report(format!(
                "I5: session {index}:\n  {found}\nwithout faults:\n  {expected}"
            ));
        }
    }
}

fn examine(world: &World, index: usize, store: &MemoryStore, id: SessionId) -> Option<Final> {
    let row = block_on(store.find(id)).unwrap()?;
    let journal = journal_of(store, id);
    let log = world.log(index);
    let by_seq: BTreeMap<u32, _> = journal
        .iter()
        .map(|entry| (entry.seq, &entry.batch))
        .collect();
    for (seq, batch) in &log.acknowledged {
        if by_seq.get(seq) != Some(&batch) {
            world.report(format!(
                "I1: batch {index}/{seq} was acknowledged and is not in the journal"
            ));
        }
    }
    let (Some(end), Some(insight)) = (row.end, block_on(store.insight(id)).unwrap()) else {
        world.report(format!("I3: session {index} has no end or no insight"));
        return None;
    };
    if log.stopped && end.reason == EndReason::Stopped && end.ended_at < row.start.started_at {
        world.report(format!("I3: session {index} ended before it began"));
    }
    if insight.covered.batches as usize != journal.len() {
        world.report(format!(
            "I1: the insight of {index} covers {} of {} batches",
            insight.covered.batches,
            journal.len()
        ));
    }
    let pod = block_on(store.pod(id)).unwrap();
    if pod.is_none() && log.pods > 0
        || pod.as_ref().map(|pod| &pod.pod) != insight.record.pod.as_ref()
    {
        world.report(format!(
            "I1: a PoD of {index} was acknowledged and is not in the insight"
        ));
    }
    check_messages(world, index, store, id, insight.record.revision);
    let notes = block_on(store.notes(id)).unwrap();
    let quarantined = notes.iter().filter_map(|note| note.quarantined());
    if !quarantined.eq(world.plan.scripts[index].quarantined) {
        world.report(format!(
            "I1: session {index}: {notes:?}: batches without a fault were quarantined"
        ));
    }
    Some(Final {
        row,
        journal,
        notes,
        pod,
        insight,
    })
}

fn check_messages(world: &World, index: usize, store: &MemoryStore, id: SessionId, revision: u32) {
    let sent = block_on(store.messages(id)).unwrap();
    let count = |event| sent.iter().filter(|message| message.event == event).count();
    let is_dense = sent
        .iter()
        .zip(0..)
        .all(|(message, number)| message.number == number);
    let stopped = sent
        .iter()
        .position(|message| message.event == MessageEvent::SessionStopped);
    let scored = sent
        .iter()
        .position(|message| message.event == MessageEvent::InsightUpdated);
    let holds = is_dense
        && sent
            .first()
            .is_some_and(|first| first.event == MessageEvent::SessionStarted)
        && count(MessageEvent::SessionStarted) == 1
        && count(MessageEvent::SessionStopped) == 1
        && count(MessageEvent::InsightUpdated) == revision as usize
        && stopped < scored;
    if !holds {
        let numbered: Vec<_> = sent
            .iter()
            .map(|message| (message.number, message.event.as_str()))
            .collect();
        world.report(format!(
            "I6: session {index}, revision {revision}: {numbered:?}"
        ));
    }
}

/// Returns the insights of a fault-free service for the same batches, end and PoD.
fn insights_without_faults(world: &World, finals: &[Final]) -> Vec<StoredInsight> {
    in_system(async {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        for Final {
            row,
            journal,
            notes,
            pod,
            ..
        } in finals
        {
            let id = row.start.session_id;
            let message = messages::session_started(&row.start);
            let new = NewSession {
                start: row.start.clone(),
                idempotency: None,
                message,
            };
            block_on(store.start(new)).unwrap();
            for entry in journal {
                block_on(store.append(id, entry.seq, entry.batch.clone(), entry.received_at))
                    .unwrap();
            }
            for &note in notes
                .iter()
                .filter(|note| matches!(note, Note::Quarantined { .. }))
            {
                block_on(store.note(id, note)).unwrap();
            }
            let end = row.end.unwrap();
            let message = messages::session_stopped(&row.start, &end);
            block_on(store.end(id, end, pod.clone(), message)).unwrap();
        }
        world.clock.run();
        let arbiter = System::current().arbiter().clone();
        let pool = ScoringPool::start(
            &[arbiter],
            Arc::clone(&store) as _,
            Arc::clone(&world.clock) as _,
            Arc::new(|_, _| {}),
        );
        for found in finals {
            pool.request(found.row.start.session_id, Some(found.row.start.tenant));
        }
        while pool.waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.clock.halt();
        let insight = |found: &Final| {
            block_on(store.insight(found.row.start.session_id))
                .unwrap()
                .unwrap()
        };
        finals.iter().map(insight).collect()
    })
}

/// Renders the insight as the API returns it, with its reasons, but without the fields that depend
/// on its time.
fn rendered(row: &SessionRow, insight: &StoredInsight) -> String {
    let view = InsightView::scored(&row.start, &insight.record, None);
    let mut answer = serde_json::to_value(view).unwrap();
    let fields = answer.as_object_mut().unwrap();
    fields.remove("updatedAt");
    fields.insert(
        "score".to_owned(),
        serde_json::to_value(&insight.record.score).unwrap(),
    );
    answer.to_string()
}

fn journal_of(store: &MemoryStore, id: SessionId) -> Vec<JournalEntry> {
    let mut entries: Vec<JournalEntry> = Vec::new();
    loop {
        let from = entries.last().map_or(0, |last| last.seq + 1);
        let page = block_on(Journal::read(store, id, from, 100)).unwrap();
        if page.is_empty() {
            return entries;
        }
        entries.extend(page);
    }
}
