//! The position against the body: one moves, the other does not.

use porchlight_schema::event::EventType;
use porchlight_schema::sample::ActivityType;

use super::{Group, Signal};
use crate::geo::Place;
use crate::score::height::rise;
use crate::score::ledger::words;
use crate::score::scene::{Scene, end_of};
use crate::score::weights::fraud as weights;
use crate::window::{Fix, Window};

/// Positions are compared over pieces of this length.
const PIECE_MS: u32 = 20_000;
/// A way below this many accuracies is drift.
const DRIFT_SIGMAS: f32 = 1.5;
/// Exact enough to trust a way of some metres.
const GOOD_ACCURACY_M: f32 = 20.0;
/// The median spread of acceleration (m/s²) of a phone that lies on a table, or with someone who sits. In a car it is
/// 0.24 and more nine tenths of the time, and never below 0.17 (a recorded drive of 15 minutes).
const AT_REST_ACCEL_STD: f32 = 0.12;
/// Below this it is nearly at rest: with someone who sits, or in the softest of cars.
const NEARLY_AT_REST_ACCEL_STD: f32 = 0.18;
/// The same without a gait: whoever stands or sits moves less, whoever walks more (0.7 and more, recorded).
const NO_GAIT_ACCEL_STD: f32 = 0.35;
/// Speed on foot over a piece.
const FOOT_MPS: core::ops::RangeInclusive<f32> = 0.6..=2.6;
/// Between two fixes nobody on foot is faster.
const CREEPS_MPS: f32 = 2.8;
/// Speed in a vehicle over a piece.
const ROAD_MPS: f32 = 5.0;
/// Seconds of a piece in which the body must be heard.
const HEARD_LEAST: usize = 15;
/// Way on foot without a body from which it counts, and from which it counts more.
const WALKS_M: f32 = 40.0;
const WALKS_FAR_M: f32 = 150.0;
/// Time in a vehicle without any shaking.
const DRIVES_MS: u32 = 60_000;
/// Steps outdoors under a frozen position.
const FROZEN_STEPS: u32 = 90;
const FROZEN_ACCURACY_M: f32 = 10.0;
/// Heights by position and by pressure may differ by this much.
const ALTITUDE_M: f32 = 45.0;
/// Heights are compared over times in this range.
const ALTITUDE_MS: core::ops::RangeInclusive<u32> = 60_000..=1_200_000;

pub(super) fn signals(scene: &Scene<'_>) -> Vec<Signal> {
    let pieces = pieces(scene);
    [
        walks(scene, &pieces),
        drives(&pieces),
        frozen(scene),
        altitude(scene),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A piece of the session in which position and body are both known.
struct Piece {
    from_ms: u32,
    to_ms: u32,
    /// Straight way by position.
    way_m: f32,
    speed_mps: f32,
    /// The body was heard all the time: no step, no gait, not said to be in a vehicle.
    no_gait: bool,
    /// And how much it was shaken: the median spread of acceleration.
    spread: f32,
    /// A part of a drive, halts included, or faster than anybody walks.
    on_road: bool,
}

fn pieces(scene: &Scene<'_>) -> Vec<Piece> {
    let windows = scene.input.windows;
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    let mut from_ms = first.t_ms;
    while from_ms < last.end_ms().min(super::super::END_MS_MAX) {
        let to_ms = from_ms.saturating_add(PIECE_MS);
        if let Some(piece) = piece(scene, from_ms, to_ms) {
            pieces.push(piece);
        }
        from_ms = to_ms;
    }
    pieces
}

fn piece(scene: &Scene<'_>, from_ms: u32, to_ms: u32) -> Option<Piece> {
    let fixes: Vec<&Fix> = scene
        .fixes(from_ms, to_ms)
        .iter()
        .filter(|fix| fix.accuracy_known && fix.accuracy_m <= GOOD_ACCURACY_M)
        .collect();
    let (first, last) = (fixes.first()?, fixes.last()?);
    let seconds = last.t_ms.saturating_sub(first.t_ms) as f32 / 1000.0;
    if fixes.len() < 5 || seconds < 10.0 {
        return None;
    }
    let way_m = first.place.distance_m(last.place);
    // A drift within the accuracies is no way.
    let way_m = if way_m > DRIFT_SIGMAS * first.accuracy_m.max(last.accuracy_m) {
        way_m
    } else {
        0.0
    };
    let windows = scene.windows(from_ms, to_ms);
    let mut spreads: Vec<f32> = windows.iter().filter_map(spread_without_gait).collect();
    spreads.sort_by(f32::total_cmp);
    let heard = spreads.len() >= HEARD_LEAST && spreads.len() == windows.len();
    let median = spreads
        .get(spreads.len() / 2)
        .copied()
        .unwrap_or(f32::INFINITY);
    let drives = scene.events(EventType::Driving);
    let driving = drives
        .into_iter()
        .any(|event| event.t_start_ms < to_ms && end_of(event, scene.end_ms) > from_ms);
    let on_road = driving || fixes.windows(2).any(is_faster_than_foot);
    Some(Piece {
        from_ms,
        to_ms,
        way_m,
        speed_mps: way_m / seconds,
        no_gait: heard && median < NO_GAIT_ACCEL_STD,
        spread: if heard { median } else { f32::INFINITY },
        on_road,
    })
}

/// Whether two fixes in a row show a speed that nobody walks at: a vehicle that creeps does so between its halts.
fn is_faster_than_foot(pair: &[&Fix]) -> bool {
    let [from, to] = pair else { return false };
    let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
    let told = to.speed_mps.is_some_and(|speed_mps| speed_mps > CREEPS_MPS);
    told || (seconds >= 2.0 && from.place.distance_m(to.place) / seconds > CREEPS_MPS)
}

/// The spread of acceleration in a second without a step, without a gait, and in which nobody speaks of a vehicle.
fn spread_without_gait(window: &Window) -> Option<f32> {
    let motion = window.motion?;
    let gait = motion
        .cadence_hz
        .is_some_and(|cadence_hz| cadence_hz >= 1.0)
        && motion.accel_std > NO_GAIT_ACCEL_STD;
    let in_vehicle = matches!(
        window.activity,
        Some((ActivityType::Driving | ActivityType::Cycling, _))
    );
    (!gait && window.steps.unwrap_or(0) == 0 && !in_vehicle).then_some(motion.accel_std)
}

/// The step counter must be alive for this: a phone without one may be carried so gently that nothing shows.
fn walks(scene: &Scene<'_>, pieces: &[Piece]) -> Option<Signal> {
    let declared = scene
        .input
        .context
        .sensors
        .iter()
        .any(|sensor| sensor == "steps");
    if !declared
        && !scene
            .input
            .windows
            .iter()
            .any(|window| window.steps.is_some())
    {
        return None;
    }
    let walks: Vec<&Piece> = pieces
        .iter()
        .filter(|piece| piece.no_gait && !piece.on_road && FOOT_MPS.contains(&piece.speed_mps))
        .collect();
    let way_m: f32 = walks.iter().map(|piece| piece.way_m).sum();
    let (first, last) = (walks.first()?, walks.last()?);
    if way_m < WALKS_M {
        return None;
    }
    let points = if way_m >= WALKS_FAR_M {
        weights::GPS_WALKS_FAR
    } else {
        weights::GPS_WALKS
    };
    let text =
        format!("The position walked {way_m:.0} m while the phone lay still and counted no step.");
    let words = words(
        text,
        "The phone lay on a cart that was pushed over smooth ground.",
    );
    Some(Signal {
        group: Group::Body,
        name: "position_walks_body_rests",
        points,
        span: Some((first.from_ms, last.to_ms)),
        words,
    })
}

fn drives(pieces: &[Piece]) -> Option<Signal> {
    let calmer_than = |most: f32| -> Option<(u32, u32, u32)> {
        let calm = |piece: &&Piece| piece.spread < most && piece.speed_mps >= ROAD_MPS;
        let drives: Vec<&Piece> = pieces.iter().filter(calm).collect();
        let time_ms = drives
            .iter()
            .map(|piece| piece.to_ms.saturating_sub(piece.from_ms))
            .fold(0, u32::saturating_add);
        let (first, last) = (drives.first()?, drives.last()?);
        (time_ms >= DRIVES_MS).then_some((first.from_ms, last.to_ms, time_ms))
    };
    let still = calmer_than(AT_REST_ACCEL_STD).map(|span| (weights::GPS_DRIVES, "perfectly", span));
    let nearly = || {
        calmer_than(NEARLY_AT_REST_ACCEL_STD)
            .map(|span| (weights::GPS_DRIVES_NEARLY, "nearly", span))
    };
    let (points, how, (from_ms, to_ms, time_ms)) = still.or_else(nearly)?;
    let text = format!(
        "The position drove for {} s while the phone lay {how} still.",
        time_ms / 1000
    );
    let words = words(text, "A very soft mount in a very smooth vehicle.");
    Some(Signal {
        group: Group::Body,
        name: "position_drives_body_rests",
        points,
        span: Some((from_ms, to_ms)),
        words,
    })
}

/// The body walks outdoors and the position, said to be exact, does not change at all.
fn frozen(scene: &Scene<'_>) -> Option<Signal> {
    let mut since: Option<Fix> = None;
    let mut steps = 0_u32;
    for window in scene.input.windows {
        for fix in window.fixes.iter().flatten() {
            let good = fix.accuracy_known && fix.accuracy_m <= FROZEN_ACCURACY_M;
            let same = good && since.is_some_and(|since| since.place == fix.place);
            if !same {
                since = good.then_some(*fix);
                steps = 0;
            }
        }
        let Some(start) = since else { continue };
        steps = steps.saturating_add(u32::from(window.steps.unwrap_or(0)));
        if steps >= FROZEN_STEPS && is_outdoors(scene, start, window.t_ms) {
            let text = format!(
                "{steps} steps were counted while the position, said to be exact, did not change."
            );
            let words = words(text, "Indoors, phones repeat their last position.");
            return Some(Signal {
                group: Group::Body,
                name: "body_walks_position_frozen",
                points: weights::GPS_FROZEN,
                span: Some((start.t_ms, window.t_ms)),
                words,
            });
        }
    }
    None
}

/// Nothing speaks for a building: no climb, no loss, not near the address, and walking all along.
fn is_outdoors(scene: &Scene<'_>, start: Fix, until_ms: u32) -> bool {
    let inside = |event_type| {
        let mut events = scene.events(event_type);
        events.any(|event| event.t_start_ms < until_ms && end_of(event, scene.end_ms) > start.t_ms)
    };
    let building = [
        EventType::Stairs,
        EventType::Elevator,
        EventType::GpsLost,
        EventType::GpsDegraded,
    ];
    start.place.distance_m(Place::default()) > 150.0 && !building.into_iter().any(inside)
}

/// Height by position and height by pressure, over a drive.
fn altitude(scene: &Scene<'_>) -> Option<Signal> {
    const MEDIAN_MS: u32 = 10_000;
    let altitude_m = |from_ms: u32, to_ms: u32| {
        let good = scene
            .fixes(from_ms, to_ms)
            .iter()
            .filter(|fix| fix.accuracy_m <= GOOD_ACCURACY_M);
        let mut altitudes: Vec<f32> = good.filter_map(|fix| fix.altitude_m).collect();
        altitudes.sort_by(f32::total_cmp);
        if altitudes.len() < 5 {
            None
        } else {
            altitudes.get(altitudes.len() / 2).copied()
        }
    };
    scene.events(EventType::Driving).find_map(|event| {
        let (from_ms, to_ms) = (event.t_start_ms, end_of(event, scene.end_ms));
        if !ALTITUDE_MS.contains(&to_ms.saturating_sub(from_ms)) {
            return None;
        }
        let late_ms = to_ms.saturating_sub(MEDIAN_MS);
        let early = (scene.height.level(from_ms, from_ms + MEDIAN_MS)?, altitude_m(from_ms, from_ms + MEDIAN_MS)?);
        let late = (scene.height.level(late_ms, to_ms)?, altitude_m(late_ms, to_ms)?);
        let by_pressure_m = rise(early.0, late.0)?.metres;
        let apart_m = (late.1 - early.1 - by_pressure_m).abs();
        // Pressure follows the real temperature, which moves it by a tenth of the height.
        (apart_m > ALTITUDE_M + 0.15 * by_pressure_m.abs()).then(|| {
            let text = format!("Over a drive the height by position and the height by air pressure went {apart_m:.0} m apart.");
            let words = words(text, "A tunnel, a strong wind, or a change of weather.");
            Signal { group: Group::Body, name: "altitude_contradicts_pressure", points: weights::ALTITUDE, span: Some((from_ms, to_ms)), words }
        })
    })
}
