//! Renews one session: writes all its rows again with a full time to live.
//!
//! The session's own row decides whether a renewal is due, and is written last: a renewal that was
//! interrupted is repeated from its start. Rows are copied as they are, without decoding, so that a
//! row of an earlier version stays the same byte for byte.
//!
//! **A renewal loses to an erasure.** The deletes of an erasure carry a timestamp that lies a day
//! ahead, so that the copies that a renewal writes at the same time do not count. A renewal that
//! begins later finds no session. The session's state is written by a lightweight transaction,
//! which fails once the state is gone.
//!
//! **A renewal loses to every other write.** Most rows never change. A copy of a row that may
//! change or be deleted carries the timestamp of that row plus one microsecond: it replaces the row
//! that was read and nothing newer. Copies of the other rows have the present timestamp, because a
//! compaction by time windows keeps expired tables for as long as another table has older
//! timestamps.
//!
//! These rows are not renewed, because they are needed only until a session is scored, or for some
//! days after they were written: `snapshots`, `live_sessions`, `behind_sessions`, `outbox` and
//! `idempotency`.

use std::sync::Arc;

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};

use crate::cql::Inner;
use crate::cql::layout::slots::{
    AT_ONCE, DeliveryList, Direction, SLOT_MS, SlotOwner, slot_of, tenant_key,
};
use crate::cql::sessions::state::{LWT_ATTEMPTS_MAX, back_off};
use crate::cql::statements::db::{Lwt, decode};
use crate::cql::webhooks::relay::MessageHead;

impl Inner {
    /// Renews the rows of a session if at most half of the full time to live is left for its own
    /// row. Returns whether it renewed them.
    pub(super) async fn renew_session(self: Arc<Self>, session_id: SessionId) -> StoreResult<bool> {
        let statements = &self.db.statements;
        let key = session_id.to_bytes();
        let key = key.as_slice();
        let ttl: Option<(Option<i32>,)> = self.db.row(&statements.session_ttl, (key,)).await?;
        // A row without a time to live never expires.
        let Some((Some(left_sec),)) = ttl else {
            return Ok(false);
        };
        if left_sec > self.row_ttls.retained / 2 {
            return Ok(false);
        }
        let Some(record) = self.record(session_id).await? else {
            return Ok(false);
        };
        self.renew_journal(session_id).await?;
        self.renew_messages(session_id).await?;
        self.renew_partitions(key).await?;
        self.renew_in_lists(&record.start).await?;
        self.renew_state(session_id).await?;
        let (read, write) = (&statements.session_copy, &statements.session_put);
        self.copy_rows(read, write, (key,)).await?;
        Ok(true)
    }

    async fn renew_journal(&self, session_id: SessionId) -> StoreResult<()> {
        let key = session_id.to_bytes();
        let statements = &self.db.statements;
        for bucket in self.buckets(session_id, 0).await? {
            if bucket > 0 {
                self.put_slot(SlotOwner::Journal(session_id), i64::from(bucket))
                    .await?;
            }
            let (read, write) = (&statements.batches_copy, &statements.batch_put);
            self.copy_rows(read, write, (key.as_slice(), bucket))
                .await?;
        }
        Ok(())
    }

    async fn renew_messages(&self, session_id: SessionId) -> StoreResult<()> {
        let key = session_id.to_bytes();
        let (key, statements) = ((key.as_slice(),), &self.db.statements);
        let heads: Vec<(Vec<u8>,)> = self
            .db
            .rows(&statements.message_heads, key, usize::MAX)
            .await?;
        for (head,) in &heads {
            self.renew_message(&decode("messages", head)?).await?;
        }
        let (read, write) = (&statements.messages_copy, &statements.message_put);
        self.copy_rows(read, write, key).await
    }

    /// Renews the other rows of a message: those by its id, and its entries in lists.
    async fn renew_message(&self, head: &MessageHead) -> StoreResult<()> {
        let statements = &self.db.statements;
        let id = head.id.to_bytes();
        let by_id = [
            (&statements.message_id_copy, &statements.message_id_put),
            (&statements.attempts_copy, &statements.attempt_put),
        ];
        for (read, write) in by_id {
            self.copy_rows(read, write, (id.as_slice(),)).await?;
        }
        self.renew_listed(head, DeliveryList::All).await?;
        self.renew_listed(head, DeliveryList::Failed).await
    }

    /// Renews the entries of a message in one of the lists of deliveries, and the slots of the
    /// list.
    async fn renew_listed(&self, head: &MessageHead, list: DeliveryList) -> StoreResult<()> {
        let statements = &self.db.statements;
        let (tenant, id) = (tenant_key(head.tenant), head.id.to_bytes());
        let slot = slot_of(head.id.made_at(), SLOT_MS);
        let (shared, own) = list.slot_owners(head.tenant);
        let partitions = self
            .own_partitions(own, slot, slot, Direction::Ascending)
            .await?;
        let mut is_listed = list == DeliveryList::All;
        for key in partitions.iter().map(|own| own.key()).chain([slot]) {
            let row_key = (tenant.as_slice(), key, id.as_slice());
            match list {
                DeliveryList::Failed => {
                    let (read, write) = (&statements.failed_copy, &statements.failed_put);
                    is_listed |= self.copy_changing_rows(read, write, row_key).await?;
                }
                DeliveryList::All => {
                    let (read, write) = (&statements.delivery_copy, &statements.delivery_put);
                    self.copy_rows(read, write, row_key).await?;
                }
            }
        }
        if !is_listed {
            return Ok(());
        }
        self.put_slot(shared, slot).await?;
        for partition in partitions {
            self.put_slot(own, partition.slot()).await?;
        }
        Ok(())
    }

    /// Renews the partitions of a session that need nothing but its id, except for its own row.
    async fn renew_partitions(&self, key: &[u8]) -> StoreResult<()> {
        let statements = &self.db.statements;
        let fixed = [
            (&statements.notes_copy, &statements.note_put),
            (&statements.insights_copy, &statements.insight_put),
            (&statements.pods_copy, &statements.pod_put),
            (&statements.learned_by_copy, &statements.learned_by_put),
        ];
        for (read, write) in fixed {
            self.copy_rows(read, write, (key,)).await?;
        }
        let changing = [
            (&statements.cursors_copy, &statements.cursor_put),
            (&statements.review_copy, &statements.review_put),
        ];
        for (read, write) in changing {
            self.copy_changing_rows(read, write, (key,)).await?;
        }
        Ok(())
    }

    /// Writes the state of a session again, unless another process changes it at the same time:
    /// then the changed state is written again.
    async fn renew_state(&self, session_id: SessionId) -> StoreResult<()> {
        let key = session_id.to_bytes();
        let (key, statements) = (key.as_slice(), &self.db.statements);
        let _guard = self.caches.states.lock(&session_id).await;
        for _ in 0..LWT_ATTEMPTS_MAX {
            let row: Option<(Option<i64>, Option<Vec<u8>>)> =
                self.db.row(&statements.state_get, (key,)).await?;
            let Some((Some(version), Some(data))) = row else {
                return Ok(());
            };
            let values = (
                self.row_ttls.retained,
                version,
                data.as_slice(),
                key,
                version,
            );
            match self
                .db
                .lightweight(&statements.state_change, values)
                .await?
            {
                Lwt::Applied => return Ok(()),
                Lwt::Refused => back_off().await,
                Lwt::InDoubt(error) => return Err(error),
            }
        }
        Err(StoreError::Overloaded)
    }

    /// Writes rows that never change again. `read` returns the columns of `write` in their order.
    async fn copy_rows(
        &self,
        read: &PreparedStatement,
        write: &PreparedStatement,
        key: impl SerializeRow,
    ) -> StoreResult<()> {
        let rows = self.db.stream::<Row>(read, key).await?;
        // At most this many rows are in memory, in addition to a page of the driver.
        let mut rows = rows.try_chunks(AT_ONCE);
        while let Some(chunk) = rows.next().await {
            let chunk = chunk.map_err(|stopped| stopped.1)?;
            let writing = chunk.into_iter().map(|row| {
                let mut values = row.columns;
                values.push(Some(CqlValue::Int(self.row_ttls.retained)));
                self.db.write(write, values)
            });
            try_join_all(writing).await?;
        }
        Ok(())
    }

    /// Writes rows again that others may change or delete. `read` returns the columns of `write` in
    /// their order, and then the time of the write. Returns whether there are any rows.
    async fn copy_changing_rows(
        &self,
        read: &PreparedStatement,
        write: &PreparedStatement,
        key: impl SerializeRow,
    ) -> StoreResult<bool> {
        let rows: Vec<Row> = self.db.rows(read, key, usize::MAX).await?;
        let mut has_rows = false;
        for row in rows {
            let mut values = row.columns;
            // A row whose data has just expired has no time.
            let Some(Some(CqlValue::BigInt(written_at_us))) = values.pop() else {
                continue;
            };
            values.push(Some(CqlValue::Int(self.row_ttls.retained)));
            self.db.write_at(write, values, written_at_us + 1).await?;
            has_rows = true;
        }
        Ok(has_rows)
    }
}
