//! Scores how hard the delivery was.

use porchlight_schema::event::{EventType, Metadata, seconds};

use super::attempts::Attempts;
use super::evidence_log::{EvidenceLog, Span, rounded, words};
use super::explanation::NO_EXPLANATION;
use super::parameters::weights::friction as weights;
use super::place::Places;
use super::scoring_context::{ScoringContext, end_of};

/// Formats a count, such as `1 gate on the way.` or `2 gates on the way.`
fn counted(count: usize, what: &str, when: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural} {when}.")
}

/// Computes `1 − e^(−x)`: the first minutes count most.
fn saturating(value: f64, scale: f64) -> f64 {
    1.0 - libm::exp(-(value / scale).max(0.0))
}

struct Account<'l> {
    ledger: &'l mut EvidenceLog,
    sum: f64,
}

impl Account<'_> {
    fn add(
        &mut self,
        signal: &str,
        points: f64,
        span: Span,
        text: String,
        explanation: &'static str,
    ) {
        if points >= 0.0005 {
            self.sum += self.ledger.add(
                "frictionScore",
                signal,
                points,
                span,
                words(text, explanation),
            );
        }
    }
}

/// Returns the friction score, the sum of its entries.
pub(crate) fn score(
    scene: &ScoringContext<'_>,
    places: &Places,
    attempts: &Attempts,
    ledger: &mut EvidenceLog,
) -> f64 {
    let mut account = Account { ledger, sum: 0.0 };
    waits(scene, attempts, &mut account);
    ways(scene, places, attempts, &mut account);
    climbs(scene, places, &mut account);
    if attempts.visits > 1 {
        let points = (f64::from(attempts.visits - 1) * weights::ATTEMPT).min(weights::ATTEMPT_CAP);
        let text = format!("It took {} visits to the door.", attempts.visits);
        account.add(
            "repeated_attempts",
            points,
            None,
            text,
            "The recipient may have asked the courier to come back.",
        );
    }
    if account.sum > 1.0 {
        let over = 1.0 - account.sum;
        let text = "The score is limited to 1.".to_owned();
        account.sum += account.ledger.add(
            "frictionScore",
            "ceiling",
            over,
            None,
            words(text, NO_EXPLANATION),
        );
    }
    if account.sum == 0.0 {
        let text = "Nothing made this delivery harder than others.".to_owned();
        account.ledger.add(
            "frictionScore",
            "none",
            0.0,
            None,
            words(
                text,
                "Things that the phone could not measure are not counted.",
            ),
        );
    }
    rounded(account.sum)
}

fn waits(scene: &ScoringContext<'_>, attempts: &Attempts, account: &mut Account<'_>) {
    let gates: Vec<_> = scene.events(EventType::Gate).collect();
    let gate_sec = gates
        .iter()
        .map(|event| match event.metadata {
            Metadata::Gate { wait_sec } => f64::from(wait_sec),
            _ => seconds(end_of(event, scene.end_ms).saturating_sub(event.t_start_ms)),
        })
        // The sum of an empty iterator is −0, and would be written so.
        .fold(0.0, |sum, waited_sec| sum + waited_sec);
    let door_sec = (seconds(attempts.at_door_ms) - weights::WAIT_FREE_SEC).max(0.0);
    let points = weights::WAIT * saturating(gate_sec + door_sec, weights::WAIT_SCALE_SEC);
    let text =
        format!("{gate_sec:.0} s waiting at gates; {door_sec:.0} s longer at the door than usual.");
    account.add(
        "waiting",
        points,
        attempts.door,
        text,
        "Part of it may be a break.",
    );
    let points = (gates.len() as f64 * weights::GATE).min(weights::GATE_CAP);
    let span = gates
        .first()
        .map(|event| (event.t_start_ms, end_of(event, scene.end_ms)));
    let text = counted(gates.len(), "gate", "on the way");
    account.add(
        "gates",
        points,
        span,
        text,
        "A pause on the way can look like a gate.",
    );
}

fn ways(
    scene: &ScoringContext<'_>,
    places: &Places,
    attempts: &Attempts,
    account: &mut Account<'_>,
) {
    let mut retraced_m = 0_u32;
    for event in scene.events(EventType::Backtracking) {
        if let Metadata::Backtracking { retraced_m: metres } = event.metadata {
            retraced_m = retraced_m.saturating_add(metres);
        }
    }
    let points = (f64::from(retraced_m) / 50.0 * weights::BACKTRACKING_PER_50_M)
        .min(weights::BACKTRACKING_CAP);
    account.add(
        "backtracking",
        points,
        None,
        format!("{retraced_m} m of the route was walked twice."),
        "The courier may have looked for another way in.",
    );
    let door_ms = attempts.door.map(|(from_ms, _)| from_ms);
    if let (Some(entrance), Some(door_ms)) = (places.entrance, door_ms) {
        let way_sec = seconds(door_ms.saturating_sub(entrance.at_ms));
        let points = weights::WAY_IN * saturating(way_sec, weights::WAY_IN_SCALE_SEC);
        let text = format!("{way_sec:.0} s from the entrance to the door.");
        account.add(
            "way_in",
            points,
            Some((entrance.at_ms, door_ms)),
            text,
            "The time of entering is an estimate.",
        );
    }
    if let (Some(foot), Some(door_ms)) = (places.foot, door_ms) {
        let until_ms = places.entrance.map_or(door_ms, |entrance| entrance.at_ms);
        let approach_sec = seconds(until_ms.saturating_sub(foot.from_ms));
        let points = weights::APPROACH * saturating(approach_sec, weights::APPROACH_SCALE_SEC);
        let text = format!("{approach_sec:.0} s on foot to the building.");
        account.add(
            "approach",
            points,
            Some((foot.from_ms, until_ms)),
            text,
            "There may have been no parking space nearby.",
        );
    }
}

fn climbs(scene: &ScoringContext<'_>, places: &Places, account: &mut Account<'_>) {
    let until_ms = places
        .drop_off
        .map_or(scene.end_ms, |drop_off| drop_off.at_ms);
    let mut floors = 0_u32;
    for event in scene
        .events(EventType::Stairs)
        .filter(|event| event.t_start_ms <= until_ms)
    {
        if let Metadata::Climb {
            floors: counted, ..
        } = event.metadata
        {
            floors = floors.saturating_add(u32::from(counted.unwrap_or(1)));
        }
    }
    let points = (f64::from(floors) * weights::STAIRS_PER_FLOOR).min(weights::STAIRS_CAP);
    account.add(
        "stairs",
        points,
        None,
        format!("{floors} floors climbed on stairs."),
        "Storeys differ in height between buildings.",
    );
    let rides = scene
        .events(EventType::Elevator)
        .filter(|event| event.t_start_ms <= until_ms)
        .count();
    let points = (rides as f64 * weights::ELEVATOR).min(weights::ELEVATOR_CAP);
    account.add(
        "elevator",
        points,
        None,
        counted(rides, "elevator ride", "before the drop-off"),
        "Standing on an escalator looks the same.",
    );
}
