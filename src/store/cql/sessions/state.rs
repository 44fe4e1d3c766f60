//! A session's state: its end, its official insight, its number of messages. A change raises the
//! state's version in one lightweight transaction and carries the copies that remain to be written.
//!
//! | read | how fresh |
//! |---|---|
//! | `cached_record` | the start as of at most five seconds ago; only for changes that follow a read |
//! | `record`, `records` | the start as stored at a quorum |
//! | `states_written` | the last state of this process; another one may have written a later state |
//! | `state`, `versioned_state`, `states` | the state as stored at a quorum; without the outcome of a transaction in doubt |
//! | `serial_versioned_state` | the state after the transactions in doubt are resolved |

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use porchlight_ports::{Covered, MessageBody, PodRow, StoreError, StoreResult};
use porchlight_schema::added_field;
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::message::Message;
use porchlight_schema::session::{SessionEnd, SessionStart};
use porchlight_schema::time::TimestampMs;
use porchlight_world::fill_random;
use scylla::statement::prepared::PreparedStatement;
use serde::{Deserialize, Serialize};

use crate::cql::Inner;
use crate::cql::statements::db::{Lwt, decode, encode, id_bytes};

/// The maximum number of attempts at a transaction that fails because of competing writers.
pub(in crate::cql) const LWT_ATTEMPTS_MAX: usize = 24;

/// The time in milliseconds for which a cached start of a session proves that the session exists.
/// An erasure begins later than that after all nodes know of it.
const RECORD_KNOWN_MS: i64 = 5_000;

/// A session's start, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::cql) struct SessionRecord {
    /// The start of the session.
    pub(in crate::cql) start: SessionStart,
    /// The endpoint for which `session.started` was queued, as message 0.
    pub(in crate::cql) first: Option<EndpointId>,
}

/// The official insight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cql) struct OfficialInsight {
    pub(in crate::cql) revision: u32,
    /// Distinguishes several insights written under one revision.
    pub(in crate::cql) tag: [u8; 16],
    pub(in crate::cql) covered: Covered,
}

/// Copies that a change must still write; writing them twice is harmless. Learned rows carry the
/// time of the change, so that a repeat does not replace later ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in crate::cql) struct Pending {
    /// The message and its endpoint.
    pub(in crate::cql) message: Option<(Message, EndpointId)>,
    /// Learned data, by key.
    pub(in crate::cql) learned: Vec<([u8; 32], Vec<u8>)>,
}

impl Pending {
    /// Returns whether there is nothing to write.
    pub(in crate::cql) fn is_empty(&self) -> bool {
        self.message.is_none() && self.learned.is_empty()
    }
}

/// A session's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cql) struct State {
    pub(in crate::cql) end: Option<SessionEnd>,
    pub(in crate::cql) insight: Option<OfficialInsight>,
    /// The number of the session's next message.
    next_number: u32,
    /// Copies that the last change must still write.
    pub(in crate::cql) pending: Pending,
    /// The tag of the last change, by which it is recognised.
    pub(in crate::cql) change: [u8; 16],
    /// The time of the last change; `None` in rows of earlier releases.
    #[serde(deserialize_with = "added_field::or_default")]
    pub(in crate::cql) changed_at: Option<TimestampMs>,
}

/// A session's state as it was read, with its version. `None` before the first decision.
pub(super) type Stored = Option<(i64, State)>;

/// A change of a state.
#[derive(Debug, Clone)]
pub(in crate::cql) struct Change {
    pub(in crate::cql) end: Option<SessionEnd>,
    pub(in crate::cql) insight: Option<OfficialInsight>,
    pub(in crate::cql) message: Option<MessageBody>,
    pub(in crate::cql) learned: Vec<([u8; 32], Vec<u8>)>,
}

/// A decision whether and how to change a state.
pub(super) enum Decision<T> {
    /// Keeps the state, and returns the answer.
    Keep(T),
    /// Applies the change, and then returns the answer.
    Change(Box<Change>, T),
}

/// Returns a random tag.
pub(super) fn random_tag() -> [u8; 16] {
    let mut tag = [0; 16];
    fill_random(&mut tag);
    tag
}

/// Waits for a random time, so that two competing writers do not collide again.
pub(in crate::cql) async fn back_off() {
    let mut random = [0; 1];
    fill_random(&mut random);
    tokio::time::sleep(Duration::from_millis(5 + u64::from(random[0] / 4))).await;
}

impl State {
    /// Returns the initial state of a session.
    fn initial(record: &SessionRecord) -> Self {
        Self {
            end: None,
            insight: None,
            next_number: u32::from(record.first.is_some()),
            pending: Pending::default(),
            change: [0; 16],
            changed_at: None,
        }
    }

    /// Returns the state of an imported session.
    pub(in crate::cql) fn imported(
        end: Option<SessionEnd>,
        insight: Option<OfficialInsight>,
        next_number: u32,
    ) -> Self {
        Self {
            end,
            insight,
            next_number,
            pending: Pending::default(),
            change: [0; 16],
            changed_at: None,
        }
    }

    /// Returns the state after a change at `now` whose message goes to the endpoint.
    fn after(
        &self,
        start: &SessionStart,
        change: Change,
        endpoint_id: Option<EndpointId>,
        now: TimestampMs,
    ) -> Self {
        let number = self.next_number;
        let message = change.message.zip(endpoint_id).map(|(body, endpoint_id)| {
            let message = message(start, number, body);
            (message, endpoint_id)
        });
        Self {
            end: change.end.or(self.end),
            insight: change.insight.or(self.insight),
            next_number: number.saturating_add(u32::from(message.is_some())),
            pending: Pending {
                message,
                learned: change.learned,
            },
            change: random_tag(),
            changed_at: Some(now),
        }
    }

    /// Returns whether the session has ended and its insight does not cover this PoD.
    pub(super) fn lacks_pod(&self, pod: &PodRow) -> bool {
        let covered = self.insight.map(|official| official.covered);
        let covered = covered.and_then(|covered| covered.pod_received_at);
        self.end.is_some() && covered != Some(pod.received_at)
    }

    /// Returns the state without its last message, or `None` if it has none.
    fn without_message(mut self) -> Option<Self> {
        self.pending.message.take().map(|_removed| self)
    }

    /// Returns the state without learned rows, which contain facts of other couriers' sessions, or
    /// `None` if it has none.
    fn without_learned(&self) -> Option<Self> {
        (!self.pending.learned.is_empty()).then(|| {
            let mut state = self.clone();
            state.pending.learned = Vec::new();
            state
        })
    }
}

/// Returns a session's message with this number.
pub(in crate::cql) fn message(start: &SessionStart, number: u32, body: MessageBody) -> Message {
    Message {
        id: MessageId::derived(body.created_at, start.session_id, number),
        tenant: start.tenant,
        session_id: start.session_id,
        number,
        event: body.event,
        created_at: body.created_at,
        body: body.body,
    }
}

/// Returns the keys of sessions' rows.
fn keys(session_ids: &[SessionId]) -> Vec<Vec<u8>> {
    session_ids
        .iter()
        .map(|id| id.to_bytes().to_vec())
        .collect()
}

impl Inner {
    /// Returns a session's stored start.
    pub(in crate::cql) async fn record(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Option<SessionRecord>> {
        let key = session_id.to_bytes();
        let row: Option<(Vec<u8>,)> = self
            .db
            .row(&self.db.statements.session_get, (key.as_slice(),))
            .await?;
        row.map(|(data,)| decode("sessions", &data)).transpose()
    }

    /// Returns a session's start, from the cache if it was read less than [`RECORD_KNOWN_MS`] ago.
    /// Use it for changes, which follow a read of the session.
    pub(super) async fn cached_record(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Option<Arc<SessionRecord>>> {
        if let Some(own) = self.own(session_id) {
            return Ok(Some(own.record));
        }
        let known = self.caches.records.get(&session_id);
        let read_after = self.clock.uptime_ms() - RECORD_KNOWN_MS;
        if let Some((_, record)) = known.filter(|(read_at, _)| *read_at > read_after) {
            return Ok(Some(record));
        }
        let record = self.record(session_id).await?.map(Arc::new);
        if let Some(record) = &record {
            self.cache_record(record);
        }
        Ok(record)
    }

    /// Caches a session's start that was read now.
    pub(super) fn cache_record(&self, record: &Arc<SessionRecord>) {
        let entry = (self.clock.uptime_ms(), Arc::clone(record));
        let session_id = record.start.session_id;
        self.caches.records.put(session_id, entry);
    }

    /// Returns the stored starts of a few sessions, in one read, with an error for each that is
    /// damaged.
    pub(in crate::cql) async fn records(
        &self,
        session_ids: &[SessionId],
    ) -> StoreResult<BTreeMap<SessionId, StoreResult<SessionRecord>>> {
        let statement = &self.db.statements.sessions_get;
        let rows: Vec<(Vec<u8>, Vec<u8>)> = self.db.few(statement, (keys(session_ids),)).await?;
        let mut records = BTreeMap::new();
        for (id, data) in rows {
            let session_id = SessionId::from_bytes(id_bytes("sessions", &id)?);
            records.insert(session_id, decode("sessions", &data));
        }
        Ok(records)
    }

    /// Returns the states of a few sessions, in one read, with an error for each that is
    /// damaged; those before the first decision are missing.
    pub(in crate::cql) async fn states(
        &self,
        session_ids: &[SessionId],
    ) -> StoreResult<BTreeMap<SessionId, StoreResult<State>>> {
        let statement = &self.db.statements.states_get;
        let rows: Vec<(Vec<u8>, Option<Vec<u8>>)> =
            self.db.few(statement, (keys(session_ids),)).await?;
        let mut states = BTreeMap::new();
        for (id, data) in rows {
            // A transaction may leave a row without cells after they have expired.
            let Some(data) = data else {
                continue;
            };
            let session_id = SessionId::from_bytes(id_bytes("session_state", &id)?);
            states.insert(session_id, decode("session_state", &data));
        }
        Ok(states)
    }

    /// Returns a session's state and its version; `None` before the first decision.
    pub(in crate::cql) async fn versioned_state(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Stored> {
        self.read_state(session_id, &self.db.statements.state_get)
            .await
    }

    /// Returns a session's state and its version after every transaction in flight is complete.
    async fn serial_versioned_state(&self, session_id: SessionId) -> StoreResult<Stored> {
        self.read_state(session_id, &self.db.statements.state_serial)
            .await
    }

    async fn read_state(
        &self,
        session_id: SessionId,
        statement: &PreparedStatement,
    ) -> StoreResult<Stored> {
        let key = session_id.to_bytes();
        // A transaction may leave a row without cells after they have expired.
        let row: Option<(Option<i64>, Option<Vec<u8>>)> =
            self.db.row(statement, (key.as_slice(),)).await?;
        match row {
            Some((Some(version), Some(data))) => {
                Ok(Some((version, decode("session_state", &data)?)))
            }
            _ => Ok(None),
        }
    }

    /// Returns a session's state; `None` before the first decision.
    pub(in crate::cql) async fn state(&self, session_id: SessionId) -> StoreResult<Option<State>> {
        let stored = self.versioned_state(session_id).await?;
        Ok(stored.map(|(_, state)| state))
    }

    /// Returns a session's state after every transaction in flight is complete.
    pub(in crate::cql) async fn serial_state(
        &self,
        session_id: SessionId,
    ) -> StoreResult<Option<State>> {
        let stored = self.serial_versioned_state(session_id).await?;
        Ok(stored.map(|(_, state)| state))
    }

    /// Applies the change that `decide` returns, once, and returns the answer and the new state.
    /// `stored` is the state as the caller has read it. `decide` runs again if another writer was
    /// faster.
    pub(super) async fn change_state<T: Send>(
        &self,
        record: &SessionRecord,
        mut stored: Stored,
        decide: impl Fn(&State) -> Decision<T> + Send,
    ) -> StoreResult<(T, State)> {
        let start = &record.start;
        let session_id = start.session_id;
        let _guard = self.caches.states.lock(&session_id).await;
        for _ in 0..LWT_ATTEMPTS_MAX {
            let (version, state) = stored.unwrap_or_else(|| (0, State::initial(record)));
            let (change, answer) = match decide(&state) {
                Decision::Keep(answer) => return Ok((answer, state)),
                Decision::Change(change, answer) => (change, answer),
            };
            // The next change overwrites the copies that the last one must still write.
            self.relay(session_id, &state).await?;
            let endpoint_id = self.message_endpoint(start.tenant).await?;
            let next = state.after(start, *change, endpoint_id, self.clock.now());
            let written = self.write_state(session_id, version, &next).await?;
            if matches!(written, Lwt::Applied) {
                self.cache_state(session_id, version + 1, &next);
                return Ok((answer, next));
            }
            self.caches.states_written.remove(&session_id);
            let in_doubt = matches!(written, Lwt::InDoubt(_));
            stored = match in_doubt {
                true => self.serial_versioned_state(session_id).await?,
                false => self.versioned_state(session_id).await?,
            };
            if in_doubt
                && stored
                    .as_ref()
                    .is_some_and(|(_, stored)| stored.change == next.change)
            {
                return Ok((answer, next));
            }
            // Only an erasure removes a state that was there; it removes the session's own row
            // next.
            let had_state = version > 0;
            if stored.is_none() && (had_state || self.record(session_id).await?.is_none()) {
                return Err(StoreError::unavailable("the session was removed meanwhile"));
            }
            back_off().await;
        }
        Err(StoreError::Overloaded)
    }

    /// Caches a state that this process has written, unless it is large.
    fn cache_state(&self, session_id: SessionId, version: i64, state: &State) {
        if state.pending.learned.is_empty() {
            let entry = (version, Arc::new(state.clone()));
            self.caches.states_written.put(session_id, entry);
        } else {
            self.caches.states_written.remove(&session_id);
        }
    }

    /// Removes learned rows that were written from a session's state.
    pub(in crate::cql) async fn drop_learned(
        &self,
        session_id: SessionId,
        version: i64,
        state: &State,
    ) -> StoreResult<()> {
        let Some(next) = state.without_learned() else {
            return Ok(());
        };
        match self.write_state(session_id, version, &next).await? {
            // If the write is refused, a later change has already replaced the learned rows.
            Lwt::Applied | Lwt::Refused => Ok(()),
            Lwt::InDoubt(error) => Err(error),
        }
    }

    /// Removes the last message from a session's state, so that nobody writes the message again
    /// after its removal. The state expires after the session's own row, as before.
    pub(in crate::cql) async fn drop_message(&self, session_id: SessionId) -> StoreResult<()> {
        let key = session_id.to_bytes();
        let statement = &self.db.statements.session_ttl;
        let _guard = self.caches.states.lock(&session_id).await;
        for _ in 0..LWT_ATTEMPTS_MAX {
            let left: Option<(Option<i32>,)> = self.db.row(statement, (key.as_slice(),)).await?;
            let Some((left_sec,)) = left else {
                return Ok(());
            };
            let stored = self.versioned_state(session_id).await?;
            let next =
                stored.and_then(|(version, state)| Some((version, state.without_message()?)));
            let Some((version, next)) = next else {
                return Ok(());
            };
            let ttl = self.row_ttls.after(left_sec);
            match self
                .write_state_for(session_id, version, &next, ttl)
                .await?
            {
                Lwt::Applied => {
                    self.caches.states_written.remove(&session_id);
                    return Ok(());
                }
                Lwt::Refused => back_off().await,
                Lwt::InDoubt(error) => return Err(error),
            }
        }
        Err(StoreError::Overloaded)
    }

    async fn write_state(
        &self,
        session_id: SessionId,
        version: i64,
        next: &State,
    ) -> StoreResult<Lwt> {
        let ttl = self.row_ttls.retained;
        self.write_state_for(session_id, version, next, ttl).await
    }

    /// Writes a state with this time to live, in seconds, unless another version is stored.
    async fn write_state_for(
        &self,
        session_id: SessionId,
        version: i64,
        next: &State,
        ttl: i32,
    ) -> StoreResult<Lwt> {
        self.before_decision(session_id);
        let (key, data) = (session_id.to_bytes(), encode(next)?);
        let (key, data) = (key.as_slice(), data.as_slice());
        let statements = &self.db.statements;
        if version == 0 {
            let values = (key, 1_i64, data, ttl);
            self.db.lightweight(&statements.state_make, values).await
        } else {
            let values = (ttl, version + 1, data, key, version);
            self.db.lightweight(&statements.state_change, values).await
        }
    }
}
