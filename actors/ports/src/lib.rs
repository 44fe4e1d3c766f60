//! What the actors need of the world, in their terms. Adapters in the root package implement it: the store on
//! memory, on the embedded engine and on CQL; the clock for real and for tests.
//!
//! **Rules for a store.** A write is durable when its future is ready. Every write is idempotent: its key is derived
//! from what it stands for, and doing it again changes nothing. Nothing that was acknowledged is ever reported as
//! absent: what can't be read is an error.

mod cluster;
mod journal;
mod keys;
mod outbox;
mod recorders;
mod sessions;
mod transport;

pub use cluster::{Alone, LiveAnswer, NodesTable, Nudge, Ownership, PeerError, Peers};
pub use journal::{Acknowledged, Appended, Journal, JournalEntry, Note, SeqRange};
pub use keys::{Keys, Organization};
pub use outbox::{
    AskOutcome, AskedMany, DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus, Depth,
    Endpoint, Outbox, PreviousSecret, RememberedSecret, SealedSecret, SecretRequest, SecretSeal,
    Work,
};
pub use recorders::{RecorderRow, Recorders};
pub use sessions::{
    Covered, EndOutcome, Idempotency, Insights, MessageBody, NewSession, Page, PodRow,
    SessionFilter, SessionRow, Sessions, Snapshot, Snapshots, StartOutcome, StoredInsight,
};

pub use transport::{Answer, OutboundRequest, Transport, UrlRefused, ends_soon};

use porchlight_schema::time::TimestampMs;

/// Why the store did not do what it was asked. Nothing was half done; a write may or may not have happened, and
/// may be asked for again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too much is waiting; try again soon.
    #[error("the store is overloaded")]
    Overloaded,
    /// The store is away, or going down; try again later.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What is stored can't be what was written.
    #[error("stored data is corrupt: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Unavailable because of `source`.
    pub fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(source.into())
    }
}

/// What every method of a store answers.
pub type StoreResult<T> = Result<T, StoreError>;

/// The whole store.
pub trait Store: Journal + Sessions + Snapshots + Insights + Keys + Recorders {}

impl<S: Journal + Sessions + Snapshots + Insights + Keys + Recorders> Store for S {}

/// The wall clock.
pub trait Clock: Send + Sync {
    /// The time. It may jump: the machine's clock is set, or was wrong when the process began.
    fn now(&self) -> TimestampMs;

    /// Milliseconds since some moment before the process began to serve, by a clock that never jumps. Silence and age are
    /// measured with it.
    fn uptime_ms(&self) -> i64;
}

/// Randomness, for ids.
pub trait Entropy: Send + Sync {
    /// 128 random bits.
    fn random(&self) -> u128;
}

/// Tells a tenant's webhooks that there may be something new. Carries no data: who is poked reads the store.
pub type Poke = std::sync::Arc<dyn Fn(porchlight_schema::session::Tenant) + Send + Sync>;
