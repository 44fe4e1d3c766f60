//! Reads the rows of a list of deliveries. A damaged row hides no other message.

use std::cmp::Reverse;

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{DeliveryRow, StoreResult};
use porchlight_schema::ids::{MessageId, Shard};

use super::{DeliveryScan, Ids, STEP_ROWS};
use crate::cql::Inner;
use crate::cql::layout::bounded::merge;
use crate::cql::layout::slots::{AT_ONCE, DeliveryList, Direction, tenant_key};
use crate::cql::statements::db::{decode, id_bytes};
use crate::cql::webhooks::outbox::CURSOR;
use crate::cql::webhooks::relay::MessageHead;
use crate::damage::{readable, skipped};

/// The name of a damaged row in the log.
const MESSAGE: &str = "a listed message";

/// A message in a list of deliveries, by its id; `None` if it is damaged.
pub(super) type Listed = (MessageId, Option<MessageHead>);

impl Inner {
    /// Returns the first messages in a slot's partitions, in the order of the scan, and whether
    /// these are all.
    pub(super) async fn merged_heads(
        &self,
        scan: &DeliveryScan<'_>,
        keys: &[i64],
        ids: Ids,
    ) -> StoreResult<(Vec<Listed>, bool)> {
        let reads: Vec<_> = keys
            .iter()
            .map(|&key| self.partition_heads(scan, key, ids))
            .collect();
        let reads = stream::iter(reads).buffered(AT_ONCE);
        let reads: Vec<Vec<Listed>> = reads.try_collect().await?;
        Ok(match scan.direction {
            Direction::Ascending => merge(reads, STEP_ROWS, |(id, _)| *id),
            Direction::Descending => merge(reads, STEP_ROWS, |(id, _)| Reverse(*id)),
        })
    }

    async fn partition_heads(
        &self,
        scan: &DeliveryScan<'_>,
        key: i64,
        ids: Ids,
    ) -> StoreResult<Vec<Listed>> {
        let statements = &self.db.statements;
        let statement = match (scan.list(), scan.direction) {
            (DeliveryList::All, Direction::Ascending) => &statements.deliveries_up,
            (DeliveryList::All, Direction::Descending) => &statements.deliveries_down,
            (DeliveryList::Failed, Direction::Ascending) => &statements.failed_up,
            (DeliveryList::Failed, Direction::Descending) => &statements.failed_down,
        };
        let tenant = tenant_key(scan.tenant);
        let (from, to) = (ids.0.to_bytes(), ids.1.to_bytes());
        let values = (tenant.as_slice(), key, from.as_slice(), to.as_slice());
        let rows: Vec<(Vec<u8>, Vec<u8>)> = self.db.rows(statement, values, STEP_ROWS).await?;
        let mut heads = Vec::with_capacity(rows.len());
        for (id, data) in rows {
            let id = MessageId::from_bytes(id_bytes("deliveries", &id)?);
            let head = match skipped(decode("deliveries", &data).map(Some), MESSAGE)? {
                Some(head) => Some(head),
                // The message's own row repeats the damaged entry.
                None => skipped(self.message_head(id).await, MESSAGE)?,
            };
            heads.push((id, head));
        }
        Ok(heads)
    }

    /// Returns a listed message in its present state; `None` if its session's cursor is damaged.
    pub(super) async fn listed_row(
        &self,
        shard: Shard,
        head: Option<MessageHead>,
    ) -> StoreResult<Option<DeliveryRow>> {
        let Some(head) = head else {
            return Ok(None);
        };
        let cursor = self.cursor(shard, head.session_id).await.map(Some);
        let cursor = readable(cursor, head.session_id, CURSOR)?;
        Ok(cursor.map(|cursor| cursor.row(&head)))
    }
}
