//! Derives the reason codes: one outcome, or `INSUFFICIENT_DATA`, and the additional codes.

mod silence;

use porchlight_schema::event::{EventType, seconds};
use porchlight_schema::insight::ReasonCode;

use super::climb::Climb;
use super::doorstep::{Doorstep, Horizontal, Vertical};
use super::earlier_attempt::earlier_attempt;
use super::evidence_log::{EvidenceLog, Span, words};
use super::explanation::NO_EXPLANATION;
use super::parameters::weights::visibility as thresholds;
use super::place::{DropOffSign, Places};
use super::scoring_context::{ScoringContext, end_of};
use super::visibility::Visibility;
use crate::geo::Place;
use crate::score::parameters::door::outcome::{
    BESIDE_SIGMAS, DOOR_STAY_M, DOOR_STAY_MS, LEVEL_M, LOBBY_M, NEAR_ACCURACY_M, NEAR_LEAST_MS,
    SESSION_LEAST_MS, SURROUNDINGS_M,
};
use crate::window::Fix;

/// The inputs of the reason codes.
pub(crate) struct Findings<'f> {
    pub(crate) places: &'f Places,
    pub(crate) climb: &'f Climb,
    pub(crate) doorstep: &'f Doorstep,
    pub(crate) visibility: &'f Visibility,
}

/// Returns the reason codes, outcome first.
pub(crate) fn codes(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> Vec<ReasonCode> {
    let mut codes = vec![outcome(scene, findings, ledger)];
    if findings.doorstep.right {
        let text = "The drop-off was at the door of the address.";
        note(
            ReasonCode::DeliveredToRightDoorstep,
            "right_doorstep",
            drop_off_span(findings),
            text.to_owned(),
            NO_EXPLANATION,
            ledger,
        );
        codes.push(ReasonCode::DeliveredToRightDoorstep);
    }
    codes.extend(lobby_hand_off(scene, findings, ledger));
    codes.extend(wrong_address(scene, findings, ledger));
    if scene.input.timed_out {
        let text = "The session was never stopped, so the service ended it.".to_owned();
        note(
            ReasonCode::SessionTimeout,
            "timed_out",
            None,
            text,
            "The app was closed, or the phone had no network.",
            ledger,
        );
        codes.push(ReasonCode::SessionTimeout);
    }
    codes.extend(silence::interrupted(scene, findings, ledger));
    codes
}

fn note(
    code: ReasonCode,
    signal: &str,
    span: Span,
    text: String,
    explanation: &'static str,
    ledger: &mut EvidenceLog,
) {
    ledger.add(code.as_str(), signal, 1.0, span, words(text, explanation));
}

fn drop_off_span(findings: &Findings<'_>) -> Span {
    if let Some(door) = findings.places.door() {
        return Some((door.from_ms, door.to_ms));
    }
    findings
        .places
        .drop_off
        .map(|drop_off| (drop_off.at_ms, drop_off.at_ms))
}

fn outcome(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> ReasonCode {
    if let Some((signal, text)) = insufficient(scene, findings.visibility.until_silence) {
        note(
            ReasonCode::InsufficientData,
            signal,
            None,
            text,
            "No network, a closed app or an old phone. It says nothing about the courier.",
            ledger,
        );
        return ReasonCode::InsufficientData;
    }
    let door = findings.places.door();
    let at_door = is_at_door(scene, findings);
    if let Some(code) = full_attempt(scene, findings, ledger) {
        return code;
    }
    if let Some((t_ms, distance_m, _)) =
        nearest_on_foot(scene).filter(|(_, _, away_m)| *away_m <= 0.0)
    {
        let (signal, text) = if at_door {
            (
                "not_up_to_floor",
                "The courier was at the address, but not on its floor.".to_owned(),
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
                    "The courier came within {distance_m:.0} m of the address on foot, but {lacks}."
                ),
            )
        };
        note(
            ReasonCode::PartialAttempt,
            signal,
            Some((t_ms, t_ms)),
            text,
            "The stay may have been too short to detect, or the position of the address is off.",
            ledger,
        );
        return ReasonCode::PartialAttempt;
    }
    never_near(scene, findings, ledger)
}

/// Returns whether the drop-off was a stay at the address, on whichever floor.
fn is_at_door(scene: &ScoringContext<'_>, findings: &Findings<'_>) -> bool {
    let across = findings.doorstep.across;
    let is_near = matches!(across, Horizontal::At | Horizontal::Perhaps);
    findings.places.door().is_some() && (is_near || is_upstairs_nearby(scene, findings))
}

/// Detects a stay at the door of the address, before the drop-off or with it.
fn full_attempt(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> Option<ReasonCode> {
    let is_full = is_at_door(scene, findings) && findings.doorstep.up != Vertical::Wrong;
    let (signal, stay, addition, explanation) = if is_full {
        let door = findings.places.door()?;
        ("stay_at_door", door, "", NO_EXPLANATION)
    } else {
        let attempt = earlier_attempt(scene, findings.places, findings.doorstep)?;
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
    note(
        ReasonCode::FullAttempt,
        signal,
        span,
        text,
        explanation,
        ledger,
    );
    Some(ReasonCode::FullAttempt)
}

/// Returns whether the drop-off was a little away from the address, as is usual for positions
/// behind walls, but on its exact floor, which is not that of the street. The floor is then a
/// second piece of evidence, as good as the place.
fn is_upstairs_nearby(scene: &ScoringContext<'_>, findings: &Findings<'_>) -> bool {
    let Doorstep { across, up, .. } = *findings.doorstep;
    let estimate = findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.on_foot && drop_off.sign != DropOffSign::Stay)
        .and_then(|drop_off| drop_off.estimate);
    across == Horizontal::Off
        && up == Vertical::Right
        && scene.input.context.floor.is_some_and(|floor| floor != 0)
        && estimate.is_some_and(|estimate| {
            let (distance_m, sigma_m) = scene.offset_from_address(estimate);
            distance_m <= BESIDE_SIGMAS * sigma_m
        })
}

/// Returns the reason code for a courier who was never near on foot, either certainly or as far as
/// the data shows.
fn never_near(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> ReasonCode {
    if let Some(halt) = findings.places.not_carried {
        let text =
            "The vehicle stood near the address, but the phone recorded no walking.".to_owned();
        note(
            ReasonCode::PossibleNoAttempt,
            "phone_not_carried",
            Some(halt),
            text,
            "The phone stayed in the vehicle while the courier went to the door.",
            ledger,
        );
        return ReasonCode::PossibleNoAttempt;
    }
    let visibility = findings.visibility;
    let good = visibility.score >= thresholds::GOOD && visibility.position >= thresholds::GOOD;
    if !good {
        let text = "The courier was not seen on foot near the address, but much of the session was not recorded.".to_owned();
        note(
            ReasonCode::PossibleNoAttempt,
            "thin_data",
            None,
            text,
            "The visit may have happened while nothing was recorded.",
            ledger,
        );
        return ReasonCode::PossibleNoAttempt;
    }
    if let Some(span) = near_somehow(scene) {
        let text = "The phone was near the address and not in a moving vehicle, but no steps were detected there.".to_owned();
        note(
            ReasonCode::PossibleNoAttempt,
            "near_without_steps",
            Some(span),
            text,
            "The phone stayed in the vehicle, or its sensors could not detect the steps.",
            ledger,
        );
        return ReasonCode::PossibleNoAttempt;
    }
    let nearest = nearest_on_foot(scene);
    let text = match nearest {
        Some((_, distance_m, _)) => {
            format!("The courier got no closer than {distance_m:.0} m to the address on foot.")
        }
        None => "The courier was never on foot.".to_owned(),
    };
    note(
        ReasonCode::NoAttempt,
        "never_near_on_foot",
        nearest.map(|(t_ms, _, _)| (t_ms, t_ms)),
        text,
        "The position of the address may be wrong.",
        ledger,
    );
    ReasonCode::NoAttempt
}

/// Returns the reason if the data is insufficient for any statement about the door.
pub(crate) fn insufficient(
    scene: &ScoringContext<'_>,
    visibility: f64,
) -> Option<(&'static str, String)> {
    if scene.end_ms < SESSION_LEAST_MS {
        return Some((
            "session_too_short",
            "The session lasted less than 20 s.".to_owned(),
        ));
    }
    if !scene.input.windows.iter().any(|window| window.heard) {
        return Some(("no_telemetry", "No telemetry was received.".to_owned()));
    }
    if scene.fixes.is_empty() {
        return Some((
            "no_position",
            "No usable position was received, so nothing can be said about the address.".to_owned(),
        ));
    }
    (visibility < thresholds::INSUFFICIENT).then(|| {
        (
            "low_visibility",
            format!(
                "Only {:.0} % of the expected samples were received.",
                visibility * 100.0
            ),
        )
    })
}

/// Returns the distance of a fix from the address, and by how much it exceeds the surroundings and
/// the uncertainty.
fn beyond_surroundings_m(scene: &ScoringContext<'_>, fix: &Fix) -> (f32, f32) {
    let address_m = scene.input.context.accuracy_m;
    let uncertain_m = (fix.accuracy_m * fix.accuracy_m + address_m * address_m).sqrt();
    let distance_m = fix.place.distance_m(Place::default());
    (distance_m, distance_m - SURROUNDINGS_M - uncertain_m)
}

/// Returns the nearest fix on foot: its time, its distance, and by how much that exceeds the
/// surroundings and its uncertainty; 0 or less means within.
fn nearest_on_foot(scene: &ScoringContext<'_>) -> Option<(u32, f32, f32)> {
    let fixes = scene
        .feet
        .iter()
        .flat_map(|foot| scene.fixes(foot.from_ms, foot.to_ms.saturating_add(1)));
    let away = fixes
        .filter(|fix| fix.accuracy_m <= NEAR_ACCURACY_M)
        .map(|fix| {
            let (distance_m, away_m) = beyond_surroundings_m(scene, fix);
            (fix.t_ms, distance_m, away_m)
        });
    away.min_by(|a, b| a.2.total_cmp(&b.2))
}

/// Returns whether the courier came on foot within the address's surroundings, or `None` if no
/// position on foot shows it.
pub(crate) fn is_near_on_foot(scene: &ScoringContext<'_>) -> Option<bool> {
    nearest_on_foot(scene).map(|(_, _, away_m)| away_m <= 0.0)
}

/// Returns a time within the surroundings in which the phone neither drove nor was seen on foot.
fn near_somehow(scene: &ScoringContext<'_>) -> Option<(u32, u32)> {
    let mut drives: Vec<(u32, u32)> = scene
        .events(EventType::Driving)
        .map(|event| (event.t_start_ms, end_of(event, scene.end_ms)))
        .collect();
    drives.sort_unstable();
    let drives_at = |t_ms: u32| {
        let next = drives.partition_point(|span| span.0 <= t_ms);
        let last = next.checked_sub(1).and_then(|index| drives.get(index));
        last.is_some_and(|span| t_ms <= span.1)
    };
    let mut near = scene.fixes.iter().filter(|fix| {
        fix.accuracy_m <= NEAR_ACCURACY_M
            && beyond_surroundings_m(scene, fix).1 <= 0.0
            && !drives_at(fix.t_ms)
    });
    let first = near.next()?;
    let last = near.next_back()?;
    (last.t_ms.saturating_sub(first.t_ms) >= NEAR_LEAST_MS).then_some((first.t_ms, last.t_ms))
}

/// Detects a parcel left below: floor above ground, no height gained, and height measurable.
fn lobby_hand_off(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> Option<ReasonCode> {
    let wanted = scene.input.context.floor.filter(|&floor| floor > 0)?;
    let drop_off = findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.on_foot)?;
    let rise = findings.climb.rise?;
    let elsewhere = matches!(
        findings.doorstep.across,
        Horizontal::Elsewhere | Horizontal::Unknown
    );
    if rise.metres.abs() >= LEVEL_M || elsewhere {
        return None;
    }
    let near = match findings.places.entrance {
        Some(entrance) => scene
            .walked_m(entrance.at_ms, drop_off.at_ms)
            .is_some_and(|walked_m| walked_m <= LOBBY_M),
        // A courier who did not go in handed it over at the main door.
        None => true,
    };
    if !near {
        return None;
    }
    let text = format!(
        "The drop-off was near the entrance and on its level, but the address is on floor {wanted}."
    );
    note(
        ReasonCode::PossibleLobbyHandoff,
        "no_height_gained",
        drop_off_span(findings),
        text,
        "The recipient may have come down, or a concierge takes parcels.",
        ledger,
    );
    Some(ReasonCode::PossibleLobbyHandoff)
}

/// Returns whether the stay chosen as the drop-off is at a door at all: at the address every stay
/// is; elsewhere a stay with a mark, or a short stay in the streets around. Any other stay is a
/// break or an errand.
pub(crate) fn is_stay_at_door(
    scene: &ScoringContext<'_>,
    places: &Places,
    across: Horizontal,
) -> bool {
    let Some((drop_off, door)) = places.drop_off.zip(places.door()) else {
        return false;
    };
    if across != Horizontal::Elsewhere || drop_off.sign != DropOffSign::Stay {
        return true;
    }
    let distance_m = door
        .estimate
        .map(|estimate| scene.offset_from_address(estimate).0);
    DOOR_STAY_MS.contains(&door.length_ms())
        && distance_m.is_some_and(|distance_m| distance_m <= DOOR_STAY_M)
}

/// Detects a stay at another address that looks like one at a door.
fn wrong_address(
    scene: &ScoringContext<'_>,
    findings: &Findings<'_>,
    ledger: &mut EvidenceLog,
) -> Option<ReasonCode> {
    findings
        .places
        .drop_off
        .filter(|drop_off| drop_off.on_foot)?;
    let door = findings.places.door()?;
    let (distance_m, sigma_m) = scene.offset_from_address(door.estimate?);
    let across = findings.doorstep.across;
    if across != Horizontal::Elsewhere || !is_stay_at_door(scene, findings.places, across) {
        return None;
    }
    let text = format!(
        "The courier stayed at a door {distance_m:.0} m from the address; the uncertainty is {sigma_m:.0} m."
    );
    note(
        ReasonCode::PossibleWrongAddress,
        "stay_elsewhere",
        drop_off_span(findings),
        text,
        "The position of the address may be wrong, or the recipient asked for another place.",
        ledger,
    );
    Some(ReasonCode::PossibleWrongAddress)
}
