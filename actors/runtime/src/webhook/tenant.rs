//! The deliveries of one tenant. All customer lookups and retries go through here, so that no
//! customer reaches the deliveries of another.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use porchlight_core::webhook::Queued;
use porchlight_ports::{
    BulkRetry, DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus, Endpoint, Page,
    RetryOutcome, RetryRefusal, StoreResult,
};
use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::{PAGE_ROWS_MAX, RETRY_BY_FILTER_MAX};
use porchlight_schema::session::Tenant;

use super::Webhooks;
use super::request::sent_body;

/// The minimum number of rows that a bulk retry reads in one query. With fewer, hidden rows would
/// be read one by one.
const RETRYABLE_ROWS_MIN: usize = 1_000;

/// Replaces the stored body of a delivery by the body that is sent.
fn show_sent_body(detail: &mut DeliveryDetail) {
    let event = detail.row.queued.event;
    detail.body = detail.body.take().map(|stored| sent_body(event, stored));
}

/// The webhooks of one tenant, created by [`Webhooks::of`].
#[derive(Debug, Clone, Copy)]
pub struct TenantWebhooks<'w> {
    webhooks: &'w Webhooks,
    tenant: Tenant,
}

impl Webhooks {
    /// Returns the webhooks of this tenant.
    #[must_use]
    pub fn of(&self, tenant: Tenant) -> TenantWebhooks<'_> {
        TenantWebhooks {
            webhooks: self,
            tenant,
        }
    }
}

impl TenantWebhooks<'_> {
    /// Returns whether the session of a delivery is restricted or being erased.
    async fn hides(&self, session_id: SessionId) -> bool {
        self.webhooks.inner.hides(self.tenant, session_id).await
    }

    fn outbox(&self) -> &dyn porchlight_ports::Outbox {
        self.webhooks.inner.outbox.as_ref()
    }

    /// Returns the tenant's endpoint, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn endpoint(&self) -> StoreResult<Option<Endpoint>> {
        self.outbox().endpoint(self.tenant).await
    }

    /// Returns the deliveries that pass the filter, newest first; see
    /// [`porchlight_ports::Outbox::deliveries`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn deliveries(
        &self,
        filter: &DeliveryFilter,
        limit: u32,
        after: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>> {
        let outbox = self.outbox();
        let mut page = outbox.deliveries(self.tenant, filter, limit, after).await?;
        let mut shown = Vec::with_capacity(page.rows.len());
        for row in page.rows {
            if !self.hides(row.queued.session_id).await {
                shown.push(row);
            }
        }
        page.rows = shown;
        Ok(page)
    }

    /// Returns one delivery, or `None` if this tenant has no delivery with that id.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn delivery(&self, id: MessageId) -> StoreResult<Option<DeliveryDetail>> {
        let Some(detail) = self.delivery_to_access(id).await? else {
            return Ok(None);
        };
        let is_hidden = self.hides(detail.row.queued.session_id).await;
        Ok((!is_hidden).then_some(detail))
    }

    /// Returns all deliveries of a session, newest first. They are read for an access request, so
    /// restricted sessions are included.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn deliveries_to_access(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Vec<DeliveryRow>> {
        let filter = DeliveryFilter {
            session_id: Some(session_id),
            ..DeliveryFilter::default()
        };
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let page = self
                .outbox()
                .deliveries(self.tenant, &filter, PAGE_ROWS_MAX, after)
                .await?;
            rows.extend(page.rows);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(rows),
            }
        }
    }

    /// Returns a delivery with its body and attempts, even if its session is restricted: it is read
    /// for an access request.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn delivery_to_access(&self, id: MessageId) -> StoreResult<Option<DeliveryDetail>> {
        let mut detail = self.outbox().delivery(self.tenant, id).await?;
        if let Some(detail) = &mut detail {
            show_sent_body(detail);
        }
        Ok(detail)
    }

    /// Returns whether this tenant has a delivery with that id, shown or not.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn has_delivery(&self, id: MessageId) -> StoreResult<bool> {
        let detail = self.outbox().delivery(self.tenant, id).await?;
        Ok(detail.is_some())
    }

    /// Requests one more attempt of a delivery and wakes the tenant's actor.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn retry(&self, id: MessageId) -> StoreResult<RetryOutcome> {
        if let Some(message) = self.outbox().delivery(self.tenant, id).await? {
            if self.hides(message.row.queued.session_id).await {
                return Ok(RetryOutcome::Restricted);
            }
            if message.body.is_none() {
                return Ok(RetryOutcome::Refused(RetryRefusal::BodyLost));
            }
        }
        let now = self.webhooks.now();
        let outcome = self.outbox().request_retry(self.tenant, id, now).await?;
        if outcome == RetryOutcome::Requested {
            self.webhooks.wake(self.tenant);
        }
        Ok(outcome)
    }

    /// Returns the number of deliveries that [`retry_all`](Self::retry_all) would retry.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn count_retryable(&self, filter: &DeliveryFilter) -> StoreResult<BulkRetry> {
        let (chosen, is_truncated) = self.retryable(filter).await?;
        Ok(BulkRetry {
            count: chosen.len(),
            is_truncated,
        })
    }

    /// Requests one more attempt of all deliveries that pass the filter and that are shown, and
    /// wakes the tenant's actor.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn retry_all(&self, filter: &DeliveryFilter) -> StoreResult<BulkRetry> {
        let (chosen, is_truncated) = self.retryable(filter).await?;
        let mut asked = BulkRetry {
            count: chosen.len(),
            is_truncated,
        };
        if !chosen.is_empty() {
            let now = self.webhooks.now();
            let requested = self.outbox().request_retries(self.tenant, chosen, now);
            asked.count = requested.await?;
            self.webhooks.wake(self.tenant);
        }
        Ok(asked)
    }

    /// Returns the deliveries that a bulk retry selects, oldest first and without those of hidden
    /// sessions, and whether it leaves out others because there are too many.
    async fn retryable(&self, filter: &DeliveryFilter) -> StoreResult<(Vec<DeliveryRow>, bool)> {
        let (mut chosen, mut after, mut is_end) = (Vec::new(), None, false);
        // A store would examine all deliveries to find none that may be retried.
        if filter.status == Some(DeliveryStatus::Superseded) {
            return Ok((chosen, false));
        }
        while !is_end && chosen.len() <= RETRY_BY_FILTER_MAX {
            // One row more than the selection holds shows whether there are others.
            let wanted = RETRY_BY_FILTER_MAX + 1 - chosen.len();
            let limit = wanted.max(RETRYABLE_ROWS_MIN);
            let outbox = self.outbox();
            let rows = outbox.retryable(self.tenant, filter, limit, after).await?;
            is_end = rows.len() < limit;
            after = rows.last().map(|row| row.queued.id);
            let mut hidden: BTreeMap<SessionId, bool> = BTreeMap::new();
            for row in rows {
                let is_hidden = match hidden.entry(row.queued.session_id) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(place) => *place.insert(self.hides(row.queued.session_id).await),
                };
                if !is_hidden {
                    chosen.push(row);
                }
            }
        }
        let is_truncated = chosen.len() > RETRY_BY_FILTER_MAX;
        chosen.truncate(RETRY_BY_FILTER_MAX);
        Ok((chosen, is_truncated))
    }

    /// Returns, for each of these rows, the message directly before it in its session, if the row
    /// waits behind one. `current` is the tenant's endpoint.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn before(
        &self,
        current: Option<&Endpoint>,
        rows: &[DeliveryRow],
    ) -> StoreResult<Vec<Option<Queued>>> {
        let mut lanes: BTreeMap<SessionId, Vec<Queued>> = BTreeMap::new();
        let mut before = Vec::with_capacity(rows.len());
        for row in rows {
            let session_id = row.queued.session_id;
            let Some(endpoint) =
                current.filter(|current| row.queued.is_waiting() && row.endpoint_id == current.id)
            else {
                before.push(None);
                continue;
            };
            let lane = match lanes.entry(session_id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let outbox = self.outbox();
                    let lane = outbox.lane(self.tenant, endpoint.id, session_id, None);
                    place.insert(lane.await?.waiting)
                }
            };
            let earlier = lane.iter().filter(|one| one.number < row.queued.number);
            before.push(earlier.max_by_key(|one| one.number).copied());
        }
        Ok(before)
    }

    /// Returns the number of requested attempts that have not been made yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn retries_waiting(&self) -> StoreResult<usize> {
        let Some(endpoint) = self.endpoint().await? else {
            return Ok(0);
        };
        let outbox = self.outbox();
        let listing = outbox.listing(
            self.tenant,
            endpoint.id,
            None,
            None,
            None,
            RETRY_BY_FILTER_MAX,
        );
        Ok(listing.await?.manual.len())
    }
}
