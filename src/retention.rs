//! Retention: each hour, a part of the data that is older than the retention is deleted. On the
//! embedded store, this covers sessions older than `store.retention`; a CQL database deletes them
//! by itself. On both stores, it covers the data for which organizations have chosen a shorter
//! retention. On a CQL database, the rows of sessions that must be kept are renewed.
//!
//! The first sweep waits for one interval, so that NTP has set the clock of a machine that just
//! started. A sweep deletes nothing while the wall clock disagrees with the stored times
//! ([`RetentionGuard`]), and never more than a part of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use porchlight_actors::service::{Service, Swept};
use porchlight_core::retention::{ClockDisagrees, RetentionGuard, SweepSchedule, sessions_max};
use porchlight_observe::restarts::Restarts;
use porchlight_observe::store::{ClockState, StoreMetrics};
use porchlight_observe::{Task, error_text};
use porchlight_ports::{Clock, StoreResult};
use porchlight_schema::limits::SWEEP_COUNTED_SESSIONS_MAX;
use porchlight_store::EmbeddedStore;
use porchlight_world::SystemClock;

/// The interval of the sweeps that delete data older than the retention.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);
/// The interval of the clock checks, so that operators learn early that nothing will be deleted.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The time from the start of the process to the first renewal of rows that must not expire.
const FIRST_RENEWAL_AFTER: Duration = Duration::from_secs(10);

/// Whether retention deletes old sessions or is paused, for the operators' page and `/readyz`.
#[derive(Debug, Default)]
pub struct RetentionStatus(AtomicU8);

impl RetentionStatus {
    fn set(&self, state: ClockState) {
        self.0.store(state as u8, Ordering::Relaxed);
        StoreMetrics::get().show_retention_clock(state);
    }

    /// Returns the reason why nothing is deleted now, or `None` if old sessions are deleted.
    #[must_use]
    pub fn pause_reason(&self) -> Option<&'static str> {
        let state = self.0.load(Ordering::Relaxed);
        if state == ClockState::Ahead as u8 {
            Some(
                "retention is paused: the clock is more than a day ahead of the newest stored time",
            )
        } else if state == ClockState::Behind as u8 {
            Some("retention is paused: the clock is more than a day behind the newest stored time")
        } else {
            None
        }
    }
}

/// Deletes data that is older than the retention.
pub struct Sweeper {
    /// The store, unless it deletes old sessions by itself.
    store: Option<Arc<EmbeddedStore>>,
    service: Service,
    retention_ms: i64,
    guard: RetentionGuard,
    status: Arc<RetentionStatus>,
}

impl std::fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sweeper")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

impl Sweeper {
    /// Reads the newest stored time, before this process writes a newer one.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn start(
        store: Option<Arc<EmbeddedStore>>,
        service: Service,
        retention_ms: i64,
        status: Arc<RetentionStatus>,
    ) -> StoreResult<Self> {
        let newest = match &store {
            Some(store) => store.newest_time().await?,
            None => None,
        };
        let newest = newest.max(service.last_retention_sweep().await?);
        let guard = RetentionGuard::new(newest, SystemClock.now(), SystemClock.uptime_ms());
        let sweeper = Self {
            store,
            service,
            retention_ms,
            guard,
            status,
        };
        sweeper.may_delete();
        Ok(sweeper)
    }

    /// Sweeps periodically and never returns. Rows that must not expire are renewed soon after the
    /// start too, so that a process that is often started again renews them. A step that panics is
    /// repeated when it is due again.
    pub async fn run(self) {
        let mut restarts = Restarts::new(Task::Retention);
        tokio::time::sleep(FIRST_RENEWAL_AFTER).await;
        let _finished = restarts.run(self.finish_removals()).await;
        let _renewed = restarts.run(self.renew()).await;
        let checks_per_sweep = SWEEP_INTERVAL.as_secs() / CLOCK_CHECK_INTERVAL.as_secs();
        let mut schedule = SweepSchedule::new(checks_per_sweep);
        loop {
            tokio::time::sleep(CLOCK_CHECK_INTERVAL).await;
            let due = schedule.on_check(self.may_delete());
            let _finished = restarts.run(self.finish_removals()).await;
            if due.renews {
                let _renewed = restarts.run(self.renew()).await;
            }
            // The work before the sweep may have taken an hour.
            if due.sweeps && self.may_delete() {
                let _swept = restarts.run(self.sweep()).await;
            }
        }
    }

    /// Returns whether the clock is trusted, and logs when that changes.
    fn may_delete(&self) -> bool {
        let checked = self.guard.check(SystemClock.now(), SystemClock.uptime_ms());
        let (state, by_ms) = match checked {
            Ok(()) => (ClockState::Agrees, 0),
            Err(ClockDisagrees::Ahead(by_ms)) => (ClockState::Ahead, by_ms),
            Err(ClockDisagrees::Behind(by_ms)) => (ClockState::Behind, by_ms),
        };
        let was_paused = self.status.pause_reason().is_some();
        self.status.set(state);
        match self.status.pause_reason() {
            Some(reason) if !was_paused => tracing::warn!(by_s = by_ms / 1_000, "{reason}"),
            None if was_paused => tracing::info!("retention: the clock agrees again"),
            _ => {}
        }
        state == ClockState::Agrees
    }

    /// Renews rows that must not expire. This deletes nothing, so it does not wait for the clock.
    async fn renew(&self) {
        let sessions = self.service.renew_kept().await;
        if sessions > 0 {
            tracing::info!(
                sessions,
                "sessions under a restriction or a legal hold renewed, so that the database keeps them"
            );
        }
    }

    /// Ends removals that were decided while the clock was right, so that a legal hold does not
    /// wait for the next sweep.
    async fn finish_removals(&self) {
        let mut swept = Swept::default();
        let finished = self.service.finish_removals(&mut swept).await;
        report(swept, finished);
    }

    async fn sweep(&self) {
        if let Some(store) = &self.store {
            self.sweep_store(store).await;
        }
        let mut swept = Swept::default();
        let applied = self.service.apply_retention(&mut swept).await;
        report(swept, applied);
    }

    async fn sweep_store(&self, store: &EmbeddedStore) {
        match self.sweep_sessions(store).await {
            Ok(0) => {}
            Ok(sessions) => tracing::info!(
                sessions,
                "deleted sessions that are older than the retention"
            ),
            Err(error) => {
                tracing::warn!(error = error_text(&error), "old sessions cannot be deleted")
            }
        }
        let now = SystemClock.now();
        if let Err(error) = store.sweep_idempotency_keys(now).await {
            tracing::warn!(
                error = error_text(&error),
                "old idempotency keys cannot be deleted"
            );
        }
        if let Err(error) = store.sweep_recorders(now).await {
            tracing::warn!(
                error = error_text(&error),
                "expired recorders cannot be deleted"
            );
        }
        if let Err(error) = store.sweep_outboxes().await {
            tracing::warn!(
                error = error_text(&error),
                "the outboxes of deleted webhooks cannot be deleted"
            );
        }
    }

    async fn sweep_sessions(&self, store: &EmbeddedStore) -> StoreResult<u64> {
        let counted = store.completed_sessions(SWEEP_COUNTED_SESSIONS_MAX).await?;
        let before = SystemClock.now().plus_ms(-self.retention_ms);
        store.sweep(before, sessions_max(counted)).await
    }
}

/// Logs the result of retention that organizations have chosen.
fn report(swept: Swept, applied: StoreResult<()>) {
    if swept.has_removed() {
        tracing::info!(
            telemetry = swept.telemetry,
            messages = swept.messages,
            sessions = swept.sessions,
            audit_groups = swept.audit_groups,
            "data older than its retention deleted, by number of sessions and of groups of audit lines"
        );
    }
    if swept.failures > 0 {
        tracing::warn!(
            failures = swept.failures,
            "the retention of some organizations was not applied completely; the next sweep tries again"
        );
    }
    if let Err(error) = applied {
        tracing::warn!(
            error = error_text(&error),
            "data older than the chosen retention cannot be deleted"
        );
    }
}
