//! The state machine of one endpoint: a window of its outbox, the lanes in progress, and the choice
//! of the next one.

mod answers;
mod in_progress;
mod next;

use std::collections::BTreeMap;

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::{
    ENDPOINT_IN_FLIGHT_MAX, ENDPOINT_LANES_MAX, ENDPOINT_SLOW_IN_FLIGHT_MAX, WHEEL_AHEAD_MS,
};
use porchlight_schema::time::TimestampMs;

use super::lane;
use super::window::{Wait, Window};
use super::{Change, Effect, Input, ManualRetry, Mode, Queued};
use in_progress::LanesInProgress;

/// Limits on an endpoint's concurrent attempts and on its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The maximum number of quick attempts in flight; at least [`Policy::IN_FLIGHT_MIN`].
    pub in_flight_max: usize,
    /// The maximum number of slow attempts in flight, in addition to the quick ones.
    pub slow_max: usize,
    /// The maximum number of lanes in the window.
    pub lanes_max: usize,
}

impl Policy {
    /// The lowest number of attempts in flight to which timeouts can reduce an endpoint: room for
    /// one of each class.
    pub const IN_FLIGHT_MIN: usize = 4;
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            in_flight_max: ENDPOINT_IN_FLIGHT_MAX,
            slow_max: ENDPOINT_SLOW_IN_FLIGHT_MAX,
            lanes_max: ENDPOINT_LANES_MAX,
        }
    }
}

const _: () = assert!(ENDPOINT_IN_FLIGHT_MAX >= Policy::IN_FLIGHT_MIN);

/// The maximum number of requests for manual attempts held in memory.
const MANUAL_RETRIES_MAX: usize = 64;
/// The number of lanes in a list below which it is refilled if the store has more.
const LOW_WATER: usize = 64;
/// The interval at which the store's due list is read again: before a message beyond the horizon
/// can become due.
const RELIST_MS: i64 = WHEEL_AHEAD_MS as i64 / 3;
/// A message committed within this time after its creation is still found by its own wake.
const COMMIT_LAG_MS: i64 = 1_000;
/// A message committed later than that, up to this limit, is found by the first listing after
/// [`DEEP_EVERY_MS`]; an even later one is found when everything is listed again. The store has to
/// skip over the entries removed since then, so most listings are not that deep.
const COMMIT_LAG_MS_MAX: i64 = 30_000;
/// The interval between listings that reach back that far.
const DEEP_EVERY_MS: i64 = 5_000;
/// The pause after an internal fault; doubled for each consecutive one.
const FAULT_PAUSE_MS_MIN: i64 = 500;
/// The longest pause after internal faults.
const FAULT_PAUSE_MS_MAX: i64 = 60_000;

/// The assumed usual response time before the first response.
const USUAL_MS_FIRST: u32 = 25;
/// The number of usual response times after which an attempt is slow while others wait for a
/// permit.
const USUAL_TIMES: u32 = 4;
/// The shortest time after which an attempt can count as slow.
const SLOW_MS_MIN: i64 = 25;
/// The number of slow attempts in flight that shows that the receiver hangs on some sessions.
const HANGING_MIN: usize = 8;
/// The time for which this observation holds: the retries one minute later may hang again.
const HANGING_REMEMBERED_MS: i64 = 120_000;
/// The maximum number of sessions whose last attempt timed out that are kept in memory.
const TIMED_OUT_LANES_MAX: usize = ENDPOINT_LANES_MAX;

/// The class under which a lane in progress is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// A person requested the attempt.
    Manual,
    /// The message was never attempted.
    Fresh,
    /// The attempt is a retry by the schedule.
    Retry,
}

impl Class {
    /// The number of classes.
    const COUNT: usize = 3;
}

/// The operation of a lane in progress that awaits its answer.
#[derive(Debug)]
enum Stage {
    /// The lane is being read.
    Reading,
    /// An attempt is in flight.
    Sending {
        attempted: Queued,
        begun_at: TimestampMs,
    },
    /// The change is being committed.
    Committing(Change),
    /// The store failed to commit; the commit is repeated after the pause.
    Uncommitted(Change),
}

/// A lane with an operation in flight. It holds a quick or a slow permit.
#[derive(Debug)]
struct LaneInProgress {
    class: Class,
    manual_retry: Option<ManualRetry>,
    stage: Stage,
    /// The waiting messages of the lane as they were read.
    waiting: Vec<Queued>,
    /// Whether the lane holds a slow permit instead of a quick one.
    is_slow: bool,
    /// Whether the lane may have a message that was not read.
    has_new_message: bool,
}

/// The parts of the outbox that must be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Wanted {
    ready: bool,
    due: bool,
    held: bool,
}

impl Wanted {
    const ALL: Self = Self {
        ready: true,
        due: true,
        held: true,
    };
}

/// Decides which message an endpoint sends next, and when.
#[derive(Debug)]
pub struct EndpointMachine {
    policy: Policy,
    generation: u64,
    mode: Mode,
    window: Window,
    manual: BTreeMap<(TimestampMs, MessageId), ManualRetry>,
    in_progress: LanesInProgress,
    /// The number of quick permits. It falls with timeouts that found no room among the slow
    /// attempts and rises with responses.
    allowed: usize,
    /// The usual response time of this receiver in milliseconds: an exponential average.
    usual_ms: u32,
    /// The time until which the receiver counts as hanging on some sessions. Until then, an
    /// operation that finds no quick permit may begin with a slow permit.
    hanging_until: TimestampMs,
    wanted: Wanted,
    is_listing: bool,
    /// Whether a wake arrived while a list was being read; the list does not contain its message.
    woken_while_listing: bool,
    /// Whether the store has more ready lanes than the window took.
    has_more_ready: bool,
    /// Whether the store has more due lanes than the window took.
    has_more_due: bool,
    /// Whether the store has more held lanes than the window took.
    has_more_held: bool,
    has_more_manual: bool,
    /// Whether the store's list contained only lanes in progress: it is worth reading again when
    /// one of them is done.
    must_list_after_commit: bool,
    relist_at: TimestampMs,
    /// Messages created before this time are already listed, except late commits.
    listed_from: TimestampMs,
    /// The time at which a listing must reach back for messages that were committed late.
    deep_at: TimestampMs,
    /// The time of the listing that is being read.
    listing_at: TimestampMs,
    fault_pause_until: TimestampMs,
    fault_pause_ms: i64,
    wake_at: Option<TimestampMs>,
}

impl EndpointMachine {
    /// Creates a machine that knows nothing of its outbox yet and requests all of it.
    #[must_use]
    pub fn new(policy: Policy, mode: Mode) -> Self {
        let beginning = TimestampMs(i64::MIN);
        Self {
            policy,
            generation: 0,
            mode,
            window: Window::default(),
            manual: BTreeMap::new(),
            in_progress: LanesInProgress::default(),
            allowed: policy.in_flight_max,
            usual_ms: USUAL_MS_FIRST,
            hanging_until: beginning,
            wanted: Wanted::ALL,
            is_listing: false,
            woken_while_listing: false,
            has_more_ready: false,
            has_more_due: false,
            has_more_held: false,
            has_more_manual: false,
            must_list_after_commit: false,
            relist_at: beginning,
            listed_from: beginning,
            deep_at: beginning,
            listing_at: beginning,
            fault_pause_until: beginning,
            fault_pause_ms: FAULT_PAUSE_MS_MIN,
            wake_at: None,
        }
    }

    /// Returns the generation number carried by every effect from now on. [`Self::handle`] drops an
    /// answer with an older number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Discards all state because another endpoint replaced this one. Answers to operations still
    /// in progress are dropped.
    pub fn restart(&mut self, mode: Mode) {
        let generation = self.generation + 1;
        *self = Self {
            generation,
            ..Self::new(self.policy, mode)
        };
    }

    /// Processes an input at `now` and returns the effects to execute. `generation` is that of the
    /// effect answered by the input; for an input that answers none, it is [`Self::generation`].
    pub fn handle(&mut self, now: TimestampMs, generation: u64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if generation != self.generation {
            return effects;
        }
        match input {
            Input::Woken => {
                self.wanted.ready = true;
                self.woken_while_listing |= self.is_listing;
            }
            Input::NewMessages(lanes) => self.add_lanes(now, lanes),
            // The next listing of all parts begins with the oldest message.
            Input::Released => self.wanted = Wanted::ALL,
            Input::Tick => self.wake_at = None,
            Input::Mode(mode) => self.set_mode(mode),
            Input::Listed(listing) => self.listed(now, listing),
            Input::Read(lane, read) => self.read(now, lane, read, &mut effects),
            Input::Attempted(lane, report, random) => {
                self.attempted(now, lane, report, random, &mut effects);
            }
            Input::Damaged(lane) => {
                self.end_unsent(lane, lane::Unsent::Damaged, &mut effects);
            }
            Input::Removed(lane) => self.end_unsent(lane, lane::Unsent::Removed, &mut effects),
            Input::Committed(lane, waiting) => self.committed(now, lane, waiting),
        }
        self.advance(now, &mut effects);
        effects
    }

    /// Returns the number of attempts, reads and commits in progress.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_progress.len()
    }

    /// Returns the number of operations in progress that hold a slow permit.
    #[must_use]
    pub fn slow_in_flight(&self) -> usize {
        self.in_progress.slow()
    }

    /// Returns the number of lanes in memory.
    #[must_use]
    pub fn window_len(&self) -> usize {
        self.window.len()
    }

    /// Returns the number of lanes in the window that wait for a retry.
    #[must_use]
    pub fn lanes_blocked(&self) -> usize {
        self.window.due_len()
    }

    /// Returns the time since which the oldest sendable message has been waiting. Returns `None` if
    /// no message is due.
    #[must_use]
    pub fn oldest_due(&self, now: TimestampMs) -> Option<TimestampMs> {
        let ready = self.window.first_ready().map(|(id, _)| id.made_at());
        let due = self.window.first_due().map(|(due_at, _)| due_at);
        let due = due.filter(|&due_at| due_at <= now);
        let under_way = self.in_progress.oldest_due();
        under_way.into_iter().chain(ready).chain(due).min()
    }

    /// Checks the counts of the lanes in progress against the lanes themselves.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.in_progress.check();
    }

    /// Takes lanes with new messages into the window. If the window is full, or if the store may
    /// have older messages that the window lacks, the outbox is listed instead, so that older
    /// messages come first.
    fn add_lanes(&mut self, now: TimestampMs, lanes: Vec<SessionId>) {
        if self.mode == Mode::Stopped {
            return;
        }
        for lane in lanes {
            let known = self
                .in_progress
                .update(lane, |busy| busy.has_new_message = true);
            if known.is_some() {
                continue;
            }
            if self.has_more_ready
                || self.wanted.ready
                || self.is_listing
                || self.window.ready_len() >= self.ready_max()
            {
                self.wanted.ready = true;
                self.woken_while_listing |= self.is_listing;
            } else if !matches!(self.window.get(lane), Some(Wait::Ready(_))) {
                self.window.put(lane, Wait::Ready(MessageId::new(now, 0)));
            }
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        if mode == self.mode {
            return;
        }
        // The entries of the window were added under the other mode; the store contains all of
        // them.
        self.window = Window::default();
        self.manual.clear();
        self.wanted = Wanted::ALL;
        // A listing in progress was requested under the other mode.
        self.woken_while_listing |= self.is_listing;
        self.mode = mode;
    }

    /// Returns the time at which the customer paused the endpoint, if it is paused.
    fn paused_at(&self) -> Option<TimestampMs> {
        match self.mode {
            Mode::Paused(at) => Some(at),
            Mode::Sending | Mode::Stopped => None,
        }
    }

    /// Stops all operations for a while, because the store or the transport failed.
    fn pause_after_fault(&mut self, now: TimestampMs) {
        self.fault_pause_until = now.plus_ms(self.fault_pause_ms);
        self.fault_pause_ms = (self.fault_pause_ms * 2).min(FAULT_PAUSE_MS_MAX);
    }

    /// Returns whether a pause after a fault is in progress.
    fn is_paused_after_fault(&self, now: TimestampMs) -> bool {
        // A clock that was set back must not extend a pause to years.
        now < self.fault_pause_until && self.fault_pause_until.since_ms(now) <= FAULT_PAUSE_MS_MAX
    }
}
