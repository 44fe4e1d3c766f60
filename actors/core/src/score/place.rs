//! Place and time: the stays on foot, the one at the door, the drop-off, and the entrance.

mod ascent;
pub(crate) mod entrance;
mod halt;
pub(crate) mod stays;
mod upstairs;

use super::MarkName;
use super::position::Estimate;
use super::scoring_context::{Foot, ScoringContext};
use crate::score::parameters::place::drop_off::{
    CLOCKS_APART_MS, EARLY_TAP_MS, INSTANT_MS, LATE_TAP_M, LATE_TAP_MS, LATE_TAP_SIGMAS,
    MARK_NEAR_MS,
};
use entrance::Entrance;
use stays::Stay;

/// The sign by which the drop-off is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropOffSign {
    /// A mark of the app.
    Mark,
    /// Only the stay.
    Stay,
    /// The proof of delivery.
    Pod,
}

/// The drop-off, as far as it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DropOff {
    pub(crate) at_ms: u32,
    pub(crate) sign: DropOffSign,
    /// The index of the stay, if it was on foot.
    pub(crate) stay: Option<usize>,
    pub(crate) estimate: Option<Estimate>,
    /// Whether the courier was on foot.
    pub(crate) on_foot: bool,
    /// The time of the app's mark, if it was made elsewhere, before or after the stay.
    pub(crate) said_ms: Option<u32>,
}

/// All results about places that the scores read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Places {
    pub(crate) stays: Vec<Stay>,
    pub(crate) drop_off: Option<DropOff>,
    pub(crate) entrance: Option<Entrance>,
    /// The period on foot that contains the drop-off, or else the period that came nearest to the
    /// address.
    pub(crate) foot: Option<Foot>,
    /// The time in which the vehicle stood near the address and the phone did not move on foot,
    /// although the app reported a drop-off or the vehicle drove away.
    pub(crate) not_carried: Option<(u32, u32)>,
    /// The end of the examined path to the door: the drop-off, or the end of a session that ended
    /// on foot.
    pub(crate) reached_ms: Option<u32>,
}

impl Places {
    pub(crate) fn find(scene: &ScoringContext<'_>) -> Self {
        let mut stays = stays::find(scene);
        let marked = marked_at(scene);
        if let Some((at_ms, _)) = marked {
            stays::add_marked(scene, &mut stays, at_ms);
        }
        stays::judge(scene, &mut stays);
        let drop_off = drop_off(scene, &stays, marked);
        let foot = drop_off
            .and_then(|drop_off| foot_at(scene, drop_off.at_ms))
            .or_else(|| nearest_foot(scene));
        let mut places = Self {
            stays,
            drop_off,
            entrance: None,
            foot,
            not_carried: None,
            reached_ms: None,
        };
        places.reached_ms = reached_ms(scene, &places);
        places.entrance = entrance::find(scene, &places);
        places.not_carried = halt::not_carried(scene, &places);
        places
    }

    /// Returns the stay of the drop-off.
    pub(crate) fn door(&self) -> Option<&Stay> {
        self.drop_off
            .and_then(|drop_off| self.stays.get(drop_off.stay?))
    }
}

/// Returns the app's last mark of the drop-off. A drop-off takes precedence over a photograph, and
/// a photograph over the time at which a proof was attached, which may be long after.
fn marked_at(scene: &ScoringContext<'_>) -> Option<(u32, DropOffSign)> {
    let last = |wanted: &[MarkName]| {
        let marks = scene.input.marks.iter();
        marks
            .filter(|(_, name)| wanted.contains(name))
            .map(|&(t_ms, _)| t_ms)
            .max()
    };
    let handed = last(&[MarkName::HandedOver, MarkName::LeftAtDoor]);
    if let Some(at_ms) = handed.or_else(|| last(&[MarkName::PodCaptured])) {
        return Some((at_ms, DropOffSign::Mark));
    }
    let at_ms = proof_at(scene)?;
    foot_at(scene, at_ms).map(|_| (at_ms, DropOffSign::Pod))
}

/// Returns the time of the proof of delivery on the phone's clock, if the two clocks can be compared.
///
/// The proof's time is the service's, a sample's the phone's. Telemetry that continues long after the
/// end was sent at a different pace than it was recorded, so the two cannot be compared. A phone whose
/// clock is ahead seems to send as long after an end by the service's clock.
pub(crate) fn proof_at(scene: &ScoringContext<'_>) -> Option<u32> {
    let pod = scene.input.pod?;
    let beyond_end_ms = scene.end_ms.saturating_sub(scene.input.duration_ms);
    let comparable = beyond_end_ms.saturating_sub(pod.clock_ahead_ms) <= CLOCKS_APART_MS;
    pod.t_ms
        .filter(|&pod_ms| comparable && pod_ms <= scene.end_ms)
}

fn drop_off(
    scene: &ScoringContext<'_>,
    stays: &[Stay],
    marked: Option<(u32, DropOffSign)>,
) -> Option<DropOff> {
    if let Some((at_ms, sign)) = marked {
        if let Some(late) = late_tap(scene, stays, at_ms) {
            return Some(DropOff { sign, ..late });
        }
        let stay = stays::at(scene, stays, at_ms, MARK_NEAR_MS);
        let span = stay
            .and_then(|index| stays.get(index))
            .map(|stay| (stay.from_ms, stay.to_ms));
        let (from_ms, to_ms) = span.unwrap_or((
            at_ms.saturating_sub(INSTANT_MS),
            at_ms.saturating_add(INSTANT_MS),
        ));
        let driving = scene.driving_at(at_ms).is_some();
        let said = DropOff {
            at_ms,
            sign,
            stay: stay.filter(|_| !driving),
            estimate: scene.estimate(from_ms, to_ms),
            on_foot: !driving && foot_at(scene, at_ms).is_some(),
            said_ms: None,
        };
        let tapped_elsewhere = match (said.on_foot, said.stay) {
            (true, Some(_)) => None,
            (true, None) => tap_on_the_way_back(scene, stays, at_ms)
                .or_else(|| tap_on_the_way_there(scene, stays, at_ms)),
            (false, _) if driving => early_tap(scene, stays, at_ms),
            // In the parked vehicle, after the return or before the walk.
            (false, _) => stay_before(scene, stays, at_ms)
                .map(|stay| said_at(stay, at_ms))
                .or_else(|| early_tap(scene, stays, at_ms)),
        };
        return Some(tapped_elsewhere.map_or(said, |stay| DropOff { sign, ..stay }));
    }
    let best = stays::best(scene, stays)?;
    let stay = stays.get(best)?;
    Some(DropOff {
        at_ms: stay.from_ms / 2 + stay.to_ms / 2,
        sign: DropOffSign::Stay,
        stay: Some(best),
        estimate: stay.estimate,
        on_foot: true,
        said_ms: None,
    })
}

/// Handles a drop-off mark made while driving, minutes after a stay at the address: the courier
/// tapped late, and the stay is the drop-off.
fn late_tap(scene: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<DropOff> {
    scene.driving_at(at_ms)?;
    stay_before(scene, stays, at_ms)
}

/// Returns the stay at the address within the minutes before a late tap.
fn stay_before(scene: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<DropOff> {
    best_at_address(scene, stays, (at_ms.saturating_sub(LATE_TAP_MS), at_ms))
}

/// Handles a drop-off mark made on foot, minutes after a stay at the address without a drive between:
/// the courier tapped on the way back. A climb may lie between if no other stay does. The stay is the
/// drop-off; the claim keeps its time and place.
fn tap_on_the_way_back(scene: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<DropOff> {
    let since_ms = at_ms.saturating_sub(LATE_TAP_MS);
    let is_before = |stay: &Stay| stay.to_ms >= since_ms && stay.to_ms <= at_ms;
    let on_this_floor = best_of(scene, stays, |stay| {
        is_before(stay) && !stays::are_parted(scene, stay, at_ms, &stays::CLIMBS_AND_DRIVES)
    });
    let last_ms = stays
        .iter()
        .filter(|stay| !stay.passage && stay.from_ms <= at_ms)
        .map(|stay| stay.from_ms)
        .max();
    let stay = on_this_floor.or_else(|| {
        best_of(scene, stays, |stay| {
            is_before(stay)
                && last_ms.is_none_or(|last_ms| stay.from_ms >= last_ms)
                && !stays::are_parted(scene, stay, at_ms, &stays::DRIVES)
        })
    })?;
    Some(said_at(stay, at_ms))
}

/// Handles a drop-off mark made on foot, minutes before a stay at the address without a drive between:
/// the courier tapped on the way to the door. The claim keeps its time and place.
fn tap_on_the_way_there(scene: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<DropOff> {
    let until_ms = at_ms.saturating_add(EARLY_TAP_MS);
    let stay = best_of(scene, stays, |stay| {
        stay.from_ms >= at_ms
            && stay.to_ms <= until_ms
            && !stays::are_parted(scene, stay, at_ms, &stays::DRIVES)
    })?;
    Some(said_at(stay, at_ms))
}

/// Returns the drop-off at a stay that was claimed at another time.
fn said_at(stay: DropOff, at_ms: u32) -> DropOff {
    DropOff {
        said_ms: Some(at_ms),
        ..stay
    }
}

/// Handles a drop-off mark made in the vehicle, minutes before a stay at the address: the courier
/// tapped early. The stay is the drop-off; the claim keeps its time and place.
fn early_tap(scene: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<DropOff> {
    let until_ms = at_ms.saturating_add(EARLY_TAP_MS);
    best_at_address(scene, stays, (at_ms, until_ms)).map(|stay| said_at(stay, at_ms))
}

/// Returns the stay at the address within a time range that looks most like one at a door.
fn best_at_address(
    scene: &ScoringContext<'_>,
    stays: &[Stay],
    (from_ms, to_ms): (u32, u32),
) -> Option<DropOff> {
    best_of(scene, stays, |stay| {
        stay.to_ms >= from_ms && stay.to_ms <= to_ms
    })
}

/// Returns the stay at the address that looks most like one at a door, among those that `may_be` it.
/// It takes a pause that resembles a pause at a gate only if there is no other stay.
fn best_of(
    scene: &ScoringContext<'_>,
    stays: &[Stay],
    may_be: impl Fn(&Stay) -> bool,
) -> Option<DropOff> {
    let best = |is_able: &dyn Fn(&Stay) -> bool| {
        let able = stays.iter().enumerate().filter(|(_, stay)| {
            may_be(stay)
                && is_able(stay)
                && stay.estimate.is_some()
                && may_be_at_address(scene, stay)
        });
        able.max_by(|(_, a), (_, b)| a.points.total_cmp(&b.points))
    };
    let (index, stay) = best(&|stay| !stay.passage).or_else(|| best(&|stay| !stay.before_ride))?;
    Some(DropOff {
        at_ms: stay.from_ms / 2 + stay.to_ms / 2,
        sign: DropOffSign::Mark,
        stay: Some(index),
        estimate: stay.estimate,
        on_foot: true,
        said_ms: None,
    })
}

/// Returns whether nothing places a stay away from the address.
fn may_be_at_address(scene: &ScoringContext<'_>, stay: &Stay) -> bool {
    stay.estimate.is_none_or(|estimate| {
        let (distance_m, sigma_m) = scene.offset_from_address(estimate);
        distance_m <= (LATE_TAP_SIGMAS * sigma_m).max(LATE_TAP_M)
    })
}

/// Returns the time of the drop-off on foot, or else the end of a session in which the courier was
/// last on foot.
fn reached_ms(scene: &ScoringContext<'_>, places: &Places) -> Option<u32> {
    match places.drop_off {
        Some(drop_off) => drop_off.on_foot.then_some(drop_off.at_ms),
        None => places
            .foot
            .filter(|foot| foot.to_ms >= scene.end_ms)
            .map(|foot| foot.to_ms),
    }
}

/// Returns the period on foot at an instant. Marks may fall a moment before or after it.
pub(crate) fn foot_at(scene: &ScoringContext<'_>, t_ms: u32) -> Option<Foot> {
    let near = |foot: &&Foot| {
        foot.from_ms <= t_ms.saturating_add(INSTANT_MS)
            && t_ms <= foot.to_ms.saturating_add(INSTANT_MS)
    };
    scene.feet.iter().find(near).copied()
}

/// Returns the period in which the courier came nearest on foot, by the distance less its
/// uncertainty (address and fix).
fn nearest_foot(scene: &ScoringContext<'_>) -> Option<Foot> {
    let nearest_m = |foot: &Foot| {
        let fixes = scene
            .fixes(foot.from_ms, foot.to_ms.saturating_add(1))
            .iter();
        fixes
            .map(|fix| fix.place.distance_m(crate::geo::Place::default()))
            .fold(f32::INFINITY, f32::min)
    };
    scene
        .feet
        .iter()
        .copied()
        .min_by(|a, b| nearest_m(a).total_cmp(&nearest_m(b)))
}
