//! The life cycle of sessions: start, end, recovery after a restart, and draining of the service.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use porchlight_core::privacy::SessionAccess;
use porchlight_core::session::lifetime::{may_end_at, may_start_at};
use porchlight_observe::Fact;
use porchlight_observe::shares::Share;
use porchlight_ports::{
    EndOutcome, Idempotency, NewSession, Nudge, PodRow, SessionRow, StartOutcome, StoreError,
    StoreResult,
};
use porchlight_schema::ids::{SessionId, ShardSet};
use porchlight_schema::limits::{CLOCK_AHEAD_MS_MAX, DRAIN_MS_MAX, RETRY_AFTER_SEC};
use porchlight_schema::session::{EndReason, Pod, SessionEnd, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;
use tokio::time::Instant;

use super::{AttachPodError, Service, StartCommand, StartError, StopCommand, StopError};
use crate::journal;
use crate::messages;
use crate::registry::Registry;
use crate::session::{SessionHandle, store_failed};

/// The interval at which a draining service checks whether it is done.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Service {
    /// Starts a session. A repeat with the same `Idempotency-Key` returns the first session's
    /// start, even if a new session would be refused.
    pub async fn start(&self, command: StartCommand) -> Result<SessionStart, StartError> {
        if self.is_draining() {
            return Err(StartError::Draining);
        }
        let (created_at, tenant) = (self.now(), command.tenant);
        let idempotency = command.idempotency.clone();
        let refusal = match self.start_at(command, created_at).await {
            Err(
                error @ (StartError::StartedAtOutOfRange
                | StartError::TenantFull(_)
                | StartError::Suppressed
                | StartError::Restricted),
            ) => error,
            result => return result,
        };
        self.find_earlier_start_or(tenant, idempotency, created_at, refusal)
            .await
    }

    async fn start_at(
        &self,
        command: StartCommand,
        created_at: TimestampMs,
    ) -> Result<SessionStart, StartError> {
        let started_at = command.started_at.unwrap_or(created_at);
        if !may_start_at(started_at, command.started_at_back_ms_max, created_at) {
            return Err(StartError::StartedAtOutOfRange);
        }
        let usage = self.usage(command.tenant);
        // Held until the registry counts the session itself, so that many concurrent starts do not
        // exceed the share.
        let _live = usage.hold(Share::LiveSessions)?;
        let random = self.registry().ports().entropy.random();
        let session_id = self.session_ids.make(created_at, random);
        let start = SessionStart {
            session_id,
            tenant: command.tenant,
            delivery_id: command.delivery_id,
            external_rider_id: command.external_rider_id,
            session_type: command.session_type,
            address: command.address,
            device: command.device,
            started_at,
            created_at,
        };
        if self.is_suppressed(start.tenant, &start.external_rider_id) {
            return Err(StartError::Suppressed);
        }
        match self.access(&start) {
            SessionAccess::Open => {}
            SessionAccess::Restricted | SessionAccess::Erased => {
                return Err(StartError::Restricted);
            }
        }
        let message = messages::session_started(&start);
        let new = NewSession {
            start: start.clone(),
            idempotency: command.idempotency,
            message,
        };
        // The start counts as one of the node's writes in flight. The limit learns from batches
        // only.
        let under_way = self
            .registry()
            .admission()
            .begin_ingest(&usage, Duration::ZERO);
        let started = self.store().start(new).await?;
        drop(under_way);
        match started {
            StartOutcome::Created => {
                let row = SessionRow { start, end: None };
                if self.registry().acts_for(session_id) {
                    self.registry().adopt_new(&row.start);
                } else {
                    self.registry().cache_remote(&row, Instant::now());
                    self.nudge_owner(session_id);
                }
                let tenant = row.start.tenant;
                Fact::SessionStarted { session_id, tenant }.record();
                (self.registry().ports().wake)(row.start.tenant, session_id);
                Ok(row.start)
            }
            StartOutcome::Repeated(first) => self.repeated(*first).await,
            StartOutcome::KeyReused => Err(StartError::KeyReused),
        }
    }

    /// Refuses a start with `error`, unless it repeats an accepted start; a repeat gets the same
    /// answer again.
    async fn find_earlier_start_or(
        &self,
        tenant: Tenant,
        idempotency: Option<Idempotency>,
        now: TimestampMs,
        error: StartError,
    ) -> Result<SessionStart, StartError> {
        let before = match idempotency {
            Some(idempotency) => {
                let before = self.store().find_earlier_start(tenant, idempotency, now);
                before.await?
            }
            None => None,
        };
        match before {
            Some(StartOutcome::Repeated(first)) => match self.repeated(*first).await {
                // A courier may be suppressed and restricted at the same time.
                Err(StartError::Restricted) if matches!(error, StartError::Suppressed) => {
                    Err(error)
                }
                repeated => repeated,
            },
            Some(StartOutcome::KeyReused) => Err(StartError::KeyReused),
            Some(StartOutcome::Created) | None => Err(error),
        }
    }

    async fn repeated(&self, first: SessionStart) -> Result<SessionStart, StartError> {
        // The first request may have failed before it entered the session into the registry. Look
        // the session up again, because it may have ended since.
        let session_id = first.session_id;
        if self.access(&first) != SessionAccess::Open {
            return Err(StartError::Restricted);
        }
        if !self.registry().acts_for(session_id) {
            self.nudge_owner(session_id);
        } else if self.registry().handle(session_id).is_none() {
            self.target(session_id).await?;
        }
        Ok(first)
    }

    /// Stops a session. The first stop counts; repeating it for a stopped session returns the same
    /// result. A session that the service ended in the last 24 hours gets the end that the app
    /// reports.
    pub async fn stop(
        &self,
        row: &SessionRow,
        command: StopCommand,
    ) -> Result<SessionRow, StopError> {
        let now = self.now();
        if let Some(end) = row.end
            && end.is_replaced_by_stop_at(now)
        {
            return self.stop_after_timeout(row, &end, command, now).await;
        }
        if row.end.is_some() {
            // The process that ended the session may have died, or received an error, before it
            // updated the registry.
            let (registry, session_id) = (self.registry(), row.start.session_id);
            if registry.handle(session_id).is_some() || !registry.acts_for(session_id) {
                registry.on_ended(session_id, row.start.tenant);
            }
            if let Some(pod) = command.pod {
                self.attach_pod(row, pod).await?;
            }
            return Ok(row.clone());
        }
        let ended_at = match command.ended_at {
            Some(ended_at) => {
                check_ended_at(&row.start, ended_at, now)?;
                ended_at
            }
            // The clock may have been set back since the start.
            None => now.max(row.start.started_at),
        };
        let end = SessionEnd {
            ended_at,
            completed_at: now,
            reason: EndReason::Stopped,
        };
        let pod = command.pod.clone().map(|pod| PodRow {
            pod,
            received_at: now,
        });
        let outcome = end_session(self.registry(), &row.start, end, pod).await?;
        (self.registry().ports().wake)(row.start.tenant, row.start.session_id);
        let row = SessionRow {
            start: row.start.clone(),
            end: Some(outcome.end),
        };
        if outcome.is_first {
            return Ok(row);
        }
        if outcome.end.is_replaced_by_stop_at(now) {
            // A timeout has ended the session before the app stopped it.
            return self
                .stop_after_timeout(&row, &outcome.end, command, now)
                .await;
        }
        if let Some(pod) = command.pod {
            self.attach_pod(&row, pod).await?;
        }
        Ok(row)
    }

    /// Replaces the end of a session that the service ended at `timeout` with the end that the app
    /// reports. The message `session.stopped` is not sent again; the insight is computed again.
    async fn stop_after_timeout(
        &self,
        row: &SessionRow,
        timeout: &SessionEnd,
        command: StopCommand,
        now: TimestampMs,
    ) -> Result<SessionRow, StopError> {
        let session_id = row.start.session_id;
        if let Some(ended_at) = command.ended_at {
            check_ended_at(&row.start, ended_at, now)?;
        }
        // A PoD that is refused must not cost a read of the journal.
        if let Some(pod) = &command.pod {
            self.check_late_pod(row, pod).await?;
        }
        let ended_at = match command.ended_at {
            Some(ended_at) => ended_at,
            None => self.end_of_samples(&row.start, timeout, now).await?,
        };
        let end = SessionEnd {
            ended_at,
            completed_at: timeout.completed_at,
            reason: EndReason::StoppedAfterTimeout { stopped_at: now },
        };
        let pod = command.pod.clone().map(|pod| PodRow {
            pod,
            received_at: now,
        });
        // The PoD is stored in the same call, so that an error leaves no PoD without the end.
        let stopped = self.store().stop_after_timeout(session_id, end, pod);
        let outcome = stopped.await?.ok_or_else(without_start)?;
        if outcome.is_first {
            Fact::StoppedAfterTimeout { session_id }.record();
        } else if let Some(pod) = command.pod {
            self.attach_pod(row, pod).await?;
        }
        // Requested even if another stop came first: its process may have died before it requested
        // the score.
        let tenant = Some(row.start.tenant);
        self.registry().request_score(session_id, tenant);
        Ok(SessionRow {
            start: row.start.clone(),
            end: Some(outcome.end),
        })
    }

    /// Returns the end of a session that the service ended at `timeout` and that the app stops
    /// without a time: its last sample, or the timeout if it has none.
    async fn end_of_samples(
        &self,
        start: &SessionStart,
        timeout: &SessionEnd,
        now: TimestampMs,
    ) -> StoreResult<TimestampMs> {
        let turn = self.late_stops.take(start.tenant.organization_id);
        let _turn = turn.await.map_err(StoreError::unavailable)?;
        let stored = self.find(start.session_id).await?;
        let end = stored.and_then(|row| row.end);
        // If another stop came first, its end counts, and the journal need not be read again.
        let last = match end.is_none_or(|end| end.is_replaced_by_stop_at(now)) {
            true => self.last_sample_at(start).await?,
            false => None,
        };
        let ended_at = last.unwrap_or(timeout.ended_at);
        let latest = now.plus_ms(CLOCK_AHEAD_MS_MAX);
        Ok(ended_at.min(latest).max(start.started_at))
    }

    /// Returns the time of a session's last sample by the phone's clock, or `None` if it has no
    /// sample. Reads the whole journal.
    async fn last_sample_at(&self, start: &SessionStart) -> StoreResult<Option<TimestampMs>> {
        let mut pages = journal::pages(self.store().as_ref(), start.session_id);
        let mut last_ms = None;
        while let Some(page) = pages.next().await? {
            let with_samples = page.iter().filter(|entry| entry.batch.samples() > 0);
            let page_ms = with_samples.map(|entry| entry.batch.t_max_ms()).max();
            last_ms = last_ms.max(page_ms);
        }
        Ok(last_ms.map(|last_ms| start.started_at.plus_ms(i64::from(last_ms))))
    }

    /// Attaches a PoD. After the session's end, a new insight is computed. An identical PoD changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant replaces too many PoDs of completed sessions, if data of the
    /// session was removed because its retention has passed, or if the store fails.
    pub async fn attach_pod(&self, row: &SessionRow, pod: Pod) -> Result<Pod, AttachPodError> {
        let session_id = row.start.session_id;
        if row.end.is_some() {
            self.check_late_pod(row, &pod).await?;
        }
        self.store()
            .attach_pod(
                session_id,
                PodRow {
                    pod: pod.clone(),
                    received_at: self.now(),
                },
            )
            .await?;
        // Requested even if nothing changed, because the answer to the first request may have been
        // lost; an insight that already covers the PoD is not computed again. The handle is looked
        // up only now because the session may have ended meanwhile.
        let registry = self.registry();
        if registry.handle(session_id).is_none() || !registry.acts_for(session_id) {
            registry.request_score(session_id, Some(row.start.tenant));
        }
        Ok(pod)
    }

    /// Checks whether a PoD may be attached after the session's end.
    async fn check_late_pod(&self, row: &SessionRow, pod: &Pod) -> Result<(), AttachPodError> {
        let session_id = row.start.session_id;
        let stored = self.store().pod(session_id).await?;
        let is_same = stored.as_ref().is_some_and(|stored| stored.pod == *pod);
        // A new insight could not be computed without the removed data.
        if !is_same && self.has_expired_data(session_id).await? {
            return Err(AttachPodError::Expired);
        }
        if stored.is_some() && !is_same {
            let uptime_ms = self.registry().ports().clock.uptime_ms();
            self.usage(row.start.tenant).change_pod(uptime_ms)?;
        }
        Ok(())
    }

    /// Asks the session's owner to reconcile the session.
    fn nudge_owner(&self, session_id: SessionId) {
        let peers = &self.registry().ports().peers;
        peers.nudge(Nudge::Session(session_id));
    }

    /// Resumes the work that an earlier process left; see [`Service::take_shards`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn recover(&self) -> StoreResult<usize> {
        self.take_shards(ShardSet::ALL).await
    }

    /// Refuses new work, waits for the work in flight, and lets every session write its state, all
    /// within the deadline.
    pub async fn drain(&self) {
        Fact::Draining.record();
        self.registry().refuse();
        let deadline = Instant::now() + Duration::from_millis(DRAIN_MS_MAX);
        // Snapshots come first: a scoring backlog that takes the whole time must not leave them
        // unwritten.
        let writing = async {
            while self.registry().admission().bodies_in_flight() > 0 {
                tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
            }
            self.registry().drain().await
        };
        let snapshots = tokio::time::timeout_at(deadline, writing).await;
        let scoring = async {
            while self.scoring.waiting_for_first_attempt() > 0 {
                tokio::time::sleep(DRAIN_POLL_INTERVAL).await;
            }
        };
        let scored = tokio::time::timeout_at(deadline, scoring).await;
        self.scoring.close();
        Fact::Drained {
            was_in_time: snapshots.is_ok() && scored.is_ok(),
            snapshots: snapshots.unwrap_or(0),
        }
        .record();
    }
}

/// Refuses an end that is before the session's start or too far ahead of the service's clock.
fn check_ended_at(
    start: &SessionStart,
    ended_at: TimestampMs,
    now: TimestampMs,
) -> Result<(), StopError> {
    if may_end_at(ended_at, start.started_at, now) {
        Ok(())
    } else {
        Err(StopError::EndedAtOutOfRange)
    }
}

fn without_start() -> StoreError {
    StoreError::Damaged("a session without its start".into())
}

/// Ends a session for any caller: commits first, then the actor stops and the insight is computed.
async fn end_session(
    registry: &Registry,
    start: &SessionStart,
    end: SessionEnd,
    pod: Option<PodRow>,
) -> StoreResult<EndOutcome> {
    let session_id = start.session_id;
    let message = messages::session_stopped(start, &end);
    let outcome = registry
        .ports()
        .store
        .end(session_id, end, pod, message)
        .await?;
    let outcome = outcome.ok_or_else(without_start)?;
    if outcome.is_first {
        Fact::SessionEnded {
            session_id,
            reason: outcome.end.reason,
        }
        .record();
    }
    registry.on_ended(session_id, start.tenant);
    Ok(outcome)
}

/// Handles a session's expired deadline: checks the time of the last received batch again, and ends
/// the session if it has ended.
pub(super) fn on_due(registry: Registry, handle: Arc<SessionHandle>) {
    actix_rt::spawn(async move {
        // Losing a deadline would leave the session without an end.
        let timed_out = AssertUnwindSafe(time_out(&registry, &handle)).catch_unwind();
        let error = match timed_out.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_panic) => StoreError::unavailable("the store's adapter panicked"),
        };
        store_failed(handle.session_id, "ending a silent session", &error);
        tokio::time::sleep(Duration::from_secs(RETRY_AFTER_SEC)).await;
        registry.arm(&handle);
    });
}

async fn time_out(registry: &Registry, handle: &Arc<SessionHandle>) -> StoreResult<()> {
    let (store, session_id) = (&registry.ports().store, handle.session_id);
    match store.newest(session_id).await {
        Ok(newest) => {
            if let Some((_, received_at)) = newest {
                registry.touch_found(handle, received_at);
            }
        }
        // The session ends by the times known here, so that its insight can report the failure.
        Err(error @ StoreError::Damaged(_)) => Fact::Damaged {
            session_id,
            what: "its newest batch",
            error: &error,
        }
        .record(),
        Err(error) => return Err(error),
    }
    let (clock, lifetime) = (&registry.ports().clock, &registry.ports().lifetime);
    let elapsed = handle.elapsed(clock.uptime_ms());
    let end = lifetime.end(handle.times(), elapsed, clock.now());
    let Some(end) = end else {
        registry.arm(handle);
        return Ok(());
    };
    match store.find(session_id).await? {
        Some(SessionRow { start, end: None }) => {
            end_session(registry, &start, end, None).await?;
            (registry.ports().wake)(start.tenant, session_id);
        }
        // Another caller has ended the session.
        _ => registry.on_ended(session_id, handle.tenant),
    }
    Ok(())
}
