//! Checks the noise of the positions: a receiver's noise wanders. Generated positions have none, or
//! independent noise for each fix.

use porchlight_schema::event::EventType;

use super::{Group, Signal};
use crate::score::evidence_log::EvidenceText;
use crate::score::parameters::fraud::noise::{
    AROUND, CHORD, EVEN_MPS, EVEN_OF, EVEN_ON_FOOT, EVEN_ON_ROAD, FOOT_MPS, PIECE, REST_CHANGES,
    REST_CORRELATION, REST_MPS, REST_MPS_MIN, ROAD_MPS, STEP_SEC, WHITE_CORRELATION, WHITE_MPS_MIN,
    WHITE_PIECES, WHITE_SHARE,
};
use crate::score::parameters::weights::fraud as weights;
use crate::score::scoring_context::ScoringContext;
use crate::window::Fix;

/// Returns the signal of a path without noise, or else of independent noise for each fix.
pub(super) fn signal(ctx: &ScoringContext<'_>, fixes: &[Fix]) -> Option<Signal> {
    smooth_signal(fixes).or_else(|| white_noise_signal(&pieces(ctx, fixes)))
}

/// Returns the change of place from one fix to the next, east and north, m/s. Returns `None` if
/// they are too near or too far apart in time.
fn velocity(from: &Fix, to: &Fix) -> Option<(f32, f32)> {
    let seconds = to.t_ms.saturating_sub(from.t_ms) as f32 / 1000.0;
    let (east_m, north_m) = (
        to.place.east_m - from.place.east_m,
        to.place.north_m - from.place.north_m,
    );
    STEP_SEC
        .contains(&seconds)
        .then(|| (east_m / seconds, north_m / seconds))
}

/// The noise in a piece of the path.
struct Piece {
    span: (u32, u32),
    on_road: bool,
    /// The residual of the velocities without their course, m/s.
    rest_mps: f32,
    /// The correlation of successive residuals.
    correlation: f32,
}

/// Returns successive pieces of the path without overlap.
fn pieces(ctx: &ScoringContext<'_>, fixes: &[Fix]) -> Vec<Piece> {
    let driving: Vec<(u32, u32)> = ctx.spans(EventType::Driving).collect();
    let is_driven = |span: (u32, u32)| {
        let next = driving.partition_point(|drive| drive.0 <= span.1);
        next.checked_sub(1)
            .and_then(|index| driving.get(index))
            .is_some_and(|drive| drive.1 >= span.0)
    };
    let mut pieces = Vec::new();
    let mut velocities: Vec<(f32, f32)> = Vec::with_capacity(PIECE);
    let mut from_ms = 0;
    for pair in fixes.windows(2) {
        let [a, b] = pair else { continue };
        let Some(velocity) = velocity(a, b) else {
            velocities.clear();
            continue;
        };
        if velocities.is_empty() {
            from_ms = a.t_ms;
        }
        velocities.push(velocity);
        if velocities.len() == PIECE {
            let span = (from_ms, b.t_ms);
            pieces.extend(piece(&velocities, span, is_driven(span)));
            velocities.clear();
        }
    }
    pieces
}

/// Returns the noise in successive velocities, or `None` at the speed of neither a walk nor a
/// vehicle.
fn piece(velocities: &[(f32, f32)], span: (u32, u32), is_driven: bool) -> Option<Piece> {
    let length = |(east, north): (f32, f32)| (east * east + north * north).sqrt();
    // The speed along the path is that of its chords, which noise hardly lengthens.
    let chord_mps = |chord: &[(f32, f32)]| {
        let sum = chord
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        length(sum) / chord.len() as f32
    };
    let chords = velocities.chunks_exact(CHORD);
    let mean_mps = chords.clone().map(chord_mps).sum::<f32>() / chords.len().max(1) as f32;
    let on_road = is_driven || !FOOT_MPS.contains(&mean_mps);
    if on_road && !ROAD_MPS.contains(&mean_mps) {
        return None;
    }
    let rest: Vec<(f32, f32)> = velocities
        .windows(2 * AROUND + 1)
        .filter_map(|around| {
            let middle = around.get(AROUND)?;
            let count = around.len() as f32;
            let sum = around
                .iter()
                .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            Some((middle.0 - sum.0 / count, middle.1 - sum.1 / count))
        })
        .collect();
    let variance = rest
        .iter()
        .map(|rest| rest.0 * rest.0 + rest.1 * rest.1)
        .sum::<f32>()
        / rest.len().max(1) as f32;
    let products = rest.windows(2).map(|pair| match pair {
        [a, b] => a.0 * b.0 + a.1 * b.1,
        _ => 0.0,
    });
    let covariance = products.sum::<f32>() / rest.len().saturating_sub(1).max(1) as f32;
    Some(Piece {
        span,
        on_road,
        rest_mps: variance.sqrt(),
        correlation: if variance > 0.0 {
            covariance / variance
        } else {
            0.0
        },
    })
}

/// Counts changes of velocity, and how many of them are too small for a real receiver.
#[derive(Debug, Default)]
struct Evenness {
    changes: u32,
    even: u32,
    span: Option<(u32, u32)>,
}

impl Evenness {
    fn add(&mut self, t_ms: u32, change_mps: f32) {
        self.changes += 1;
        if change_mps < EVEN_MPS {
            self.even += 1;
            self.span = Some((self.span.map_or(t_ms, |span| span.0), t_ms));
        }
    }

    fn is_over(&self, share: f32) -> bool {
        self.changes >= EVEN_OF && self.even as f32 >= share * self.changes as f32
    }
}

/// Returns the signal of a path that lies on a line without noise, at a constant speed.
fn smooth_signal(fixes: &[Fix]) -> Option<Signal> {
    let (mut on_foot, mut on_road) = (Evenness::default(), Evenness::default());
    for triple in fixes.windows(3) {
        let [a, b, c] = triple else { continue };
        let Some((before, after)) = velocity(a, b).zip(velocity(b, c)) else {
            continue;
        };
        let length = |(east, north): (f32, f32)| (east * east + north * north).sqrt();
        let change_mps = length((after.0 - before.0, after.1 - before.1));
        match length(before) {
            mps if FOOT_MPS.contains(&mps) => on_foot.add(c.t_ms, change_mps),
            mps if ROAD_MPS.contains(&mps) => on_road.add(c.t_ms, change_mps),
            _ => {}
        }
    }
    let (name, points, how, evenness) = if on_foot.is_over(EVEN_ON_FOOT) {
        ("smooth_path", weights::SMOOTH_PATH, "on foot", on_foot)
    } else if on_road.is_over(EVEN_ON_ROAD) {
        (
            "smooth_drive",
            weights::SMOOTH_DRIVE,
            "in a vehicle",
            on_road,
        )
    } else {
        return None;
    };
    let text = format!(
        "{} of {} steps between positions {how} follow a line without noise, at a constant speed.",
        evenness.even, evenness.changes
    );
    Some(Signal {
        group: Group::Kinematics,
        name,
        points,
        span: evenness.span,
        text: EvidenceText::new(text, "A GPS that smooths its positions strongly."),
    })
}

/// Returns the signal of independent noise, on foot only: at speed, a clock that is off by a tenth
/// of a second moves a position by metres.
fn white_noise_signal(pieces: &[Piece]) -> Option<Signal> {
    let white: Vec<&Piece> = pieces
        .iter()
        .filter(|piece| {
            !piece.on_road
                && piece.rest_mps >= WHITE_MPS_MIN
                && piece.correlation <= WHITE_CORRELATION
        })
        .collect();
    let walked = pieces.iter().filter(|piece| !piece.on_road).count();
    if white.len() < WHITE_PIECES || white.len() * WHITE_SHARE.1 < walked * WHITE_SHARE.0 {
        return None;
    }
    let (first, last) = (white.first()?, white.last()?);
    let text = format!(
        "The errors of {} positions on foot are independent of each other; those of a real GPS drift.",
        white.len() * PIECE
    );
    Some(Signal {
        group: Group::Kinematics,
        name: "white_noise",
        points: weights::WHITE_NOISE,
        span: Some((first.span.0, last.span.1)),
        text: EvidenceText::new(text, "A GPS that computes each fix independently."),
    })
}

/// Returns the signal of positions that jump back and forth by metres each second while the
/// receiver reports standing still.
pub(super) fn rest_signal(fixes: &[Fix]) -> Option<Signal> {
    let (mut changes, mut squares) = (0_u32, 0.0_f32);
    let (mut pairs, mut products, mut norms) = (0_u32, 0.0_f32, 0.0_f32);
    let mut before: Option<(f32, f32)> = None;
    let mut span: Option<(u32, u32)> = None;
    for pair in fixes.windows(2) {
        let [a, b] = pair else { continue };
        let rests = |fix: &Fix| fix.speed_mps.is_some_and(|mps| mps <= REST_MPS);
        let change = velocity(a, b).filter(|_| rests(a) && rests(b));
        let Some(change) = change else {
            before = None;
            continue;
        };
        let square = |(east, north): (f32, f32)| east * east + north * north;
        changes += 1;
        squares += square(change);
        span = Some((span.map_or(a.t_ms, |span| span.0), b.t_ms));
        if let Some(before) = before {
            pairs += 1;
            products += before.0 * change.0 + before.1 * change.1;
            norms += (square(before) + square(change)) / 2.0;
        }
        before = Some(change);
    }
    let leaps = squares >= REST_MPS_MIN * REST_MPS_MIN * changes as f32;
    if pairs < REST_CHANGES || !leaps || products > REST_CORRELATION * norms {
        return None;
    }
    let text = format!(
        "The GPS reported standing still while {changes} positions jumped around independently; those of a real GPS drift."
    );
    Some(Signal {
        group: Group::Kinematics,
        name: "white_noise_at_rest",
        points: weights::WHITE_NOISE_AT_REST,
        span,
        text: EvidenceText::new(text, "A GPS that computes each fix independently."),
    })
}
