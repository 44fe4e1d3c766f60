//! Estimates how likely the telemetry or the claim is false: log-odds of independent groups of
//! evidence.
//!
//! `logit = prior + Σ over groups of min(Σ signals, cap) − reduction by poor visibility +
//! acquittal`. Facts (flags of the platform, an exact replay) are not weakened by poor visibility;
//! every inferred signal is, so that missing data cannot convict. Every term is an entry of the
//! evidence, and the entries add up to the logit.

mod body;
mod claim;
mod doppler;
mod kinematics;
mod noise;
mod strides;
mod turns;

use porchlight_schema::sample::SystemName;

use super::climb::Climb;
use super::doorstep::{Doorstep, Vertical};
use super::evidence_log::{EvidenceLog, Explanation, Span, rounded, words};
use super::explanation::NO_EXPLANATION;
use super::parameters::weights::fraud as weights;
use super::place::{DropOffSign, Places};
use super::scoring_context::ScoringContext;
use super::visibility::Visibility;
use crate::score::parameters::fraud::signals::{
    MOCK_PERSISTING, MOCK_PERSISTING_MS, MOCK_PERSISTING_SHARE, MOCK_SEVERAL,
};
use crate::window::Fix;

const ABOUT: &str = "fraudScore";

/// Groups of evidence that are independent of each other; signals within a group are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Flags,
    Kinematics,
    Body,
    Turns,
    Time,
    Replay,
    Outcome,
}

impl Group {
    const ALL: [Self; 7] = [
        Self::Flags,
        Self::Kinematics,
        Self::Body,
        Self::Turns,
        Self::Time,
        Self::Replay,
        Self::Outcome,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Kinematics => "kinematics",
            Self::Body => "body against position",
            Self::Turns => "gyroscope against course",
            Self::Time => "time",
            Self::Replay => "replay",
            Self::Outcome => "claim",
        }
    }

    /// Returns whether the group is a fact (a flag of the platform or an exact copy) rather than an
    /// inference.
    fn is_fact(self) -> bool {
        matches!(self, Self::Flags | Self::Replay)
    }

    fn cap(self, signals: &[&Signal]) -> f64 {
        match self {
            _ if self.is_fact() => weights::FACT_CAP,
            Self::Body => weights::BODY_CAP,
            Self::Kinematics if signals.iter().any(is_far_teleport) => weights::FAR_TELEPORTS,
            _ => weights::GROUP_CAP,
        }
    }
}

/// A signal of an untruth.
struct Signal {
    group: Group,
    name: &'static str,
    points: f64,
    span: Span,
    words: Explanation,
}

fn is_far_teleport(signal: &&Signal) -> bool {
    signal.name == kinematics::FAR_TELEPORT
}

/// The fraud score and the flag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fraud {
    pub(crate) score: f64,
    pub(crate) suspicious: bool,
}

/// The other results of scoring that support or contradict the claim.
pub(crate) struct Findings<'f> {
    pub(crate) places: &'f Places,
    pub(crate) climb: &'f Climb,
    pub(crate) doorstep: &'f Doorstep,
    pub(crate) visibility: &'f Visibility,
}

pub(crate) fn score(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> Fraud {
    let mock = mock_flags(scene);
    let persists = mock
        .as_ref()
        .is_some_and(|signal| signal.points >= weights::MOCK_PERSISTING);
    let mut signals: Vec<Signal> = mock.into_iter().collect();
    signals.extend(integrity(scene));
    signals.extend(kinematics::signals(scene));
    signals.extend(body::signals(scene));
    signals.extend(turns::signal(scene));
    signals.extend(clock(scene));
    signals.extend(replay(scene));
    signals.extend(claim::signals(scene, findings));

    let text = "Before any evidence, about one session in a hundred is false.";
    let mut logit = ledger.add(
        ABOUT,
        "prior",
        weights::PRIOR,
        None,
        words(text, "This starting value is equal for all sessions."),
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
        let points = account(group, &own, visibility, ledger);
        logit += points;
        if points >= weights::GROUND {
            grounds.push(group.name());
        }
    }
    // If the positions themselves are in doubt, a door that they show is no exonerating evidence.
    let doubted = signals
        .iter()
        .any(|signal| signal.group.is_fact() || signal.points >= weights::DOUBT);
    if !doubted && is_door_evidence(scene, findings) {
        logit += acquit(findings, ledger);
    }
    let score = rounded(1.0 / (1.0 + libm::exp(-rounded(logit))));
    let suspicious = score >= weights::SUSPICIOUS && (grounds.len() >= 2 || persists);
    if suspicious {
        let text = format!(
            "The fraud score is {score}. Independent signals: {}.",
            grounds.join(", ")
        );
        ledger.add(
            "suspiciousBehavior",
            "grounds",
            grounds.len() as f64,
            None,
            words(
                text,
                "Each signal has its own possible innocent explanation.",
            ),
        );
    }
    Fraud { score, suspicious }
}

/// Records consistent evidence at the door, and returns its contribution to the logit.
fn acquit(findings: &Findings<'_>, ledger: &mut EvidenceLog) -> f64 {
    let door = findings.places.door();
    let span = door.map(|door| (door.from_ms, door.to_ms));
    let text = "Route, stay, mark and floor at the door agree with each other.";
    ledger.add(
        ABOUT,
        "door_evidence",
        weights::DOOR,
        span,
        words(text, "This counts in favour of the courier."),
    )
}

/// Records a group's signals, its cap and the reduction by visibility, and returns the group's
/// contribution to the logit.
fn account(group: Group, signals: &[&Signal], visibility: f64, ledger: &mut EvidenceLog) -> f64 {
    let mut sum = 0.0;
    for signal in signals {
        sum += ledger.add(
            ABOUT,
            signal.name,
            signal.points,
            signal.span,
            signal.words.clone(),
        );
    }
    let cap = group.cap(signals);
    if sum > cap {
        let text = format!(
            "Related signals ({}) are capped at {} points.",
            group.name(),
            cap
        );
        sum += ledger.add(
            ABOUT,
            "group_cap",
            cap - sum,
            None,
            words(text, NO_EXPLANATION),
        );
    }
    // Missing data cannot cause far jumps.
    let is_fact = group.is_fact() || signals.iter().any(is_far_teleport);
    if sum > 0.0 && !is_fact && visibility < 1.0 {
        let text = format!(
            "Inferred evidence ({}) is weighted by data quality ({visibility}).",
            group.name()
        );
        sum += ledger.add(
            ABOUT,
            "visibility_factor",
            -sum * (1.0 - visibility),
            None,
            words(text, "Missing data never counts against the courier."),
        );
    }
    sum
}

fn mock_flags(scene: &ScoringContext<'_>) -> Option<Signal> {
    let all: Vec<&Fix> = scene
        .input
        .windows
        .iter()
        .flat_map(|window| window.fixes.iter().flatten())
        .collect();
    let mock: Vec<&&Fix> = all.iter().filter(|fix| fix.mock).collect();
    let (first, last) = (mock.first()?, mock.last()?);
    let span = (first.t_ms, last.t_ms);
    let share = mock.len() as f64 / all.len() as f64;
    let persists = mock.len() >= MOCK_PERSISTING
        && span.1.saturating_sub(span.0) >= MOCK_PERSISTING_MS
        && share >= MOCK_PERSISTING_SHARE;
    let (name, points) = match mock.len() {
        _ if persists => ("mock_persisting", weights::MOCK_PERSISTING),
        count if count >= MOCK_SEVERAL => ("mock_several", weights::MOCK_SEVERAL),
        _ => ("mock_once", weights::MOCK_ONCE),
    };
    let text = format!(
        "The phone marked {} of {} positions as simulated.",
        mock.len(),
        all.len()
    );
    let words = words(
        text,
        "A developer's phone, or a tool that feeds an external receiver.",
    );
    Some(Signal {
        group: Group::Flags,
        name,
        points,
        span: Some(span),
        words,
    })
}

fn integrity(scene: &ScoringContext<'_>) -> Option<Signal> {
    let failed = scene
        .input
        .system
        .iter()
        .find(|(_, name)| *name == SystemName::IntegrityFailed)?;
    let words = words(
        "The platform's integrity check failed.",
        "A phone with a custom operating system fails it too.",
    );
    let span = Some((failed.0, failed.0));
    Some(Signal {
        group: Group::Flags,
        name: "integrity_failed",
        points: weights::INTEGRITY,
        span,
        words,
    })
}

fn clock(scene: &ScoringContext<'_>) -> Option<Signal> {
    let changed = scene
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
        "The phone's clock was changed {} times during the session.",
        times.len()
    );
    let words = words(
        text,
        "The network corrected the time, or the phone crossed a time zone.",
    );
    Some(Signal {
        group: Group::Time,
        name: "clock_changed",
        points,
        span: Some((*first, *last)),
        words,
    })
}

/// Two sessions that one courier records at the same time, for two parcels of one stop, share one
/// trace; neither is a copy.
fn replay(scene: &ScoringContext<'_>) -> Option<Signal> {
    let replay = scene.input.known.replay.filter(|replay| !replay.together)?;
    let text = format!(
        "{:.0} % of the trace repeats session {}: neither noise nor pace repeats itself.",
        f64::from(replay.similarity) * 100.0,
        replay.session_id
    );
    let words = words(
        text,
        "The same batches may have been sent to two sessions by mistake.",
    );
    Some(Signal {
        group: Group::Replay,
        name: "replayed_trace",
        points: weights::REPLAY,
        span: None,
        words,
    })
}

/// Returns whether door, mark and body agree: then the claim is very likely true, despite any
/// anomalies of the position.
fn is_door_evidence(scene: &ScoringContext<'_>, findings: &Findings<'_>) -> bool {
    let marked = findings
        .places
        .drop_off
        .is_some_and(|drop_off| drop_off.sign == DropOffSign::Mark);
    let door = findings.places.door();
    let walked = findings.places.foot.zip(door).is_some_and(|(foot, door)| {
        let windows = scene.windows(foot.from_ms, door.from_ms).iter();
        windows
            .filter(|window| {
                super::scoring_context::body(window) == super::scoring_context::Body::Moving
            })
            .count()
            >= 5
    });
    let level = findings.doorstep.up == Vertical::Right
        || (findings.doorstep.up == Vertical::Unknown
            && (scene.input.context.floor.is_none() || findings.climb.rise.is_none()));
    findings.doorstep.right && marked && door.is_some() && walked && level
}
