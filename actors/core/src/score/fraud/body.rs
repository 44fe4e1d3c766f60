//! Compares position and body: one moves and the other does not.

use porchlight_schema::event::EventType;
use porchlight_schema::sample::{ActivityType, Kind};

use super::{Group, Signal, strides, vibration};
use crate::geo::Place;
use crate::score::evidence_log::EvidenceText;
use crate::score::height::{Level, rise};
use crate::score::parameters::fraud::body::{
    AGREES_M, ALTITUDE_M, ALTITUDE_MIDDLE_MS, ALTITUDE_MS, ALTITUDE_STEP_M, ALTITUDES_MIN, APART_M,
    AT_REST_ACCEL_STD, CREEPS_MPS, DRIFT_SIGMAS, DRIVES_MS, FIDGETS_MAX, FIXES_MIN, FOOT_MPS,
    FROZEN_ACCURACY_M, FROZEN_AWAY_M, FROZEN_STEPS, GAIT_MIN, GOOD_ACCURACY_M, HEARD_MIN,
    MOVED_MPS, MOVED_SIGMAS, NEARLY_AT_REST_ACCEL_STD, NEXT_MS, NO_GAIT_ACCEL_STD, NO_SPEED_SHARE,
    PIECE_MS, PIECE_SEC_MIN, PRESSURE_ERROR_SHARE, ROAD_MPS, STEPS_MAX, WALKS_FAR_M, WALKS_M,
    WALKS_UNCOUNTED_M,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::scoring_context::{ScoringContext, median};
use crate::window::{Fix, Window};

pub(super) fn signals(ctx: &ScoringContext<'_>) -> Vec<Signal> {
    let pieces = pieces(ctx);
    // Both detectors look for the same fraud, so only the stronger signal counts.
    let walks = [walk_signal(ctx, &pieces), strides::signal(ctx)]
        .into_iter()
        .flatten()
        .reduce(|best, other| {
            if other.points > best.points {
                other
            } else {
                best
            }
        });
    [
        walks,
        drive_signal(
            &pieces,
            walked_along_m(ctx) >= AGREES_M || vibration::follows_speed(ctx.input.windows),
        ),
        frozen_signal(ctx),
        altitude_signal(ctx),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A piece of the session with a known position and some body data.
struct Piece {
    from_ms: u32,
    to_ms: u32,
    /// The straight distance by position.
    way_m: f32,
    speed_mps: f32,
    /// The state of the body.
    body: BodyRest,
    /// The median spread of acceleration, if it was reported.
    spread: f32,
    /// Whether the piece is part of a drive, halts included, or faster than walking.
    on_road: bool,
}

/// The evidence for a body at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyRest {
    /// Motion was reported continuously and contained no gait.
    Still,
    /// No motion was reported, but the step counter was active and did not rise.
    Uncounted,
    /// There is no evidence of rest: the body moved, or sent no data.
    Unproven,
}

/// Returns the pieces with a path and a body at rest, without overlap. After a piece that does not
/// count, the next one begins only a little later, so that a path that begins within it is not cut
/// in two.
fn pieces(ctx: &ScoringContext<'_>) -> Vec<Piece> {
    let windows = ctx.input.windows;
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    let mut from_ms = first.t_ms;
    while from_ms < last.end_ms().min(super::super::END_MS_MAX) {
        let to_ms = from_ms.saturating_add(PIECE_MS);
        match piece(ctx, from_ms, to_ms)
            .filter(|piece| piece.body != BodyRest::Unproven && piece.way_m > 0.0)
        {
            Some(piece) => {
                pieces.push(piece);
                from_ms = to_ms;
            }
            None => from_ms = from_ms.saturating_add(NEXT_MS),
        }
    }
    pieces
}

/// Returns the piece from `from_ms` to `to_ms`, or `None` if it has too few accurate fixes.
fn piece(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Option<Piece> {
    let fixes: Vec<&Fix> = ctx
        .fixes(from_ms, to_ms)
        .iter()
        .filter(|fix| fix.accuracy_known && fix.accuracy_m <= GOOD_ACCURACY_M)
        .collect();
    let (first, last) = (fixes.first()?, fixes.last()?);
    let seconds = last.t_ms.saturating_sub(first.t_ms) as f32 / 1000.0;
    if fixes.len() < FIXES_MIN || seconds < PIECE_SEC_MIN {
        return None;
    }
    let way_m = first.place.distance_m(last.place);
    // A drift within the accuracies is not a path.
    let mut reported_mps: Vec<f32> = fixes.iter().filter_map(|fix| fix.speed_mps).collect();
    let sigmas = match median(&mut reported_mps) {
        Some(mps) if mps >= MOVED_MPS => MOVED_SIGMAS,
        Some(_) => f32::INFINITY,
        None => DRIFT_SIGMAS,
    };
    let is_way = way_m > sigmas * first.accuracy_m.max(last.accuracy_m);
    let share = match is_way && !ctx.is_indoors(from_ms, to_ms) {
        true if reported_mps.is_empty() => NO_SPEED_SHARE,
        true => 1.0,
        false => 0.0,
    };
    // Without reported speeds the distance counts by half, but the speed is not halved.
    let speed_mps = if share > 0.0 { way_m / seconds } else { 0.0 };
    let way_m = share * way_m;
    let windows = ctx.windows(from_ms, to_ms);
    let (body, spread) = rest(ctx, windows);
    let drives = ctx.events(EventType::Driving);
    let driving = drives
        .into_iter()
        .any(|event| event.t_start_ms < to_ms && ctx.end_of(event) > from_ms);
    let on_road = driving || fixes.windows(2).any(is_faster_than_walk);
    Some(Piece {
        from_ms,
        to_ms,
        way_m,
        speed_mps,
        body,
        spread,
        on_road,
    })
}

/// Returns whether two successive fixes show a speed above that of a walk, which a creeping vehicle
/// reaches between its halts.
fn is_faster_than_walk(pair: &[&Fix]) -> bool {
    let [from, to] = pair else { return false };
    let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
    let is_reported_fast = to.speed_mps.is_some_and(|speed_mps| speed_mps > CREEPS_MPS);
    is_reported_fast || (seconds >= 2.0 && from.place.distance_m(to.place) / seconds > CREEPS_MPS)
}

/// Returns the state of the body in the windows of a piece, and the median spread of acceleration.
fn rest(ctx: &ScoringContext<'_>, windows: &[Window]) -> (BodyRest, f32) {
    let in_vehicle = |window: &&Window| {
        matches!(
            window.activity,
            Some((ActivityType::Driving | ActivityType::Cycling, _))
        )
    };
    let steps: u32 = windows
        .iter()
        .map(|window| u32::from(window.steps.unwrap_or(0)))
        .sum();
    let mut spreads: Vec<f32> = windows
        .iter()
        .filter_map(|window| Some(window.motion?.accel_std))
        .collect();
    let median = median(&mut spreads);
    let gait = windows.iter().filter(has_gait).count();
    let counted = || {
        windows
            .iter()
            .filter(|window| window.steps.is_some())
            .count()
    };
    let moves =
        steps > STEPS_MAX || gait > FIDGETS_MAX || windows.iter().any(|window| in_vehicle(&window));
    let rest = match median {
        _ if moves => BodyRest::Unproven,
        Some(median) if spreads.len() >= HEARD_MIN && median < NO_GAIT_ACCEL_STD => BodyRest::Still,
        None if counted() >= HEARD_MIN || counts_on_change(ctx) => BodyRest::Uncounted,
        _ => BodyRest::Unproven,
    };
    let heard = spreads.len() >= HEARD_MIN;
    (rest, median.filter(|_| heard).unwrap_or(f32::INFINITY))
}

/// Returns whether the phone has a step counter that reports only when it rises: it is declared, it
/// has reported, and the phone has not reported its loss.
fn counts_on_change(ctx: &ScoringContext<'_>) -> bool {
    let input = ctx.input;
    input.context.declares(Kind::Steps)
        && input.windows.iter().any(|window| window.steps.is_some())
        && !ctx.has_lost_sensor()
}

fn has_gait(window: &&Window) -> bool {
    window.steps.is_some_and(|steps| steps > 0)
        || window.motion.is_some_and(|motion| {
            motion.accel_std > NO_GAIT_ACCEL_STD
                && motion.cadence_hz.is_none_or(|cadence_hz| cadence_hz >= 1.0)
        })
}

/// Returns the signal of a position that walks while the body shows no walk.
fn walk_signal(ctx: &ScoringContext<'_>, pieces: &[Piece]) -> Option<Signal> {
    let input = ctx.input;
    let counts = input.context.declares(Kind::Steps)
        || input.windows.iter().any(|window| window.steps.is_some());
    let on_foot = |piece: &&Piece| !piece.on_road && FOOT_MPS.contains(&piece.speed_mps);
    // A phone without a step counter may be carried so gently that nothing shows, but not as if it
    // lay on a table.
    let still = |piece: &&Piece| {
        on_foot(piece)
            && piece.body == BodyRest::Still
            && (counts || piece.spread < AT_REST_ACCEL_STD)
    };
    let uncounted = |piece: &&Piece| on_foot(piece) && piece.body == BodyRest::Uncounted;
    let way = |pieces: &[&Piece]| pieces.iter().map(|piece| piece.way_m).sum::<f32>();
    let at_rest = if counts {
        "the phone lay still and counted no step"
    } else {
        "the phone lay still"
    };
    let surest: Vec<&Piece> = pieces.iter().filter(still).collect();
    let (walks, points, what) = match way(&surest) {
        way_m if way_m >= WALKS_FAR_M => {
            let lies = |piece: &&&Piece| piece.spread < AT_REST_ACCEL_STD;
            let lying: Vec<&Piece> = surest.iter().filter(lies).copied().collect();
            let points = if way(&lying) >= WALKS_FAR_M {
                weights::GPS_WALKS_LYING
            } else {
                weights::GPS_WALKS_FAR
            };
            (surest, points, at_rest)
        }
        way_m if way_m >= WALKS_M => (surest, weights::GPS_WALKS, at_rest),
        _ => {
            let walks: Vec<&Piece> = pieces.iter().filter(uncounted).collect();
            if way(&walks) < WALKS_UNCOUNTED_M {
                return None;
            }
            (
                walks,
                weights::GPS_WALKS_UNCOUNTED,
                "the step counter ran and counted no step",
            )
        }
    };
    let (first, last) = (walks.first()?, walks.last()?);
    let text = format!(
        "The positions moved {:.0} m at walking pace while {what}.",
        way(&walks)
    );
    let text = EvidenceText::new(text, "The phone may have been on a cart on smooth ground.");
    Some(Signal {
        group: Group::Body,
        name: "position_walks_body_rests",
        points,
        span: Some((first.from_ms, last.to_ms)),
        text,
    })
}

/// Returns whether the body sent data and never moved along with the positions. Only then do
/// positions that look generated count as a sign of fraud: a genuine receiver may also smooth its
/// positions, or compute each independently, but the phone then has a gait where they walk.
pub(super) fn is_independent(ctx: &ScoringContext<'_>) -> bool {
    let is_heard = ctx.input.windows.iter().any(Window::has_body_data);
    is_heard && walked_along_m(ctx) < APART_M
}

/// Returns the distance over which the body and the position moved together, metres. A phone
/// carried through the streets moves with its owner, and a phone left at home never walks in step
/// with its positions.
fn walked_along_m(ctx: &ScoringContext<'_>) -> f32 {
    let mut sum_m = 0.0;
    let mut from_ms = 0;
    while from_ms < ctx.end_ms {
        let to_ms = from_ms.saturating_add(PIECE_MS);
        let gait = ctx.windows(from_ms, to_ms).iter().filter(has_gait);
        let fixes = ctx.fixes(from_ms, to_ms);
        if let (Some(first), Some(last)) = (fixes.first(), fixes.last())
            && gait.count() >= GAIT_MIN
        {
            let way_m = first.place.distance_m(last.place);
            let seconds = last.t_ms.saturating_sub(first.t_ms) as f32 / 1000.0;
            let is_exact = first.accuracy_m.max(last.accuracy_m) <= GOOD_ACCURACY_M;
            if is_exact && seconds >= PIECE_SEC_MIN && FOOT_MPS.contains(&(way_m / seconds)) {
                sum_m += way_m;
            }
        }
        from_ms = to_ms;
    }
    sum_m
}

/// Returns the signal of a position that drives while the phone lies still. `agrees` says whether
/// body and position moved together on foot, or the phone shakes as the position drives.
fn drive_signal(pieces: &[Piece], agrees: bool) -> Option<Signal> {
    let calmer_than = |most: f32| -> Option<(u32, u32, u32)> {
        let calm = |piece: &&Piece| {
            piece.body == BodyRest::Still && piece.spread < most && piece.speed_mps >= ROAD_MPS
        };
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
    // A bearer who walks in step with the positions was driven in a very soft vehicle, and so was a
    // phone that shakes less at each halt.
    let points = if agrees {
        points.min(weights::GPS_DRIVES_NEARLY)
    } else {
        points
    };
    let text = format!(
        "The position drove for {} s while the phone lay {how} still.",
        time_ms / 1000
    );
    let text = EvidenceText::new(text, "A soft phone mount in a smooth vehicle.");
    Some(Signal {
        group: Group::Body,
        name: "position_drives_body_rests",
        points,
        span: Some((from_ms, to_ms)),
        text,
    })
}

/// Returns the signal of a body that walks outdoors while the position, reported as exact, does not
/// change at all.
fn frozen_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let mut since: Option<Fix> = None;
    let mut steps = 0_u32;
    for window in ctx.input.windows {
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
        if steps >= FROZEN_STEPS && is_outdoors(ctx, start, window.t_ms) {
            let text = format!(
                "{steps} steps were counted while the position, said to be exact, did not change."
            );
            let text = EvidenceText::new(text, "Indoors, phones repeat their last position.");
            return Some(Signal {
                group: Group::Body,
                name: "body_walks_position_frozen",
                points: weights::GPS_FROZEN,
                span: Some((start.t_ms, window.t_ms)),
                text,
            });
        }
    }
    None
}

/// Returns whether nothing indicates a building: no climb and no bad reception from the fix `start`
/// to `until_ms`, and no place near the address.
fn is_outdoors(ctx: &ScoringContext<'_>, start: Fix, until_ms: u32) -> bool {
    let inside = |event_type| {
        let mut events = ctx.events(event_type);
        events.any(|event| event.t_start_ms < until_ms && ctx.end_of(event) > start.t_ms)
    };
    let building = [
        EventType::Stairs,
        EventType::Elevator,
        EventType::GpsLost,
        EventType::GpsDegraded,
    ];
    start.place.distance_m(Place::default()) > FROZEN_AWAY_M && !building.into_iter().any(inside)
}

/// Returns whether altitudes change from fix to fix as those of a receiver do. Some phones fill
/// unknown altitudes with arbitrary values.
fn is_steady(altitudes_m: &[f32]) -> bool {
    let pairs = altitudes_m.iter().zip(altitudes_m.iter().skip(1));
    pairs
        .into_iter()
        .all(|(before_m, after_m)| (after_m - before_m).abs() <= ALTITUDE_STEP_M)
}

/// The heights at one end of a drive.
struct Heights {
    by_pressure: Level,
    /// The median altitude of the fixes, metres.
    altitude_m: f32,
}

/// Returns the heights in a part of a drive, or `None` if its altitudes are few or arbitrary.
fn heights(ctx: &ScoringContext<'_>, from_ms: u32, to_ms: u32) -> Option<Heights> {
    let by_pressure = ctx.height.level(from_ms, to_ms)?;
    let good = ctx
        .fixes(from_ms, to_ms)
        .iter()
        .filter(|fix| fix.accuracy_m <= GOOD_ACCURACY_M);
    let mut altitudes: Vec<f32> = good.filter_map(|fix| fix.altitude_m).collect();
    if altitudes.len() < ALTITUDES_MIN || !is_steady(&altitudes) {
        return None;
    }
    altitudes.sort_by(f32::total_cmp);
    Some(Heights {
        by_pressure,
        altitude_m: altitudes.get(altitudes.len() / 2).copied()?,
    })
}

/// Returns the signal of a drive over which the height by position and the height by pressure
/// differ.
fn altitude_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    ctx.events(EventType::Driving).find_map(|event| {
        let (from_ms, to_ms) = ctx.span_of(event);
        if !ALTITUDE_MS.contains(&to_ms.saturating_sub(from_ms)) {
            return None;
        }
        let early = heights(ctx, from_ms, from_ms + ALTITUDE_MIDDLE_MS)?;
        let late = heights(ctx, to_ms.saturating_sub(ALTITUDE_MIDDLE_MS), to_ms)?;
        let by_pressure_m = rise(early.by_pressure, late.by_pressure)?.metres;
        let apart_m = (late.altitude_m - early.altitude_m - by_pressure_m).abs();
        // Pressure follows the real temperature, which moves it by a tenth of the height.
        let is_apart = apart_m > ALTITUDE_M + PRESSURE_ERROR_SHARE * by_pressure_m.abs();
        is_apart.then(|| Signal {
            group: Group::Body,
            name: "altitude_contradicts_pressure",
            points: weights::ALTITUDE,
            span: Some((from_ms, to_ms)),
            text: altitude_text(apart_m),
        })
    })
}

fn altitude_text(apart_m: f32) -> EvidenceText {
    let text = format!(
        "During a drive, the height from GPS and the height from air pressure diverged by \
         {apart_m:.0} m."
    );
    EvidenceText::new(text, "A tunnel, strong wind, or a change of weather.")
}
