//! The machine of one endpoint: a window of its outbox, what is under way, and what comes next.

mod answers;
mod next;

use std::collections::BTreeMap;

use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::{
    ATTEMPT_SLOW_MS, ENDPOINT_IN_FLIGHT_MAX, ENDPOINT_LANES_MAX, ENDPOINT_SLOW_IN_FLIGHT_MAX,
    WHEEL_AHEAD_MS,
};
use porchlight_schema::time::TimestampMs;

use super::window::Window;
use super::{Change, Effect, HandRequest, Input, Mode, Queued};

/// How much an endpoint may do at once, and hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Quick attempts in flight at most; at least [`Policy::IN_FLIGHT_MIN`].
    pub in_flight_max: usize,
    /// Slow attempts in flight at most, beside the quick ones.
    pub slow_max: usize,
    /// Lanes in the window at most.
    pub lanes_max: usize,
}

impl Policy {
    /// Fewest tries under way to which time-outs bring an endpoint down: room for one of each class.
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

/// Requests for tries by hand that are held in memory.
const BY_HAND_MAX: usize = 64;
/// With fewer lanes in a list than this, and more in the store, the list is filled up.
const LOW_WATER: usize = 64;
/// How often the store's list of what is due is read again: before what was beyond the horizon can be due.
const RELIST_MS: i64 = WHEEL_AHEAD_MS as i64 / 3;
/// A message may be committed this much later than it was made and still be found by its own poke.
const COMMIT_LAG_MS: i64 = 1_000;
/// One that took longer, up to this, is found by the first listing after [`DEEP_EVERY_MS`]; one that took longer still
/// when everything is listed again. The store wades through what it has removed since then, so most listings are not
/// that deep.
const COMMIT_LAG_MS_MAX: i64 = 30_000;
/// How often a listing reaches back that far.
const DEEP_EVERY_MS: i64 = 5_000;
/// The pause after a fault of our own; doubled for each one that follows.
const HOLD_MS_MIN: i64 = 500;
/// The longest such pause.
const HOLD_MS_MAX: i64 = 60_000;

/// The usual time of an answer before any came.
const USUAL_MS_FIRST: u32 = ATTEMPT_SLOW_MS as u32 / USUAL_TIMES;
/// While others wait for a permit an attempt is slow when it takes this many times as long as usual.
const USUAL_TIMES: u32 = 4;
/// … but not before this.
const SLOW_MS_MIN: i64 = 50;

/// What a lane under way counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    ByHand,
    Fresh,
    Retry,
}

#[derive(Debug)]
enum Stage {
    Reading,
    Sending {
        waiting: Vec<Queued>,
        tried: Queued,
        begun_at: TimestampMs,
    },
    Committing(Change),
    /// The store could not; to be asked again after the pause.
    Uncommitted(Change),
}

#[derive(Debug)]
struct Busy {
    class: Class,
    hand: Option<HandRequest>,
    stage: Stage,
    /// Whether its attempt is slow, so that it holds no quick permit.
    slow: bool,
}

/// What of the outbox must be listed.
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

/// What one endpoint sends next, and when.
#[derive(Debug)]
pub struct EndpointMachine {
    policy: Policy,
    generation: u64,
    mode: Mode,
    window: Window,
    by_hand: BTreeMap<(TimestampMs, MessageId), HandRequest>,
    busy: BTreeMap<SessionId, Busy>,
    /// Quick permits. Falls with time-outs for which there was no room among the slow ones, rises with answers.
    allowed: usize,
    /// What an answer of this receiver usually takes, in milliseconds: an exponential average.
    usual_ms: u32,
    wanted: Wanted,
    loading: bool,
    /// What came while a list was being read is not in it.
    poked_while_loading: bool,
    /// The store has more to be looked at than the window took.
    more_ready: bool,
    /// The store has more that is due than the window took.
    more_due: bool,
    /// The store has more that was held than the window took.
    more_held: bool,
    more_by_hand: bool,
    /// The store's list held nothing but lanes that are under way: worth reading again when one of them is not.
    list_after_commit: bool,
    relist_at: TimestampMs,
    /// What was made before this time was listed already, but for what was committed late.
    listed_from: TimestampMs,
    /// When a listing is to reach back for what was committed late.
    deep_at: TimestampMs,
    /// The time of the listing that is being read.
    listing_at: TimestampMs,
    hold_until: TimestampMs,
    hold_ms: i64,
    wake_at: Option<TimestampMs>,
}

impl EndpointMachine {
    /// A machine that knows nothing yet of its outbox and will ask for all of it.
    #[must_use]
    pub fn new(policy: Policy, mode: Mode) -> Self {
        let beginning = TimestampMs(i64::MIN);
        Self {
            policy,
            generation: 0,
            mode,
            window: Window::default(),
            by_hand: BTreeMap::new(),
            busy: BTreeMap::new(),
            allowed: policy.in_flight_max,
            usual_ms: USUAL_MS_FIRST,
            wanted: Wanted::ALL,
            loading: false,
            poked_while_loading: false,
            more_ready: false,
            more_due: false,
            more_held: false,
            more_by_hand: false,
            list_after_commit: false,
            relist_at: beginning,
            listed_from: beginning,
            deep_at: beginning,
            listing_at: beginning,
            hold_until: beginning,
            hold_ms: HOLD_MS_MIN,
            wake_at: None,
        }
    }

    /// The number that every effect from now on carries. An answer under an older one is dropped by
    /// [`Self::handle`].
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Forgets everything: another endpoint took this one's place. What is under way answers to nobody.
    pub fn restart(&mut self, mode: Mode) {
        let generation = self.generation + 1;
        *self = Self {
            generation,
            ..Self::new(self.policy, mode)
        };
    }

    /// Takes in what happened at `now`, and says what to do. `generation` is that of the effect which the input
    /// answers; for one that answers none, [`Self::generation`].
    pub fn handle(&mut self, now: TimestampMs, generation: u64, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if generation != self.generation {
            return effects;
        }
        match input {
            Input::Poked => {
                self.wanted.ready = true;
                self.poked_while_loading |= self.loading;
            }
            Input::Tick => self.wake_at = None,
            Input::Mode(mode) => self.set_mode(mode),
            Input::Loaded(listing) => self.loaded(now, listing),
            Input::Read(lane, read) => self.read(now, lane, read, &mut effects),
            Input::Tried(lane, report, chance) => {
                self.tried(now, lane, report, chance, &mut effects);
            }
            Input::Committed(lane, waiting) => self.committed(now, lane, waiting),
        }
        self.go_on(now, &mut effects);
        effects
    }

    /// Attempts, reads and commits under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.busy.len()
    }

    /// Those of them whose attempt is slow.
    #[must_use]
    pub fn slow_in_flight(&self) -> usize {
        self.busy.values().filter(|busy| busy.slow).count()
    }

    /// Lanes in memory.
    #[must_use]
    pub fn window_len(&self) -> usize {
        self.window.len()
    }

    /// Lanes that wait for a retry, as far as they are in the window.
    #[must_use]
    pub fn lanes_blocked(&self) -> usize {
        self.window.due_len()
    }

    /// Since when the oldest message that could be sent has been waiting; none when nothing is due.
    #[must_use]
    pub fn oldest_due(&self, now: TimestampMs) -> Option<TimestampMs> {
        let ready = self.window.first_ready().map(|(id, _)| id.made_at());
        let due = self.window.first_due().map(|(due_at, _)| due_at);
        let due = due.filter(|&due_at| due_at <= now);
        let under_way = self.busy.values().filter_map(|busy| match &busy.stage {
            Stage::Sending { tried, .. } => Some(tried.due_at.unwrap_or(tried.id.made_at())),
            _ => None,
        });
        under_way.chain(ready).chain(due).min()
    }

    fn set_mode(&mut self, mode: Mode) {
        if mode == self.mode {
            return;
        }
        // What is in the window was put there under the other mode; all of it is in the store.
        self.window = Window::default();
        self.by_hand.clear();
        self.wanted = Wanted::ALL;
        // A listing that is under way was asked for under the other mode.
        self.poked_while_loading |= self.loading;
        self.mode = mode;
    }

    fn paused_at(&self) -> Option<TimestampMs> {
        match self.mode {
            Mode::Paused(at) => Some(at),
            Mode::Sending | Mode::Stopped => None,
        }
    }

    fn hold(&mut self, now: TimestampMs) {
        self.hold_until = now.plus_ms(self.hold_ms);
        self.hold_ms = (self.hold_ms * 2).min(HOLD_MS_MAX);
    }

    fn held(&self, now: TimestampMs) -> bool {
        // A clock that was set back must not turn a pause into years.
        now < self.hold_until && self.hold_until.since_ms(now) <= HOLD_MS_MAX
    }
}
