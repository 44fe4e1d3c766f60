//! Performs the steps of a privacy request. The request is stored after each step, so that another
//! process continues from the point at which this process was killed.

use std::time::Duration;

use porchlight_core::audit::{Action, Actor, ActorKind, Line};
use porchlight_core::privacy::{Mark, OpenKey, Outcome, PrivacyRequest, Step, StoreStep};
use porchlight_observe::error_text;
use porchlight_ports::{SessionFilter, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    PRIVACY_ERASE_PAUSE_MS, PRIVACY_SETTLE_ALONE_MS, PRIVACY_SETTLE_SHARED_MS,
};
use porchlight_schema::privacy::{Counts, RequestStatus, RequestType, Subject};
use porchlight_schema::time::TimestampMs;

use super::super::Service;
use super::log::LoggedErasure;
use super::{TenantPrivacy, erase, measure};
use crate::audit::AuditFull;

/// The number of sessions erased between two writes of the request.
const SESSIONS_AT_ONCE: usize = 50;

/// The reason for which a request is not performed any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Performed {
    /// The request has ended.
    Ended,
    /// The request waits until this time.
    Waits(TimestampMs),
    /// The request gives its permit to the next one, and continues when its turn comes again.
    Yields,
    /// A removal that the last step waits for has not ended, so the step is repeated after a pause.
    Repeats,
    /// The process stops, or another one acts for the tenant.
    Stopped,
}

/// An open request of a tenant whose shard this process owns in this generation.
pub(super) struct OwnedRequest<'s> {
    pub(super) service: &'s Service,
    pub(super) key: OpenKey,
    pub(super) generation: u64,
}

impl<'s> OwnedRequest<'s> {
    fn requests(&self) -> TenantPrivacy<'s> {
        self.service.privacy(self.key.tenant)
    }

    /// Returns whether this process has lost the tenant since the request began, even if it owns
    /// the tenant again.
    fn is_lost(&self) -> bool {
        self.service.generation(self.key.tenant) != Some(self.generation)
    }

    /// Changes the mark of a subject unless the tenant is lost.
    async fn change_mark(&self, subject: &Subject, change: impl Fn(&mut Mark)) -> StoreResult<()> {
        let store = self.service.store().as_ref();
        let marks = &self.service.privacy.marks;
        let may_change = || !self.is_lost();
        marks
            .change(store, self.key.tenant, subject, may_change, change)
            .await
    }

    /// Performs the request until it has ended or must wait.
    pub(super) async fn perform(&self) -> StoreResult<Performed> {
        let (service, requests) = (self.service, self.requests());
        loop {
            let Some(stored) = requests.find_by(self.key.id_hash).await? else {
                return Ok(Performed::Stopped);
            };
            if !service.privacy.schedule().on_progress(&self.key, &stored) {
                return Ok(Performed::Yields);
            }
            if stored.is_over() {
                self.close(&stored).await?;
                return Ok(Performed::Ended);
            }
            if service.is_draining() || self.is_lost() {
                return Ok(Performed::Stopped);
            }
            let mut next = stored.clone();
            if next.may_begin(service.now()) {
                next.begin(service.now(), self.newest_session().await?);
            }
            if next != stored {
                // The conditional write decides between this start and a concurrent cancellation.
                requests.replace(&stored, &next).await?;
                continue;
            }
            let outcome = match stored.step(service.now()) {
                Step::WaitUntil(at) => return Ok(Performed::Waits(at)),
                Step::Over => {
                    let text = "a privacy request has no next step";
                    return Err(StoreError::Damaged(text.to_owned()));
                }
                Step::Perform(step) => match self.take(&stored, step).await? {
                    Some(outcome) => outcome,
                    None => return Ok(Performed::Repeats),
                },
            };
            let ends_page = stored.ends_page(&outcome);
            next.record(outcome, service.now());
            if next.is_over() && next.request_type == RequestType::Erasure {
                next.receipt = self.signed_receipt(&next);
            }
            requests.replace(&stored, &next).await?;
            if ends_page {
                // Many sessions do not keep the requests of other tenants waiting.
                return Ok(Performed::Yields);
            }
        }
    }

    /// Returns the creation time of the tenant's newest session.
    async fn newest_session(&self) -> StoreResult<Option<TimestampMs>> {
        let (store, every) = (self.service.store(), SessionFilter::default());
        let newest = store.list(self.key.tenant, &every, 1, None).await?.rows;
        Ok(newest.first().map(|row| row.start.created_at))
    }

    /// Returns the receipt of a completed erasure, which completes without one if it cannot be
    /// signed.
    fn signed_receipt(&self, request: &PrivacyRequest) -> Option<String> {
        let sign = self.service.privacy_settings().sign?;
        sign(request).unwrap_or_else(|error| {
            tracing::error!(organization = %self.key.tenant.organization_id, error = error_text(&*error), "the receipt of an erasure cannot be signed");
            None
        })
    }

    /// Records a completed request in the audit log and removes it from the open requests. After a
    /// crash between the two, the log has the line twice.
    async fn close(&self, request: &PrivacyRequest) -> StoreResult<()> {
        if let Some(completed_at) = request.completed_at {
            self.record_completion(request, completed_at).await?;
        }
        self.requests().remove_open(self.key.id_hash).await?;
        measure::on_ended(request);
        if request.request_type == RequestType::Release
            && request.status == RequestStatus::Completed
        {
            (self.service.privacy_settings().on_released)(self.key.tenant);
        }
        Ok(())
    }

    /// Writes the line of a completed request to the tenant's audit log, and waits until it is
    /// committed.
    async fn record_completion(
        &self,
        request: &PrivacyRequest,
        at: TimestampMs,
    ) -> StoreResult<()> {
        let Some(log) = self.service.audit() else {
            return Ok(());
        };
        let permit = log.reserve(self.key.tenant).await;
        permit.map_err(StoreError::unavailable)?.record(Line {
            at,
            actor: Actor::of_kind(ActorKind::Service),
            action: Action::completing(request.request_type).as_str().to_owned(),
            object: Some(request.request_id.clone()),
            from: None,
        });
        if log.flush_of(self.key.tenant).await {
            Ok(())
        } else {
            Err(StoreError::unavailable(AuditFull))
        }
    }

    /// Performs a step. Returns `None` if the step must be repeated.
    async fn take(
        &self,
        request: &PrivacyRequest,
        step: StoreStep,
    ) -> StoreResult<Option<Outcome>> {
        let (service, tenant) = (self.service, self.key.tenant);
        let store = service.store().as_ref();
        Ok(Some(match step {
            StoreStep::Mark(subject, until) => return self.mark(request, &subject, until).await,
            StoreStep::Plan(subject, until) => self.plan(&subject, until).await?,
            StoreStep::Erase(page) => {
                self.requests().record_erased(request, &page).await?;
                for session_id in page {
                    service.registry().drop_erased(session_id);
                    erase::session(store, service.scoring.row_locks(), session_id).await?;
                    // A request in flight may have adopted the session again in the meantime.
                    service.registry().drop_erased(session_id);
                    tokio::time::sleep(Duration::from_millis(PRIVACY_ERASE_PAUSE_MS)).await;
                }
                Outcome::Done
            }
            StoreStep::Recorders(subject, until) => {
                let is_covered = |subjects: &[Subject]| subjects.contains(&subject);
                let keys = erase::recorders(store, tenant, until, is_covered).await?;
                self.requests().hash_subject_in_requests(&subject).await?;
                Outcome::Removed(Counts {
                    keys,
                    ..Counts::default()
                })
            }
            StoreStep::IdempotencyKeys => {
                let until = request.covers_until();
                let keys = erase::idempotency_keys(store, tenant, until).await?;
                Outcome::Removed(Counts {
                    keys,
                    ..Counts::default()
                })
            }
            StoreStep::Purge => {
                service.purge().await?;
                Outcome::Done
            }
            StoreStep::Count(subject, after) => self.count_page(request, &subject, after).await?,
            StoreStep::Unmark(subject, until) => {
                if request.request_type == RequestType::Erasure {
                    self.unmark(request, &subject, until).await?;
                }
                if request.request_type == RequestType::Release {
                    // Sweeps have left out the restricted sessions.
                    service.retention(tenant).restart_sweep().await?;
                }
                Outcome::Done
            }
            StoreStep::Withdraw(subject, until) => {
                service.purge().await?;
                self.withdraw(request, &subject, until).await?;
                Outcome::Done
            }
        }))
    }

    /// Plans the next page of an erasure. The page leaves out sessions under a legal hold, and the
    /// erasure fails if no other session is left. A hold that is placed during an erasure is
    /// refused. So the erasure meets only a hold that is about to be withdrawn, or one that was
    /// accepted before its process knew the mark.
    async fn plan(&self, subject: &Subject, until: TimestampMs) -> StoreResult<Outcome> {
        let (store, marks) = (self.service.store().as_ref(), &self.service.privacy.marks);
        marks.refresh(store).await?;
        let is_held = |session_id| self.requests().is_held(session_id);
        let (tenant, limit) = (self.key.tenant, SESSIONS_AT_ONCE);
        let page = erase::first_free_page(store, tenant, subject, until, limit, is_held);
        let (page, has_held) = page.await?;
        if page.is_empty() && has_held {
            return Ok(Outcome::Held);
        }
        let (mut counts, mut keys) = (Counts::default(), Vec::new());
        for session_id in &page {
            counts.add(erase::count(store, *session_id).await?);
            keys.extend(store.data_key(*session_id).await?);
        }
        Ok(Outcome::Planned(page, counts, keys))
    }

    /// Removes the mark of an erasure, and keeps the marks of other requests.
    async fn unmark(
        &self,
        request: &PrivacyRequest,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<()> {
        let unmark = |mark: &mut Mark| mark.end_erasure(request.number(), until);
        self.change_mark(subject, unmark).await
    }

    /// Removes an erasure that fails from the erasure log, so that a restored backup keeps the held
    /// sessions, and then removes its mark.
    async fn withdraw(
        &self,
        request: &PrivacyRequest,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<()> {
        if let Some(entry) = LoggedErasure::of(self.key.tenant, request) {
            let store = self.service.store().as_ref();
            entry.remove(store, || !self.is_lost()).await?;
        }
        self.unmark(request, subject, until).await
    }

    /// Counts the data of a page of the subject's sessions. A restriction renews the time to live
    /// of their rows, and a release queues their waiting messages again.
    async fn count_page(
        &self,
        request: &PrivacyRequest,
        subject: &Subject,
        after: Option<SessionId>,
    ) -> StoreResult<Outcome> {
        let store = self.service.store().as_ref();
        let until = request.covers_until();
        let page = erase::page(
            store,
            self.key.tenant,
            subject,
            until,
            after,
            SESSIONS_AT_ONCE,
        );
        let (rows, next) = page.await?;
        let mut counts = Counts::default();
        for row in &rows {
            match request.request_type {
                RequestType::Restriction => {
                    self.service.renew_readable(row.start.session_id).await?;
                }
                RequestType::Release => store.requeue(row.start.session_id).await?,
                RequestType::Access | RequestType::Erasure => {}
            }
            counts.add(erase::count(store, row.start.session_id).await?);
        }
        Ok(Outcome::Counted(counts, next))
    }

    /// Changes the subject's mark, and logs the beginning of an erasure. An erasure of a held
    /// session leaves neither a mark nor an entry in the log. Returns `None` if a removal of the
    /// subject's data has not ended, so that a restriction cannot begin yet.
    async fn mark(
        &self,
        request: &PrivacyRequest,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<Option<Outcome>> {
        let (service, tenant) = (self.service, self.key.tenant);
        let store = service.store().as_ref();
        if request.request_type == RequestType::Erasure {
            let begin = |mark: &mut Mark| mark.begin_erasure(request.number(), until);
            self.change_mark(subject, begin).await?;
            // The mark is written before the holds are read; see `hold`.
            if self.requests().has_hold(subject, until).await? {
                self.withdraw(request, subject, until).await?;
                return Ok(Some(Outcome::Held));
            }
            if let Some(entry) = LoggedErasure::of(tenant, request) {
                entry.write(store).await?;
            }
        }
        let (request_type, suppress) = (request.request_type, request.suppress);
        let change = |mark: &mut Mark| match request_type {
            RequestType::Erasure => mark.suppressed |= suppress,
            RequestType::Restriction => {
                mark.restricted = true;
                mark.suppressed |= suppress;
            }
            RequestType::Release => {
                mark.restricted = false;
                mark.suppressed = false;
            }
            RequestType::Access => {}
        };
        self.change_mark(subject, change).await?;
        service.registry().wake_all_watchers();
        if request_type == RequestType::Restriction
            && service.retention(tenant).settle(subject).await?.is_some()
        {
            return Ok(None);
        }
        let settle_ms = if service.registry().is_shared() {
            PRIVACY_SETTLE_SHARED_MS
        } else {
            PRIVACY_SETTLE_ALONE_MS
        };
        Ok(Some(Outcome::Marked(service.now().plus_ms(settle_ms))))
    }
}
