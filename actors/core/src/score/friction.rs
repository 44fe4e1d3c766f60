//! Scores how hard the delivery was.

use porchlight_schema::event::{EventType, Metadata, seconds};
use porchlight_schema::insight::statement;

use super::attempts::Attempts;
use super::climb::elevator;
use super::evidence_log::{EvidenceLog, EvidenceText, Span, rounded};
use super::explanation::NO_EXPLANATION;
use super::parameters::weights::friction as weights;
use super::place::Places;
use super::scoring_context::ScoringContext;
use crate::plural::counted;

/// The field of the insight that the evidence is about.
const ABOUT: &str = statement::FRICTION_SCORE;

/// Computes `1 − e^(−value / scale)`, so that the first minutes count most.
fn saturating(value: f64, scale: f64) -> f64 {
    1.0 - libm::exp(-(value / scale).max(0.0))
}

/// The sum of the points so far, and the evidence to which each of them is added.
struct FrictionTotal<'l> {
    evidence: &'l mut EvidenceLog,
    points: f64,
}

impl FrictionTotal<'_> {
    fn add(&mut self, signal: &str, points: f64, span: Span, text: EvidenceText) {
        if points >= weights::POINTS_MIN {
            self.points += self.evidence.add(ABOUT, signal, points, span, text);
        }
    }
}

/// Returns the friction score, which is the sum of the points of its evidence.
pub(crate) fn score(
    ctx: &ScoringContext<'_>,
    places: &Places,
    attempts: &Attempts,
    evidence: &mut EvidenceLog,
) -> f64 {
    let mut total = FrictionTotal {
        evidence,
        points: 0.0,
    };
    add_waits(ctx, attempts, &mut total);
    add_paths(ctx, places, attempts, &mut total);
    add_climbs(ctx, places, &mut total);
    if attempts.visits > 1 {
        let points = (f64::from(attempts.visits - 1) * weights::ATTEMPT).min(weights::ATTEMPT_CAP);
        let text = format!("It took {} visits to the door.", attempts.visits);
        total.add(
            "repeated_attempts",
            points,
            None,
            EvidenceText::new(
                text,
                "The recipient may have asked the courier to come back.",
            ),
        );
    }
    if total.points > 1.0 {
        let over = 1.0 - total.points;
        let text = "The score is limited to 1.".to_owned();
        total.points += total.evidence.add(
            ABOUT,
            "ceiling",
            over,
            None,
            EvidenceText::new(text, NO_EXPLANATION),
        );
    }
    if total.points == 0.0 {
        let text = "Nothing made this delivery harder than others.".to_owned();
        total.evidence.add(
            ABOUT,
            "none",
            0.0,
            None,
            EvidenceText::new(
                text,
                "Anything that the phone could not measure is not counted.",
            ),
        );
    }
    rounded(total.points)
}

/// Adds the waits at gates and at the door.
fn add_waits(ctx: &ScoringContext<'_>, attempts: &Attempts, total: &mut FrictionTotal<'_>) {
    let gates: Vec<_> = ctx.events(EventType::Gate).collect();
    let gate_sec = gates
        .iter()
        .map(|event| match event.metadata {
            Metadata::Gate { wait_sec } => f64::from(wait_sec),
            _ => seconds(ctx.end_of(event).saturating_sub(event.t_start_ms)),
        })
        // `sum` of an empty iterator is −0, which the text would show.
        .fold(0.0, |sum, waited_sec| sum + waited_sec);
    let door_sec = (seconds(attempts.at_door_ms) - weights::WAIT_FREE_SEC).max(0.0);
    let points = weights::WAIT * saturating(gate_sec + door_sec, weights::WAIT_SCALE_SEC);
    let text =
        format!("{gate_sec:.0} s waiting at gates; {door_sec:.0} s longer at the door than usual.");
    total.add(
        "waiting",
        points,
        attempts.door,
        EvidenceText::new(text, "Part of it may be a break."),
    );
    let points = (gates.len() as f64 * weights::GATE).min(weights::GATE_CAP);
    let span = gates.first().map(|event| ctx.span_of(event));
    let text = format!("{} on the way.", counted(gates.len() as u64, "gate"));
    total.add(
        "gates",
        points,
        span,
        EvidenceText::new(text, "A pause on the way can look like a gate."),
    );
}

/// Adds the paths on foot: retraced ones, the approach, and the way from the entrance to the door.
fn add_paths(
    ctx: &ScoringContext<'_>,
    places: &Places,
    attempts: &Attempts,
    total: &mut FrictionTotal<'_>,
) {
    let mut retraced_m = 0_u32;
    for event in ctx.events(EventType::Backtracking) {
        if let Metadata::Backtracking { retraced_m: metres } = event.metadata {
            retraced_m = retraced_m.saturating_add(metres);
        }
    }
    let points = (f64::from(retraced_m) / weights::BACKTRACKING_M * weights::BACKTRACKING)
        .min(weights::BACKTRACKING_CAP);
    total.add(
        "backtracking",
        points,
        None,
        EvidenceText::new(
            format!("{retraced_m} m of the route was walked twice."),
            "The courier may have looked for another way in.",
        ),
    );
    let door_ms = attempts.door.map(|(from_ms, _)| from_ms);
    if let (Some(entrance), Some(door_ms)) = (places.entrance, door_ms) {
        let way_sec = seconds(door_ms.saturating_sub(entrance.at_ms));
        let points = weights::WAY_IN * saturating(way_sec, weights::WAY_IN_SCALE_SEC);
        let text = format!("{way_sec:.0} s from the entrance to the door.");
        total.add(
            "way_in",
            points,
            Some((entrance.at_ms, door_ms)),
            EvidenceText::new(text, "The time of entering is an estimate."),
        );
    }
    if let (Some(foot), Some(door_ms)) = (places.foot, door_ms) {
        let until_ms = places.entrance.map_or(door_ms, |entrance| entrance.at_ms);
        let approach_sec = seconds(until_ms.saturating_sub(foot.from_ms));
        let points = weights::APPROACH * saturating(approach_sec, weights::APPROACH_SCALE_SEC);
        let text = format!("{approach_sec:.0} s on foot to the building.");
        total.add(
            "approach",
            points,
            Some((foot.from_ms, until_ms)),
            EvidenceText::new(text, "There may have been no parking space nearby."),
        );
    }
}

/// Adds the stairs and the elevator rides before the drop-off.
fn add_climbs(ctx: &ScoringContext<'_>, places: &Places, total: &mut FrictionTotal<'_>) {
    let until_ms = places
        .drop_off
        .map_or(ctx.end_ms, |drop_off| drop_off.at_ms);
    let mut floors = 0_u32;
    for event in ctx
        .events(EventType::Stairs)
        .filter(|event| event.t_start_ms <= until_ms)
    {
        if let Metadata::Climb { floors: known, .. } = event.metadata {
            floors = floors.saturating_add(u32::from(known.unwrap_or(1)));
        }
    }
    let points = (f64::from(floors) * weights::STAIRS_PER_FLOOR).min(weights::STAIRS_CAP);
    total.add(
        "stairs",
        points,
        None,
        EvidenceText::new(
            format!("{} climbed on stairs.", counted(floors.into(), "floor")),
            "Storeys differ in height between buildings.",
        ),
    );
    let rides = elevator::rides(ctx, places)
        .filter(|ride| ride.t_start_ms <= until_ms)
        .count();
    let points = (rides as f64 * weights::ELEVATOR).min(weights::ELEVATOR_CAP);
    total.add(
        "elevator",
        points,
        None,
        EvidenceText::new(
            format!(
                "{} before the drop-off.",
                counted(rides as u64, "elevator ride")
            ),
            "Standing on an escalator looks the same.",
        ),
    );
}
