//! The sessions that a process has created while it serves alone, with the rows that it has written
//! of them.
//!
//! No other process writes these sessions, so this process does not read its own rows again: the
//! starts, states and messages are kept, and a flag for each part that is still unwritten. An entry
//! exists before any other process can find its session, and every write updates it before it is
//! sent, so that a write in doubt counts as done. [`serving`](crate::cql::nodes::serving) explains
//! why no earlier process writes these sessions.
//!
//! A later process may take over at any time, and this one notices it some seconds later. Therefore
//! only work in which an outdated entry does no harm uses the entries: transactions, which check
//! the stored state; scores, which end in a transaction; deliveries, which an earlier owner may
//! repeat; and the removal of marks, which waits until this process has verified once more that it
//! serves. Reads for callers of the service always read the database. A read that disagrees with an
//! entry removes it.

use std::sync::Arc;

use porchlight_ports::{MessageBody, SessionRow, Unwritten};
use porchlight_schema::ids::SessionId;
use porchlight_schema::time::DAY_MS;

use super::state::{SessionRecord, State, message};
use crate::cql::Inner;
use crate::cql::journal::JournalHead;
use crate::cql::webhooks::outbox::Cursor;
use crate::cql::webhooks::relay::MessageHead;

/// The time from its creation for which the entry of a session serves, in milliseconds. The
/// session's rows live longer.
const KNOWN_MS: i64 = DAY_MS;

/// A session that this process has created since it serves.
#[derive(Debug, Clone)]
pub(in crate::cql) struct OwnSession {
    /// The start of the session.
    pub(in crate::cql) record: Arc<SessionRecord>,
    /// The time taken just before its creation, in milliseconds of the monotonic clock.
    began_ms: i64,
    /// Whether no transaction has changed the session's state.
    is_undecided: bool,
    has_batches: bool,
    has_notes: bool,
    has_pod: bool,
    /// Whether the session was marked for another cause than its end.
    pub(in crate::cql) has_further_marks: bool,
    /// The messages from the first on, without a gap.
    heads: Vec<MessageHead>,
}

/// The state of a session as far as this process knows it without a read.
#[derive(Debug)]
pub(in crate::cql) enum OwnState {
    /// Only a read returns the state.
    Unknown,
    /// No transaction has changed the state.
    Undecided,
    /// The last state, with its version.
    Decided(i64, Arc<State>),
}

impl OwnSession {
    fn new(record: SessionRecord, first: Option<MessageHead>, began_ms: i64) -> Self {
        Self {
            record: Arc::new(record),
            began_ms,
            is_undecided: true,
            has_batches: false,
            has_notes: false,
            has_pod: false,
            has_further_marks: false,
            heads: first.into_iter().collect(),
        }
    }

    /// Adds a message that was written, unless it is known or others before it are not.
    fn add_message(&mut self, head: MessageHead) {
        if usize::try_from(head.number) == Ok(self.heads.len()) {
            self.heads.push(head);
        }
    }
}

impl Inner {
    /// Records that this process is about to create a session, whose first message has this body.
    /// Call it before any other process can find the session.
    pub(super) fn begin_own(&self, record: &SessionRecord, body: &MessageBody) {
        let session_id = record.start.session_id;
        // A session that does not exist has no batches and no end, and its messages have no states.
        let generation = self.ownership.generation(session_id.shard());
        let head = JournalHead::of_new_session(generation);
        self.caches.journal_heads.put(session_id, head);
        let shard = record.start.tenant.organization_id.shard();
        if let Some(acting) = self.ownership.generation(shard) {
            let cursor = (acting, Arc::new(Cursor::default()));
            self.caches.cursors.put(session_id, cursor);
        }
        if self.serves_alone() {
            let first = record.first.map(|endpoint_id| {
                let message = message(&record.start, 0, body.clone());
                MessageHead::new(&message, endpoint_id)
            });
            let began_ms = self.clock.uptime_ms();
            let own = OwnSession::new(record.clone(), first, began_ms);
            self.caches.own_sessions.put(session_id, own);
        }
    }

    /// Evicts the entry of a session, because the session was not created or parts of it are about
    /// to be removed.
    pub(in crate::cql) fn evict_own(&self, session_id: SessionId) {
        self.caches.own_sessions.remove(&session_id);
    }

    /// Returns the entry of a session that no other process writes.
    pub(in crate::cql) fn own(&self, session_id: SessionId) -> Option<OwnSession> {
        let own = self.caches.own_sessions.get(&session_id)?;
        let is_known = self.clock.uptime_ms() - own.began_ms < KNOWN_MS;
        (is_known && self.serves_alone()).then_some(own)
    }

    /// Evicts the entry of a session if `version`, the version of its state that was read (0 for no
    /// state), differs from the known version.
    pub(super) fn compare_own(&self, session_id: SessionId, version: i64) {
        let known = match self.own_state(session_id) {
            OwnState::Unknown => return,
            OwnState::Undecided => 0,
            OwnState::Decided(known, _) => known,
        };
        if known != version {
            self.evict_own(session_id);
            self.caches.states_written.remove(&session_id);
        }
    }

    /// Evicts the entry of a session if it lacks a message that was found in an outbox.
    pub(in crate::cql) fn compare_own_message(&self, session_id: SessionId, number: u32) {
        let heads = self.own_heads(session_id);
        if heads.is_some_and(|heads| heads.iter().all(|head| head.number != number)) {
            self.evict_own(session_id);
        }
    }

    fn change_own(&self, session_id: SessionId, change: impl FnOnce(&mut OwnSession)) {
        self.caches.own_sessions.change(&session_id, change);
    }

    /// Records that a batch of a session is about to be written.
    pub(in crate::cql) fn before_batch_write(&self, session_id: SessionId) {
        self.change_own(session_id, |own| own.has_batches = true);
    }

    /// Records that a note about a session is about to be written.
    pub(in crate::cql) fn before_note_write(&self, session_id: SessionId) {
        self.change_own(session_id, |own| own.has_notes = true);
    }

    /// Records that a PoD of a session is about to be written.
    pub(super) fn before_pod_write(&self, session_id: SessionId) {
        self.change_own(session_id, |own| own.has_pod = true);
    }

    /// Records that a session is about to be marked for another cause than its end.
    pub(in crate::cql) fn before_further_mark(&self, session_id: SessionId) {
        self.change_own(session_id, |own| own.has_further_marks = true);
    }

    /// Records that a transaction is about to change the state of a session.
    pub(super) fn before_decision(&self, session_id: SessionId) {
        self.change_own(session_id, |own| own.is_undecided = false);
    }

    /// Records that a message was written.
    pub(in crate::cql) fn on_message_written(&self, head: MessageHead) {
        self.change_own(head.session_id, |own| own.add_message(head));
    }

    /// Returns a session's messages, in order, if this process has written them.
    pub(in crate::cql) fn own_heads(&self, session_id: SessionId) -> Option<Vec<MessageHead>> {
        Some(self.own(session_id)?.heads)
    }

    /// Returns the state of a session as far as this process knows it without a read.
    pub(in crate::cql) fn own_state(&self, session_id: SessionId) -> OwnState {
        let Some(own) = self.own(session_id) else {
            return OwnState::Unknown;
        };
        if own.is_undecided {
            return OwnState::Undecided;
        }
        match self.caches.states_written.get(&session_id) {
            Some((version, state)) => OwnState::Decided(version, state),
            None => OwnState::Unknown,
        }
    }

    /// Returns a session that this process knows.
    pub(in crate::cql) fn known(&self, session_id: SessionId) -> Option<SessionRow> {
        let own = self.own(session_id)?;
        let end = match self.own_state(session_id) {
            OwnState::Unknown => return None,
            OwnState::Undecided => None,
            OwnState::Decided(_, state) => state.end,
        };
        Some(SessionRow {
            start: own.record.start.clone(),
            end,
        })
    }

    /// Returns the parts of a session that this process knows to be unwritten.
    pub(in crate::cql) fn unwritten(&self, session_id: SessionId) -> Unwritten {
        let Some(own) = self.own(session_id) else {
            return Unwritten::default();
        };
        let is_unscored = match self.own_state(session_id) {
            OwnState::Unknown => false,
            OwnState::Undecided => true,
            OwnState::Decided(_, state) => state.insight.is_none(),
        };
        Unwritten {
            batches: !own.has_batches,
            notes: !own.has_notes,
            pod: !own.has_pod,
            insight: is_unscored,
        }
    }
}
