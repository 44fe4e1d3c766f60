//! Decides which open privacy requests begin now.
//!
//! The shell lists the open requests and describes each new one. A request that is due takes a
//! permit while the shell performs it, and returns it when it has to wait, has failed or has ended.
//! Tenants take turns, and each has a share of the permits. A restriction or a release changes its
//! mark with a permit of its own kind, so that it does not wait for erasures.
//!
//! Requests of one subject change its mark one after the other, in the order in which they became
//! due. Afterwards they do not wait for each other.

use std::collections::{BTreeMap, BTreeSet};

use porchlight_schema::limits::{
    PRIVACY_ABSENT_MS_MAX, PRIVACY_IMMEDIATE_AT_ONCE_MAX, PRIVACY_REQUESTS_AT_ONCE_MAX,
    PRIVACY_RETRY_MS, PRIVACY_RETRY_MS_MAX, TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX,
};
use porchlight_schema::privacy::RequestType;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::PrivacyRequest;
use crate::backoff::Backoff;
use crate::tenant_queue::TenantQueue;

/// The backoff of a request that fails.
const RETRY: Backoff = Backoff::new(PRIVACY_RETRY_MS, PRIVACY_RETRY_MS_MAX);
/// The time before the second read of a request that is absent: a request that is being submitted
/// is absent for milliseconds.
const READ_AGAIN_MS: u64 = 10;
/// The maximum time between two reads of a request that is absent or damaged.
const READ_AGAIN_MS_MAX: u64 = 60_000;
/// The backoff of reads of a request that is absent or damaged.
const READ_AGAIN: Backoff = Backoff::new(READ_AGAIN_MS, READ_AGAIN_MS_MAX);
/// The start time of a request that need not wait.
const AT_ONCE: TimestampMs = TimestampMs(i64::MIN);

/// The name of an open request: its tenant, and the hash of its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenKey {
    /// The tenant of the request.
    pub tenant: Tenant,
    /// The hash of the request's id.
    pub id_hash: [u8; 32],
}

/// A subject of a tenant, by the key of its mark.
type SubjectKey = (Tenant, [u8; 32]);
/// The order of the requests of one subject: by the time at which they become due, then by the time
/// at which they were received.
type Order = (TimestampMs, TimestampMs, OpenKey);

/// An open request that the schedule knows.
#[derive(Debug)]
struct Known {
    request_type: RequestType,
    received_at: TimestampMs,
    due_at: TimestampMs,
    is_over: bool,
    /// The subject whose mark the request has yet to change.
    to_mark: Option<SubjectKey>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The request was found by the running scan. It waits until this time.
    Found(TimestampMs),
    /// The request waits until this time.
    Waiting(TimestampMs),
    /// Another request of the same subject has to change the mark first.
    Blocked,
    /// The request waits for its tenant's turn.
    Queued(PermitKind),
    /// The shell performs the request.
    Running(PermitKind),
    /// The last attempt failed. The next one begins at this uptime, milliseconds.
    Paused(PermitKind, i64),
}

/// The kind of permit that a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitKind {
    /// The permits of restrictions and releases that change a mark.
    Immediate,
    /// The permits of all other work.
    Usual,
}

/// The requests that have yet to change the mark of one subject.
#[derive(Debug, Default)]
struct SubjectRequests {
    orders: BTreeSet<Order>,
    running: Option<OpenKey>,
}

/// An entry of an open request that could not be read.
#[derive(Debug)]
struct Unread {
    backoff: Backoff,
    again_at_ms: i64,
    /// The uptime since which the request is absent, milliseconds; `None` for a damaged one.
    absent_since_ms: Option<i64>,
}

/// The open privacy requests of the tenants that a node acts for.
#[derive(Debug)]
pub struct Schedule {
    known: BTreeMap<OpenKey, Known>,
    by_subject: BTreeMap<SubjectKey, SubjectRequests>,
    found: Vec<OpenKey>,
    waiting: BTreeSet<(TimestampMs, OpenKey)>,
    paused: BTreeSet<(i64, OpenKey)>,
    immediate: TenantQueue<OpenKey, ()>,
    usual: TenantQueue<OpenKey, ()>,
    unread: BTreeMap<OpenKey, Unread>,
    /// The requests that have ended since the running scan began. The scan may still list them.
    ended: BTreeSet<OpenKey>,
}

impl Default for Schedule {
    fn default() -> Self {
        let (usual, of_tenant) = (
            PRIVACY_REQUESTS_AT_ONCE_MAX,
            TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX,
        );
        Self {
            known: BTreeMap::new(),
            by_subject: BTreeMap::new(),
            found: Vec::new(),
            waiting: BTreeSet::new(),
            paused: BTreeSet::new(),
            immediate: TenantQueue::new(PRIVACY_IMMEDIATE_AT_ONCE_MAX, 1, RETRY),
            usual: TenantQueue::new(usual, of_tenant, RETRY),
            unread: BTreeMap::new(),
            ended: BTreeSet::new(),
        }
    }
}

impl Schedule {
    /// Records that the shell begins to list the open requests.
    pub fn begin_scan(&mut self) {
        self.ended.clear();
    }

    /// Returns whether the shell must read a listed request and describe it.
    #[must_use]
    pub fn must_read(&self, key: &OpenKey, uptime_ms: i64) -> bool {
        let is_due = |unread: &Unread| unread.again_at_ms <= uptime_ms;
        !self.known.contains_key(key)
            && !self.ended.contains(key)
            && self.unread.get(key).is_none_or(is_due)
    }

    /// Describes a listed request. It begins after the scan at the earliest, when all requests of
    /// its subject are known.
    pub fn learn(&mut self, key: OpenKey, request: &PrivacyRequest) {
        self.unread.remove(&key);
        if self.known.contains_key(&key) || self.ended.contains(&key) {
            return;
        }
        let to_mark = request
            .subject_to_mark()
            .map(|subject| (key.tenant, subject));
        let known = Known {
            request_type: request.request_type,
            received_at: request.received_at,
            due_at: request.due_at,
            is_over: request.is_over(),
            to_mark,
            state: State::Found(request.waits_until().unwrap_or(AT_ONCE)),
        };
        if let Some(subject) = to_mark {
            let requests = self.by_subject.entry(subject).or_default();
            requests.orders.insert(known.order(key));
        }
        self.known.insert(key, known);
        self.found.push(key);
    }

    /// Records that a listed request does not exist, or not yet. Returns whether the shell removes
    /// its entry.
    pub fn on_absent(&mut self, key: OpenKey, uptime_ms: i64) -> bool {
        let unread = self.read_again_later(key, uptime_ms);
        let since_ms = *unread.absent_since_ms.get_or_insert(uptime_ms);
        uptime_ms - since_ms >= PRIVACY_ABSENT_MS_MAX
    }

    /// Records that a listed request is damaged.
    pub fn on_damaged(&mut self, key: OpenKey, uptime_ms: i64) {
        self.read_again_later(key, uptime_ms).absent_since_ms = None;
    }

    fn read_again_later(&mut self, key: OpenKey, uptime_ms: i64) -> &mut Unread {
        let unread = self.unread.entry(key).or_insert(Unread {
            backoff: READ_AGAIN,
            again_at_ms: uptime_ms,
            absent_since_ms: None,
        });
        let pause_ms = unread.backoff.on_failure().as_millis();
        unread.again_at_ms = uptime_ms.saturating_add(i64::try_from(pause_ms).unwrap_or(i64::MAX));
        unread
    }

    /// Records that all open requests of this node's tenants were listed and described. Requests
    /// that are no longer listed are removed.
    pub fn complete_scan(&mut self, listed: &BTreeSet<OpenKey>) {
        for key in std::mem::take(&mut self.found) {
            if let Some(State::Found(until)) = self.state(&key) {
                self.set_state(key, State::Waiting(until));
            }
        }
        self.unread.retain(|key, _| listed.contains(key));
        let unlisted = self.known.iter().filter(|(key, known)| {
            let may_leave = matches!(
                known.state,
                State::Found(_) | State::Waiting(_) | State::Blocked
            );
            may_leave && !listed.contains(key)
        });
        for key in unlisted.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    /// Returns the next request that the shell performs. Call it until it returns `None`.
    pub fn begin(&mut self, now: TimestampMs, uptime_ms: i64) -> Option<OpenKey> {
        self.enqueue_due(now, uptime_ms);
        for kind in [PermitKind::Immediate, PermitKind::Usual] {
            while let Some(begun) = self.queue(kind).begin() {
                let key = begun.key;
                if self.is_blocked(&key) {
                    self.queue(kind).complete(key, ());
                    self.set_state(key, State::Blocked);
                    continue;
                }
                self.set_state(key, State::Running(kind));
                if let Some(requests) = self.subject_requests(&key) {
                    requests.running = Some(key);
                }
                return Some(key);
            }
        }
        None
    }

    /// Records the progress of a request that the shell performs. Returns `false` if the shell must
    /// stop, because the request continues with a permit of another kind.
    pub fn on_progress(&mut self, key: &OpenKey, request: &PrivacyRequest) -> bool {
        let Some(known) = self.known.get_mut(key) else {
            return true;
        };
        known.is_over = request.is_over();
        let has_marked = known.to_mark.is_some() && request.subject_to_mark().is_none();
        let is_immediate = known.state == State::Running(PermitKind::Immediate);
        if has_marked {
            self.leave_subject(key);
        }
        !(has_marked && is_immediate && !request.is_over())
    }

    /// Records that a request which the shell has performed has to wait until this time, or
    /// continues immediately.
    pub fn wait(&mut self, key: &OpenKey, until: Option<TimestampMs>) {
        if let Some(State::Running(kind)) = self.state(key) {
            self.queue(kind).complete(*key, ());
            self.set_state(*key, State::Waiting(until.unwrap_or(AT_ONCE)));
            self.stop_for_subject(key);
        }
    }

    /// Records that a step of a request has failed or must be repeated. The request is retried after
    /// a pause, and holds no permit until then.
    pub fn fail(&mut self, key: &OpenKey, uptime_ms: i64) {
        let Some(State::Running(kind)) = self.state(key) else {
            return;
        };
        let pause = self.queue(kind).fail(*key).unwrap_or_default();
        let pause_ms = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        self.set_state(
            *key,
            State::Paused(kind, uptime_ms.saturating_add(pause_ms)),
        );
        self.stop_for_subject(key);
    }

    /// Records that a request that the shell has performed is no longer open, or that another node
    /// acts for its tenant.
    pub fn end(&mut self, key: &OpenKey) {
        if let Some(State::Running(kind)) = self.state(key) {
            self.queue(kind).complete(*key, ());
            self.remove(key);
            self.ended.insert(*key);
        }
    }

    /// Returns the time until the next request is due or retried, in milliseconds, if any waits.
    #[must_use]
    pub fn next_ms(&self, now: TimestampMs, uptime_ms: i64) -> Option<i64> {
        let waiting = self.waiting.first().map(|(until, _)| until.since_ms(now));
        let paused = self.paused.first().map(|(at_ms, _)| at_ms - uptime_ms);
        [waiting, paused].into_iter().flatten().min()
    }

    /// Returns the type and the time of receipt of each request that is not over.
    pub fn open(&self) -> impl Iterator<Item = (RequestType, TimestampMs)> {
        let open = self.known.values().filter(|known| !known.is_over);
        open.map(|known| (known.request_type, known.received_at))
    }

    fn enqueue_due(&mut self, now: TimestampMs, uptime_ms: i64) {
        while let Some((until, key)) = self.waiting.first().copied()
            && until <= now
        {
            let kind = self.known.get(&key).map_or(PermitKind::Usual, Known::kind);
            self.queue(kind).request(key, Some(key.tenant), ());
            self.set_state(key, State::Queued(kind));
        }
        while let Some((at_ms, key)) = self.paused.first().copied()
            && at_ms <= uptime_ms
        {
            if let Some(State::Paused(kind, _)) = self.state(&key) {
                self.queue(kind).resume(key, ());
                self.set_state(key, State::Queued(kind));
            }
        }
    }

    fn queue(&mut self, kind: PermitKind) -> &mut TenantQueue<OpenKey, ()> {
        match kind {
            PermitKind::Immediate => &mut self.immediate,
            PermitKind::Usual => &mut self.usual,
        }
    }

    fn state(&self, key: &OpenKey) -> Option<State> {
        self.known.get(key).map(|known| known.state)
    }

    fn set_state(&mut self, key: OpenKey, state: State) {
        let Some(known) = self.known.get_mut(&key) else {
            return;
        };
        match std::mem::replace(&mut known.state, state) {
            State::Waiting(until) => self.waiting.remove(&(until, key)),
            State::Paused(_, at_ms) => self.paused.remove(&(at_ms, key)),
            _ => false,
        };
        match state {
            State::Waiting(until) => self.waiting.insert((until, key)),
            State::Paused(_, at_ms) => self.paused.insert((at_ms, key)),
            _ => false,
        };
    }

    fn subject_requests(&mut self, key: &OpenKey) -> Option<&mut SubjectRequests> {
        let subject = self.known.get(key)?.to_mark?;
        self.by_subject.get_mut(&subject)
    }

    /// Returns whether another request of the subject has to change the mark first.
    fn is_blocked(&mut self, key: &OpenKey) -> bool {
        self.subject_requests(key).is_some_and(|requests| {
            let is_first = requests
                .orders
                .first()
                .is_some_and(|(_, _, first)| first == key);
            !is_first || requests.running.is_some()
        })
    }

    /// Records that a request no longer runs although it has not changed its mark.
    fn stop_for_subject(&mut self, key: &OpenKey) {
        if let Some(subject) = self.known.get(key).and_then(|known| known.to_mark) {
            self.advance_subject(subject, key);
        }
    }

    /// Removes a request from those of its subject.
    fn leave_subject(&mut self, key: &OpenKey) {
        let Some(known) = self.known.get_mut(key) else {
            return;
        };
        let order = known.order(*key);
        let Some(subject) = known.to_mark.take() else {
            return;
        };
        if let Some(requests) = self.by_subject.get_mut(&subject) {
            requests.orders.remove(&order);
        }
        self.advance_subject(subject, key);
    }

    /// Lets the first request of a subject begin when `stopped` no longer runs.
    fn advance_subject(&mut self, subject: SubjectKey, stopped: &OpenKey) {
        let Some(requests) = self.by_subject.get_mut(&subject) else {
            return;
        };
        if requests.running == Some(*stopped) {
            requests.running = None;
        }
        match requests.orders.first().copied() {
            None => {
                self.by_subject.remove(&subject);
            }
            Some((due_at, _, first)) if self.state(&first) == Some(State::Blocked) => {
                self.set_state(first, State::Waiting(due_at));
            }
            Some(_) => {}
        }
    }

    fn remove(&mut self, key: &OpenKey) {
        self.leave_subject(key);
        // Removes the request from the indexes.
        self.set_state(*key, State::Blocked);
        self.known.remove(key);
    }
}

impl Known {
    fn order(&self, key: OpenKey) -> Order {
        (self.due_at, self.received_at, key)
    }

    fn kind(&self) -> PermitKind {
        let is_immediate = matches!(
            self.request_type,
            RequestType::Restriction | RequestType::Release
        );
        if is_immediate && self.to_mark.is_some() {
            PermitKind::Immediate
        } else {
            PermitKind::Usual
        }
    }
}

#[cfg(test)]
mod tests;
