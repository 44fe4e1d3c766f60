//! Passes the calls for personal data to the real store. The simulation makes no such calls.

use async_trait::async_trait;
use porchlight_ports::{Erasure, RecorderPage, Removed, SessionRows, StoreResult};
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::FaultyStore;

#[async_trait]
impl Erasure for FaultyStore {
    async fn session_rows(&self, id: SessionId) -> StoreResult<SessionRows> {
        self.real.session_rows(id).await
    }

    async fn start_of(&self, id: SessionId) -> StoreResult<Option<SessionStart>> {
        self.real.start_of(id).await
    }

    async fn damaged_sessions(
        &self,
        tenant: Tenant,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<Vec<SessionId>> {
        self.real.damaged_sessions(tenant, subject, until).await
    }

    async fn erase_session(&self, id: SessionId) -> StoreResult<()> {
        self.real.erase_session(id).await
    }

    async fn remove_telemetry(&self, id: SessionId) -> StoreResult<()> {
        self.real.remove_telemetry(id).await
    }

    async fn remove_messages(&self, id: SessionId) -> StoreResult<()> {
        self.real.remove_messages(id).await
    }

    async fn learned_by(&self, id: SessionId) -> StoreResult<Vec<[u8; 32]>> {
        self.real.learned_by(id).await
    }

    async fn replace_learned(
        &self,
        key: [u8; 32],
        expected: Vec<u8>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        self.real.replace_learned(key, expected, data).await
    }

    async fn recorders(
        &self,
        after: Option<RecorderId>,
        limit: usize,
    ) -> StoreResult<RecorderPage> {
        self.real.recorders(after, limit).await
    }

    async fn erase_idempotency_keys(
        &self,
        tenant: Tenant,
        until: TimestampMs,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Removed<Vec<u8>>> {
        let real = &self.real;
        real.erase_idempotency_keys(tenant, until, after, limit)
            .await
    }

    fn rows_expire(&self) -> bool {
        self.real.rows_expire()
    }

    async fn renew_session(&self, id: SessionId) -> StoreResult<bool> {
        self.real.renew_session(id).await
    }

    async fn requeue(&self, id: SessionId) -> StoreResult<()> {
        self.real.requeue(id).await
    }

    async fn purge(&self) -> StoreResult<()> {
        self.real.purge().await
    }
}
