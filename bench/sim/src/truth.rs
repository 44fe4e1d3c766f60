//! The answers of a perfect observer: the events, times and outcome of a simulated delivery.

mod gps;

use porchlight_schema::event::{Direction, EventType, Metadata, seconds};
use porchlight_schema::insight::ReasonCode;
use serde_json::{Value, json};

use super::script::{Mode, Script, TICK_S, Tick};

pub(super) use gps::gps_events;

/// The duration below which a stay between two walks belongs to the walk (contract 4).
const PAUSE_S: f64 = 5.0;
/// The minimum duration of a `STOPPED` stay (contract 4).
const STOP_S: f64 = 8.0;

/// A true event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruthEvent {
    /// The type of the event.
    pub event_type: EventType,
    /// The start in milliseconds since the session's start.
    pub t_start_ms: u32,
    /// The end in milliseconds since the session's start; `None` for an instant.
    pub t_end_ms: Option<u32>,
    /// The floors, direction and height; the metres retraced; or the seconds waited.
    pub metadata: Metadata,
}

/// The truth of one delivery. Fields are `None` if the contract leaves them open or the sensors
/// cannot determine them.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    /// The events, ordered by start, then type. The movement track never overlaps itself.
    pub events: Vec<TruthEvent>,
    /// The phone's first passage of the building's entrance in seconds.
    pub entrance_t: Option<f64>,
    /// The stay at a door or desk that ended with the drop-off, in seconds, whether or not it was
    /// the right place.
    pub dwell: Option<(f64, f64)>,
    /// Whether the drop-off was at the address's door, both horizontally and vertically.
    pub right_doorstep: bool,
    /// The floors from the entrance to the drop-off; `None` without a drop-off. This is the true
    /// value, even if a phone without a barometer cannot determine it.
    pub floors_climbed: Option<i16>,
    /// Whether the courier rode an elevator.
    pub elevator_used: bool,
    /// The number of visits to the door; `None` if it was never the right one.
    pub attempt_cycles: Option<u32>,
    /// The outcome code or `INSUFFICIENT_DATA`; `None` if it depends on the observed samples under
    /// the contract.
    pub outcome: Option<ReasonCode>,
    /// The additional reason codes, in order.
    pub added: Vec<ReasonCode>,
    /// Whether the telemetry or the claim is false.
    pub fraudulent: bool,
    /// Whether the courier carried the phone on foot.
    pub phone_carried: bool,
}

impl Truth {
    /// Returns the truth in the label format of recordings: `segments`, `complete`,
    /// `labelledSpans`, `facts`.
    #[must_use]
    pub fn labels(&self, end_t: f64) -> Value {
        // Time at another door does not count for the address's door.
        let dwell = self
            .dwell
            .filter(|_| self.outcome != Some(ReasonCode::NoAttempt));
        let segments: Vec<Value> = self.events.iter().map(TruthEvent::label).collect();
        json!({
            "segments": segments,
            "complete": EventType::ALL.map(EventType::as_str),
            "labelledSpans": [[0.0, end_t]],
            "facts": {
                "entranceAtSec": self.entrance_t,
                "doorFromSec": dwell.map(|dwell| dwell.0),
                "doorToSec": dwell.map(|dwell| dwell.1),
                "rightDoorstep": self.right_doorstep,
                "floorsChange": self.floors_climbed,
                "elevatorUsed": self.elevator_used,
                "attemptCycles": self.attempt_cycles,
                "outcome": self.outcome.map(ReasonCode::as_str),
                // For fraud, the codes depend on the visible evidence, and after a silence on the
                // remaining samples.
                "added": (!self.fraudulent && self.outcome.is_some())
                    .then(|| self.added.iter().map(|code| code.as_str()).collect::<Vec<_>>()),
                "fraudulent": self.fraudulent,
                "phoneCarried": self.phone_carried,
            },
        })
    }
}

impl TruthEvent {
    fn label(&self) -> Value {
        let metadata = match self.metadata {
            Metadata::None => json!({}),
            Metadata::Climb {
                floors,
                direction,
                height_cm,
            } => json!({
                "floors": floors,
                "direction": direction,
                "heightM": height_cm.map(|height_cm| f64::from(height_cm) / 100.0),
            }),
            Metadata::Backtracking { retraced_m } => json!({ "retracedM": retraced_m }),
            Metadata::Gate { wait_sec } => json!({ "waitSec": wait_sec }),
        };
        json!({
            "type": self.event_type.as_str(),
            "tStart": seconds(self.t_start_ms),
            "tEnd": seconds(self.t_end_ms.unwrap_or(self.t_start_ms)),
            "metadata": metadata,
        })
    }
}

pub(super) fn event(
    event_type: EventType,
    from_s: f64,
    to_s: f64,
    metadata: Metadata,
) -> TruthEvent {
    TruthEvent {
        event_type,
        t_start_ms: ms(from_s),
        t_end_ms: Some(ms(to_s)),
        metadata,
    }
}

pub(super) fn ms(t: f64) -> u32 {
    (t * 1000.0).round() as u32
}

/// A stretch of the script in one way of moving.
#[derive(Debug, Clone, Copy)]
struct Run {
    way: Way,
    from: usize,
    to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Drive,
    Stay,
    Walk,
    Stairs,
    Ride,
}

impl Way {
    fn of(mode: Mode) -> Self {
        match mode {
            Mode::Drive | Mode::Halt => Self::Drive,
            Mode::Sit | Mode::Stand => Self::Stay,
            Mode::Walk => Self::Walk,
            Mode::Stairs => Self::Stairs,
            Mode::Ride => Self::Ride,
        }
    }
}

/// Returns the movement track of the phone by the contract's definitions.
pub(super) fn movement(ticks: &[Tick]) -> Vec<TruthEvent> {
    let runs = without_pauses(&runs(ticks));
    runs.iter()
        .filter_map(|run| movement_event(ticks, run))
        .collect()
}

fn runs(ticks: &[Tick]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (place, tick) in ticks.iter().enumerate() {
        let way = Way::of(tick.mode);
        match runs.last_mut() {
            Some(run) if run.way == way => run.to = place + 1,
            _ => runs.push(Run {
                way,
                from: place,
                to: place + 1,
            }),
        }
    }
    runs
}

/// Merges short stays between two walks into the walk.
fn without_pauses(runs: &[Run]) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let walks_on = runs
            .get(place + 1)
            .is_some_and(|next| next.way == Way::Walk);
        let short = run.way == Way::Stay && (run.to - run.from) as f64 * TICK_S < PAUSE_S;
        match joined.last_mut() {
            Some(last)
                if last.way == Way::Walk && (run.way == Way::Walk || (short && walks_on)) =>
            {
                last.to = run.to
            }
            _ => joined.push(*run),
        }
    }
    joined
}

fn movement_event(ticks: &[Tick], run: &Run) -> Option<TruthEvent> {
    let (from_s, to_s) = (run.from as f64 * TICK_S, run.to as f64 * TICK_S);
    let event_type = match run.way {
        Way::Drive => EventType::Driving,
        Way::Walk => EventType::Walking,
        Way::Stay if to_s - from_s >= STOP_S => EventType::Stopped,
        Way::Stay => return None,
        Way::Stairs => EventType::Stairs,
        Way::Ride => EventType::Elevator,
    };
    let metadata = match run.way {
        Way::Stairs | Way::Ride => climb(ticks, run)?,
        _ => Metadata::None,
    };
    Some(event(event_type, from_s, to_s, metadata))
}

fn climb(ticks: &[Tick], run: &Run) -> Option<Metadata> {
    let before = ticks.get(run.from.checked_sub(1)?)?;
    let after = ticks.get(run.to).or_else(|| ticks.last())?;
    let height_m = after.height_m - before.height_m;
    Some(Metadata::Climb {
        floors: Some((after.floor - before.floor).unsigned_abs()),
        direction: if height_m < 0.0 {
            Direction::Down
        } else {
            Direction::Up
        },
        height_cm: Some((height_m.abs() * 100.0).round() as u32),
    })
}

/// Returns the gate and backtracking events, which may overlap any other event.
pub(super) fn annotations(script: &Script) -> Vec<TruthEvent> {
    let gates = script.gates.iter().map(|&(from_s, to_s)| {
        let wait_sec = (to_s - from_s).round() as u32;
        event(EventType::Gate, from_s, to_s, Metadata::Gate { wait_sec })
    });
    let retraced = script.retraced.iter().map(|&(from_s, to_s, length_m)| {
        let retraced_m = length_m.round() as u32;
        event(
            EventType::Backtracking,
            from_s,
            to_s,
            Metadata::Backtracking { retraced_m },
        )
    });
    gates.chain(retraced).collect()
}

/// Removes a silent span: events end before it and start again after it, if the remaining parts are
/// long enough.
pub(super) fn cut(events: &[TruthEvent], (from, to): (f64, f64)) -> Vec<TruthEvent> {
    let (from_ms, to_ms) = (ms(from), ms(to));
    let mut left = Vec::with_capacity(events.len());
    for event in events {
        let end_ms = event.t_end_ms.unwrap_or(event.t_start_ms);
        if end_ms <= from_ms || event.t_start_ms >= to_ms {
            left.push(*event);
            continue;
        }
        let parts = [
            (event.t_start_ms, from_ms.min(end_ms)),
            (to_ms.max(event.t_start_ms), end_ms),
        ];
        let least_ms = if event.event_type == EventType::Stopped {
            ms(STOP_S)
        } else {
            2_000
        };
        for (start_ms, end_ms) in parts {
            if end_ms >= start_ms + least_ms {
                left.push(TruthEvent {
                    t_start_ms: start_ms,
                    t_end_ms: Some(end_ms),
                    ..*event
                });
            }
        }
    }
    left
}
