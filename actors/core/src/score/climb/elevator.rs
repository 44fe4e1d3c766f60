//! Determines whether an elevator was used.

use porchlight_schema::event::{Event, EventType, seconds};
use porchlight_schema::insight::statement;

use super::signed_height_m;
use crate::score::evidence_log::{EvidenceLog, EvidenceText};
use crate::score::parameters::door::climb::{
    CONFIDENCE_MIN, DRIVE_AT_ONCE_MS, FLOORS_ON_FOOT_MAX, HEARD_SEC_MIN, HEARD_SHARE, LEVEL_MS,
    PRESSURE_GAP_MS, RIDE_M_MIN, STAIRS_MPS, UNEXPLAINED_M, UNEXPLAINED_MS, UNEXPLAINED_TIMES,
};
use crate::score::place::Places;
use crate::score::place::stays::Stay;
use crate::score::scoring_context::{
    BodyState, FootPeriod, ScoringContext, body_state, overlap_ms,
};

/// Returns whether an elevator was used, and adds the evidence. It is `Some(false)` only if
/// pressure or vertical acceleration was recorded nearly continuously, and `None` if that is
/// unknown.
pub(super) fn is_used(
    ctx: &ScoringContext<'_>,
    places: &Places,
    evidence: &mut EvidenceLog,
) -> Option<bool> {
    let ride = rides(ctx, places).find(|ride| {
        ride.confidence.as_probability() >= CONFIDENCE_MIN && !may_be_stairs(ctx, ride)
    });
    if let Some(ride) = ride {
        let span = ctx.span_of(ride);
        let length_sec = seconds(span.1.saturating_sub(span.0));
        let text = format!("An elevator ride of {length_sec:.0} s was detected.");
        evidence.add(
            statement::ELEVATOR_USED,
            "elevator_ride",
            1.0,
            Some(span),
            EvidenceText::new(text, "Standing on an escalator looks the same."),
        );
        return Some(true);
    }
    if let Some(ride) = rides(ctx, places).next() {
        explain_doubt(ctx, ride, evidence);
        return None;
    }
    let foot = places.foot.or_else(|| ctx.foot_periods.first().copied());
    let (from_ms, to_ms) = foot.map_or((0, ctx.end_ms), |foot| (foot.from_ms, foot.to_ms));
    let seconds_in = f64::from(to_ms.saturating_sub(from_ms) / 1000).max(1.0);
    let pressure = f64::from(measured_pressure_ms(ctx, (from_ms, to_ms)) / 1000) / seconds_in;
    let windows = ctx.windows(from_ms, to_ms);
    let vertical = windows.iter().filter(|window| {
        window
            .motion
            .is_some_and(|motion| motion.vertical_mean.is_some())
    });
    let vertical = vertical.count() as f64 / seconds_in;
    let is_long = seconds_in >= HEARD_SEC_MIN;
    let is_unexplained = pressure >= HEARD_SHARE && has_unexplained_rise(ctx, (from_ms, to_ms));
    let is_level = pressure >= HEARD_SHARE && !is_unexplained;
    let may_have_ridden = pressure < HEARD_SHARE
        && (may_have_ridden_unnoticed(ctx, places) || rises_in_hole(ctx, (from_ms, to_ms)));
    let has_no_push = vertical >= HEARD_SHARE && !may_have_ridden;
    if is_long && (is_level || has_no_push) {
        let text = if is_level {
            "Height was measured nearly all the time on foot and shows no elevator ride."
        } else {
            "Vertical acceleration was measured nearly all the time on foot and shows no elevator ride."
        };
        evidence.add(
            statement::ELEVATOR_USED,
            "no_ride",
            0.0,
            Some((from_ms, to_ms)),
            EvidenceText::new(text, "A very slow elevator can look like stairs."),
        );
        return Some(false);
    }
    explain_unknown(is_unexplained, (from_ms, to_ms), evidence);
    None
}

/// Returns the elevator rides of the courier. A ride before the courier left the vehicle, or after
/// the return to it, is one of the vehicle on a ramp or in a car lift.
pub(crate) fn rides<'a>(
    ctx: &'a ScoringContext<'a>,
    places: &Places,
) -> impl Iterator<Item = &'a Event> {
    let foot = places.foot;
    let is_on_foot = move |ride: &Event| {
        let span = ctx.span_of(ride);
        let is_within = |foot: &FootPeriod| overlap_ms(span, (foot.from_ms, foot.to_ms)) > 0;
        foot.is_none_or(|foot| is_within(&foot))
            || ctx
                .foot_periods
                .iter()
                .any(|foot| is_within(foot) && has_steps(ctx, foot))
    };
    ctx.events(EventType::Elevator)
        .filter(move |ride| is_on_foot(ride) && !is_of_vehicle(ctx, ride))
}

/// Returns whether the courier walked or climbed stairs within a period on foot.
fn has_steps(ctx: &ScoringContext<'_>, foot: &FootPeriod) -> bool {
    let walks = ctx.events(EventType::Walking);
    walks.chain(ctx.events(EventType::Stairs)).any(|event| {
        let span = ctx.span_of(event);
        overlap_ms(span, (foot.from_ms, foot.to_ms)) > 0
    })
}

/// Adds the evidence that a ride was detected and may have been something else.
fn explain_doubt(ctx: &ScoringContext<'_>, ride: &Event, evidence: &mut EvidenceLog) {
    let span = ctx.span_of(ride);
    evidence.add(
        statement::ELEVATOR_USED,
        "doubtful_ride",
        0.0,
        Some(span),
        EvidenceText::new(
            "An elevator ride was detected, but too little was measured to be sure of it.",
            "Stairs on a phone without motion sensors, or wind that changed the air pressure.",
        ),
    );
}

/// Returns whether the courier may have used an elevator whose push was not measured: the address
/// is on a high floor, and the courier also stood still in the building elsewhere than at the door.
fn may_have_ridden_unnoticed(ctx: &ScoringContext<'_>, places: &Places) -> bool {
    let floor = ctx.input.context.floor.unwrap_or(0);
    let Some((foot, door)) = places.foot.zip(places.door_stay()) else {
        return false;
    };
    let is_elsewhere = |stay: &Stay| {
        (foot.from_ms..foot.to_ms).contains(&stay.from_ms)
            && stay.from_ms != door.from_ms
            && ctx.is_indoors(stay.from_ms, stay.to_ms)
    };
    floor.abs() > FLOORS_ON_FOOT_MAX && places.stays.iter().any(is_elsewhere)
}

/// Returns whether the level changed by a floor while pressure was missing, and by more than the
/// steps of that time lead up or down.
fn rises_in_hole(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    let levels = ctx.height.levels(from_ms, to_ms);
    levels.iter().zip(levels.iter().skip(1)).any(|(a, b)| {
        let rise_m = (b.height_m - a.height_m).abs();
        b.t_ms - a.t_ms > PRESSURE_GAP_MS
            && rise_m > UNEXPLAINED_M * UNEXPLAINED_TIMES
            && rise_m > climbable_m(ctx, (a.t_ms, b.t_ms))
    })
}

/// Returns the greatest height that a courier climbs with the steps of a span, in metres.
fn climbable_m(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> f32 {
    let windows = ctx.windows(from_ms, to_ms).iter();
    let moving = windows.filter(|window| body_state(window) == BodyState::Moving);
    moving.count() as f32 * STAIRS_MPS
}

/// Adds the evidence that the use of an elevator is unknown.
fn explain_unknown(is_unexplained: bool, span: (u32, u32), evidence: &mut EvidenceLog) {
    let (signal, text, explanation) = if is_unexplained {
        (
            "unexplained_rise",
            "The air pressure changed by a floor or more, but no stairs and no ride were detected.",
            "A slow elevator, or stairs on which the steps were not detected.",
        )
    } else {
        (
            "height_not_measured",
            "There was too little air pressure or vertical acceleration data.",
            "Some phones have no barometer.",
        )
    };
    evidence.add(
        statement::ELEVATOR_USED,
        signal,
        0.0,
        Some(span),
        EvidenceText::new(text, explanation),
    );
}

/// Returns whether a ride is one of the vehicle: it is lower than any floor, or the vehicle drives
/// off immediately. Pressure swings in a vehicle that starts.
fn is_of_vehicle(ctx: &ScoringContext<'_>, ride: &Event) -> bool {
    let ended_ms = ctx.end_of(ride);
    let is_low = signed_height_m(ride).is_some_and(|height_m| height_m.abs() < RIDE_M_MIN);
    let drives_off = ctx.events(EventType::Driving).any(|drive| {
        drive.t_start_ms >= ride.t_start_ms
            && drive.t_start_ms <= ended_ms.saturating_add(DRIVE_AT_ONCE_MS)
    });
    is_low || drives_off
}

/// Returns for how long in `from_ms..to_ms` pressure samples were frequent enough to show a ride,
/// in milliseconds.
fn measured_pressure_ms(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> u32 {
    let levels = ctx.height.levels(from_ms, to_ms);
    let next = levels.iter().skip(1).map(|level| level.t_ms);
    let lengths = levels
        .iter()
        .zip(next.chain([to_ms]))
        .map(|(level, next_ms)| next_ms.saturating_sub(level.t_ms));
    lengths
        .filter(|length_ms| *length_ms <= PRESSURE_GAP_MS)
        .fold(0, u32::saturating_add)
}

/// Returns whether a ride may have been stairs: it is as slow as stairs, and no body sensor was
/// recorded during it.
fn may_be_stairs(ctx: &ScoringContext<'_>, ride: &Event) -> bool {
    let (from_ms, to_ms) = ctx.span_of(ride);
    let is_body_measured = ctx
        .windows(from_ms, to_ms)
        .iter()
        .any(|window| window.has_body_data());
    let length_sec = seconds(to_ms.saturating_sub(from_ms)) as f32;
    !is_body_measured
        && signed_height_m(ride).is_some_and(|height_m| height_m.abs() <= STAIRS_MPS * length_sec)
}

/// Returns whether the level changed by a floor within a minute without stairs that explain it. The
/// minutes overlap by half, so that a rise lies within one of them wherever it begins.
pub(super) fn has_unexplained_rise(ctx: &ScoringContext<'_>, (from_ms, to_ms): (u32, u32)) -> bool {
    let stairs: Vec<(u32, u32)> = ctx.spans(EventType::Stairs).collect();
    let mut at_ms = from_ms;
    while at_ms < to_ms {
        let span = (at_ms, at_ms.saturating_add(UNEXPLAINED_MS).min(to_ms));
        // A phone that swings in a pocket disturbs single readings by metres, so medians count.
        let parts = (span.0..span.1).step_by(LEVEL_MS as usize);
        let levels = parts
            .filter_map(|t_ms| ctx.height.level(t_ms, t_ms.saturating_add(LEVEL_MS)))
            .map(|level| level.height_m);
        let (low, high) = levels.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), height| {
            (low.min(height), high.max(height))
        });
        // Outdoors a walk of a minute over a hill changes the level as well; half a floor more is
        // allowed for it.
        if high - low > UNEXPLAINED_M * UNEXPLAINED_TIMES
            && !stairs.iter().any(|stairs| overlap_ms(*stairs, span) > 0)
        {
            return true;
        }
        at_ms = at_ms.saturating_add(UNEXPLAINED_MS / 2);
    }
    false
}
