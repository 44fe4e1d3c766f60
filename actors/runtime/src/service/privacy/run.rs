//! Keeps the known marks up to date, and performs the open privacy requests in the order that the
//! schedule decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use porchlight_core::privacy::OpenKey;
use porchlight_core::retention::RetentionBounds;
use porchlight_observe::error_text;
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::limits::PRIVACY_MARKS_REFRESH_MS;
use porchlight_schema::session::Tenant;

use super::super::Service;
use super::super::retention::DEFAULT_BOUNDS;
use super::perform::{OwnedRequest, Performed};
use super::{SignReceipt, measure, requests};
use crate::panic_as_error::panic_as_error;

/// The number of open requests listed per query.
const OPEN_AT_ONCE: usize = 500;
/// The number of open requests read at the same time.
const READS_AT_ONCE: usize = 16;
/// The interval at which the open requests are listed.
const SCAN_EVERY: Duration = Duration::from_millis(PRIVACY_MARKS_REFRESH_MS);
/// The interval at which the open requests are measured.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// The times at which the open requests are listed and measured next.
struct DueAt {
    scan: Instant,
    measure: Instant,
}

/// The settings for performing privacy requests.
#[derive(Clone)]
pub struct PrivacySettings {
    /// The delay before an erasure or an access export begins, in milliseconds. During the delay
    /// the request can be cancelled.
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
        // A second call has no effect.
        let _set = self.privacy.settings.set(settings);
        self.privacy.marks.refresh(self.store().as_ref()).await?;
        let service = self.clone();
        actix_rt::spawn(async move { service.keep_marks_fresh().await });
        let service = self.clone();
        actix_rt::spawn(async move { service.run_open_requests().await });
        Ok(())
    }

    /// Reads changed marks until the service drains. Erasures rely on this task: while they settle,
    /// every node learns of their marks. Therefore it does nothing else.
    async fn keep_marks_fresh(self) {
        let mut seen_reads = self.privacy.marks.reads();
        while !self.is_draining() {
            if let Err(error) = panic_as_error(self.refresh_marks(&mut seen_reads)).await {
                tracing::warn!(
                    error = error_text(&error),
                    "the privacy marks cannot be read"
                );
            }
            tokio::time::sleep(Duration::from_millis(PRIVACY_MARKS_REFRESH_MS)).await;
        }
    }

    async fn refresh_marks(&self, seen_reads: &mut u64) -> StoreResult<()> {
        let marks = &self.privacy.marks;
        let refreshed = marks.refresh(self.store().as_ref()).await;
        // Others read changed marks, too.
        let reads = marks.reads();
        if std::mem::replace(seen_reads, reads) != reads {
            self.registry().wake_all_watchers();
        }
        refreshed.map(drop)
    }

    async fn run_open_requests(self) {
        let mut due = DueAt {
            scan: Instant::now(),
            measure: Instant::now(),
        };
        while !self.is_draining() {
            let round = panic_as_error(async { Ok(self.run_due(&mut due).await) });
            let pause = round.await.unwrap_or_else(|error| {
                tracing::error!(
                    error = error_text(&error),
                    "privacy requests could not be started and will be retried"
                );
                SCAN_EVERY
            });
            // A request that arrived in the meantime has left a permit behind.
            let _timeout = tokio::time::timeout(pause, self.privacy.wake.notified()).await;
        }
    }

    /// Lists and begins the requests that are due. Returns the time until the next ones are.
    async fn run_due(&self, due: &mut DueAt) -> Duration {
        if self.privacy.take_submitted() || due.scan <= Instant::now() {
            if let Err(error) = panic_as_error(self.scan_open_requests()).await {
                tracing::warn!(
                    error = error_text(&error),
                    "the privacy requests cannot be read"
                );
            }
            due.scan = Instant::now() + SCAN_EVERY;
        }
        self.begin_open_requests();
        if due.measure <= Instant::now() {
            measure::show(self.privacy.schedule().open());
            due.measure = Instant::now() + MEASURE_EVERY;
        }
        let clock = &self.registry().ports().clock;
        let next_ms = self
            .privacy
            .schedule()
            .next_ms(clock.now(), clock.uptime_ms());
        let next_ms = next_ms.unwrap_or(i64::MAX).max(1).unsigned_abs();
        let until_scan = due.scan.saturating_duration_since(Instant::now());
        until_scan.min(Duration::from_millis(next_ms))
    }

    /// Lists all open requests, and adds those of this node's tenants to the schedule.
    async fn scan_open_requests(&self) -> StoreResult<()> {
        self.privacy.schedule().begin_scan();
        let (mut counts, mut owned) = (BTreeMap::<Tenant, usize>::new(), BTreeSet::new());
        let mut after = None;
        loop {
            let page = self
                .store()
                .documents(requests::open_requests(), after, OPEN_AT_ONCE)
                .await?;
            let is_last = page.len() < OPEN_AT_ONCE;
            after = page.last().map(|document| document.key.clone());
            for document in &page {
                let Some(key) = requests::parse_open_key(&document.key) else {
                    continue;
                };
                *counts.entry(key.tenant).or_default() += 1;
                if self.generation(key.tenant).is_some() {
                    owned.insert(key);
                }
            }
            if is_last {
                break;
            }
        }
        self.privacy.set_open_counts(counts);
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        let to_read: Vec<OpenKey> = {
            let schedule = self.privacy.schedule();
            let keys = owned.iter().copied();
            keys.filter(|key| schedule.must_read(key, uptime_ms))
                .collect()
        };
        for keys in to_read.chunks(READS_AT_ONCE) {
            try_join_all(keys.iter().map(|key| self.read_into_schedule(*key))).await?;
        }
        self.privacy.schedule().complete_scan(&owned);
        Ok(())
    }

    /// Reads a listed request into the schedule. A damaged request does not stop the others.
    async fn read_into_schedule(&self, key: OpenKey) -> StoreResult<()> {
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        let requests = self.privacy(key.tenant);
        match requests.find_by(key.id_hash).await {
            Ok(Some(request)) => {
                if let Err(error) = requests.complete_submission(&request).await {
                    tracing::warn!(
                        error = error_text(&error),
                        "a privacy request is missing in its list"
                    );
                }
                self.privacy.schedule().learn(key, &request);
            }
            Ok(None) => {
                let is_lasting = self.privacy.schedule().on_absent(key, uptime_ms);
                if is_lasting {
                    requests.remove_open(key.id_hash).await?;
                }
            }
            Err(StoreError::Damaged(error)) => {
                let organization = key.tenant.organization_id;
                tracing::warn!(%organization, error, "a privacy request is damaged");
                self.privacy.schedule().on_damaged(key, uptime_ms);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Begins the requests that the schedule allows now.
    fn begin_open_requests(&self) {
        while let Some(key) = self.next_open_request() {
            let service = self.clone();
            actix_rt::spawn(async move { service.perform_open_request(key).await });
        }
    }

    fn next_open_request(&self) -> Option<OpenKey> {
        if self.is_draining() {
            return None;
        }
        let clock = &self.registry().ports().clock;
        let (now, uptime_ms) = (clock.now(), clock.uptime_ms());
        self.privacy.schedule().begin(now, uptime_ms)
    }

    async fn perform_open_request(self, key: OpenKey) {
        let performed = match self.generation(key.tenant) {
            Some(generation) => {
                let request = OwnedRequest {
                    service: &self,
                    key,
                    generation,
                };
                panic_as_error(request.perform()).await
            }
            None => Ok(Performed::Stopped),
        };
        let uptime_ms = self.registry().ports().clock.uptime_ms();
        match performed {
            Ok(Performed::Ended | Performed::Stopped) => self.privacy.schedule().end(&key),
            Ok(Performed::Waits(until)) => self.privacy.schedule().wait(&key, Some(until)),
            Ok(Performed::Yields) => self.privacy.schedule().wait(&key, None),
            Ok(Performed::Repeats) => self.privacy.schedule().fail(&key, uptime_ms),
            Err(error) => {
                let tenant = key.tenant;
                tracing::warn!(
                    organization = %tenant.organization_id,
                    env = tenant.env.as_str(),
                    error = error_text(&error),
                    "a step of a privacy request will be retried"
                );
                self.privacy.schedule().fail(&key, uptime_ms);
            }
        }
        self.begin_open_requests();
        // The loop computes again how long the next request waits.
        self.privacy.wake.notify_one();
    }

    /// Returns the generation in which this node acts for a tenant.
    pub(super) fn generation(&self, tenant: Tenant) -> Option<u64> {
        let ownership = &self.registry().ports().ownership;
        ownership.generation(tenant.organization_id.shard())
    }
}
