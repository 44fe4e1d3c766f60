//! Finds the places of a session and their times: the stays on foot, the drop-off with its stay at
//! the door, and the entrance.

pub(crate) mod arrival;
mod ascent;
pub(crate) mod entrance;
mod halt;
pub(crate) mod open_way;
pub(crate) mod stays;
mod upstairs;

use super::MarkName;
use super::position::Estimate;
use super::scoring_context::{FootPeriod, ScoringContext, silences};
use crate::score::parameters::place::drop_off::{
    CLOCKS_APART_MS, EARLY_TAP_MS, INSTANT_MS, JUST_LEFT_MS, LATE_TAP_M, LATE_TAP_MS,
    LATE_TAP_SIGMAS, MARK_NEAR_MS,
};
use crate::score::parameters::place::scene::SILENCE_MS;
use entrance::Entrance;
use stays::Stay;

/// The evidence by which the drop-off is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropOffSource {
    /// A mark of the app.
    Mark,
    /// A stay that looks like one at a door.
    Stay,
    /// The proof of delivery.
    Pod,
}

/// The moment and place of the drop-off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DropOff {
    pub(crate) at_ms: u32,
    pub(crate) source: DropOffSource,
    /// The index of the stay, if it was on foot.
    pub(crate) stay: Option<usize>,
    pub(crate) estimate: Option<Estimate>,
    /// Whether the courier was on foot.
    pub(crate) is_on_foot: bool,
    /// The time of the app's mark, if it was made elsewhere, before or after the stay. `None` for a
    /// mark while driving after the stay, see [`late_tap`].
    pub(crate) claimed_ms: Option<u32>,
}

/// The places of a session, which all scores read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Places {
    pub(crate) stays: Vec<Stay>,
    pub(crate) drop_off: Option<DropOff>,
    pub(crate) entrance: Option<Entrance>,
    /// The period on foot that contains the drop-off, or else the period that came nearest to the
    /// address.
    pub(crate) foot: Option<FootPeriod>,
    /// The time in which the vehicle stood near the address and the phone did not move on foot,
    /// although the app reported a drop-off or the vehicle drove away.
    pub(crate) not_carried: Option<(u32, u32)>,
    /// The end of the examined path to the door: the drop-off, or the end of a session that ended
    /// on foot.
    pub(crate) reached_ms: Option<u32>,
}

impl Places {
    pub(crate) fn find(ctx: &ScoringContext<'_>) -> Self {
        let mut stays = stays::find(ctx);
        let marked = marked_at(ctx);
        if let Some((at_ms, _)) = marked {
            stays::add_marked(ctx, &mut stays, at_ms);
        }
        stays::rate(ctx, &mut stays);
        let drop_off = drop_off(ctx, &stays, marked);
        let foot = drop_off
            .and_then(|drop_off| foot_period_at(ctx, drop_off.at_ms))
            .or_else(|| nearest_foot_period(ctx));
        let mut places = Self {
            stays,
            drop_off,
            entrance: None,
            foot,
            not_carried: None,
            reached_ms: None,
        };
        places.reached_ms = reached_ms(ctx, &places);
        places.entrance = entrance::find(ctx, &places);
        places.not_carried = halt::not_carried(ctx, &places);
        places
    }

    /// Returns the stay at the door at which the parcel was dropped off.
    pub(crate) fn door_stay(&self) -> Option<&Stay> {
        self.drop_off
            .and_then(|drop_off| self.stays.get(drop_off.stay?))
    }
}

/// Returns the app's last mark of the drop-off. A drop-off takes precedence over a photograph, and
/// a photograph over the time at which a proof was attached, which may be long after.
fn marked_at(ctx: &ScoringContext<'_>) -> Option<(u32, DropOffSource)> {
    let last = |wanted: &[MarkName]| {
        let marks = ctx.input.marks.iter();
        marks
            .filter(|(_, name)| wanted.contains(name))
            .map(|&(t_ms, _)| t_ms)
            .max()
    };
    let handed = last(&[MarkName::HandedOver, MarkName::LeftAtDoor]);
    if let Some(at_ms) = handed.or_else(|| last(&[MarkName::PodCaptured])) {
        return Some((at_ms, DropOffSource::Mark));
    }
    let at_ms = proof_at(ctx)?;
    foot_period_at(ctx, at_ms).map(|_| (at_ms, DropOffSource::Pod))
}

/// Returns the time of the proof of delivery on the phone's clock, if the clocks of phone and
/// service can be compared.
///
/// The service sets the time of the proof, and the phone sets the times of the samples. If
/// telemetry continues long after the end of the session, the phone sent it later than it recorded
/// it, so the two clocks cannot be compared. A phone whose clock is ahead also seems to continue
/// after the end, by as much as it is ahead.
pub(crate) fn proof_at(ctx: &ScoringContext<'_>) -> Option<u32> {
    let pod = ctx.input.pod?;
    let beyond_end_ms = ctx.end_ms.saturating_sub(ctx.input.duration_ms);
    let comparable = beyond_end_ms.saturating_sub(pod.clock_ahead_ms) <= CLOCKS_APART_MS;
    pod.t_ms
        .filter(|&pod_ms| comparable && pod_ms <= ctx.end_ms)
}

/// Finds the drop-off: at the app's mark or at the proof of delivery, or else at the stay that
/// looks most like one at a door.
fn drop_off(
    ctx: &ScoringContext<'_>,
    stays: &[Stay],
    marked: Option<(u32, DropOffSource)>,
) -> Option<DropOff> {
    if let Some((at_ms, source)) = marked {
        if let Some(late) = late_tap(ctx, stays, at_ms) {
            return late.drop_off(stays, source);
        }
        let stay = stays::nearest(ctx, stays, at_ms, MARK_NEAR_MS);
        if stay.is_none()
            && let Some(left) = just_left(ctx, stays, at_ms)
        {
            return left.drop_off(stays, source);
        }
        let span = stay
            .and_then(|index| stays.get(index))
            .map(|stay| (stay.from_ms, stay.to_ms));
        let (from_ms, to_ms) = span.unwrap_or((
            at_ms.saturating_sub(INSTANT_MS),
            at_ms.saturating_add(INSTANT_MS),
        ));
        let driving = ctx.driving_at(at_ms).is_some();
        let claimed = DropOff {
            at_ms,
            source,
            stay: stay.filter(|_| !driving),
            estimate: ctx.estimate(from_ms, to_ms),
            is_on_foot: !driving && foot_period_at(ctx, at_ms).is_some(),
            claimed_ms: None,
        };
        let tapped_elsewhere = match (claimed.is_on_foot, claimed.stay) {
            (true, Some(_)) => None,
            (true, None) => tap_on_the_way_back(ctx, stays, at_ms)
                .or_else(|| tap_on_the_way_there(ctx, stays, at_ms)),
            (false, _) if driving => early_tap(ctx, stays, at_ms),
            // The mark was made in the parked vehicle, after the return or before the walk.
            (false, _) => stay_before(ctx, stays, at_ms)
                .map(|stay| stay.claimed_at(at_ms))
                .or_else(|| early_tap(ctx, stays, at_ms)),
        };
        let elsewhere = tapped_elsewhere.and_then(|tapped| tapped.drop_off(stays, source));
        return Some(elsewhere.unwrap_or(claimed));
    }
    let best = stays::best(ctx, stays)?;
    TappedStay::new(best).drop_off(stays, DropOffSource::Stay)
}

/// The stay of a drop-off, and the time of a mark that the courier made elsewhere.
#[derive(Debug, Clone, Copy)]
struct TappedStay {
    /// The index of the stay.
    index: usize,
    claimed_ms: Option<u32>,
}

impl TappedStay {
    fn new(index: usize) -> Self {
        Self {
            index,
            claimed_ms: None,
        }
    }

    /// Returns the stay with the time at which the app claimed the drop-off.
    fn claimed_at(self, at_ms: u32) -> Self {
        Self {
            claimed_ms: Some(at_ms),
            ..self
        }
    }

    /// Returns the drop-off in the middle of the stay.
    fn drop_off(self, stays: &[Stay], source: DropOffSource) -> Option<DropOff> {
        let stay = stays.get(self.index)?;
        Some(DropOff {
            at_ms: stay.from_ms / 2 + stay.to_ms / 2,
            source,
            stay: Some(self.index),
            estimate: stay.estimate,
            is_on_foot: true,
            claimed_ms: self.claimed_ms,
        })
    }
}

/// Returns the stay of a courier who marked the drop-off while driving, minutes after a stay at the
/// address. The courier tapped late, and the stay is the drop-off.
fn late_tap(ctx: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<TappedStay> {
    ctx.driving_at(at_ms)?;
    stay_before(ctx, stays, at_ms)
}

/// Returns the stay at the address within the minutes before a late tap.
fn stay_before(ctx: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<TappedStay> {
    best_at_address(ctx, stays, (at_ms.saturating_sub(LATE_TAP_MS), at_ms))
}

/// Returns the stay of a courier who marked the drop-off on the first steps down from it. The stay
/// is the drop-off wherever its position is, and `claimed_ms` is the time of the mark.
fn just_left(ctx: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<TappedStay> {
    let foot = foot_period_at(ctx, at_ms)?;
    let is_left = |stay: &Stay| {
        stay.from_ms >= foot.from_ms
            && stay.to_ms <= at_ms
            && at_ms - stay.to_ms <= JUST_LEFT_MS
            && !stays::are_separated(ctx, stay, at_ms, &stays::DRIVES)
            && ascent::is_on_another_floor(ctx, foot, stay.from_ms)
    };
    let index = stays.iter().rposition(is_left)?;
    Some(TappedStay::new(index).claimed_at(at_ms))
}

/// Returns the stay of a courier who marked the drop-off on foot, minutes after a stay at the
/// address and without a drive between: the courier tapped on the way back. A climb may lie between
/// if no other stay does. The stay is the drop-off, and `claimed_ms` is the time of the mark.
fn tap_on_the_way_back(ctx: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<TappedStay> {
    let since_ms = at_ms.saturating_sub(LATE_TAP_MS);
    let is_before = |stay: &Stay| {
        (since_ms..=at_ms).contains(&stay.to_ms) && !is_silent_between(ctx, stay, at_ms)
    };
    let on_this_floor = best_of(ctx, stays, |stay| {
        is_before(stay) && !stays::are_separated(ctx, stay, at_ms, &stays::CLIMBS_AND_DRIVES)
    });
    let last_ms = stays
        .iter()
        .filter(|stay| !stay.is_passage && stay.from_ms <= at_ms)
        .map(|stay| stay.from_ms)
        .max();
    let stay = on_this_floor.or_else(|| {
        best_of(ctx, stays, |stay| {
            is_before(stay)
                && last_ms.is_none_or(|last_ms| stay.from_ms >= last_ms)
                && !stays::are_separated(ctx, stay, at_ms, &stays::DRIVES)
        })
    })?;
    Some(stay.claimed_at(at_ms))
}

/// Returns whether the phone was silent between a stay and a mark, or around the mark, and then went
/// on: the courier may have been at the door meanwhile, and on any floor. A phone that measures no
/// height at the stay says nothing about floors, and may only be one that reports rarely.
fn is_silent_between(ctx: &ScoringContext<'_>, stay: &Stay, at_ms: u32) -> bool {
    let windows = ctx.input.windows;
    let until_ms = at_ms.max(stay.from_ms).saturating_add(SILENCE_MS);
    let silences = silences(windows, at_ms.min(stay.to_ms), until_ms);
    let goes_on = windows
        .iter()
        .any(|window| window.has_measurement && window.t_ms >= at_ms);
    stay.height_m.is_some()
        && goes_on
        && silences
            .iter()
            .any(|silence| silence.0 <= at_ms.max(stay.from_ms))
}

/// Returns the stay of a courier who marked the drop-off on foot, minutes before a stay at the
/// address and without a drive between: the courier tapped on the way to the door. `claimed_ms` is
/// the time of the mark.
fn tap_on_the_way_there(
    ctx: &ScoringContext<'_>,
    stays: &[Stay],
    at_ms: u32,
) -> Option<TappedStay> {
    let until_ms = at_ms.saturating_add(EARLY_TAP_MS);
    let stay = best_of(ctx, stays, |stay| {
        stay.from_ms >= at_ms
            && stay.to_ms <= until_ms
            && !is_silent_between(ctx, stay, at_ms)
            && !stays::are_separated(ctx, stay, at_ms, &stays::DRIVES)
    })?;
    Some(stay.claimed_at(at_ms))
}

/// Returns the stay of a courier who marked the drop-off in the vehicle, minutes before a stay at
/// the address: the courier tapped early. The stay is the drop-off, and `claimed_ms` is the time of
/// the mark.
fn early_tap(ctx: &ScoringContext<'_>, stays: &[Stay], at_ms: u32) -> Option<TappedStay> {
    let until_ms = at_ms.saturating_add(EARLY_TAP_MS);
    best_at_address(ctx, stays, (at_ms, until_ms)).map(|stay| stay.claimed_at(at_ms))
}

/// Returns the stay at the address with the most points, among those that end in a time range.
fn best_at_address(
    ctx: &ScoringContext<'_>,
    stays: &[Stay],
    (from_ms, to_ms): (u32, u32),
) -> Option<TappedStay> {
    best_of(ctx, stays, |stay| {
        stay.to_ms >= from_ms && stay.to_ms <= to_ms
    })
}

/// Returns the stay at the address with the most points, among those that `may_be` accepts. It
/// takes a pause that looks like one at a gate only if there is no other stay.
fn best_of(
    ctx: &ScoringContext<'_>,
    stays: &[Stay],
    may_be: impl Fn(&Stay) -> bool,
) -> Option<TappedStay> {
    let best = |is_candidate: &dyn Fn(&Stay) -> bool| {
        let candidates = stays.iter().enumerate().filter(|(_, stay)| {
            may_be(stay)
                && is_candidate(stay)
                && stay.estimate.is_some()
                && may_be_at_address(ctx, stay)
        });
        candidates.max_by(|(_, a), (_, b)| a.points.total_cmp(&b.points))
    };
    let (index, _) =
        best(&|stay| !stay.is_passage).or_else(|| best(&|stay| !stay.is_before_ride))?;
    Some(TappedStay::new(index))
}

/// Returns whether a stay may be at the address, which includes a stay without a position.
fn may_be_at_address(ctx: &ScoringContext<'_>, stay: &Stay) -> bool {
    stay.estimate.is_none_or(|estimate| {
        let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
        distance_m <= (LATE_TAP_SIGMAS * sigma_m).max(LATE_TAP_M)
    })
}

/// Returns the time of the drop-off on foot, or else the end of a session in which the courier was
/// last on foot.
fn reached_ms(ctx: &ScoringContext<'_>, places: &Places) -> Option<u32> {
    match places.drop_off {
        Some(drop_off) => drop_off.is_on_foot.then_some(drop_off.at_ms),
        None => places
            .foot
            .filter(|foot| foot.to_ms >= ctx.end_ms)
            .map(|foot| foot.to_ms),
    }
}

/// Returns the period on foot at an instant. Marks may fall a moment before or after it.
pub(crate) fn foot_period_at(ctx: &ScoringContext<'_>, t_ms: u32) -> Option<FootPeriod> {
    let near = |foot: &&FootPeriod| {
        foot.from_ms <= t_ms.saturating_add(INSTANT_MS)
            && t_ms <= foot.to_ms.saturating_add(INSTANT_MS)
    };
    ctx.foot_periods.iter().find(near).copied()
}

/// Returns the period on foot in which a fix was nearest to the address.
fn nearest_foot_period(ctx: &ScoringContext<'_>) -> Option<FootPeriod> {
    let nearest_m = |foot: &FootPeriod| {
        let fixes = ctx.fixes(foot.from_ms, foot.to_ms.saturating_add(1)).iter();
        fixes
            .map(|fix| fix.place.distance_m(crate::geo::Place::default()))
            .fold(f32::INFINITY, f32::min)
    };
    ctx.foot_periods
        .iter()
        .copied()
        .min_by(|a, b| nearest_m(a).total_cmp(&nearest_m(b)))
}
