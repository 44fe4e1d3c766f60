//! The actors that score sessions: each runs several scores on one thread.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use actix::prelude::*;
use futures_util::FutureExt;
use porchlight_core::score_retry::{self, Failure, Retry};
use porchlight_observe::{ActorKind, Fact, MessageKind, Metrics, Outcome, StopReason};
use porchlight_schema::ids::SessionId;

use super::Inner;
use super::job::{self, ScoreError, Surroundings};

/// The message to score a session.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Score {
    pub(super) session_id: SessionId,
    /// The number of earlier lasting failures.
    pub(super) lasting_failures: u32,
    pub(super) queued_at: Instant,
}

/// One actor of the pool.
pub(super) struct ScoringActor {
    pub(super) pool: Weak<Inner>,
}

/// Sends the score of a session to an actor.
#[expect(
    clippy::disallowed_methods,
    reason = "the queue has admitted it, at most `SCORES_AT_ONCE_MAX` at the same time"
)]
pub(super) fn admitted_send(actor: &Addr<ScoringActor>, score: Score) {
    let metrics = Metrics::get().actor(ActorKind::Scoring);
    metrics.mailbox.increment(1.0);
    actor.do_send(score);
}

impl Actor for ScoringActor {
    type Context = Context<Self>;

    fn started(&mut self, _ctx: &mut Context<Self>) {
        Metrics::get().actor(ActorKind::Scoring).on_started();
    }

    fn stopped(&mut self, _ctx: &mut Context<Self>) {
        Metrics::get()
            .actor(ActorKind::Scoring)
            .on_stopped(StopReason::Shutdown);
    }
}

impl Handler<Score> for ScoringActor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, score: Score, _ctx: &mut Context<Self>) -> Self::Result {
        let pool = self.pool.clone();
        let metrics = Metrics::get().actor(ActorKind::Scoring);
        let started_at = Instant::now();
        metrics.mailbox.decrement(1.0);
        let waited = started_at.duration_since(score.queued_at);
        metrics.wait.record(waited.as_secs_f64());
        Box::pin(async move {
            let Some(pool) = pool.upgrade() else { return };
            if pool.remove_if_remote(score.session_id) {
                return;
            }
            let outcome = attempt(&pool, &score).await;
            let took = started_at.elapsed();
            metrics.on_handled(MessageKind::Score, outcome, took.as_secs_f64());
        })
    }
}

/// Attempts to score a session, and plans the next attempt if this one fails.
async fn attempt(pool: &Arc<Inner>, score: &Score) -> Outcome {
    let session_id = score.session_id;
    let read_live = pool.read_live.get();
    let is_erased = pool.is_erased.get();
    let surroundings = Surroundings {
        store: &*pool.store,
        clock: &*pool.clock,
        row_locks: &pool.row_locks,
        read_live: read_live.map(|read_live| &**read_live),
        is_erased: is_erased.map(|is_erased| &**is_erased),
    };
    let job = job::score(surroundings, session_id);
    // The computation of the score catches its own panics; any other panic ends here.
    let failed = match AssertUnwindSafe(job).catch_unwind().await {
        Ok(Ok(scored)) => {
            pool.on_done(session_id, scored);
            return Outcome::Ok;
        }
        Ok(Err(ScoreError::Erased)) => {
            retry_later(pool, session_id, pool.on_failed(session_id));
            return Outcome::Ok;
        }
        Ok(Err(error)) => Some(error),
        Err(_panic) => None,
    };
    let failure = failed.as_ref().map_or(Failure::Panic, ScoreError::failure);
    let step = score_retry::next(failure, score.lasting_failures);
    match &failed {
        Some(error) if step == Retry::GiveUp => record_damage(session_id, error),
        Some(error) => record_store_failure(session_id, "scoring a session", error),
        None => record_panic(session_id),
    }
    match step {
        Retry::Again => retry_later(pool, session_id, pool.on_failed(session_id)),
        Retry::AgainCounted => {
            retry_later(pool, session_id, pool.on_lasting_failure(session_id));
        }
        Retry::GiveUp => commit_failed(pool, session_id).await,
    }
    match failure {
        Failure::Panic => Outcome::Panic,
        Failure::Passing | Failure::Damage => Outcome::Error,
    }
}

fn record_store_failure(session_id: SessionId, doing: &'static str, error: &ScoreError) {
    Fact::StoreFailed {
        actor: ActorKind::Scoring,
        session_id,
        doing,
        error,
    }
    .record();
}

fn record_panic(session_id: SessionId) {
    Fact::ActorPanicked {
        actor: ActorKind::Scoring,
        session_id,
        seq: None,
        restarts: 0,
    }
    .record();
}

fn record_damage(session_id: SessionId, error: &ScoreError) {
    Fact::Damaged {
        session_id,
        what: "the data of its insight",
        error,
    }
    .record();
}

/// Commits a `failed` insight for a session whose score fails lastingly.
async fn commit_failed(pool: &Arc<Inner>, session_id: SessionId) {
    let committing = job::commit_failed(&*pool.store, &*pool.clock, session_id);
    match AssertUnwindSafe(committing).catch_unwind().await {
        Ok(Ok(failed)) => pool.on_done(session_id, failed),
        // Even the failure cannot be committed: the session's own rows are damaged.
        Ok(Err(error)) if error.is_damage() => pool.on_done(session_id, None),
        Ok(Err(error)) => {
            record_store_failure(session_id, "committing a failed insight", &error);
            retry_later(pool, session_id, pool.on_lasting_failure(session_id));
        }
        Err(_panic) => {
            record_panic(session_id);
            retry_later(pool, session_id, pool.on_lasting_failure(session_id));
        }
    }
}

/// Retries a session after a pause, without delaying the others. Without a pause the session is no
/// longer being scored.
fn retry_later(pool: &Arc<Inner>, session_id: SessionId, pause: Option<Duration>) {
    let Some(pause) = pause else { return };
    let pool = Arc::downgrade(pool);
    actix_rt::spawn(async move {
        tokio::time::sleep(pause).await;
        if let Some(pool) = pool.upgrade() {
            pool.resume(session_id);
        }
    });
}
