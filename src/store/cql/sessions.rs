//! Implements the port of sessions: their starts, ends, insights and lists.
//!
//! ```text
//! port.rs                      the end and the PoD of a session, and the port
//! starts.rs                    the start of a session, and its idempotency key
//! state.rs                     a session's state: its parts that need a lightweight transaction
//! insights.rs, reviews.rs      insights, learned data and messages; reviews of decisions
//! session_list.rs, lists.rs    the lists of a tenant's sessions
//! own_sessions.rs              the sessions that a process that serves alone knows without a read
//! ```

pub(super) mod insights;
pub(super) mod lists;
pub(super) mod own_sessions;
pub(super) mod port;
pub(super) mod reviews;
pub(super) mod session_list;
pub(super) mod starts;
pub(super) mod state;
