//! The port [`Outbox`] over the tables of one machine.

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_core::webhook::{Change, Lane, Listing, ManualRetry, Queued};
use porchlight_ports::{
    DeliveryDetail, DeliveryFilter, DeliveryRow, Depth, Endpoint, Outbox, Page, RetryOutcome,
    StoreResult, Work,
};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, ShardSet};
use porchlight_schema::limits::SWEEP_STEP_ROWS_MAX;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::{Durability, Engine};
use crate::tables::{deliveries, endpoints, outbox};
use crate::txn::Read;

/// Approximate size of an attempt's result in a group, in bytes.
const CHANGE_BYTES: usize = 1024;
/// The maximum number of rows of a listing that runs on the caller's thread. A larger listing runs
/// on a blocking thread.
const ROWS_HERE_MAX: usize = 1_024;

#[async_trait]
impl<E: Engine> Outbox for LocalStore<E> {
    async fn endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>> {
        self.read_inline(|read| endpoints::find(read, tenant))
    }

    async fn create_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool> {
        self.committer
            .write_for_client(move |txn| endpoints::create(txn, &endpoint))
            .await
    }

    async fn replace_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool> {
        self.committer
            .write(move |txn| endpoints::replace(txn, &endpoint))
            .await
    }

    async fn delete_endpoint(&self, tenant: Tenant) -> StoreResult<bool> {
        self.committer
            .write(move |txn| endpoints::delete(txn, tenant))
            .await
    }

    async fn endpoints(&self) -> StoreResult<Vec<Endpoint>> {
        self.read_rows(endpoints::all).await
    }

    async fn listing(
        &self,
        _tenant: Tenant,
        endpoint_id: EndpointId,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        manual: usize,
    ) -> StoreResult<Listing> {
        let limit = |part: Option<(TimestampMs, usize)>| part.map_or(0, |(_, limit)| limit);
        // A complete listing reads from the beginning and may pass many deleted rows.
        let from_the_beginning = due.is_some();
        let list =
            move |read: &dyn Read| outbox::listing(read, endpoint_id, ready, due, held, manual);
        if from_the_beginning || limit(ready) + limit(held) + manual > ROWS_HERE_MAX {
            return self.read_rows(list).await;
        }
        self.read_inline(list)
    }

    async fn lane(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        manual: Option<ManualRetry>,
    ) -> StoreResult<Lane> {
        self.read_inline(|read| outbox::lane(read, tenant, endpoint_id, session_id, manual))
    }

    async fn body(&self, session_id: SessionId, number: u32) -> StoreResult<Option<Arc<str>>> {
        self.read_inline(|read| outbox::body(read, session_id, number))
    }

    async fn commit(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        change: Change,
    ) -> StoreResult<Vec<Queued>> {
        self.committer
            .run(CHANGE_BYTES, Durability::Synced, move |txn| {
                outbox::commit(txn, tenant, endpoint_id, session_id, change)
            })
            .await
    }

    async fn deliveries(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: u32,
        after: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>> {
        let filter = filter.clone();
        self.read_rows(move |read| deliveries::list(read, tenant, &filter, limit, after))
            .await
    }

    async fn delivery(&self, tenant: Tenant, id: MessageId) -> StoreResult<Option<DeliveryDetail>> {
        self.read_rows(move |read| deliveries::find(read, tenant, id))
            .await
    }

    async fn request_retry(
        &self,
        tenant: Tenant,
        id: MessageId,
        at: TimestampMs,
    ) -> StoreResult<RetryOutcome> {
        self.committer
            .write_for_client(move |txn| deliveries::request_retry(txn, tenant, id, at))
            .await
    }

    async fn retryable(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: usize,
        after: Option<MessageId>,
    ) -> StoreResult<Vec<DeliveryRow>> {
        let (mut chosen, mut after) = (Vec::new(), after);
        // When the caller stops waiting, the read ends with the present page.
        loop {
            let (filter, wanted) = (filter.clone(), limit - chosen.len());
            let page = self
                .read_rows(move |read| deliveries::retryable(read, tenant, &filter, wanted, after))
                .await?;
            chosen.extend(page.rows);
            after = page.next;
            if after.is_none() || chosen.len() >= limit {
                return Ok(chosen);
            }
        }
    }

    async fn request_retries(
        &self,
        tenant: Tenant,
        chosen: Vec<DeliveryRow>,
        at: TimestampMs,
    ) -> StoreResult<usize> {
        self.committer
            .write_for_client(move |txn| deliveries::request_retries(txn, tenant, &chosen, at))
            .await
    }

    async fn depth(&self, now: TimestampMs) -> StoreResult<Depth> {
        self.read_rows(move |read| outbox::depth(read, now)).await
    }

    async fn work(&self, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>> {
        self.read_rows(move |read| outbox::work(read, shards, until))
            .await
    }
}

impl<E: Engine> LocalStore<E> {
    /// Sweeps the outboxes of deleted endpoints in small steps, between which other writes run.
    /// Returns the number of outboxes.
    pub async fn sweep_outboxes(&self) -> StoreResult<u64> {
        let mut swept = 0;
        loop {
            let more = self
                .committer
                .write(|txn| match endpoints::first_deleted(txn.as_read())? {
                    Some(gone) => outbox::sweep(txn, gone, SWEEP_STEP_ROWS_MAX).map(Some),
                    None => Ok(None),
                })
                .await?;
            match more {
                Some(true) => {}
                Some(false) => swept += 1,
                None => return Ok(swept),
            }
        }
    }
}
