//! The interface of a session's actor to the registry that runs it.

use std::sync::Arc;

use porchlight_observe::StopReason;
use porchlight_ports::Store;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;

use super::{PassivatedState, SessionHandle};

/// The owner of session actors: it answers their requests and receives their reports.
///
/// The registry implements it. The actor depends only on this trait, so it can change without the
/// registry.
pub(crate) trait Host: Send + Sync {
    /// Returns the store with the session's journal, notes and snapshots.
    fn store(&self) -> &Arc<dyn Store>;

    /// Returns whether the registry holds the session as one in progress.
    fn is_live(&self, session_id: SessionId) -> bool;

    /// Returns the generation in which this process acts for the session now. Returns `None` if
    /// this process does not act for it.
    fn generation(&self, session_id: SessionId) -> Option<u64>;

    /// Returns the reason for which an actor stops when it is asked to write its state.
    fn drain_reason(&self, session_id: SessionId) -> StopReason;

    /// Reports that the store holds the end of the session.
    fn on_ended(&self, session_id: SessionId, tenant: Tenant);

    /// Reports that events of the session opened or closed.
    fn on_changed(&self, session_id: SessionId);

    /// Reports a panic of the actor. `seq` is the batch at which it panicked, if any.
    fn on_panicked(&self, handle: &Arc<SessionHandle>, seq: Option<u32>);

    /// Takes the state of an actor that stops because it was idle.
    fn on_passivated(&self, handle: &Arc<SessionHandle>, passivated: Option<Box<PassivatedState>>);
}
