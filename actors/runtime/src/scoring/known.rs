//! Builds the input of scoring from a session's journal, with the events of its live machine if the
//! machine has applied exactly the batches of the journal.
//!
//! Detecting events is most of the cost of a replay, and the live machine has already done it. Its
//! events are used only if nothing was skipped or quarantined and no batch is missing, so they
//! equal the events of a replay. One in [`CHECK_INTERVAL`] of these sessions is replayed
//! nevertheless and compared.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use porchlight_core::context::SessionContext;
use porchlight_core::session::replay::{FinalEvents, Replay, Replayed};
use porchlight_observe::{Fact, ReplayCheck};
use porchlight_ports::{Store, StoreError};
use porchlight_schema::ids::SessionId;

use super::reads;
use super::replay::{apply, replay};
use crate::journal;
use crate::yielding::Yielding;

/// One in this many sessions is checked against a replay; every session in debug builds.
const CHECK_INTERVAL: u32 = if cfg!(debug_assertions) { 1 } else { 1_000 };

/// The function that reads the final events of an ended session, if its machine is alive.
pub(crate) type ReadLive =
    dyn Fn(SessionId) -> BoxFuture<'static, Option<FinalEvents>> + Send + Sync;

/// Returns the input of scoring. `batches` is the number of batches in the journal; `read_live`
/// reads the events of the live machine.
pub(super) async fn replayed(
    store: &dyn Store,
    context: &SessionContext,
    session_id: SessionId,
    batches: u32,
    read_live: Option<&ReadLive>,
) -> Result<Option<Replayed>, StoreError> {
    let unwritten = store.unwritten(session_id);
    if unwritten.batches && unwritten.notes {
        let replay = Replay::new(context);
        return Ok(catch_unwind(AssertUnwindSafe(|| replay.finish())).ok());
    }
    let live = match read_live {
        Some(read_live) => read_live(session_id).await,
        None => None,
    };
    if let Some(live) = live.filter(|live| live.next_seq == batches)
        && reads::notes(store, session_id).await?.is_empty()
        && let Some(known) = replay_known(store, context, session_id, live).await?
    {
        static SCORED: AtomicU32 = AtomicU32::new(0);
        if !SCORED
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(CHECK_INTERVAL)
        {
            return Ok(Some(known));
        }
        let whole = replay(store, context, session_id).await?;
        // A batch may arrive between the two reads, so the journals must be equal as well.
        if store.count(session_id).await? == batches {
            let check = if whole.as_ref() == Some(&known) {
                ReplayCheck::Same
            } else {
                ReplayCheck::Different
            };
            Fact::ReplayChecked { session_id, check }.record();
            debug_assert_eq!(whole.as_ref(), Some(&known), "the live machine's events");
        }
        return Ok(whole);
    }
    replay(store, context, session_id).await
}

/// Reads a session's batches in order and takes the events from its machine. Returns `None` if the
/// journal does not contain exactly the batches that the machine has applied, or if anything
/// panics.
async fn replay_known(
    store: &dyn Store,
    context: &SessionContext,
    session_id: SessionId,
    live: FinalEvents,
) -> Result<Option<Replayed>, StoreError> {
    let next_seq = live.next_seq;
    let mut replay = Replay::with_events(context, live);
    let (mut pages, mut yielding) = (journal::pages(store, session_id), Yielding::default());
    while pages.next_seq() < next_seq
        && let Some(page) = pages.next().await?
    {
        for entry in &page {
            let mut is_read = true;
            let applied = apply(entry, |entry| {
                is_read = replay.batch(entry.seq, &entry.batch);
            });
            // The whole replay reports a batch that cannot be read.
            if applied.is_err() || !is_read {
                return Ok(None);
            }
            yielding.after(entry.batch.samples()).await;
        }
    }
    if pages.next_seq() != next_seq {
        return Ok(None);
    }
    let finished = catch_unwind(AssertUnwindSafe(|| replay.finish())).ok();
    Ok(finished.filter(|replayed| replayed.missing_batches == 0))
}
