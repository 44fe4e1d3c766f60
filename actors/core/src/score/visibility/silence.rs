//! Recognizes silences of a channel that are not a loss.

use porchlight_schema::event::EventType;
use porchlight_schema::sample::{Kind, SystemName};

use super::{BIN_MS, Bins};
use crate::geo::Place;
use crate::score::parameters::door::silence::{BUILDING_M, REPEATED_SHARE};
use crate::score::place::Places;
use crate::score::scoring_context::{ScoringContext, end_of, overlap_ms};

/// Covers the silences of a step counter that reports on change (contract 3) and is the only body
/// sensor: if it is silent and the stream is not, no step was made, and its next reading makes up
/// for the silence.
pub(super) fn cover_uncounted(scene: &ScoringContext<'_>, motion: &mut Bins, stream: &Bins) {
    let has = |kind: Kind| {
        let mut sensors = scene.input.context.sensors.iter();
        sensors.any(|sensor| sensor.eq_ignore_ascii_case(kind.as_str()))
    };
    let windows = || scene.input.windows.iter();
    let told = windows().any(|window| window.motion.is_some());
    let lost = scene
        .input
        .system
        .iter()
        .any(|(_, name)| matches!(name, SystemName::SensorLost | SystemName::PermissionLost));
    let readings = windows().filter(|window| window.steps.is_some()).count();
    let repeated = windows().filter(|window| window.steps == Some(0)).count();
    let on_change = repeated <= 1 + readings / REPEATED_SHARE;
    if !has(Kind::Steps) || has(Kind::Motion) || has(Kind::Imu) || told || lost || !on_change {
        return;
    }
    let first = windows().find(|window| window.steps.is_some());
    let Some(from_ms) = first.map(|window| window.t_ms) else {
        return;
    };
    let mut t_ms = from_ms - from_ms % BIN_MS;
    while t_ms < scene.end_ms {
        if stream.is_heard(t_ms) {
            motion.grant(t_ms);
        }
        t_ms = t_ms.saturating_add(BIN_MS);
    }
}

/// Covers a bin without a fix inside a building if other sensors sent data: they show the further
/// path.
pub(super) fn cover_indoors(
    scene: &ScoringContext<'_>,
    places: &Places,
    position: &mut Bins,
    (motion, pressure): (&Bins, &Bins),
) {
    let lost = scene
        .events(EventType::GpsLost)
        .chain(scene.events(EventType::GpsDegraded));
    for event in lost {
        let (from_ms, to_ms) = (event.t_start_ms, end_of(event, scene.end_ms));
        if !is_in_building(scene, places, (from_ms, to_ms)) {
            continue;
        }
        let mut t_ms = from_ms;
        while t_ms <= to_ms {
            if (motion.is_heard(t_ms) || pressure.is_heard(t_ms)) && !is_switched_off(scene, t_ms) {
                position.grant(t_ms);
            }
            t_ms = t_ms.saturating_add(BIN_MS);
        }
    }
}

/// Returns whether reception was lost on foot, near the address or the drop-off or on the way up: a
/// building caused it.
fn is_in_building(scene: &ScoringContext<'_>, places: &Places, span: (u32, u32)) -> bool {
    if scene.driving_at(span.0).is_some()
        || scene
            .feet
            .iter()
            .all(|foot| overlap_ms((foot.from_ms, foot.to_ms), span) == 0)
    {
        return false;
    }
    let climbs = scene
        .events(EventType::Stairs)
        .chain(scene.events(EventType::Elevator));
    if climbs
        .into_iter()
        .any(|event| overlap_ms((event.t_start_ms, end_of(event, scene.end_ms)), span) > 0)
    {
        return true;
    }
    let Some(last) = scene.fixes(0, span.0.saturating_add(1)).last() else {
        return false;
    };
    let door = places
        .drop_off
        .and_then(|drop_off| drop_off.estimate)
        .map(|estimate| estimate.place);
    let near_m = BUILDING_M + last.accuracy_m;
    [Some(Place::default()), door]
        .into_iter()
        .flatten()
        .any(|place| last.place.distance_m(place) <= near_m)
}

/// Returns whether the user had switched location off at that time: that is a loss in any place.
fn is_switched_off(scene: &ScoringContext<'_>, t_ms: u32) -> bool {
    let mut off = false;
    for &(at_ms, name) in scene.input.system {
        if at_ms > t_ms {
            break;
        }
        match name {
            SystemName::LocationOff | SystemName::PermissionLost => off = true,
            SystemName::LocationOn => off = false,
            _ => {}
        }
    }
    off
}
