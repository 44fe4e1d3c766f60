//! The operations in the writer's queue.

use std::sync::Arc;

use porchlight_core::disk_space::WriteOrigin;
use porchlight_ports::{StoreError, StoreResult};
use tokio::sync::oneshot;

use crate::engine::Durability;
use crate::txn::Txn;

/// The error of a store that accepts no more operations.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Closed(pub(super) Arc<str>);

/// The reason why an operation was not written.
pub(super) enum Refusal {
    Closed(Closed),
    Full,
}

impl From<&Refusal> for StoreError {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Closed(closed) => Self::unavailable(closed.clone()),
            Refusal::Full => Self::Full,
        }
    }
}

/// A queued operation.
pub(super) trait Operation: Send {
    fn bytes(&self) -> usize;
    fn origin(&self) -> WriteOrigin;
    fn durability(&self) -> Durability;
    /// Returns whether the caller waits for a sync.
    fn is_synced(&self) -> bool {
        self.durability() == Durability::Synced
    }
    /// Runs the operation; true if its writes are to be kept.
    fn decide(&mut self, txn: &mut Txn<'_>) -> bool;
    /// Answers the caller: with the operation's result, or with the reason why it could not be
    /// written.
    fn complete(self: Box<Self>, refused: Option<&Refusal>);
}

/// An operation, its result, and its caller.
pub(super) struct Pending<T, F> {
    pub(super) bytes: usize,
    pub(super) origin: WriteOrigin,
    pub(super) durability: Durability,
    pub(super) decide: Option<F>,
    pub(super) decided: Option<StoreResult<T>>,
    pub(super) waiter: oneshot::Sender<StoreResult<T>>,
}

impl<T, F> Operation for Pending<T, F>
where
    T: Send,
    F: FnOnce(&mut Txn<'_>) -> StoreResult<T> + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn origin(&self) -> WriteOrigin {
        self.origin
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn decide(&mut self, txn: &mut Txn<'_>) -> bool {
        self.decided = self.decide.take().map(|decide| decide(txn));
        matches!(self.decided, Some(Ok(_)))
    }

    fn complete(self: Box<Self>, refused: Option<&Refusal>) {
        let answer = match (refused, self.decided) {
            (Some(refused), _) => Err(refused.into()),
            (None, Some(decided)) => decided,
            (None, None) => Err(StoreError::unavailable("the operation was not decided")),
        };
        // The caller may be gone; the operation counts anyway.
        drop(self.waiter.send(answer));
    }
}
