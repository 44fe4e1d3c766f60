//! The other nodes: which shards this process acts for, and how it tells those that act for the rest.

use async_trait::async_trait;
use porchlight_core::ownership::{Change, MemberRow, Outcome, OwnerRow};
use porchlight_core::timeline::Told;
use porchlight_schema::event::Event;
use porchlight_schema::ids::{SessionId, Shard};
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::StoreResult;

/// Which shards this process acts for.
pub trait Ownership: Send + Sync {
    /// The generation in which this process acts for `shard` at this moment; none: another does, or nobody. What is
    /// written under it sorts above what every earlier owner wrote, or still writes.
    fn generation(&self, shard: Shard) -> Option<u64>;

    /// Whether there may be others, which write to the same store and to whom shards may go.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A process that is alone acts for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// Rises with each start of the process.
    pub generation: u64,
}

impl Ownership for Alone {
    fn generation(&self, _shard: Shard) -> Option<u64> {
        Some(self.generation)
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// What an owner is told to look at in the store. Carries no data, so that it may be lost, doubled, and overtaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nudge {
    /// A session was made, has ended, or got a proof of delivery.
    Session(SessionId),
    /// A tenant's outbox or configuration has changed.
    Tenant(Tenant),
}

/// What a session's owner says of it while it records, or waits for its insight.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveAnswer {
    /// The events so far, in the order in which they were emitted.
    pub events: Vec<Event>,
    /// When they last changed; none: not since its actor was built.
    pub changed_at: Option<TimestampMs>,
}

/// Why the owner said nothing.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nobody acts for the session, as far as is known here, or it does not answer: the last snapshot must do.
    #[error("the node that acts for the session can't be reached")]
    Unreachable,
    /// It answered that it does not act for the session.
    #[error("the node that was asked does not act for the session")]
    NotOwner,
}

/// How the owners of other shards are told and asked.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Hands a batch that is durable to its session's owner. Never waits; what is lost is counted, and found by the owner
    /// in the journal.
    fn hand_over(&self, session_id: SessionId, seq: u32, batch: PackedBatch);

    /// Tells an owner to look at the store. Never waits.
    fn nudge(&self, nudge: Nudge);

    /// Asks for the events of a live session. Answers within two seconds.
    ///
    /// # Errors
    ///
    /// See [`PeerError`].
    async fn live(&self, session_id: SessionId) -> Result<LiveAnswer, PeerError>;

    /// Asks for the changes numbered `number` and up of a session that records, at most `limit` of them. Answers within
    /// two seconds.
    ///
    /// # Errors
    ///
    /// See [`PeerError`].
    async fn told(
        &self,
        session_id: SessionId,
        number: u32,
        limit: usize,
    ) -> Result<Vec<Told>, PeerError>;
}

/// A process that is alone has nobody to tell.
#[async_trait]
impl Peers for Alone {
    fn hand_over(&self, _session_id: SessionId, _seq: u32, _batch: PackedBatch) {}

    fn nudge(&self, _nudge: Nudge) {}

    async fn live(&self, _session_id: SessionId) -> Result<LiveAnswer, PeerError> {
        Err(PeerError::Unreachable)
    }

    async fn told(
        &self,
        _session_id: SessionId,
        _number: u32,
        _limit: usize,
    ) -> Result<Vec<Told>, PeerError> {
        Err(PeerError::Unreachable)
    }
}

/// The table of the nodes and of the shards' owners, which several nodes share. Each change is one conditional write.
#[async_trait]
pub trait NodesTable: Send + Sync {
    /// The number under which this process writes in that generation of a shard; it is higher than all earlier ones.
    fn written_generation(&self, generation: u64) -> u64;

    /// Carries out a conditional write of the machine of ownership.
    async fn change_nodes(&self, change: &Change) -> Outcome;

    /// The rows of all nodes. With `serially`, finishes first what is under way.
    async fn members(&self, serially: bool) -> StoreResult<Vec<MemberRow>>;

    /// The rows of all shards that were ever claimed.
    async fn owners(&self) -> StoreResult<Vec<OwnerRow>>;

    /// A shard's row, after what is under way was finished; `None` if the shard was never claimed.
    async fn owner(&self, shard: Shard) -> StoreResult<Option<OwnerRow>>;
}
