#![doc = include_str!("../README.md")]

mod cluster;
mod documents;
mod erasure;
mod journal;
mod key_check;
mod keys;
mod outbox;
mod recorders;
mod sessions;
#[cfg(test)]
mod stored_numbers;
mod transport;

pub use cluster::{LiveAnswer, NodesTable, Nudge, Ownership, PeerError, Peers, SingleNode};
pub use documents::{Collection, Document, DocumentKind, Documents};
pub use erasure::{Erasure, RecorderPage, Removed, SessionRows};
pub use journal::{Acknowledged, Appended, Journal, JournalEntry, Note, SeqRange};
pub use key_check::{KeyCheck, KeyCheckValue};
pub use keys::{Keys, Organization};
pub use outbox::{
    BulkRetry, DeliveryDetail, DeliveryFilter, DeliveryRow, DeliveryStatus, Depth, Endpoint,
    Outbox, PreviousSecret, RememberedSecret, RetryOutcome, RetryRefusal, SealedSecret,
    SecretRequest, SecretSeal, Work,
};
pub use recorders::{RecorderRow, Recorders};
pub use sessions::{
    Covered, EndOutcome, Idempotency, Insights, IsKnown, MessageBody, NewSession, Page, PodRow,
    SessionFilter, SessionOutcome, SessionRow, Sessions, Snapshot, Snapshots, StartOutcome,
    StoredInsight, Unwritten,
};
pub use transport::{Answer, MayBegin, OutboundRequest, Transport, UrlRefused, ends_soon};

use porchlight_schema::time::TimestampMs;

/// The reason why a store operation failed. A failed write has happened completely or not at all,
/// and can be repeated.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Too many operations are waiting; retry soon.
    #[error("the store is overloaded")]
    Overloaded,
    /// The disk has too little space for this write; reads and the work of the service itself
    /// continue.
    #[error("the disk of the store is nearly full")]
    Full,
    /// The store is unavailable or closing; retry later.
    #[error("the store is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Stored data is damaged.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// A later release wrote the stored data, which is sound. Nothing may replace, remove or give
    /// up such data: that release can read it.
    #[error("a later release wrote stored data: {0}")]
    Newer(String),
}

impl StoreError {
    /// Returns the error of a store that is unavailable because of `source`.
    pub fn unavailable(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(source.into())
    }

    /// Returns whether single rows cause the error, because they are damaged or a later release
    /// wrote them. Other rows can be read, and another attempt fails in the same way.
    #[must_use]
    pub fn is_of_single_rows(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Newer(_))
    }
}

/// The result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

/// A complete store.
pub trait Store:
    Journal + Sessions + Snapshots + Insights + Keys + Recorders + Documents + Erasure
{
}

impl<S: Journal + Sessions + Snapshots + Insights + Keys + Recorders + Documents + Erasure> Store
    for S
{
}

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Returns the time. It may jump: the machine's clock is set, or was wrong when the process
    /// began.
    fn now(&self) -> TimestampMs;

    /// Returns the milliseconds since some moment before the process began to serve, by a clock
    /// that never jumps. Silence and age are measured with it.
    fn uptime_ms(&self) -> i64;
}

/// A source of randomness, for ids.
pub trait Entropy: Send + Sync {
    /// Returns 128 random bits.
    fn random(&self) -> u128;
}

/// The function that wakes a tenant's webhooks because the store has a new message of this session.
/// The wake carries no data: the message is read from the store.
pub type Wake = std::sync::Arc<
    dyn Fn(porchlight_schema::session::Tenant, porchlight_schema::ids::SessionId) + Send + Sync,
>;
