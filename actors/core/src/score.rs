//! Turns a finished session into its [`Score`]: every field, every reason code, and their evidence.
//!
//! The result depends on [`ScoreInput`] only (contract 4).

mod attempts;
mod body_state;
mod climb;
mod counter_delay;
mod doorstep;
mod earlier_attempt;
mod evidence_log;
pub mod explanation;
mod fingerprint;
mod fraud;
mod friction;
mod handling;
pub(crate) mod height;
mod jumps;
mod knowledge;
mod outcome;
pub mod parameters;
mod place;
pub(crate) mod position;
pub(crate) mod scoring_context;
mod visibility;

#[cfg(test)]
mod tests;

pub use fingerprint::{Fingerprint, trace_fingerprint};
pub use knowledge::{
    CopiedTrace, Knowledge, LearnedPoint, PLACE_SESSIONS_MAX, PlaceFacts, PlaceKnowledge, learn,
    place_key, recorded_together,
};

use porchlight_schema::event::{Event, seconds, sort_events};
use porchlight_schema::insight::{Metrics, Score, Summary, statement};
use porchlight_schema::limits::SAMPLE_T_MS_MAX;
use porchlight_schema::sample::SystemName;
use porchlight_schema::session::PodType;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use crate::context::SessionContext;
pub use crate::mark::MarkName;
use crate::window::{ClockStep, WINDOW_MS, Window};
use evidence_log::{EvidenceLog, EvidenceText, rounded};
use parameters::door::learning::{ENTRANCE_BEFORE_MS, FRAUD_MAX};
use place::Places;
use scoring_context::ScoringContext;

/// The latest possible end of a session: the greatest `t` of a sample and its window.
const END_MS_MAX: u32 = SAMPLE_T_MS_MAX + WINDOW_MS;

/// The part of a proof of delivery that scoring uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodInput {
    /// The kind of PoD.
    pub pod_type: PodType,
    /// The time at which the proof was attached, in milliseconds since the session's start; `None`
    /// if unknown or outside the session.
    pub t_ms: Option<u32>,
    /// The least time by which the phone's clock is ahead of the service's, in milliseconds.
    pub clock_ahead_ms: u32,
}

impl PodInput {
    /// Describes a proof that the service received at `received_at`, for a session that the phone
    /// started and the service created at these times, each by its own clock.
    ///
    /// A session does not begin after the service has created it. If its start is later, the
    /// phone's clock is ahead by at least the difference. A phone's clock that is behind cannot be
    /// distinguished from a phone that was offline at the start.
    #[must_use]
    pub fn received(
        pod_type: PodType,
        received_at: TimestampMs,
        started_at: TimestampMs,
        created_at: TimestampMs,
    ) -> Self {
        let positive_ms = |ms: i64| u32::try_from(ms.max(0)).unwrap_or(u32::MAX);
        Self {
            pod_type,
            t_ms: Some(positive_ms(
                received_at.since_ms(started_at.min(created_at)),
            )),
            clock_ahead_ms: positive_ms(started_at.since_ms(created_at)),
        }
    }
}

/// Everything on which a score depends.
#[derive(Debug, Clone, Copy)]
pub struct ScoreInput<'a> {
    /// The facts about the address and the device.
    pub context: &'a SessionContext,
    /// The whole session in order: a window for each second with data or within a silence under 30
    /// s.
    pub windows: &'a [Window],
    /// The final timeline.
    pub events: &'a [Event],
    /// The marks in order: milliseconds since the session's start, and the name.
    pub marks: &'a [(u32, MarkName)],
    /// The incidents of the phone, in order: milliseconds since the session's start, and the name.
    pub system: &'a [(u32, SystemName)],
    /// The times at which the phone's clock was set back, in order.
    pub clock_steps: &'a [ClockStep],
    /// The proof of delivery.
    pub pod: Option<PodInput>,
    /// The length of the session, milliseconds.
    pub duration_ms: u32,
    /// Whether the service ended the session.
    pub timed_out: bool,
    /// The number of batches that never arrived.
    pub missing_batches: u32,
    /// The number of batches that were left out because they could not be processed.
    pub quarantined_batches: u32,
    /// The prior knowledge of the place.
    pub known: &'a Knowledge,
}

/// A score, and facts that the service may learn about the place.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The resulting score.
    pub score: Score,
    /// Facts about the place, if the session is trusted enough. Their `day` and `rider` are 0: the
    /// caller sets them.
    pub learned: Option<PlaceFacts>,
    /// The time at which the courier passed the entrance, milliseconds since the session's start;
    /// `None` if not found.
    pub entrance_ms: Option<u32>,
    /// The time that the courier stayed at the door, milliseconds. `None` if no stay was found.
    pub at_door_ms: Option<u32>,
}

/// Scores a finished session.
#[must_use]
pub fn score(input: &ScoreInput<'_>) -> Score {
    score_and_learn(input).score
}

/// Scores a finished session and extracts facts to learn.
#[must_use]
pub fn score_and_learn(input: &ScoreInput<'_>) -> Scored {
    let ctx = ScoringContext::new(input);
    let mut evidence = EvidenceLog::default();
    let places = Places::find(&ctx);
    let visibility = visibility::score(&ctx, &places, &mut evidence);
    let climb = climb::find(&ctx, &places, &mut evidence);
    let mut doorstep = doorstep::judge(&ctx, &places, &climb, &mut evidence);
    doorstep.is_right &= outcome::insufficient(&ctx, visibility.until_silence).is_none();
    let findings = Findings {
        places: &places,
        climb: &climb,
        doorstep: &doorstep,
        visibility: &visibility,
    };
    let mut outcome_evidence = EvidenceLog::default();
    let outcome = outcome::find(&ctx, &findings, &mut outcome_evidence);
    let attempts = attempts::count(&ctx, &places, &doorstep, outcome, &mut evidence);
    let friction_score = friction::score(&ctx, &places, &attempts, &mut evidence);
    let fraud = fraud::score(&ctx, &findings, &mut evidence);
    doorstep.withdraw_if_in_doubt(fraud.score, &mut evidence);
    let findings = Findings {
        places: &places,
        climb: &climb,
        doorstep: &doorstep,
        visibility: &visibility,
    };
    evidence.append(outcome_evidence);
    let reason_codes = outcome::codes(&ctx, &findings, outcome, &mut evidence);
    let metrics = metrics(&places, &attempts, &mut evidence);
    let mut events = input.events.to_vec();
    sort_events(&mut events);
    let learned = learned(
        &ctx,
        &places,
        &climb,
        &doorstep,
        fraud.score,
        visibility.score,
    );
    let summary = Summary {
        right_doorstep: doorstep.is_right,
        fraud_score: fraud.score,
        suspicious_behavior: fraud.suspicious,
        friction_score,
        visibility_score: visibility.score,
        floors_climbed: climb.floors,
        elevator_used: climb.elevator_used,
        total_duration_sec: seconds(input.duration_ms),
        attempt_cycles: attempts.visits,
    };
    let score = Score {
        summary,
        reason_codes,
        events,
        metrics,
        evidence: evidence.into_entries(),
        weights: versions(),
        has_path: ctx.fixes.len() >= 2,
    };
    Scored {
        score,
        learned,
        entrance_ms: places.entrance.map(|entrance| entrance.at_ms),
        at_door_ms: attempts.door.map(|_| attempts.at_door_ms),
    }
}

/// The results that the fraud score and the reason codes are computed from.
#[derive(Clone, Copy)]
struct Findings<'f> {
    places: &'f Places,
    climb: &'f climb::Climb,
    doorstep: &'f doorstep::Doorstep,
    visibility: &'f visibility::Visibility,
}

/// Returns the versions of the parameters and of the learned models.
fn versions() -> String {
    format!(
        "{}+{}+{}",
        parameters::VERSION,
        crate::gait::VERSION,
        crate::confidence::VERSION
    )
}

/// Computes the times at the building, with their evidence.
fn metrics(places: &Places, attempts: &attempts::Attempts, evidence: &mut EvidenceLog) -> Metrics {
    let Some((door_from_ms, door_to_ms)) = attempts.door else {
        return Metrics::default();
    };
    let at_door_sec = rounded(seconds(attempts.at_door_ms));
    let text = format!("{at_door_sec:.0} s at the door.");
    let span = Some((door_from_ms, door_to_ms));
    evidence.add(
        statement::TIME_AT_DOOR_SEC,
        "stay",
        at_door_sec,
        span,
        EvidenceText::new(text, "A step aside may start or end a stay."),
    );
    let entrance = places
        .entrance
        .filter(|entrance| entrance.at_ms <= door_from_ms);
    let way_sec = entrance.map(|entrance| {
        let way_sec = rounded(seconds(door_from_ms - entrance.at_ms));
        let sign = match entrance.source {
            place::entrance::EntranceSource::KnownPlace => "its known position was passed",
            place::entrance::EntranceSource::Gate => "a gate was passed",
            place::entrance::EntranceSource::Decay => "GPS accuracy began to degrade",
            place::entrance::EntranceSource::Climb => "a climb began soon after",
        };
        let text = format!(
            "The entrance was found because {sign}. From there to the door it took {way_sec:.0} s."
        );
        let span = Some((entrance.at_ms, door_from_ms));
        evidence.add(
            statement::TIME_FROM_ENTRANCE_TO_DOOR_SEC,
            "entrance",
            way_sec,
            span,
            EvidenceText::new(text, "GPS reacts to a doorway some seconds late."),
        );
        way_sec
    });
    Metrics {
        time_from_entrance_to_door_sec: way_sec,
        time_at_door_sec: Some(at_door_sec),
    }
}

/// Returns the facts about the place that a session adds to the knowledge. A session adds facts
/// only if its visibility is good, the drop-off was very likely at the address's door, and no
/// evidence contradicts that.
fn learned(
    ctx: &ScoringContext<'_>,
    places: &Places,
    climb: &climb::Climb,
    doorstep: &doorstep::Doorstep,
    fraud_score: f64,
    visibility_score: f64,
) -> Option<PlaceFacts> {
    let drop_off = places.drop_off?;
    // In an unknown building a floor cannot be distinguished from the adjacent ones. The app's mark
    // of the drop-off is then trusted for later sessions, though not for this one.
    let is_likely = doorstep.horizontal == doorstep::Horizontal::At
        && doorstep.vertical == doorstep::Vertical::Unclear
        && drop_off.source == place::DropOffSource::Mark;
    let is_seen = visibility_score >= parameters::weights::visibility::GOOD;
    if !(doorstep.is_right || is_likely) || fraud_score > FRAUD_MAX || !is_seen {
        return None;
    }
    let frame = ctx.input.context.frame;
    let entrance = places.entrance.filter(|entrance| entrance.is_timed());
    let entrance = entrance.and_then(|entrance| {
        ctx.estimate(
            entrance.at_ms.saturating_sub(ENTRANCE_BEFORE_MS),
            entrance.at_ms,
        )
    });
    let point = |estimate: position::Estimate| (frame.point(estimate.place), estimate.sigma_m);
    // The floor is the address's and the height is the barometer's: no assumed storey height enters
    // the knowledge.
    let floor = ctx.input.context.floor.filter(|&floor| floor != 0);
    let floor_height_m = floor.zip(climb.height_m());
    Some(PlaceFacts {
        day: 0,
        rider: 0,
        floor_height_m,
        entrance: entrance.map(point),
        drop_off: drop_off.estimate.map(point),
    })
}
