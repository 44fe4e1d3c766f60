//! Derives the reason codes: one outcome, or `INSUFFICIENT_DATA`, and the additional codes.

mod nearness;
mod silence;

use porchlight_schema::event::seconds;
use porchlight_schema::insight::ReasonCode;

use super::Findings;
use super::climb;
use super::doorstep::{Doorstep, Horizontal, Vertical};
use super::earlier_attempt::earlier_attempt;
use super::evidence_log::{EvidenceLog, EvidenceText, Span};
use super::explanation::NO_EXPLANATION;
use super::parameters::weights::visibility as thresholds;
use super::place::{self, DropOff, DropOffSource, Places, arrival};
use super::scoring_context::ScoringContext;
use crate::score::parameters::door::climb::INSTANT_MS;
use crate::score::parameters::door::outcome::{
    BESIDE_SIGMAS, DOOR_STAY_M, DOOR_STAY_MS, LEVEL_M, LOBBY_M, SESSION_MS_MIN,
};
pub(crate) use nearness::is_near_on_foot;
use nearness::{NearestOnFoot, is_located, may_have_been_near, near_somehow, nearest_on_foot};

/// Returns the reason codes, `outcome` first.
pub(super) fn codes(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    outcome: ReasonCode,
    evidence: &mut EvidenceLog,
) -> Vec<ReasonCode> {
    let mut codes = vec![outcome];
    if findings.doorstep.is_right {
        let text = "The drop-off was at the door of the address.";
        add_code(
            ReasonCode::DeliveredToRightDoorstep,
            "right_doorstep",
            drop_off_span(findings),
            text.to_owned(),
            NO_EXPLANATION,
            evidence,
        );
        codes.push(ReasonCode::DeliveredToRightDoorstep);
    }
    codes.extend(lobby_hand_off(ctx, findings, evidence));
    codes.extend(wrong_address(ctx, findings, evidence));
    if ctx.input.timed_out {
        let text = "The session was never stopped, so the service ended it.".to_owned();
        add_code(
            ReasonCode::SessionTimeout,
            "timed_out",
            None,
            text,
            "The app was closed, or the phone had no network.",
            evidence,
        );
        codes.push(ReasonCode::SessionTimeout);
    }
    codes.extend(silence::interrupted(ctx, findings, evidence));
    codes
}

/// Adds the evidence of a reason code.
fn add_code(
    code: ReasonCode,
    signal: &str,
    span: Span,
    text: String,
    explanation: &'static str,
    evidence: &mut EvidenceLog,
) {
    evidence.add(
        code.as_str(),
        signal,
        1.0,
        span,
        EvidenceText::new(text, explanation),
    );
}

/// Returns the time of the stay at the drop-off, or else of the drop-off alone.
fn drop_off_span(findings: &Findings<'_>) -> Span {
    if let Some(door) = findings.places.door_stay() {
        return Some((door.from_ms, door.to_ms));
    }
    findings
        .places
        .drop_off
        .map(|drop_off| (drop_off.at_ms, drop_off.at_ms))
}

/// Determines the outcome, and adds its evidence.
pub(super) fn find(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> ReasonCode {
    if let Some((signal, text)) = insufficient(ctx, findings.visibility.until_silence) {
        add_code(
            ReasonCode::InsufficientData,
            signal,
            None,
            text,
            "No network, a closed app or an old phone. It says nothing about the courier.",
            evidence,
        );
        return ReasonCode::InsufficientData;
    }
    let door = findings.places.door_stay();
    let at_door = is_at_door(ctx, findings);
    if let Some(code) = full_attempt(ctx, findings, evidence) {
        return code;
    }
    if let Some(nearest) = nearest_on_foot(ctx).filter(NearestOnFoot::is_within) {
        let (signal, text, explanation) = if at_door {
            (
                "not_up_to_floor",
                "The courier was at the address, but not on its floor.".to_owned(),
                "Buildings number their floors differently.",
            )
        } else {
            let lacks = if door.is_some() {
                "the stay was beside the address"
            } else {
                "no stay at its door was detected"
            };
            (
                "near_on_foot",
                format!(
                    "The courier came within {:.0} m of the address on foot, but {lacks}.",
                    nearest.distance_m
                ),
                "The stay may have been too short to detect, or the position of the address is off.",
            )
        };
        add_code(
            ReasonCode::PartialAttempt,
            signal,
            Some((nearest.t_ms, nearest.t_ms)),
            text,
            explanation,
            evidence,
        );
        return ReasonCode::PartialAttempt;
    }
    never_near(ctx, findings, evidence)
}

/// Returns whether the drop-off was a stay at the address, on whichever floor.
fn is_at_door(ctx: &ScoringContext<'_>, findings: &Findings<'_>) -> bool {
    let horizontal = findings.doorstep.horizontal;
    let is_near = matches!(horizontal, Horizontal::At | Horizontal::Perhaps);
    findings.places.door_stay().is_some() && (is_near || is_upstairs_nearby(ctx, findings))
}

/// Detects a stay at the door of the address, before the drop-off or with it.
fn full_attempt(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> Option<ReasonCode> {
    let is_full = is_at_door(ctx, findings) && findings.doorstep.vertical != Vertical::Wrong;
    let (signal, stay, addition, explanation) = if is_full {
        let door = findings.places.door_stay()?;
        ("stay_at_door", door, "", NO_EXPLANATION)
    } else {
        let attempt = earlier_attempt(ctx, findings.places, findings.doorstep)?;
        let addition = " The drop-off was at another door.";
        (
            "attempt_at_door",
            attempt,
            addition,
            "The position of the address may be off.",
        )
    };
    let length_sec = seconds(stay.length_ms());
    let text = format!(
        "The courier went on foot to the door and stayed there for {length_sec:.0} s.{addition}"
    );
    let span = Some((stay.from_ms, stay.to_ms));
    add_code(
        ReasonCode::FullAttempt,
        signal,
        span,
        text,
        explanation,
        evidence,
    );
    Some(ReasonCode::FullAttempt)
}

/// Returns whether the drop-off was a little away from the address, as is usual for positions
/// behind walls, but on its exact floor, which is not that of the street. The floor is then a
/// second piece of evidence, as good as the place.
fn is_upstairs_nearby(ctx: &ScoringContext<'_>, findings: &Findings<'_>) -> bool {
    let Doorstep {
        horizontal,
        vertical,
        ..
    } = *findings.doorstep;
    let estimate = findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.is_on_foot && drop_off.source != DropOffSource::Stay)
        .and_then(|drop_off| drop_off.estimate);
    horizontal == Horizontal::Off
        && vertical == Vertical::Right
        && ctx.input.context.floor.is_some_and(|floor| floor != 0)
        && estimate.is_some_and(|estimate| {
            let (distance_m, sigma_m) = ctx.offset_from_address(estimate);
            distance_m <= BESIDE_SIGMAS * sigma_m
        })
}

/// Returns the reason code of a courier who was not seen on foot near the address: `NO_ATTEMPT` if
/// the data is good enough to show that, else `POSSIBLE_NO_ATTEMPT`.
fn never_near(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> ReasonCode {
    if let Some(doubt) = doubt(ctx, findings) {
        add_code(
            ReasonCode::PossibleNoAttempt,
            doubt.signal,
            doubt.span,
            doubt.text.to_owned(),
            doubt.explanation,
            evidence,
        );
        return ReasonCode::PossibleNoAttempt;
    }
    let nearest = nearest_on_foot(ctx);
    let text = match nearest {
        Some(NearestOnFoot { distance_m, .. }) => {
            format!("The courier got no closer than {distance_m:.0} m to the address on foot.")
        }
        None if ctx.foot_periods.is_empty() => "The courier was never on foot.".to_owned(),
        None => "No position before or after a walk was near the address.".to_owned(),
    };
    add_code(
        ReasonCode::NoAttempt,
        "never_near_on_foot",
        nearest.map(|nearest| (nearest.t_ms, nearest.t_ms)),
        text,
        "The position of the address may be wrong.",
        evidence,
    );
    ReasonCode::NoAttempt
}

/// Evidence that a courier who was not seen on foot near the address may have been there.
struct Doubt {
    signal: &'static str,
    span: Span,
    text: &'static str,
    explanation: &'static str,
}

/// Returns why the data does not show that the courier was never near, or `None` if it does.
fn doubt(ctx: &ScoringContext<'_>, findings: &Findings<'_>) -> Option<Doubt> {
    let visibility = findings.visibility;
    let is_thin = || {
        visibility.score < thresholds::GOOD
            || visibility.position < thresholds::GOOD
            || ctx.has_rare_fixes()
            || !ctx.foot_periods.iter().all(|&foot| is_located(ctx, foot))
    };
    if let Some(halt) = findings.places.not_carried {
        Some(Doubt {
            signal: "phone_not_carried",
            span: Some(halt),
            text: "The vehicle stood near the address, but the phone recorded no walking.",
            explanation: "The phone stayed in the vehicle while the courier went to the door.",
        })
    } else if is_thin() {
        Some(Doubt {
            signal: "thin_data",
            span: None,
            text: "The courier was not seen on foot near the address, but much of the session was not recorded.",
            explanation: "The visit may have happened while nothing was recorded.",
        })
    } else if may_have_been_near(ctx) {
        Some(Doubt {
            signal: "near_unclear",
            span: None,
            text: "The courier was not seen on foot near the address, but the positions on foot were too inaccurate or too few to exclude it.",
            explanation: "Phones are located badly between houses, and not at all inside many of them.",
        })
    } else {
        let span = near_somehow(ctx)?;
        Some(Doubt {
            signal: "near_without_steps",
            span: Some(span),
            text: "The phone was near the address and not in a moving vehicle, but no steps were detected there.",
            explanation: "The phone stayed in the vehicle, or its sensors could not detect the steps.",
        })
    }
}

/// Returns the signal and the text of its evidence, if the data is insufficient for any statement
/// about the door.
pub(crate) fn insufficient(
    ctx: &ScoringContext<'_>,
    visibility: f64,
) -> Option<(&'static str, String)> {
    if ctx.end_ms < SESSION_MS_MIN {
        return Some((
            "session_too_short",
            format!("The session lasted less than {} s.", SESSION_MS_MIN / 1_000),
        ));
    }
    if !ctx.input.windows.iter().any(|window| window.has_sample) {
        return Some(("no_telemetry", "No telemetry was received.".to_owned()));
    }
    if ctx.fixes.is_empty() {
        return Some((
            "no_position",
            "No usable position was received, so nothing can be said about the address.".to_owned(),
        ));
    }
    (visibility < thresholds::INSUFFICIENT).then(|| {
        (
            "low_visibility",
            format!(
                "The telemetry shows only {:.0} % of the session.",
                visibility * 100.0
            ),
        )
    })
}

/// Detects a drop-off near the entrance although the address is on an upper floor: the height was
/// measured, and the courier gained none.
fn lobby_hand_off(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> Option<ReasonCode> {
    let wanted = ctx.input.context.floor.filter(|&floor| floor > 0)?;
    let drop_off = findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.is_on_foot)?;
    let rise = findings.climb.rise?;
    let elsewhere = matches!(
        findings.doorstep.horizontal,
        Horizontal::Elsewhere | Horizontal::Unknown
    );
    if rise.metres.abs() >= LEVEL_M || elsewhere || !stayed_level(ctx, findings.places, &drop_off) {
        return None;
    }
    let near = match findings.places.entrance {
        Some(entrance) => ctx
            .walked_m(entrance.at_ms, drop_off.at_ms)
            .is_some_and(|walked_m| walked_m <= LOBBY_M),
        // A courier who did not enter the building dropped off the parcel at its main door.
        None => true,
    };
    if !near {
        return None;
    }
    let text = format!(
        "The drop-off was near the entrance and on its level, but the address is on floor {wanted}."
    );
    add_code(
        ReasonCode::PossibleLobbyHandoff,
        "no_height_gained",
        drop_off_span(findings),
        text,
        "The recipient may have come down, or a concierge takes parcels.",
        evidence,
    );
    Some(ReasonCode::PossibleLobbyHandoff)
}

/// Returns whether no height was gained from the arrival on foot to the drop-off, or to the app's
/// mark if that came later. The level must be measured there, and the climbs on the way must add up
/// to less than a floor.
fn stayed_level(ctx: &ScoringContext<'_>, places: &Places, drop_off: &DropOff) -> bool {
    let last_ms = drop_off.claimed_ms.unwrap_or(0).max(drop_off.at_ms);
    let around = (
        last_ms.saturating_sub(INSTANT_MS),
        last_ms.saturating_add(INSTANT_MS),
    );
    let arrived_ms = places.foot.map_or(last_ms, |foot| foot.from_ms);
    ctx.height.level(around.0, around.1).is_some()
        && climb::net_height_m(ctx, arrived_ms, last_ms)
            .is_some_and(|height_m| height_m.abs() < LEVEL_M)
}

/// Returns whether the stay of the drop-off was at a door. At the address, every stay counts as one
/// at a door. Elsewhere, a stay with a mark does, and so does a short stay in the surrounding
/// streets away from the vehicle. Any other stay is a break or an errand.
pub(crate) fn is_stay_at_door(
    ctx: &ScoringContext<'_>,
    places: &Places,
    horizontal: Horizontal,
) -> bool {
    let Some((drop_off, door)) = places.drop_off.zip(places.door_stay()) else {
        return false;
    };
    if horizontal != Horizontal::Elsewhere || drop_off.source != DropOffSource::Stay {
        return true;
    }
    let distance_m = door
        .estimate
        .map(|estimate| ctx.offset_from_address(estimate).0);
    DOOR_STAY_MS.contains(&door.length_ms())
        && !arrival::is_at_vehicle(ctx, door)
        && distance_m.is_some_and(|distance_m| distance_m <= DOOR_STAY_M)
}

/// Detects a stay at another address that looks like one at a door.
fn wrong_address(
    ctx: &ScoringContext<'_>,
    findings: &Findings<'_>,
    evidence: &mut EvidenceLog,
) -> Option<ReasonCode> {
    findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.is_on_foot)?;
    let door = findings.places.door_stay()?;
    let (distance_m, sigma_m) = ctx.offset_from_address(door.estimate?);
    let horizontal = findings.doorstep.horizontal;
    let is_located = !ctx.has_rare_fixes()
        && place::foot_period_at(ctx, door.from_ms).is_none_or(|foot| is_located(ctx, foot));
    if !is_located {
        return None;
    }
    if horizontal != Horizontal::Elsewhere || !is_stay_at_door(ctx, findings.places, horizontal) {
        return None;
    }
    let text = format!(
        "The courier stayed at a door {distance_m:.0} m from the address; the uncertainty is {sigma_m:.0} m."
    );
    add_code(
        ReasonCode::PossibleWrongAddress,
        "stay_elsewhere",
        drop_off_span(findings),
        text,
        "The position of the address may be wrong, or the recipient asked for another place.",
        evidence,
    );
    Some(ReasonCode::PossibleWrongAddress)
}
