//! The list of deliveries, and requested retries.

mod listed;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_core::webhook::{AttemptResult, State};
use porchlight_ports::{
    DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus, Page, RetryOutcome, RetryRefusal,
    StoreResult,
};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::limits::DELIVERY_ATTEMPTS_READ_MAX;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::relay::MessageHead;
use crate::cql::Inner;
use crate::cql::layout::slots::{
    AT_ONCE, DeliveryList, Direction, OutboxKind, SLOT_MS, slot_of, tenant_key,
};
use crate::cql::statements::db::{decode, encode};
use crate::damage::{BODY, readable};

/// The maximum number of rows that one page examines.
const EXAMINED_ROWS_MAX: usize = 5_000;
/// The maximum number of slots that one page examines. Each slot needs at least one read, one after
/// the other, and a quiet tenant has few rows in many slots.
const EXAMINED_SLOTS_MAX: usize = 256;
/// Rows read in one step.
const STEP_ROWS: usize = 256;

/// Ids from the first (inclusive) to the second (exclusive).
type Ids = (MessageId, MessageId);

fn first_id() -> MessageId {
    MessageId::from_bytes([0; 16])
}

fn last_id() -> MessageId {
    MessageId::from_bytes([0xff; 16])
}

fn ids_in(filter: &DeliveryFilter) -> Ids {
    let at = |at: TimestampMs| MessageId::new(at, 0);
    (
        filter.from.map_or_else(first_id, at),
        filter.to.map_or_else(last_id, at),
    )
}

/// A scan of a list of deliveries.
struct DeliveryScan<'f> {
    tenant: Tenant,
    filter: &'f DeliveryFilter,
    current: Option<EndpointId>,
    ids: Ids,
    direction: Direction,
    examined_rows_max: usize,
    examined_slots_max: usize,
}

impl DeliveryScan<'_> {
    fn list(&self) -> DeliveryList {
        match self.filter.status {
            Some(DeliveryStatus::Failed) => DeliveryList::Failed,
            _ => DeliveryList::All,
        }
    }
}

impl Inner {
    /// Returns one of a tenant's messages with its current status.
    pub(in crate::cql) async fn delivery_row(
        &self,
        tenant: Tenant,
        id: MessageId,
    ) -> StoreResult<Option<DeliveryRow>> {
        let Some(head) = self.tenant_message_head(tenant, id).await? else {
            return Ok(None);
        };
        Ok(Some(
            self.cursor(tenant.organization_id.shard(), head.session_id)
                .await?
                .row(&head),
        ))
    }

    /// Reads a message without its body, of any tenant.
    pub(in crate::cql) async fn message_head(
        &self,
        id: MessageId,
    ) -> StoreResult<Option<MessageHead>> {
        let id = id.to_bytes();
        let statement = &self.db.statements.message_id_get;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (id.as_slice(),)).await?;
        row.map(|(data,)| decode("message_ids", &data)).transpose()
    }

    async fn tenant_message_head(
        &self,
        tenant: Tenant,
        id: MessageId,
    ) -> StoreResult<Option<MessageHead>> {
        let head = self.message_head(id).await?;
        Ok(head.filter(|head| head.tenant == tenant))
    }

    async fn current_endpoint_id(&self, tenant: Tenant) -> StoreResult<Option<EndpointId>> {
        Ok(self.endpoint(tenant).await?.map(|endpoint| endpoint.id))
    }

    /// Calls `take` with the rows that pass the filter until it returns `false` or the maximum
    /// number of rows or slots was examined. Returns the last examined id, or the edge of the last
    /// examined slot, if there may be more rows.
    async fn scan(
        &self,
        scan: &DeliveryScan<'_>,
        take: &mut (dyn FnMut(DeliveryRow) -> bool + Send),
    ) -> StoreResult<Option<MessageId>> {
        if let Some(session_id) = scan.filter.session_id {
            let mut rows = self.lane_of_tenant(scan.tenant, session_id).await?;
            if scan.direction == Direction::Descending {
                rows.reverse();
            }
            let (from, to) = scan.ids;
            rows.retain(|row| (from..to).contains(&row.queued.id));
            for row in rows {
                let id = row.queued.id;
                if scan.filter.matches(&row, scan.current) && !take(row) {
                    return Ok(Some(id));
                }
            }
            return Ok(None);
        }
        let shard = scan.tenant.organization_id.shard();
        let slots = self.scanned_slots(scan).await?;
        let mut examined_rows = 0;
        for (examined_slots, (slot, keys)) in slots.into_iter().enumerate() {
            if examined_slots >= scan.examined_slots_max {
                return Ok(Some(edge_before(slot, scan.direction)));
            }
            let mut ids = scan.ids;
            loop {
                let (heads, is_end) = self.merged_heads(scan, &keys, ids).await?;
                let reading = heads.iter().map(|(_, head)| self.listed_row(shard, *head));
                let reading: Vec<_> = reading.collect();
                let rows: Vec<_> = stream::iter(reading)
                    .buffered(AT_ONCE)
                    .try_collect()
                    .await?;
                for (&(id, _), row) in heads.iter().zip(rows) {
                    examined_rows += 1;
                    let is_taken = |row| !scan.filter.matches(&row, scan.current) || take(row);
                    if !row.is_none_or(is_taken) || examined_rows >= scan.examined_rows_max {
                        return Ok(Some(id));
                    }
                }
                match heads.last() {
                    Some(&(id, _)) if !is_end => match scan.direction {
                        Direction::Ascending => ids.0 = next_id(id),
                        Direction::Descending => ids.1 = id,
                    },
                    _ => break,
                }
            }
        }
        Ok(None)
    }

    async fn lane_of_tenant(
        &self,
        tenant: Tenant,
        session_id: SessionId,
    ) -> StoreResult<Vec<DeliveryRow>> {
        let record = self.record(session_id).await?;
        match record.filter(|record| record.start.tenant == tenant) {
            Some(_) => {
                let mut rows = self
                    .lane_rows(tenant.organization_id.shard(), session_id)
                    .await?;
                rows.sort_by_key(|row| row.queued.id);
                Ok(rows)
            }
            None => Ok(Vec::new()),
        }
    }

    /// Returns the slots that a scan examines and the one after them, in its order, each with the
    /// keys of its partitions.
    async fn scanned_slots(&self, scan: &DeliveryScan<'_>) -> StoreResult<Vec<(i64, Vec<i64>)>> {
        let (shared, own) = scan.list().slot_owners(scan.tenant);
        let slot = |id: MessageId| slot_of(id.made_at(), SLOT_MS);
        let (from, to) = scan.ids;
        let mut slots = self
            .slots(shared, slot(from), slot(to), scan.direction)
            .await?;
        slots.truncate(scan.examined_slots_max.saturating_add(1));
        let keys = self.keys_of_periods(own, slots.clone()).await?;
        Ok(slots.into_iter().zip(keys).collect())
    }

    /// Returns the keys of all partitions that may have a message in one of the lists.
    pub(in crate::cql) async fn delivery_keys(
        &self,
        tenant: Tenant,
        id: MessageId,
        list: DeliveryList,
    ) -> StoreResult<Vec<i64>> {
        let (_, own) = list.slot_owners(tenant);
        let slot = slot_of(id.made_at(), SLOT_MS);
        let keys = self.keys_of_periods(own, vec![slot]).await?;
        Ok(keys.concat())
    }

    /// Chooses and lists the partition for a message in one of the lists, and returns its key.
    pub(super) async fn delivery_key(
        &self,
        tenant: Tenant,
        id: MessageId,
        list: DeliveryList,
    ) -> StoreResult<i64> {
        let slot = slot_of(id.made_at(), SLOT_MS);
        self.key_for_row(list.slot_owners(tenant), slot, id.made_at())
            .await
    }

    pub(in crate::cql) async fn deliveries(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: usize,
        after: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>> {
        let (from, to) = ids_in(filter);
        let scan = DeliveryScan {
            tenant,
            filter,
            current: self.current_endpoint_id(tenant).await?,
            ids: (from, after.map_or(to, |after| to.min(after))),
            direction: Direction::Descending,
            examined_rows_max: EXAMINED_ROWS_MAX,
            examined_slots_max: EXAMINED_SLOTS_MAX,
        };
        let mut rows = Vec::new();
        // One row more than requested shows whether there is a next page.
        let mut take = |row| {
            rows.push(row);
            rows.len() <= limit
        };
        let stopped = self.scan(&scan, &mut take).await?;
        let next = if rows.len() > limit {
            rows.truncate(limit);
            rows.last().map(|row: &DeliveryRow| row.queued.id)
        } else {
            stopped
        };
        Ok(Page { rows, next })
    }

    pub(in crate::cql) async fn delivery(
        &self,
        tenant: Tenant,
        id: MessageId,
    ) -> StoreResult<Option<DeliveryDetail>> {
        let Some(row) = self.delivery_row(tenant, id).await? else {
            return Ok(None);
        };
        let (session_id, number) = (row.queued.session_id, row.queued.number);
        // A message that was written for a failed start does not count.
        if self.record(session_id).await?.is_none() {
            return Ok(None);
        }
        let body = readable(self.message_at(session_id, number).await, session_id, BODY)?;
        let current = self.current_endpoint_id(tenant).await?;
        let id = id.to_bytes();
        let statement = &self.db.statements.attempts_get;
        let attempts: Vec<(i32, Vec<u8>)> = self
            .db
            .rows(statement, (id.as_slice(),), DELIVERY_ATTEMPTS_READ_MAX)
            .await?;
        let attempts = attempts.iter().map(|(attempt, data)| {
            let report: AttemptResult = decode("attempts", data)?;
            Ok((attempt.unsigned_abs(), report))
        });
        let attempts = attempts.collect::<StoreResult<_>>()?;
        Ok(Some(DeliveryDetail {
            status: row.status(current),
            row,
            body: body.map(|(_, body)| body),
            attempts,
        }))
    }

    pub(super) async fn request_retry(
        &self,
        tenant: Tenant,
        id: MessageId,
        at: TimestampMs,
    ) -> StoreResult<RetryOutcome> {
        let Some(row) = self.delivery_row(tenant, id).await? else {
            return Ok(RetryOutcome::Unknown);
        };
        let current = self.current_endpoint_id(tenant).await?;
        if let Some(refusal) = row.retry_refusal(current) {
            return Ok(RetryOutcome::Refused(refusal));
        }
        let Some(endpoint_id) = current else {
            return Ok(RetryOutcome::Refused(RetryRefusal::NoWebhook));
        };
        self.queue_retry(tenant, endpoint_id, &row, at).await?;
        Ok(RetryOutcome::Requested)
    }

    async fn queue_retry(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        row: &DeliveryRow,
        at: TimestampMs,
    ) -> StoreResult<()> {
        let queued = &row.queued;
        // A request is dated later than completed requests, even if the clock was set back.
        let shard = tenant.organization_id.shard();
        let cursor = self.cursor(shard, queued.session_id).await?;
        let done_up_to = cursor.manual_done_up_to(queued.id);
        let at = done_up_to.map_or(at, |up_to| at.max(up_to.plus_ms(1)));
        let again = queued.state == State::Delivered;
        let data = (queued.session_id, queued.number, again);
        self.put_outbox(endpoint_id, OutboxKind::Manual, at, queued.id, &data)
            .await
    }

    /// Returns the first `limit` messages after `after` that match the filter and may be retried,
    /// oldest first.
    pub(super) async fn retryable(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: usize,
        after: Option<MessageId>,
    ) -> StoreResult<Vec<DeliveryRow>> {
        let mut chosen: Vec<DeliveryRow> = Vec::new();
        let current = self.current_endpoint_id(tenant).await?;
        if current.is_none() {
            return Ok(chosen);
        }
        let (from, to) = ids_in(filter);
        let scan = DeliveryScan {
            tenant,
            filter,
            current,
            ids: (after.map_or(from, |id| from.max(next_id(id))), to),
            direction: Direction::Ascending,
            examined_rows_max: usize::MAX,
            examined_slots_max: usize::MAX,
        };
        let mut take = |row: DeliveryRow| {
            if row.retry_refusal(current).is_none() {
                chosen.push(row);
            }
            chosen.len() < limit
        };
        self.scan(&scan, &mut take).await?;
        Ok(chosen)
    }

    /// Requests retries of these messages. Returns their number.
    pub(super) async fn request_retries(
        &self,
        tenant: Tenant,
        chosen: &[DeliveryRow],
        at: TimestampMs,
    ) -> StoreResult<usize> {
        let Some(endpoint_id) = self.current_endpoint_id(tenant).await? else {
            return Ok(0);
        };
        let requesting: Vec<_> = chosen
            .iter()
            .map(|row| self.queue_retry(tenant, endpoint_id, row, at))
            .collect();
        let requesting = stream::iter(requesting).buffer_unordered(AT_ONCE);
        requesting.try_collect::<Vec<()>>().await?;
        Ok(chosen.len())
    }

    // --- Failed messages -----------------------------------------------------------------------

    pub(in crate::cql) async fn list_failed(
        &self,
        tenant: Tenant,
        id: MessageId,
    ) -> StoreResult<()> {
        let Some(head) = self.tenant_message_head(tenant, id).await? else {
            return Ok(());
        };
        let key = self.delivery_key(tenant, id, DeliveryList::Failed).await?;
        let (tenant, id, data) = (tenant_key(tenant), id.to_bytes(), encode(&head)?);
        let ttl = self.row_ttls.retained;
        let values = (tenant.as_slice(), key, id.as_slice(), data.as_slice(), ttl);
        self.db.write(&self.db.statements.failed_put, values).await
    }

    pub(in crate::cql) async fn unlist_failed(
        &self,
        tenant: Tenant,
        id: MessageId,
    ) -> StoreResult<()> {
        let keys = self.delivery_keys(tenant, id, DeliveryList::Failed).await?;
        let (tenant, id) = (tenant_key(tenant), id.to_bytes());
        let statement = &self.db.statements.failed_delete;
        let deletes = keys.into_iter().map(|key| {
            let values = (tenant.as_slice(), key, id.as_slice());
            self.db.write(statement, values)
        });
        try_join_all(deletes).await.map(drop)
    }

    /// Returns the number of failed messages, up to `limit`.
    pub(super) async fn failed_count(&self, tenant: Tenant, limit: usize) -> StoreResult<u64> {
        let filter = DeliveryFilter {
            status: Some(DeliveryStatus::Failed),
            ..DeliveryFilter::default()
        };
        let scan = DeliveryScan {
            tenant,
            filter: &filter,
            current: None,
            ids: (first_id(), last_id()),
            direction: Direction::Descending,
            examined_rows_max: limit,
            examined_slots_max: usize::MAX,
        };
        let mut count = 0;
        let (shared, own) = DeliveryList::Failed.slot_owners(tenant);
        let slots = self
            .slots(shared, 0, i64::MAX, Direction::Descending)
            .await?;
        for keys in self.keys_of_periods(own, slots).await? {
            let mut ids = scan.ids;
            loop {
                let (heads, is_end) = self.merged_heads(&scan, &keys, ids).await?;
                count += heads.len();
                match heads.last() {
                    Some(&(id, _)) if !is_end && count < limit => ids.1 = id,
                    _ => break,
                }
            }
            if count >= limit {
                break;
            }
        }
        Ok(count.min(limit) as u64)
    }
}

/// Returns the id after which a scan continues with this slot.
fn edge_before(slot: i64, direction: Direction) -> MessageId {
    let starting_at = |slot: i64| MessageId::new(TimestampMs(slot.saturating_mul(SLOT_MS)), 0);
    match direction {
        Direction::Ascending => previous_id(starting_at(slot)),
        Direction::Descending => starting_at(slot.saturating_add(1)),
    }
}

/// Returns the id before this one.
fn previous_id(id: MessageId) -> MessageId {
    let number = u128::from_be_bytes(id.to_bytes());
    MessageId::from_bytes(number.saturating_sub(1).to_be_bytes())
}

/// Returns the id after this one.
fn next_id(id: MessageId) -> MessageId {
    MessageId::from_bytes(
        u128::from_be_bytes(id.to_bytes())
            .saturating_add(1)
            .to_be_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_continues_with_all_ids_of_the_next_slot_and_none_of_the_one_before() {
        let slot_7 = TimestampMs(7 * SLOT_MS);
        let (first, last) = (slot_7, slot_7.plus_ms(SLOT_MS - 1));
        // The next page has the ids before the edge.
        let edge = edge_before(7, Direction::Descending);
        assert!(MessageId::new(last, u128::MAX) < edge);
        assert!(MessageId::new(last.plus_ms(1), 0) >= edge);
        // The next page has the ids after the edge.
        let edge = edge_before(7, Direction::Ascending);
        assert!(MessageId::new(first, 0) > edge);
        assert!(MessageId::new(first.plus_ms(-1), u128::MAX) <= edge);
    }
}
