//! Reads a session's journal and replays its batches, without the batches at which a detector
//! panics.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_core::context::SessionContext;
use porchlight_core::session::replay::{Replay, Replayed};
use porchlight_core::supervision::LeftOut;
use porchlight_observe::Fact;
use porchlight_ports::{JournalEntry, Note, Store, StoreError};
use porchlight_schema::ids::SessionId;

use crate::journal;
use crate::yielding::Yielding;

/// Reads a session's batches in order. Quarantines a batch that makes a detector panic, and writes
/// a note, as the live session does; the batch may have come too late for the live session. Returns
/// `None` if the panic is not caused by a batch, or by too many.
pub(crate) async fn replay(
    store: &dyn Store,
    context: &SessionContext,
    session_id: SessionId,
) -> Result<Option<Replayed>, StoreError> {
    let notes = store.notes(session_id).await?;
    let quarantined = notes.iter().filter_map(|note| note.quarantined());
    let mut left_out = LeftOut::new(quarantined);
    loop {
        let mut unreadable = Vec::new();
        let replaying =
            replay_without(store, context, session_id, left_out.seqs(), &mut unreadable);
        match replaying.await? {
            Ok(replay) => {
                for seq in unreadable {
                    record_unreadable(session_id, seq);
                }
                return Ok(catch_unwind(AssertUnwindSafe(|| replay.finish())).ok());
            }
            Err(PanickingBatch { seq }) if left_out.add(seq) => {
                store.note(session_id, Note::Quarantined { seq }).await?;
                Fact::BatchQuarantined { session_id, seq }.record();
            }
            Err(_one_too_many) => return Ok(None),
        }
    }
}

async fn replay_without<'c>(
    store: &dyn Store,
    context: &'c SessionContext,
    session_id: SessionId,
    quarantined: &BTreeSet<u32>,
    unreadable: &mut Vec<u32>,
) -> Result<Result<Replay<'c>, PanickingBatch>, StoreError> {
    let mut replay = Replay::new(context);
    let (mut pages, mut yielding) = (journal::pages(store, session_id), Yielding::default());
    while let Some(page) = pages.next().await? {
        for entry in &page {
            let applied = apply(entry, |entry| {
                if quarantined.contains(&entry.seq) {
                    replay.quarantined(entry.seq);
                } else if !replay.batch(entry.seq, &entry.batch) {
                    unreadable.push(entry.seq);
                }
            });
            if let Err(panicking) = applied {
                return Ok(Err(panicking));
            }
            yielding.after(entry.batch.samples()).await;
        }
    }
    Ok(Ok(replay))
}

/// Reports a batch whose samples cannot be read to the end. No note is written: another release may
/// be able to read the batch.
fn record_unreadable(session_id: SessionId, seq: u32) {
    let error = StoreError::Damaged(format!("the samples of batch {seq} cannot be read"));
    Fact::Damaged {
        session_id,
        what: "a batch",
        error: &error,
    }
    .record();
}

/// A batch at which a detector panicked, and would panic again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PanickingBatch {
    seq: u32,
}

/// Applies a batch, unless a detector panics at it.
pub(super) fn apply(
    entry: &JournalEntry,
    one: impl FnOnce(&JournalEntry),
) -> Result<(), PanickingBatch> {
    // The half-changed state is discarded.
    catch_unwind(AssertUnwindSafe(|| one(entry)))
        .map_err(|_panic| PanickingBatch { seq: entry.seq })
}

#[cfg(test)]
mod tests {
    use porchlight_schema::sample::packed::BatchBuilder;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn the_faulty_batch_is_found_and_earlier_ones_are_applied() {
        let entry = |seq| JournalEntry {
            seq,
            received_at: TimestampMs(0),
            batch: BatchBuilder::default().pack(),
        };
        let page = [3, 4, 7, 8].map(entry);
        let mut applied = Vec::new();
        let outcome = page.iter().try_for_each(|entry| {
            apply(entry, |entry| {
                assert_ne!(entry.seq, 7, "an ordered panic");
                applied.push(entry.seq);
            })
        });
        assert_eq!(outcome, Err(PanickingBatch { seq: 7 }));
        assert_eq!(applied, [3, 4]);
    }
}
