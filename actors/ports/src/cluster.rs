//! The ports to the cluster: the shards that this process owns, and requests to the owners of the
//! other shards.

use async_trait::async_trait;
use porchlight_core::ownership::{Change, MemberRow, Outcome, OwnerRow, ReadMode};
use porchlight_core::timeline::NumberedChange;
use porchlight_schema::event::Event;
use porchlight_schema::ids::{SessionId, Shard};
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::StoreResult;

/// The shards that this process owns.
pub trait Ownership: Send + Sync {
    /// Returns the generation in which this process may act for `shard` at this moment; `None` if
    /// this process does not own the shard. Rows written under the generation sort above all rows
    /// that earlier owners wrote or still write.
    fn generation(&self, shard: Shard) -> Option<u64>;

    /// Returns whether other processes may write to the same store and own shards.
    fn is_shared(&self) -> bool {
        true
    }
}

/// A single process, which owns every shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SingleNode {
    /// The generation in which the process acts for every shard.
    pub generation: u64,
}

impl Ownership for SingleNode {
    fn generation(&self, _shard: Shard) -> Option<u64> {
        Some(self.generation)
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// A request to reconcile something with the store. It carries no data, so it may be lost,
/// duplicated and reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nudge {
    /// A session was created, has ended, or received a proof of delivery.
    Session(SessionId),
    /// A tenant's outbox or webhook configuration has changed.
    Tenant(Tenant),
    /// A session has a new message in its tenant's outbox.
    Message(Tenant, SessionId),
}

/// The owner's answer about a session that is live or waits for scoring.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveAnswer {
    /// The events so far, in the order in which they were emitted.
    pub events: Vec<Event>,
    /// The time at which the events last changed; `None` if there are none.
    pub changed_at: Option<TimestampMs>,
}

/// The reason why the owner did not answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The owner is unknown or does not answer; callers use the last snapshot.
    #[error("the owner of the session cannot be reached")]
    Unreachable,
    /// The node answered that it does not own the session.
    #[error("the node does not own the session")]
    NotOwner,
}

/// Sends notifications and requests to the owners of other shards.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Forwards a durable batch to its session's owner. Never blocks. Lost batches are counted, and
    /// the owner finds them in the journal.
    fn forward(&self, session_id: SessionId, seq: u32, batch: PackedBatch);

    /// Asks an owner to reconcile with the store. Never blocks.
    fn nudge(&self, nudge: Nudge);

    /// Asks for the events of a live session. Answers within two seconds.
    ///
    /// # Errors
    ///
    /// See [`PeerError`].
    async fn live(&self, session_id: SessionId) -> Result<LiveAnswer, PeerError>;

    /// Asks for up to `limit` changes of a live session, numbered `number` and up. Answers within
    /// two seconds.
    ///
    /// # Errors
    ///
    /// See [`PeerError`].
    async fn changes(
        &self,
        session_id: SessionId,
        number: u32,
        limit: usize,
    ) -> Result<Vec<NumberedChange>, PeerError>;
}

/// A single process has no peers.
#[async_trait]
impl Peers for SingleNode {
    fn forward(&self, _session_id: SessionId, _seq: u32, _batch: PackedBatch) {}

    fn nudge(&self, _nudge: Nudge) {}

    async fn live(&self, _session_id: SessionId) -> Result<LiveAnswer, PeerError> {
        Err(PeerError::Unreachable)
    }

    async fn changes(
        &self,
        _session_id: SessionId,
        _number: u32,
        _limit: usize,
    ) -> Result<Vec<NumberedChange>, PeerError> {
        Err(PeerError::Unreachable)
    }
}

/// The table of the nodes and of the shards' owners, which several nodes share. Each change is one
/// conditional write.
#[async_trait]
pub trait NodesTable: Send + Sync {
    /// Returns the generation that this process writes into rows while it acts in `generation` of a
    /// shard. It exceeds the written generations of all earlier owners.
    fn written_generation(&self, generation: u64) -> u64;

    /// Performs a conditional write of the ownership machine.
    async fn change_nodes(&self, change: &Change) -> Outcome;

    /// Returns the rows of all members.
    async fn members(&self, mode: ReadMode) -> StoreResult<Vec<MemberRow>>;

    /// Returns the rows of all shards that were ever claimed.
    async fn owners(&self) -> StoreResult<Vec<OwnerRow>>;

    /// Returns a shard's row, after completing transactions in flight; `None` if the shard was
    /// never claimed.
    async fn owner(&self, shard: Shard) -> StoreResult<Option<OwnerRow>>;
}
