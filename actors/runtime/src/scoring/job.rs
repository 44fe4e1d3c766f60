//! The scoring of one session: read everything, compute, commit. If killed at any point, it runs
//! again with the same result.

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};

use porchlight_core::context::SessionContext;
use porchlight_core::insight_revision;
use porchlight_core::score::{
    Fingerprint, Knowledge, PodInput, ScoreInput, Scored, score_and_learn, trace_fingerprint,
};
use porchlight_core::score_retry::Failure;
use porchlight_core::session::replay::Replayed;
use porchlight_observe::{Fact, InsightOutcome};
use porchlight_ports::{
    Clock, Covered, Note, PodRow, SessionRow, Store, StoreError, StoredInsight,
};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::DroppedSamples;
use porchlight_schema::session::{SessionEnd, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::IsErased;
use super::knowledge::{self, Learned, Recalled};
use super::known::{self, ReadLive};
use super::reads;
use super::row_locks::{LockedRows, RowKey, RowLocks};
use crate::messages;

/// The reason why a session was not scored. Scoring is retried.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another insight was committed in the meantime.
    #[error("another revision was committed meanwhile")]
    RevisionConflict,
    /// The session is being erased. At the next attempt it is removed, or its erasure was
    /// abandoned.
    #[error("the session is being erased")]
    Erased,
}

impl ScoreError {
    /// Returns whether stored rows are damaged.
    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Self::Store(StoreError::Damaged(_)))
    }

    /// Returns the failure by which the next step is decided.
    pub(super) fn failure(&self) -> Failure {
        if self.is_damage() {
            Failure::Damage
        } else {
            Failure::Passing
        }
    }
}

/// Commits a `failed` insight for an ended session that cannot be read completely. The insight
/// covers the data that the session has, so that the session is scored again only after that data
/// has changed. Changes nothing if the insight has already failed for this data. Returns the tenant
/// whose webhooks may have something new.
pub(super) async fn commit_failed(
    store: &dyn Store,
    clock: &dyn Clock,
    session_id: SessionId,
) -> Result<Option<Tenant>, ScoreError> {
    let Some(SessionRow {
        start,
        end: Some(end),
    }) = reads::session(store, session_id).await?
    else {
        return Ok(None);
    };
    let stored = stored_insight(store, session_id).await?;
    let covered = readable_data_to_cover(store, session_id, &end).await?;
    let is_repeated =
        |stored: &StoredInsight| stored.record.error_message.is_some() && stored.covered == covered;
    if stored.as_ref().is_some_and(is_repeated) {
        return Ok(None);
    }
    let insight = StoredInsight {
        record: insight_revision::next(
            stored.as_ref().map(|stored| &stored.record),
            None,
            None,
            shown_at(&start, &end),
            clock.now(),
        ),
        covered,
        dropped: DroppedSamples::default(),
        known: stored.map_or_else(
            || knowledge::write(&Knowledge::default()),
            |stored| Ok(stored.known),
        )?,
    };
    commit(store, &start, insight, Vec::new()).await?;
    Ok(Some(start.tenant))
}

/// Returns the latest `updatedAt` that an ended session without an insight may have shown.
fn shown_at(start: &SessionStart, end: &SessionEnd) -> TimestampMs {
    start.created_at.max(end.completed_at)
}

/// Returns the data that an insight of the session must cover now, or nothing if the data cannot be
/// read.
async fn readable_data_to_cover(
    store: &dyn Store,
    session_id: SessionId,
    end: &SessionEnd,
) -> Result<Covered, StoreError> {
    let covered = async {
        let pod = reads::pod(store, session_id).await?;
        let batches = reads::count(store, session_id).await?;
        Ok(data_to_cover(batches, end, pod.as_ref()))
    };
    match covered.await {
        Err(StoreError::Damaged(_)) => Ok(Covered::default()),
        covered => covered,
    }
}

/// Commits an insight together with the message that it causes and the learned rows.
async fn commit(
    store: &dyn Store,
    start: &SessionStart,
    insight: StoredInsight,
    learned: Vec<(RowKey, Vec<u8>)>,
) -> Result<(), ScoreError> {
    let session_id = start.session_id;
    let message = messages::insight_updated(start, &insight.record);
    let revision = insight.record.revision;
    let outcome = match insight.record.score {
        Some(_) => InsightOutcome::Ready,
        None => InsightOutcome::Failed,
    };
    let committing = store.commit_insight(session_id, insight, message, learned);
    if !committing.await? {
        return Err(ScoreError::RevisionConflict);
    }
    Fact::InsightCommitted {
        session_id,
        revision,
        outcome,
    }
    .record();
    Ok(())
}

/// Returns a session's insight. A damaged insight counts as missing and is computed again from
/// the telemetry.
async fn stored_insight(
    store: &dyn Store,
    session_id: SessionId,
) -> Result<Option<StoredInsight>, StoreError> {
    match reads::insight(store, session_id).await {
        Err(error @ StoreError::Damaged(_)) => {
            Fact::Damaged {
                session_id,
                what: "its insight",
                error: &error,
            }
            .record();
            Ok(None)
        }
        stored => stored,
    }
}

/// An ended session whose insight does not cover everything.
struct Outdated {
    start: SessionStart,
    end: SessionEnd,
    stored: Option<StoredInsight>,
    pod: Option<PodRow>,
    /// The data to cover.
    covered: Covered,
}

impl Outdated {
    /// Returns whether the session was never scored.
    fn is_first(&self) -> bool {
        self.stored.is_none()
    }
}

/// Reads a session. Returns `None` if it has not ended, or if its insight covers everything.
async fn outdated(
    store: &dyn Store,
    session_id: SessionId,
) -> Result<Option<Outdated>, StoreError> {
    let Some(SessionRow {
        start,
        end: Some(end),
    }) = reads::session(store, session_id).await?
    else {
        return Ok(None);
    };
    let stored = stored_insight(store, session_id).await?;
    let pod = reads::pod(store, session_id).await?;
    let batches = reads::count(store, session_id).await?;
    let covered = data_to_cover(batches, &end, pod.as_ref());
    let is_covered = stored
        .as_ref()
        .is_some_and(|stored| stored.covered == covered);
    let outdated = Outdated {
        start,
        end,
        stored,
        pod,
        covered,
    };
    Ok((!is_covered).then_some(outdated))
}

/// The parts of the process that a score uses.
pub(super) struct Surroundings<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) clock: &'a dyn Clock,
    pub(super) row_locks: &'a RowLocks,
    /// The function that reads the events of an ended session from its machine.
    pub(super) read_live: Option<&'a ReadLive>,
    /// The function that returns whether a session is being erased.
    pub(super) is_erased: Option<&'a IsErased>,
}

/// The knowledge of a score, and the locks that the score holds until its insight is committed.
struct ScoreKnowledge<'a> {
    recalled: Recalled,
    fingerprint: Option<Fingerprint>,
    /// The rows that this score may write.
    locked: Vec<LockedRows<'a>>,
}

impl<'a> ScoreKnowledge<'a> {
    /// Reads the knowledge that the session's first score has stored, or recalls it if this is the
    /// first score. Locks the rows of the trace if this score may write one.
    async fn recall(
        surroundings: &Surroundings<'a>,
        session: &Outdated,
        fingerprint: Option<Fingerprint>,
    ) -> Result<Self, StoreError> {
        let Outdated {
            start, end, stored, ..
        } = session;
        let trace = fingerprint.as_ref();
        // The knowledge is fixed when the session is first scored (contract 4).
        let trace_rows = knowledge::trace_keys(start, trace.filter(|_| session.is_first()));
        let mut locked = vec![surroundings.row_locks.lock(trace_rows).await];
        let recalled = match stored {
            Some(stored) => knowledge::read(&stored.known)?.into(),
            None => knowledge::recall(surroundings.store, (start, end), trace).await?,
        };
        if !trace.is_some_and(|trace| recalled.has_free_trace_row(start.tenant, trace)) {
            // This score writes no row of its trace, so other copies of it need not wait.
            locked.clear();
        }
        Ok(Self {
            recalled,
            fingerprint,
            locked,
        })
    }

    /// Returns the rows that a first score of the session writes. Locks the row of the place.
    async fn learn(
        &mut self,
        surroundings: &Surroundings<'a>,
        session: &Outdated,
        scored: Option<&Scored>,
    ) -> Result<Vec<(RowKey, Vec<u8>)>, StoreError> {
        let Some(scored) = scored.filter(|_| session.is_first()) else {
            return Ok(Vec::new());
        };
        let learned = Learned {
            place: scored.learned,
            fingerprint: self.fingerprint.as_ref(),
        };
        let place_rows = learned.place_keys(&session.start);
        self.locked
            .push(surroundings.row_locks.lock(place_rows).await);
        knowledge::learned(surroundings.store, &session.start, learned, &self.recalled).await
    }
}

/// Scores a session if it has ended and its insight does not cover everything. Returns the tenant
/// whose webhooks may have something new.
pub(super) async fn score(
    surroundings: Surroundings<'_>,
    session_id: SessionId,
) -> Result<Option<Tenant>, ScoreError> {
    let store = surroundings.store;
    let Some(session) = outdated(store, session_id).await? else {
        return Ok(None);
    };
    let context = SessionContext::new(&session.start);
    let (batches, read_live) = (session.covered.batches, surroundings.read_live);
    let replayed = known::replayed(store, &context, session_id, batches, read_live).await?;
    let fingerprint = replayed
        .as_ref()
        .and_then(|replayed| trace_fingerprint(&replayed.windows));
    let mut score_knowledge = ScoreKnowledge::recall(&surroundings, &session, fingerprint).await?;
    // The note is written before anything is removed, so a replay of a part of the journal is
    // followed by a read that finds it.
    if has_expired(&reads::notes(store, session_id).await?) {
        return Ok(None);
    }
    let dropped = replayed.as_ref().map(|replayed| replayed.dropped);
    let scored = replayed.and_then(|replayed| {
        compute(
            &context,
            &replayed,
            &session,
            &score_knowledge.recalled.known,
        )
    });
    let learned = score_knowledge
        .learn(&surroundings, &session, scored.as_ref())
        .await?;
    let Outdated {
        start,
        end,
        stored,
        pod,
        covered,
    } = session;
    let insight = StoredInsight {
        record: insight_revision::next(
            stored.as_ref().map(|stored| &stored.record),
            scored.map(|scored| scored.score),
            pod.map(|pod| pod.pod),
            shown_at(&start, &end),
            surroundings.clock.now(),
        ),
        covered,
        known: knowledge::write(&score_knowledge.recalled.known)?,
        dropped: dropped.unwrap_or_default(),
    };
    // An erasure sets its mark before it reads the facts that scores have learned from the session,
    // and then waits for scores that have not seen the mark.
    if surroundings
        .is_erased
        .is_some_and(|is_erased| is_erased(&start))
    {
        return Err(ScoreError::Erased);
    }
    commit(store, &start, insight, learned).await?;
    drop(score_knowledge);
    Ok(Some(start.tenant))
}

/// Returns whether a part of the session was removed because its retention has passed, according to
/// its notes. Its insight is final.
fn has_expired(notes: &[Note]) -> bool {
    notes.iter().any(|note| note.is_expiry())
}

/// Returns whether the insight of an ended session covers all its data or says that the session
/// cannot be scored.
///
/// # Errors
///
/// Returns an error if the store fails.
pub(crate) async fn is_settled(store: &dyn Store, row: &SessionRow) -> Result<bool, StoreError> {
    let session_id = row.start.session_id;
    let (Some(end), Some(stored)) = (&row.end, store.insight(session_id).await?) else {
        return Ok(false);
    };
    if stored.record.error_message.is_some() || has_expired(&store.notes(session_id).await?) {
        return Ok(true);
    }
    let pod = store.pod(session_id).await?;
    let batches = store.count(session_id).await?;
    Ok(stored.covered == data_to_cover(batches, end, pod.as_ref()))
}

/// Returns the data that an insight of a session with this number of batches must cover now.
fn data_to_cover(batches: u32, end: &SessionEnd, pod: Option<&PodRow>) -> Covered {
    Covered {
        batches,
        pod_received_at: pod.map(|pod| pod.received_at),
        late_stop_at: end.late_stop_at(),
    }
}

/// Computes the score. Returns `None` if scoring panicked, which it would do again.
fn compute(
    context: &SessionContext,
    replayed: &Replayed,
    session: &Outdated,
    known: &Knowledge,
) -> Option<Scored> {
    let Outdated {
        start, end, pod, ..
    } = session;
    let since_start_ms = |at_ms: i64| u32::try_from(at_ms.max(0)).unwrap_or(u32::MAX);
    let input = ScoreInput {
        context,
        windows: &replayed.windows,
        events: &replayed.events,
        marks: &replayed.marks,
        system: &replayed.system,
        clock_steps: &replayed.clock_steps,
        pod: pod.as_ref().map(|row| {
            let (started_at, created_at) = (start.started_at, start.created_at);
            PodInput::received(row.pod.pod_type, row.received_at, started_at, created_at)
        }),
        duration_ms: since_start_ms(end.ended_at.since_ms(start.started_at)),
        timed_out: end.reason.is_timeout(),
        missing_batches: replayed.missing_batches,
        quarantined_batches: replayed.quarantined_batches,
        known,
    };
    catch_unwind(AssertUnwindSafe(|| score_and_learn(&input))).ok()
}
