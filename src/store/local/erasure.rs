//! The port [`Erasure`] over the tables of one machine.

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_core::disk_space::SpaceLevel;
use porchlight_ports::{Erasure, RecorderPage, Removed, SessionRows, StoreError, StoreResult};
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::limits::SWEEP_STEP_ROWS_MAX;
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::Engine;
use crate::quarantine;
use crate::tables::erasure::Part;
use crate::tables::{damaged, erasure, insights, recorders, retention, sessions};
use crate::txn::Txn;

#[async_trait]
impl<E: Engine> Erasure for LocalStore<E> {
    async fn session_rows(&self, session_id: SessionId) -> StoreResult<SessionRows> {
        self.read_rows(move |read| erasure::rows(read, session_id))
            .await
    }

    async fn data_key(&self, session_id: SessionId) -> StoreResult<Option<u64>> {
        self.committer.check_open()?;
        Ok(self.engine.data_key(session_id.to_bytes())?)
    }

    async fn start_of(&self, session_id: SessionId) -> StoreResult<Option<SessionStart>> {
        self.read_rows(move |read| sessions::start_of(read, session_id))
            .await
    }

    async fn damaged_sessions(
        &self,
        tenant: Tenant,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<Vec<SessionId>> {
        let subject = subject.clone();
        self.read_rows(move |read| damaged::sessions_of(read, tenant, &subject, until))
            .await
    }

    async fn erase_session(&self, session_id: SessionId) -> StoreResult<()> {
        let is_damaged = self.read_inline(|read| damaged::is_damaged(read, session_id))?;
        let listed: Arc<[Vec<u8>]> = if is_damaged {
            let listed = self.read_rows(move |read| damaged::listed_keys(read, session_id));
            listed.await?.into()
        } else {
            Arc::default()
        };
        for part in Part::ALL {
            loop {
                let listed = Arc::clone(&listed);
                let step = move |txn: &mut Txn<'_>| {
                    erasure::step(txn, session_id, part, SWEEP_STEP_ROWS_MAX, &listed)
                };
                if !self.committer.write_unsynced(step).await? {
                    break;
                }
            }
        }
        if let Some(folder) = self.folder.clone() {
            let remove = move || quarantine::remove(&folder, session_id);
            tokio::task::spawn_blocking(remove)
                .await
                .map_err(StoreError::unavailable)?
                .map_err(StoreError::unavailable)?;
        }
        Ok(())
    }

    async fn remove_telemetry(&self, session_id: SessionId) -> StoreResult<()> {
        let step = move |txn: &mut Txn<'_>| {
            retention::remove_telemetry(txn, session_id, SWEEP_STEP_ROWS_MAX)
        };
        while self.committer.write(step).await? {}
        Ok(())
    }

    async fn remove_messages(&self, session_id: SessionId) -> StoreResult<()> {
        self.committer
            .write(move |txn| retention::remove_messages(txn, session_id))
            .await
    }

    async fn learned_by(&self, session_id: SessionId) -> StoreResult<Vec<[u8; 32]>> {
        self.read_inline(|read| insights::learned_by(read, session_id))
    }

    async fn replace_learned(
        &self,
        key: [u8; 32],
        expected: Vec<u8>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        self.committer
            .write_unsynced(move |txn| insights::replace_learned(txn, &key, &expected, data))
            .await
    }

    async fn recorders(
        &self,
        after: Option<RecorderId>,
        limit: usize,
    ) -> StoreResult<RecorderPage> {
        self.read_rows(move |read| recorders::page(read, after, limit))
            .await
    }

    async fn erase_idempotency_keys(
        &self,
        tenant: Tenant,
        until: TimestampMs,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Removed<Vec<u8>>> {
        self.committer
            .write(move |txn| erasure::idempotency_keys(txn, tenant, until, after, limit))
            .await
    }

    async fn purge(&self) -> StoreResult<()> {
        self.committer.check_open()?;
        // A purge may write a few rows. The files are rewritten before the old ones are removed.
        let has_space = match self.committer.space() {
            SpaceLevel::Plenty => true,
            SpaceLevel::Low => !self.engine.rewrites_in_purge(),
            SpaceLevel::Exhausted => false,
        };
        if !has_space {
            return Err(StoreError::Full);
        }
        let engine = Arc::clone(&self.engine);
        tokio::task::spawn_blocking(move || engine.purge())
            .await
            .map_err(StoreError::unavailable)??;
        Ok(())
    }
}
