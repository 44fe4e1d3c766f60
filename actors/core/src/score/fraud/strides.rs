//! Compares the paths on foot, second by second, with the strides that the phone measured on them.
//! The receiver's speed and the distance covered show a path, so that neither a short walk nor a
//! fidgeting hand hides missing strides.

use porchlight_schema::event::EventType;

use super::{Group, Signal};
use crate::score::evidence_log::EvidenceText;
use crate::score::parameters::fraud::strides::{
    ACCURACY_M, BROKEN_SHARE, CHORD_MS, COUNTED_SHARE, FOOT_MPS, GAIT_ACCEL_STD, GAIT_HZ,
    GAIT_SHARE, GAP_MS, HEARD_SHARE, LATE_MS, STRIDE_M, WALKS_M, WAY_M_MIN, WAY_MS, WAY_SIGMAS,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::scoring_context::ScoringContext;
use crate::window::{Fix, Window};

/// The strides and the gait that the phone measured on the paths.
#[derive(Debug, Default)]
struct Felt {
    way_m: f32,
    seconds: u32,
    heard: u32,
    gait: u32,
    steps: u32,
    span: Option<(u32, u32)>,
}

/// Returns the signal of a position that walks without a matching gait or step count.
pub(super) fn signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let felt = measure(ctx);
    let span = felt.span.filter(|_| felt.way_m >= WALKS_M)?;
    let strides = felt.way_m / STRIDE_M;
    let uncounted = counts(ctx) && (felt.steps as f32) <= COUNTED_SHARE * strides;
    let heard = felt.heard as f32 >= HEARD_SHARE * felt.seconds as f32;
    let gait_share = felt.gait as f32 / felt.heard.max(1) as f32;
    let gaitless = heard && gait_share <= GAIT_SHARE;
    let (points, what) = match (uncounted, gaitless) {
        (true, true) => (
            weights::GPS_WALKS,
            "no gait was felt and no step was counted",
        ),
        (true, false) if gait_share <= BROKEN_SHARE => {
            (weights::GPS_WALKS_UNCOUNTED, "no step was counted")
        }
        (false, true) if !counts(ctx) => (weights::GPS_WALKS_UNFELT, "no gait was felt"),
        _ => return None,
    };
    let text = format!(
        "The positions moved {:.0} m at walking pace while {what}.",
        felt.way_m
    );
    Some(Signal {
        group: Group::Body,
        name: "position_walks_body_rests",
        points,
        span: Some(span),
        text: EvidenceText::new(text, "The phone may have been on a cart on smooth ground."),
    })
}

/// Returns whether a step counter works: it has reported, and the phone has not reported its loss.
fn counts(ctx: &ScoringContext<'_>) -> bool {
    let mut windows = ctx.input.windows.iter();
    windows.any(|window| window.steps.is_some()) && !ctx.has_lost_sensor()
}

/// Adds up the strides and the gait on all paths.
fn measure(ctx: &ScoringContext<'_>) -> Felt {
    let mut felt = Felt::default();
    for (from_ms, to_ms, way_m) in ways(ctx) {
        felt.way_m += way_m;
        felt.seconds += to_ms.saturating_sub(from_ms) / 1_000;
        felt.span = Some((felt.span.map_or(from_ms, |span| span.0), to_ms));
        let walked = ctx.windows(from_ms, to_ms).iter();
        for motion in walked.filter_map(|window| window.motion) {
            felt.heard += 1;
            let is_gait = motion.accel_std >= GAIT_ACCEL_STD
                && motion
                    .cadence_hz
                    .is_none_or(|cadence_hz| cadence_hz >= GAIT_HZ);
            felt.gait += u32::from(is_gait);
        }
        let counted = ctx
            .windows(from_ms, to_ms.saturating_add(LATE_MS))
            .iter()
            .map(|window: &Window| u32::from(window.steps.unwrap_or(0)));
        felt.steps = counted.fold(felt.steps, u32::saturating_add);
    }
    felt
}

/// Returns the paths on foot outside of drives and buildings: start, end, and length in metres.
fn ways(ctx: &ScoringContext<'_>) -> Vec<(u32, u32, f32)> {
    let drives: Vec<(u32, u32)> = ctx.spans(EventType::Driving).collect();
    let is_driven = |t_ms: u32| {
        let next = drives.partition_point(|drive| drive.0 <= t_ms);
        let last = next.checked_sub(1).and_then(|index| drives.get(index));
        last.is_some_and(|drive| t_ms <= drive.1)
    };
    let on_foot = |fix: &Fix| {
        fix.accuracy_known
            && fix.accuracy_m <= ACCURACY_M
            && fix.speed_mps.is_some_and(|mps| FOOT_MPS.contains(&mps))
            && !is_driven(fix.t_ms)
    };
    let mut ways = Vec::new();
    let mut run: Vec<Fix> = Vec::new();
    for fix in &ctx.fixes {
        let goes_on = run
            .last()
            .is_none_or(|last| fix.t_ms.saturating_sub(last.t_ms) <= GAP_MS);
        if !(on_foot(fix) && goes_on) {
            ways.extend(way(ctx, &run));
            run.clear();
        }
        if on_foot(fix) {
            run.push(*fix);
        }
    }
    ways.extend(way(ctx, &run));
    ways
}

/// Returns a run of fixes at a walk if it is a path: it lasts, and leads away.
fn way(ctx: &ScoringContext<'_>, run: &[Fix]) -> Option<(u32, u32, f32)> {
    let (first, last) = (run.first()?, run.last()?);
    let farthest_m = run
        .iter()
        .map(|fix| fix.place.distance_m(first.place))
        .fold(0.0_f32, f32::max);
    let least_m = WAY_M_MIN.max(WAY_SIGMAS * first.accuracy_m.max(last.accuracy_m));
    if last.t_ms.saturating_sub(first.t_ms) < WAY_MS
        || farthest_m < least_m
        || ctx.is_indoors(first.t_ms, last.t_ms)
    {
        return None;
    }
    let (mut way_m, mut from) = (0.0, first);
    for fix in run {
        if fix.t_ms.saturating_sub(from.t_ms) >= CHORD_MS {
            way_m += from.place.distance_m(fix.place);
            from = fix;
        }
    }
    way_m += from.place.distance_m(last.place);
    Some((first.t_ms, last.t_ms, way_m))
}
