//! The reads of a score. A part of the session that the store knows to be unwritten needs no read:
//! the commit of the insight checks the stored state, and data that is written later causes another
//! score.

use porchlight_ports::{Note, PodRow, SessionRow, Store, StoreResult, StoredInsight};
use porchlight_schema::ids::SessionId;

/// Returns a session.
pub(super) async fn session(
    store: &dyn Store,
    session_id: SessionId,
) -> StoreResult<Option<SessionRow>> {
    match store.known(session_id) {
        Some(row) => Ok(Some(row)),
        None => store.find(session_id).await,
    }
}

/// Returns a session's newest insight.
pub(super) async fn insight(
    store: &dyn Store,
    session_id: SessionId,
) -> StoreResult<Option<StoredInsight>> {
    if store.unwritten(session_id).insight {
        return Ok(None);
    }
    store.insight(session_id).await
}

/// Returns a session's PoD.
pub(super) async fn pod(store: &dyn Store, session_id: SessionId) -> StoreResult<Option<PodRow>> {
    if store.unwritten(session_id).pod {
        return Ok(None);
    }
    store.pod(session_id).await
}

/// Returns the number of a session's batches.
pub(super) async fn count(store: &dyn Store, session_id: SessionId) -> StoreResult<u32> {
    if store.unwritten(session_id).batches {
        return Ok(0);
    }
    store.count(session_id).await
}

/// Returns a session's notes.
pub(super) async fn notes(store: &dyn Store, session_id: SessionId) -> StoreResult<Vec<Note>> {
    if store.unwritten(session_id).notes {
        return Ok(Vec::new());
    }
    store.notes(session_id).await
}
