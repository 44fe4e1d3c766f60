//! Estimates how likely the telemetry or the claim is false, from the log-odds of independent
//! groups of evidence.
//!
//! `logit = prior + Σ over groups of min(Σ signals, cap) − reduction by poor visibility + evidence
//! at the door`. An inferred group alone stays below a score of 0.5, except the body group and a
//! kinematics group with several far jumps, whose caps are higher. Poor visibility reduces every
//! inferred signal except far jumps, so that missing data alone cannot make a session suspicious.
//! It does not reduce facts: flags of the platform, and an exact copy of a trace. Every term is an
//! entry of the evidence, and the entries add up to the logit.

mod body;
mod claim;
mod doppler;
mod kinematics;
mod noise;
mod path_turns;
mod strides;
mod vibration;

use porchlight_schema::insight::statement;
use porchlight_schema::sample::SystemName;

use super::Findings;
use super::doorstep::Vertical;
use super::evidence_log::{EvidenceLog, EvidenceText, Span, rounded};
use super::explanation::NO_EXPLANATION;
use super::parameters::weights::fraud as weights;
use super::place::DropOffSource;
use super::scoring_context::{ScoringContext, recorded_fixes};

use crate::plural::counted;
use crate::score::parameters::fraud::signals::{
    MOCK_PERSISTING, MOCK_PERSISTING_MS, MOCK_PERSISTING_SHARE, MOCK_SEVERAL, WALKED_SEC_MIN,
};
use crate::window::Fix;

/// The field of the insight that the evidence is about.
const ABOUT: &str = statement::FRAUD_SCORE;

/// A group of signals. Signals within a group depend on each other; groups do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Flags,
    Kinematics,
    Body,
    Turns,
    Time,
    CopiedTrace,
    Outcome,
}

impl Group {
    const ALL: [Self; 7] = [
        Self::Flags,
        Self::Kinematics,
        Self::Body,
        Self::Turns,
        Self::Time,
        Self::CopiedTrace,
        Self::Outcome,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Kinematics => "kinematics",
            Self::Body => "body against position",
            Self::Turns => "gyroscope against course",
            Self::Time => "time",
            Self::CopiedTrace => "copied trace",
            Self::Outcome => "claim",
        }
    }

    /// Returns whether the group is a fact (a flag of the platform or an exact copy) rather than an
    /// inference.
    fn is_fact(self) -> bool {
        matches!(self, Self::Flags | Self::CopiedTrace)
    }

    /// Returns the most points that the signals of the group may add together.
    fn cap(self, signals: &[&Signal]) -> f64 {
        match self {
            _ if self.is_fact() => weights::FACT_CAP,
            Self::Body => weights::BODY_CAP,
            Self::Kinematics if signals.iter().any(is_far_jump) => weights::FAR_TELEPORTS,
            _ => weights::GROUP_CAP,
        }
    }
}

/// A sign that the telemetry or the claim is false.
struct Signal {
    group: Group,
    name: &'static str,
    /// The log-odds that the signal adds.
    points: f64,
    span: Span,
    text: EvidenceText,
}

fn is_far_jump(signal: &&Signal) -> bool {
    [kinematics::FAR_TELEPORT, kinematics::FAR_OUTLIERS].contains(&signal.name)
}

/// The fraud score, and whether the session is marked as suspicious.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fraud {
    pub(crate) score: f64,
    pub(crate) suspicious: bool,
}

/// Computes the fraud score, and adds its evidence.
pub(super) fn score(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> Fraud {
    let mock = mock_signal(ctx);
    let is_persistent = mock
        .as_ref()
        .is_some_and(|signal| signal.points >= weights::MOCK_PERSISTING);
    let mut signals: Vec<Signal> = mock.into_iter().collect();
    signals.extend(integrity_signal(ctx));
    signals.extend(kinematics::signals(ctx));
    signals.extend(body::signals(ctx));
    signals.extend(path_turns::signal(ctx));
    signals.extend(clock_signal(ctx));
    signals.extend(copied_trace_signal(ctx));
    signals.extend(claim::signals(ctx, findings));

    let text = "Before any evidence, about one session in a hundred is false.";
    let mut logit = evidence.add(
        ABOUT,
        "prior",
        weights::PRIOR,
        None,
        EvidenceText::new(text, "This starting value is equal for all sessions."),
    );
    let mut grounds = Vec::new();
    for group in Group::ALL {
        let own: Vec<&Signal> = signals
            .iter()
            .filter(|signal| signal.group == group)
            .collect();
        // A phone left in the vehicle says little about the courier's claim, but everything about
        // its own positions.
        let visibility = match group {
            Group::Outcome => findings.visibility.score,
            _ => findings.visibility.coverage,
        };
        let points = add_group(group, &own, visibility, evidence);
        logit += points;
        if points >= weights::GROUND {
            grounds.push(group.name());
        }
    }
    // If the positions themselves are in doubt, a door that they show is not evidence for the
    // courier.
    let is_doubted = signals
        .iter()
        .any(|signal| signal.group.is_fact() || signal.points >= weights::DOUBT);
    if !is_doubted && has_door_evidence(ctx, findings) {
        logit += add_door_evidence(findings, evidence);
    }
    let score = rounded(1.0 / (1.0 + libm::exp(-rounded(logit))));
    let suspicious = score >= weights::SUSPICIOUS && (grounds.len() >= 2 || is_persistent);
    add_flag_evidence(Fraud { score, suspicious }, &grounds, evidence);
    Fraud { score, suspicious }
}

/// Adds the reason why the session is marked as suspicious, or why it is not.
fn add_flag_evidence(fraud: Fraud, grounds: &[&str], evidence: &mut EvidenceLog) {
    let Fraud { score, suspicious } = fraud;
    let names = if grounds.is_empty() {
        "none".to_owned()
    } else {
        grounds.join(", ")
    };
    let mut text = format!("The fraud score is {score}. Independent signals: {names}.");
    let (points, explanation) = if suspicious {
        let innocent = "Each signal has its own possible innocent explanation.";
        (grounds.len() as f64, innocent)
    } else {
        let threshold = weights::SUSPICIOUS;
        text.push_str(&format!(
            " Two of them and a score of {threshold} would mark the session as suspicious."
        ));
        (0.0, NO_EXPLANATION)
    };
    evidence.add(
        statement::SUSPICIOUS_BEHAVIOR,
        "grounds",
        points,
        None,
        EvidenceText::new(text, explanation),
    );
}

/// Adds the evidence that the drop-off was at the door, and returns its points.
fn add_door_evidence(findings: &Findings<'_>, evidence: &mut EvidenceLog) -> f64 {
    let door = findings.places.door_stay();
    let span = door.map(|door| (door.from_ms, door.to_ms));
    let text = "Route, stay, mark and floor at the door agree with each other.";
    evidence.add(
        ABOUT,
        "door_evidence",
        weights::DOOR,
        span,
        EvidenceText::new(text, "This counts in favour of the courier."),
    )
}

/// Adds the evidence of a group: its signals, its cap and the reduction by visibility. Returns the
/// sum of their points.
fn add_group(
    group: Group,
    signals: &[&Signal],
    visibility: f64,
    evidence: &mut EvidenceLog,
) -> f64 {
    let mut sum = 0.0;
    for signal in signals {
        sum += evidence.add(
            ABOUT,
            signal.name,
            signal.points,
            signal.span,
            signal.text.clone(),
        );
    }
    let cap = group.cap(signals);
    if sum > cap {
        let text = format!(
            "Related signals ({}) are capped at {} points.",
            group.name(),
            cap
        );
        sum += evidence.add(
            ABOUT,
            "group_cap",
            cap - sum,
            None,
            EvidenceText::new(text, NO_EXPLANATION),
        );
    }
    // Missing data cannot cause far jumps, so they count in full.
    let is_fact = group.is_fact() || signals.iter().any(is_far_jump);
    if sum > 0.0 && !is_fact && visibility < 1.0 {
        let text = format!(
            "Inferred evidence ({}) is weighted by data quality ({visibility}).",
            group.name()
        );
        sum += evidence.add(
            ABOUT,
            "visibility_factor",
            -sum * (1.0 - visibility),
            None,
            EvidenceText::new(text, "Missing data never counts against the courier."),
        );
    }
    sum
}

/// Returns the signal of positions that the platform marked as simulated.
fn mock_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let all: Vec<&Fix> = recorded_fixes(ctx.input.windows).collect();
    let mock: Vec<&&Fix> = all.iter().filter(|fix| fix.mock).collect();
    let (first, last) = (mock.first()?, mock.last()?);
    let span = (first.t_ms, last.t_ms);
    let share = mock.len() as f64 / all.len() as f64;
    let is_persistent = mock.len() >= MOCK_PERSISTING
        && span.1.saturating_sub(span.0) >= MOCK_PERSISTING_MS
        && share >= MOCK_PERSISTING_SHARE;
    let (name, points) = match mock.len() {
        _ if is_persistent => ("mock_persisting", weights::MOCK_PERSISTING),
        count if count >= MOCK_SEVERAL => ("mock_several", weights::MOCK_SEVERAL),
        _ => ("mock_once", weights::MOCK_ONCE),
    };
    let text = format!(
        "The phone marked {} of {} positions as simulated.",
        mock.len(),
        all.len()
    );
    let text = EvidenceText::new(
        text,
        "A developer's phone, or a tool that feeds an external receiver.",
    );
    Some(Signal {
        group: Group::Flags,
        name,
        points,
        span: Some(span),
        text,
    })
}

/// Returns the signal of a failed integrity check of the platform.
fn integrity_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let failed = ctx
        .input
        .system
        .iter()
        .find(|(_, name)| *name == SystemName::IntegrityFailed)?;
    let text = EvidenceText::new(
        "The platform's integrity check failed.",
        "A phone with a custom operating system fails it too.",
    );
    let span = Some((failed.0, failed.0));
    Some(Signal {
        group: Group::Flags,
        name: "integrity_failed",
        points: weights::INTEGRITY,
        span,
        text,
    })
}

/// Returns the signal of a phone whose clock was changed during the session.
fn clock_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let changed = ctx
        .input
        .system
        .iter()
        .filter(|(_, name)| *name == SystemName::ClockChanged);
    let times: Vec<u32> = changed.map(|&(t_ms, _)| t_ms).collect();
    let (first, last) = (times.first()?, times.last()?);
    let points = if times.len() > 1 {
        weights::CLOCK_REPEATED
    } else {
        weights::CLOCK_ONCE
    };
    let text = format!(
        "The phone's clock was changed {} during the session.",
        counted(times.len() as u64, "time")
    );
    let text = EvidenceText::new(
        text,
        "The network corrected the time, or the phone crossed a time zone.",
    );
    Some(Signal {
        group: Group::Time,
        name: "clock_changed",
        points,
        span: Some((*first, *last)),
        text,
    })
}

/// Returns the signal of a trace that repeats another session's. Two sessions that one courier
/// records at the same time, for two parcels of one stop, share one trace, and neither is a copy.
fn copied_trace_signal(ctx: &ScoringContext<'_>) -> Option<Signal> {
    let copied = ctx
        .input
        .known
        .copied_trace
        .filter(|copied| !copied.together)?;
    let text = format!(
        "{:.0} % of the trace repeats session {}: neither noise nor pace repeats itself.",
        f64::from(copied.similarity) * 100.0,
        copied.session_id
    );
    let text = EvidenceText::new(
        text,
        "The same batches may have been sent to two sessions by mistake.",
    );
    Some(Signal {
        group: Group::CopiedTrace,
        name: "replayed_trace",
        points: weights::COPIED_TRACE,
        span: None,
        text,
    })
}

/// Returns whether door, mark and body agree. The claim is then very likely true, even if the
/// positions have anomalies.
fn has_door_evidence(ctx: &ScoringContext<'_>, findings: &Findings<'_>) -> bool {
    let marked = findings
        .places
        .drop_off
        .is_some_and(|drop_off| drop_off.source == DropOffSource::Mark);
    let door = findings.places.door_stay();
    let walked = findings.places.foot.zip(door).is_some_and(|(foot, door)| {
        let windows = ctx.windows(foot.from_ms, door.from_ms).iter();
        windows
            .filter(|window| {
                super::scoring_context::body_state(window)
                    == super::scoring_context::BodyState::Moving
            })
            .count()
            >= WALKED_SEC_MIN
    });
    let level = findings.doorstep.vertical == Vertical::Right
        || (findings.doorstep.vertical == Vertical::Unknown
            && (ctx.input.context.floor.is_none() || findings.climb.rise.is_none()));
    findings.doorstep.is_right && marked && door.is_some() && walked && level
}
