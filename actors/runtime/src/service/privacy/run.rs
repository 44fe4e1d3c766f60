//! Performs the steps of privacy requests. The request is stored after each step, so that another
//! process continues from the point at which this process was killed.

use std::time::{Duration, Instant};

use porchlight_core::audit::{Action, Actor, ActorKind, Line};
use porchlight_core::privacy::{Mark, Outcome, PrivacyRequest, Step};
use porchlight_core::retention::RetentionBounds;
use porchlight_ports::{Document, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    PRIVACY_ERASE_PAUSE_MS, PRIVACY_MARKS_REFRESH_MS, PRIVACY_REQUESTS_AT_ONCE_MAX,
    PRIVACY_SETTLE_ALONE_MS, PRIVACY_SETTLE_SHARED_MS,
};
use porchlight_schema::privacy::{Counts, RequestStatus, RequestType, Subject};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::super::Service;
use super::super::retention::DEFAULT_BOUNDS;
use super::log::LoggedErasure;
use super::{SignReceipt, TenantPrivacy, erase, measure, requests};
use crate::audit::AuditFull;
use crate::privacy::tenant_of;

/// The number of sessions erased between two writes of the request.
const SESSIONS_AT_ONCE: usize = 50;
/// The number of open requests read per query.
const OPEN_AT_ONCE: usize = 500;
/// The interval at which the open requests are measured.
const MEASURE_EVERY: Duration = Duration::from_secs(10);
/// The pause before a failed step is repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// The settings for performing privacy requests.
#[derive(Clone)]
pub struct PrivacySettings {
    /// The delay before an erasure or an access export begins, during which the request can be
    /// cancelled, milliseconds.
    pub erasure_delay_ms: i64,
    /// The bounds within which organizations choose their retention.
    pub retention: RetentionBounds,
    /// The function that signs receipts.
    pub sign: Option<SignReceipt>,
    /// The function called with a tenant when a restriction was lifted.
    pub on_released: std::sync::Arc<dyn Fn(Tenant) + Send + Sync>,
}

impl Service {
    pub(in crate::service) fn privacy_settings(&self) -> PrivacySettings {
        let settings = self.privacy.settings.get().cloned();
        settings.unwrap_or_else(|| PrivacySettings {
            erasure_delay_ms: 0,
            retention: DEFAULT_BOUNDS,
            sign: None,
            on_released: std::sync::Arc::new(|_| {}),
        })
    }

    /// Reads the marks of all subjects and starts to perform privacy requests. Call this before the
    /// service accepts requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn start_privacy(&self, settings: PrivacySettings) -> StoreResult<()> {
        // A second call keeps the first settings.
        let _set = self.privacy.settings.set(settings);
        self.privacy.marks.refresh(self.store().as_ref()).await?;
        let service = self.clone();
        actix_rt::spawn(async move { service.run_privacy().await });
        Ok(())
    }

    async fn run_privacy(self) {
        let every = Duration::from_millis(PRIVACY_MARKS_REFRESH_MS);
        let mut measured_at: Option<Instant> = None;
        while !self.is_draining() {
            let seen = async {
                if self.privacy.marks.refresh(self.store().as_ref()).await? {
                    self.registry().wake_all_watchers();
                }
                if measured_at.is_none_or(|at| at.elapsed() >= MEASURE_EVERY) {
                    measured_at = Some(Instant::now());
                    self.measure_open_requests().await?;
                }
                self.start_open_requests().await
            };
            if let Err(error) = seen.await {
                tracing::warn!(%error, "the privacy requests cannot be read");
            }
            let woken = self.privacy.wake.notified();
            // A request that arrived during the scan has left a permit behind.
            let _timeout = tokio::time::timeout(every, woken).await;
        }
    }

    async fn start_open_requests(&self) -> StoreResult<()> {
        let mut after = None;
        loop {
            let page = self
                .store()
                .documents(requests::open_requests(), after, OPEN_AT_ONCE)
                .await?;
            let is_last = page.len() < OPEN_AT_ONCE;
            after = page.last().map(|document| document.key.clone());
            for open in page {
                self.start_open_request(open);
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn start_open_request(&self, open: Document) {
        let Some((tenant, rest)) = tenant_of(&open.key) else {
            return;
        };
        let Ok(hash) = <[u8; 32]>::try_from(rest) else {
            return;
        };
        let shard = tenant.organization_id.shard();
        let ownership = &self.registry().ports().ownership;
        let has_room = self.privacy.running() < PRIVACY_REQUESTS_AT_ONCE_MAX;
        let Some(generation) = ownership.generation(shard).filter(|_| has_room) else {
            return;
        };
        if !self.privacy.reserve(&open.key) {
            return;
        }
        let (service, key) = (self.clone(), open.key);
        actix_rt::spawn(async move {
            let requests = OwnedRequests {
                service: &service,
                tenant,
                generation,
            };
            while let Err(error) = requests.perform(hash, &key).await {
                tracing::warn!(%error, "a step of a privacy request will be retried");
                if service.is_draining() || requests.is_lost() {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
            service.privacy.release(&key);
        });
    }
}

/// The requests of a tenant whose shard this process owns in this generation.
struct OwnedRequests<'s> {
    service: &'s Service,
    tenant: Tenant,
    generation: u64,
}

impl<'s> OwnedRequests<'s> {
    fn requests(&self) -> TenantPrivacy<'s> {
        self.service.privacy(self.tenant)
    }

    /// Returns whether another process may have taken over the tenant since, even if it was given back.
    fn is_lost(&self) -> bool {
        let ownership = &self.service.registry().ports().ownership;
        let shard = self.tenant.organization_id.shard();
        ownership.generation(shard) != Some(self.generation)
    }

    /// Changes the mark of a subject unless the tenant is lost.
    async fn change_mark(&self, subject: &Subject, change: impl Fn(&mut Mark)) -> StoreResult<()> {
        let store = self.service.store().as_ref();
        let marks = &self.service.privacy.marks;
        let may_change = || !self.is_lost();
        marks
            .change(store, self.tenant, subject, may_change, change)
            .await
    }

    /// Performs a request until it has ended or must wait.
    async fn perform(&self, hash: [u8; 32], open_key: &[u8]) -> StoreResult<()> {
        loop {
            let Some(stored) = self.requests().find_by(hash).await? else {
                // The request is still being submitted.
                return Ok(());
            };
            self.requests().list(&stored).await?;
            if stored.is_over() {
                return self.close(&stored, open_key).await;
            }
            let service = self.service;
            if service.is_draining() || self.is_lost() {
                return Ok(());
            }
            let mut next = stored.clone();
            next.begin(service.now());
            if next != stored {
                // This write decides whether the request was started or cancelled.
                self.requests().replace(&stored, &next).await?;
                continue;
            }
            let outcome = match stored.step(service.now()) {
                Step::WaitUntil(at) => {
                    self.wait_until(at).await;
                    continue;
                }
                Step::Over => return Ok(()),
                step => self.take(&stored, step).await?,
            };
            next.record(outcome, service.now());
            if next.is_over() && next.request_type == RequestType::Erasure {
                let sign = service.privacy_settings().sign;
                next.receipt = sign.and_then(|sign| sign(&next));
            }
            self.requests().replace(&stored, &next).await?;
        }
    }

    async fn wait_until(&self, at: TimestampMs) {
        let wait_ms = at.since_ms(self.service.now()).clamp(1, 1_000);
        tokio::time::sleep(Duration::from_millis(wait_ms.unsigned_abs())).await;
    }

    /// Notes a completed request in the audit log and removes it from the open requests. After a
    /// crash between the two, the log has the line twice.
    async fn close(&self, request: &PrivacyRequest, open_key: &[u8]) -> StoreResult<()> {
        if let Some(completed_at) = request.completed_at {
            self.note_completion(request, completed_at).await?;
        }
        let store = self.service.store();
        store
            .replace_document(
                requests::open_requests(),
                open_key.to_vec(),
                Some(Vec::new()),
                None,
            )
            .await?;
        measure::on_ended(request);
        if request.request_type == RequestType::Release
            && request.status == RequestStatus::Completed
        {
            (self.service.privacy_settings().on_released)(self.tenant);
        }
        Ok(())
    }

    /// Writes the line of a completed request to the tenant's audit log, and waits until it is
    /// committed.
    async fn note_completion(&self, request: &PrivacyRequest, at: TimestampMs) -> StoreResult<()> {
        let Some(log) = self.service.audit() else {
            return Ok(());
        };
        let permit = log.reserve(self.tenant).await;
        permit.map_err(StoreError::unavailable)?.record(Line {
            at,
            actor: Actor::of_kind(ActorKind::Service),
            action: Action::completing(request.request_type).as_str().to_owned(),
            object: Some(request.request_id.clone()),
            from: None,
        });
        if log.flush_of(self.tenant).await {
            Ok(())
        } else {
            Err(StoreError::unavailable(AuditFull))
        }
    }

    async fn take(&self, request: &PrivacyRequest, step: Step) -> StoreResult<Outcome> {
        let (service, tenant) = (self.service, self.tenant);
        let store = service.store().as_ref();
        Ok(match step {
            Step::Mark(subject, until) => self.mark(request, &subject, until).await?,
            Step::Plan(subject, until) => self.plan(&subject, until).await?,
            Step::Erase(page) => {
                self.requests().note_erased(request, &page).await?;
                for session_id in page {
                    service.registry().drop_erased(session_id);
                    erase::session(store, session_id).await?;
                    // A request in flight may have adopted the session again in the meantime.
                    service.registry().drop_erased(session_id);
                    tokio::time::sleep(Duration::from_millis(PRIVACY_ERASE_PAUSE_MS)).await;
                }
                Outcome::Done
            }
            Step::Recorders(subject, until) => {
                let is_covered = |subjects: &[Subject]| subjects.contains(&subject);
                let keys = erase::recorders(store, tenant, until, is_covered).await?;
                self.requests().forget_in_requests(&subject).await?;
                Outcome::Removed(Counts {
                    keys,
                    ..Counts::default()
                })
            }
            Step::IdempotencyKeys => {
                let until = request.began_at.unwrap_or(request.received_at);
                let keys = erase::idempotency_keys(store, tenant, until).await?;
                Outcome::Removed(Counts {
                    keys,
                    ..Counts::default()
                })
            }
            Step::Purge => {
                service.purge().await?;
                Outcome::Done
            }
            Step::Count(subject, after) => self.count_page(request, &subject, after).await?,
            Step::Unmark(subject, until) => {
                if request.request_type == RequestType::Erasure {
                    self.unmark(request, &subject, until).await?;
                }
                if request.request_type == RequestType::Release {
                    // Sweeps have left out the restricted sessions.
                    service.retention(tenant).restart_sweep().await?;
                }
                Outcome::Done
            }
            Step::Withdraw(subject, until) => {
                service.purge().await?;
                self.unmark(request, &subject, until).await?;
                Outcome::Done
            }
            Step::WaitUntil(_) | Step::Over => Outcome::Done,
        })
    }

    /// Plans the next page of an erasure. A session under a legal hold is left out, and the erasure
    /// fails if no other is left: a hold that is placed during an erasure is refused, so this
    /// happens only to a hold that is about to be withdrawn, or that was accepted without the mark.
    async fn plan(&self, subject: &Subject, until: TimestampMs) -> StoreResult<Outcome> {
        let (store, marks) = (self.service.store().as_ref(), &self.service.privacy.marks);
        marks.refresh(store).await?;
        let is_held = |session_id| self.requests().is_held(session_id);
        let (tenant, limit) = (self.tenant, SESSIONS_AT_ONCE);
        let page = erase::first_free_page(store, tenant, subject, until, limit, is_held);
        let (rows, has_held) = page.await?;
        if rows.is_empty() && has_held {
            return Ok(Outcome::Held);
        }
        let (mut counts, mut keys) = (Counts::default(), Vec::new());
        for row in &rows {
            counts.add(erase::count(store, &row.start).await?);
            keys.extend(store.data_key(row.start.session_id).await?);
        }
        let page = rows.iter().map(|row| row.start.session_id);
        Ok(Outcome::Planned(page.collect(), counts, keys))
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

    /// Counts the data of a page of the subject's sessions. A restriction renews the time to live
    /// of their rows, and a release queues their waiting messages again.
    async fn count_page(
        &self,
        request: &PrivacyRequest,
        subject: &Subject,
        after: Option<SessionId>,
    ) -> StoreResult<Outcome> {
        let store = self.service.store().as_ref();
        let until = request.began_at.unwrap_or(request.received_at);
        let page = erase::page(store, self.tenant, subject, until, after, SESSIONS_AT_ONCE);
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
            counts.add(erase::count(store, &row.start).await?);
        }
        Ok(Outcome::Counted(counts, next))
    }

    /// Changes the subject's mark, and logs the beginning of an erasure. An erasure of a held
    /// session leaves neither a mark nor an entry in the log.
    async fn mark(
        &self,
        request: &PrivacyRequest,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<Outcome> {
        let (service, tenant) = (self.service, self.tenant);
        let store = service.store().as_ref();
        if request.request_type == RequestType::Erasure {
            let begin = |mark: &mut Mark| mark.begin_erasure(request.number(), until);
            self.change_mark(subject, begin).await?;
            // The mark is written before the holds are read; see `hold`.
            if self.requests().has_hold(subject, until).await? {
                self.unmark(request, subject, until).await?;
                return Ok(Outcome::Held);
            }
            if let Some(entry) = LoggedErasure::of(tenant, request, until) {
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
        let settle_ms = if service.registry().is_shared() {
            PRIVACY_SETTLE_SHARED_MS
        } else {
            PRIVACY_SETTLE_ALONE_MS
        };
        Ok(Outcome::Marked(service.now().plus_ms(settle_ms)))
    }
}
