//! A session laid out for scoring: fixes in order, the height track, and the periods on foot.

use porchlight_schema::event::{Event, EventType};

use super::ScoreInput;
use super::height::HeightTrack;
use crate::geo::Place;
use crate::window::{Fix, WINDOW_MS, Window};

/// A fix worse than this says nothing of the place (contract 4: `GPS_LOST`).
const USABLE_ACCURACY_M: f32 = 150.0;
/// A phone's error is hardly ever below this, whatever it claims (Merry and Bettinger 2019: 7 to 13 m in towns).
const SIGMA_LEAST_M: f32 = 6.0;
/// A fix this exact is an anchor from which a way on foot may be counted.
const ANCHOR_ACCURACY_M: f32 = 35.0;
/// An anchor farther away in time is none.
const ANCHOR_AGE_MS: u32 = 600_000;
/// Length of a step (textbook, 0.6 to 0.8 m).
const STEP_M: f32 = 0.7;
/// Walking, where steps are not counted.
const WALK_MPS: f32 = 1.3;
/// How far one comes from where one was, of the way walked: indoors ways turn.
const WAY_TO_DISTANCE: f32 = 0.6;
/// Below this spread of acceleration (m/s²) a body does not walk: the gait of a carried phone spreads 1 and more.
const STILL_ACCEL_STD: f32 = 0.45;
/// Walking has at least this cadence (textbook).
const GAIT_HZ: f32 = 1.0;

/// Where something was, and how exactly that is known (68 % radius).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) place: Place,
    pub(crate) sigma_m: f32,
}

/// A period on foot, from the first step after a vehicle to the last one before the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Foot {
    pub(crate) from_ms: u32,
    pub(crate) to_ms: u32,
    /// When the vehicle was parked before it; none where there was none.
    pub(crate) parked_ms: Option<u32>,
}

/// What a body did in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Moving,
    Still,
    Unknown,
}

/// What the body did in `window`, as far as the phone can tell.
pub(crate) fn body(window: &Window) -> Body {
    if window.steps.is_some_and(|steps| steps > 0) {
        return Body::Moving;
    }
    match window.motion {
        Some(motion)
            if motion
                .cadence_hz
                .is_some_and(|cadence_hz| cadence_hz >= GAIT_HZ) =>
        {
            Body::Moving
        }
        Some(motion) if motion.accel_std < STILL_ACCEL_STD => Body::Still,
        Some(_) => Body::Unknown,
        None if window.steps == Some(0) => Body::Still,
        None => Body::Unknown,
    }
}

/// The session, laid out once and read by every part of scoring.
pub(crate) struct Scene<'a> {
    pub(crate) input: &'a ScoreInput<'a>,
    /// Fixes that may be believed as to the place: exact enough, and not said to be simulated.
    pub(crate) fixes: Vec<Fix>,
    pub(crate) height: HeightTrack,
    pub(crate) feet: Vec<Foot>,
    /// The session's end, or that of the telemetry where it goes on beyond.
    pub(crate) end_ms: u32,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(input: &'a ScoreInput<'a>) -> Self {
        let heard_ms = input
            .windows
            .iter()
            .rev()
            .find(|window| window.alive)
            .map_or(0, Window::end_ms);
        let end_ms = input.duration_ms.max(heard_ms).min(super::END_MS_MAX);
        Self {
            input,
            fixes: believable_fixes(input.windows),
            height: HeightTrack::new(input.windows),
            feet: feet(input.events, end_ms),
            end_ms,
        }
    }

    /// The windows that begin in `from_ms..to_ms`.
    pub(crate) fn windows(&self, from_ms: u32, to_ms: u32) -> &'a [Window] {
        let windows = self.input.windows;
        let first = windows.partition_point(|window| window.t_ms < from_ms);
        let last = windows.partition_point(|window| window.t_ms < to_ms);
        windows.get(first..last).unwrap_or_default()
    }

    /// The believable fixes of `from_ms..to_ms`.
    pub(crate) fn fixes(&self, from_ms: u32, to_ms: u32) -> &[Fix] {
        let first = self.fixes.partition_point(|fix| fix.t_ms < from_ms);
        let last = self.fixes.partition_point(|fix| fix.t_ms < to_ms);
        self.fixes.get(first..last).unwrap_or_default()
    }

    /// The events of a type, in order.
    pub(crate) fn events(&self, event_type: EventType) -> impl Iterator<Item = &'a Event> {
        self.input
            .events
            .iter()
            .filter(move |event| event.event_type == event_type)
    }

    /// Whether the phone was in a moving vehicle at `t_ms`.
    pub(crate) fn driving_at(&self, t_ms: u32) -> Option<&'a Event> {
        self.events(EventType::Driving)
            .find(|event| event.t_start_ms <= t_ms && t_ms <= end_of(event, self.end_ms))
    }

    /// Metres walked on the level in `from_ms..to_ms`; none where a vehicle lies between.
    pub(crate) fn walked_m(&self, from_ms: u32, to_ms: u32) -> Option<f32> {
        let (from_ms, to_ms) = (from_ms.min(to_ms), from_ms.max(to_ms));
        let drives = self.events(EventType::Driving);
        if drives
            .into_iter()
            .any(|event| event.t_start_ms < to_ms && end_of(event, self.end_ms) > from_ms)
        {
            return None;
        }
        let mut steps = 0_u32;
        let mut counted = false;
        for window in self.windows(from_ms, to_ms) {
            counted |= window.steps.is_some();
            steps = steps.saturating_add(u32::from(window.steps.unwrap_or(0)));
        }
        if counted {
            return Some(steps as f32 * STEP_M);
        }
        let walking_ms: u32 = self
            .events(EventType::Walking)
            .map(|event| {
                overlap_ms(
                    (event.t_start_ms, end_of(event, self.end_ms)),
                    (from_ms, to_ms),
                )
            })
            .fold(0, u32::saturating_add);
        Some(walking_ms as f32 / 1000.0 * WALK_MPS)
    }

    /// Where the phone was in `from_ms..=to_ms`: from the fixes of that time, or from the last good one before or
    /// the first after it and the way walked between, whichever is more exact.
    pub(crate) fn estimate(&self, from_ms: u32, to_ms: u32) -> Option<Estimate> {
        let inside = mean_of(self.fixes(from_ms, to_ms.saturating_add(WINDOW_MS)));
        let before = self
            .fixes(from_ms.saturating_sub(ANCHOR_AGE_MS), from_ms)
            .iter()
            .rev()
            .find(|fix| fix.accuracy_m <= ANCHOR_ACCURACY_M)
            .and_then(|fix| self.from_anchor(fix, from_ms));
        let after = self
            .fixes(to_ms, to_ms.saturating_add(ANCHOR_AGE_MS))
            .iter()
            .find(|fix| fix.accuracy_m <= ANCHOR_ACCURACY_M)
            .and_then(|fix| self.from_anchor(fix, to_ms));
        [inside, before, after]
            .into_iter()
            .flatten()
            .min_by(|a, b| a.sigma_m.total_cmp(&b.sigma_m))
    }

    fn from_anchor(&self, anchor: &Fix, t_ms: u32) -> Option<Estimate> {
        let strayed_m = self.walked_m(anchor.t_ms, t_ms)? * WAY_TO_DISTANCE;
        let accuracy_m = anchor.accuracy_m.max(SIGMA_LEAST_M);
        let sigma_m = (accuracy_m * accuracy_m + strayed_m * strayed_m).sqrt();
        Some(Estimate {
            place: anchor.place,
            sigma_m,
        })
    }

    /// How far an estimate is from the address, and the uncertainty of both together.
    pub(crate) fn from_address(&self, estimate: Estimate) -> (f32, f32) {
        let address_m = self.input.context.accuracy_m.max(1.0);
        let sigma_m = (estimate.sigma_m * estimate.sigma_m + address_m * address_m).sqrt();
        (estimate.place.distance_m(Place::default()), sigma_m)
    }
}

/// When an event ended; an open one (there should be none) at the session's end.
pub(crate) fn end_of(event: &Event, end_ms: u32) -> u32 {
    event
        .t_end_ms
        .unwrap_or(if event.is_open() {
            end_ms
        } else {
            event.t_start_ms
        })
        .max(event.t_start_ms)
}

/// How long two spans overlap.
pub(crate) fn overlap_ms(a: (u32, u32), b: (u32, u32)) -> u32 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

fn believable_fixes(windows: &[Window]) -> Vec<Fix> {
    let mut fixes: Vec<Fix> = windows
        .iter()
        .flat_map(|window| window.fixes.iter().flatten())
        .filter(|fix| !fix.mock && fix.accuracy_m <= USABLE_ACCURACY_M)
        .copied()
        .collect();
    fixes.sort_by_key(|fix| fix.t_ms);
    fixes
}

/// The mean of fixes, each weighted by its accuracy. Errors of neighbouring fixes are the same error, so that many
/// of them are no more exact than one.
fn mean_of(fixes: &[Fix]) -> Option<Estimate> {
    let (mut weights, mut east, mut north) = (0.0_f64, 0.0_f64, 0.0_f64);
    for fix in fixes {
        let accuracy_m = f64::from(fix.accuracy_m.max(SIGMA_LEAST_M));
        let weight = 1.0 / (accuracy_m * accuracy_m);
        weights += weight;
        east += weight * f64::from(fix.place.east_m);
        north += weight * f64::from(fix.place.north_m);
    }
    if weights <= 0.0 {
        return None;
    }
    let place = Place {
        east_m: (east / weights) as f32,
        north_m: (north / weights) as f32,
    };
    Some(Estimate {
        place,
        sigma_m: (fixes.len() as f64 / weights).sqrt() as f32,
    })
}

/// The periods on foot: what lies between drives and has steps in it.
fn feet(events: &[Event], end_ms: u32) -> Vec<Foot> {
    let mut feet = Vec::new();
    let mut parked_ms = None;
    let mut current: Option<Foot> = None;
    let mut movements: Vec<&Event> = events
        .iter()
        .filter(|event| event.event_type.is_movement())
        .collect();
    movements.sort_by_key(|event| event.t_start_ms);
    for event in movements {
        let to_ms = end_of(event, end_ms);
        match event.event_type {
            EventType::Driving => {
                feet.extend(current.take());
                parked_ms = Some(to_ms);
            }
            EventType::Stopped => {}
            _ => {
                let foot = current.get_or_insert(Foot {
                    from_ms: event.t_start_ms,
                    to_ms,
                    parked_ms,
                });
                foot.to_ms = foot.to_ms.max(to_ms);
            }
        }
    }
    // After the last drive nothing takes the courier away: a stay at the end still belongs to the time on foot.
    if let Some(foot) = current {
        feet.push(Foot {
            to_ms: end_ms.max(foot.to_ms),
            ..foot
        });
    }
    feet
}
