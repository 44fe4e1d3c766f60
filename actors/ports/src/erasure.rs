//! Permanently removes personal data, and keeps data that must not be removed yet.

use async_trait::async_trait;
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::privacy::Subject;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::{RecorderRow, StoreResult};

/// The number of rows of a session, by class of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionRows {
    /// Batches of telemetry.
    pub batches: u64,
    /// Insights, with their evidence.
    pub insights: u64,
    /// Webhook messages, with their bodies and attempts.
    pub messages: u64,
}

/// A page of recorders, and the recorder after which the next page begins.
pub type RecorderPage = (Vec<(RecorderId, RecorderRow)>, Option<RecorderId>);

/// The result of one step through a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed<C> {
    /// The number of rows that the step removed.
    pub rows: u64,
    /// The position after which the next step begins; `None` at the end of the table.
    pub next: Option<C>,
}

/// Removes personal data, and renews data that must stay. Every method may be repeated: the
/// repeated call handles the remaining data.
#[async_trait]
pub trait Erasure: Send + Sync {
    /// Counts the rows of a session.
    async fn session_rows(&self, session_id: SessionId) -> StoreResult<SessionRows>;

    /// Returns the number of the data key that seals the session's rows. `None` if they are not
    /// sealed, or if there is no such session.
    async fn data_key(&self, _session_id: SessionId) -> StoreResult<Option<u64>> {
        Ok(None)
    }

    /// Returns the start of a session, also if its end is damaged; `None` if there is no such
    /// session.
    async fn start_of(&self, session_id: SessionId) -> StoreResult<Option<SessionStart>>;

    /// Returns the sessions of a subject, created up to `until`, which
    /// [`Sessions::list`](super::Sessions::list) leaves out because their start is damaged.
    /// Other rows name the subject.
    async fn damaged_sessions(
        &self,
        tenant: Tenant,
        subject: &Subject,
        until: TimestampMs,
    ) -> StoreResult<Vec<SessionId>>;

    /// Removes a session and everything that belongs to it: telemetry, snapshots, notes, insight,
    /// proof of delivery, messages with their attempts, entries in lists, and the fingerprints of
    /// its trace. Other learned rows stay; see [`Erasure::replace_learned`].
    ///
    /// The session's own record and its entries in lists are removed last and in one step, so that
    /// an interrupted erasure can be found and repeated. If the record is damaged, the call removes
    /// the session nevertheless, or returns an error. Later batches and snapshots of the session
    /// are not stored. The removal survives a crash of the process immediately, and one of the
    /// machine after the next durable write.
    async fn erase_session(&self, session_id: SessionId) -> StoreResult<()>;

    /// Removes the batches and snapshots of a completed session, and keeps everything else. Write
    /// [`Note::TelemetryExpired`](super::Note) first.
    async fn remove_telemetry(&self, session_id: SessionId) -> StoreResult<()>;

    /// Removes the webhook messages of a completed session with their attempts, and keeps
    /// everything else. Write [`Note::MessagesExpired`](super::Note) first.
    async fn remove_messages(&self, session_id: SessionId) -> StoreResult<()>;

    /// Returns the keys of the learned rows that the session's first insight wrote. Empty for a
    /// session that was scored before these keys were recorded.
    async fn learned_by(&self, session_id: SessionId) -> StoreResult<Vec<[u8; 32]>>;

    /// Replaces the learned row under `key` by `data` if it now is `expected`; `None` removes it.
    /// Returns `false` if the row has changed. The change is as durable as the result of
    /// [`Erasure::erase_session`].
    async fn replace_learned(
        &self,
        key: [u8; 32],
        expected: Vec<u8>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool>;

    /// Returns at most `limit` recorders of all tenants after `after`, in an order of the store,
    /// and the position after which the next page begins. A page may be empty and still have a
    /// successor.
    async fn recorders(&self, after: Option<RecorderId>, limit: usize)
    -> StoreResult<RecorderPage>;

    /// Removes the tenant's idempotency keys that were stored up to `until` and whose session no
    /// longer exists. A later key may belong to a start in progress, whose session is stored after
    /// its key. It examines at most `limit` keys after `after`, which may be keys of other tenants.
    async fn erase_idempotency_keys(
        &self,
        tenant: Tenant,
        until: TimestampMs,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Removed<Vec<u8>>>;

    /// Returns whether the rows of sessions have a time to live, after which the database deletes
    /// them.
    fn rows_expire(&self) -> bool {
        false
    }

    /// Gives all rows of a session their full time to live again if at most half of it is left to
    /// the session's own record. Returns whether the rows were renewed: `false` also if there is no
    /// such session. Its content does not change.
    ///
    /// The session's own record is renewed last, so that an interrupted renewal is repeated.
    async fn renew_session(&self, _session_id: SessionId) -> StoreResult<bool> {
        Ok(false)
    }

    /// Queues the waiting messages of a session again, because their entries in the outbox may have
    /// expired while a restriction hid the session.
    async fn requeue(&self, _session_id: SessionId) -> StoreResult<()> {
        Ok(())
    }

    /// Makes the removed rows unreadable in the files of the store: destroys their data keys for
    /// good, or rewrites the files. If the database does so by itself, the call returns
    /// immediately.
    async fn purge(&self) -> StoreResult<()>;
}
