//! The confidence in an event: the share of such events that was right, by the available
//! measurements.
//!
//! Fitted by logistic regression on the events detected in the recordings and in simulated
//! deliveries of the tuning ranges (2026-11-21). Each kind of measurement is fitted separately.
//! Recordings weigh as much as the simulation where both contain the kind, and each fit is drawn
//! towards a prior as heavy as four events. A kind that no recording contains stays at 0.93 at
//! most.

use porchlight_schema::event::Confidence;

use super::decode::State;
use super::logistic;

/// The measurements of a run of seconds at the time it is reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    pub(super) state: State,
    /// The length of the run, seconds.
    pub(super) seconds: f32,
    /// The mean evidence of its seconds for the state.
    pub(super) evidence: f32,
    /// The number of seconds with a fix.
    pub(super) fix_sec: u16,
    /// Whether the body was measured in most of the run.
    pub(super) by_body: bool,
    /// Whether height was measured.
    pub(super) has_height: bool,
}

/// The log-odds at the evidence [`USUAL_EVIDENCE`], and the log-odds that each further unit of
/// evidence adds.
#[derive(Debug, Clone, Copy)]
struct Fit(f32, f32);

/// The mean evidence per second of clear events.
const USUAL_EVIDENCE: f32 = 0.75;
/// The evidence above which more evidence adds no confidence.
const EVIDENCE_MAX: f32 = 1.1;
/// The limit of the log-odds in both directions (a confidence of 0.968): no kind was measured on
/// enough events for more.
const LOG_ODDS_MAX: f32 = 3.4;
/// Fixes at least once in this many seconds can follow a movement.
const DENSE_SEC: f32 = 3.0;
/// Fixes at least once in this many seconds can follow a drive.
const MIDDLING_SEC: f32 = 7.0;
/// Fixes less often than once in this many seconds add nothing to a measured body.
const SELDOM_SEC: f32 = 20.0;

/// The fit for a body at rest (recordings: 93 of 94 right).
const STILL_BODY: Fit = Fit(3.2, 0.9);
/// The fit for a body at rest with neither positions nor height: it may sit in a vehicle
/// (simulated: 51 of 92).
const STILL_ALONE: Fit = Fit(0.8, 2.3);
/// The fits for rest by positions: about one each second (22 of 27), and sparse ones (5 of 54).
const STILL_DENSE: Fit = Fit(1.4, 1.6);
const STILL_SPARSE: Fit = Fit(-1.6, 0.5);
/// The fit for a gait where stairs would be seen (recordings: 89 of 95).
const WALK_HEIGHT: Fit = Fit(2.2, 3.5);
/// The fits for a gait where stairs would not be seen: where a vehicle would be (43 of 52), and
/// where it would not be either (90 of 130).
const WALK_PLACED: Fit = Fit(1.6, 0.1);
const WALK_ALONE: Fit = Fit(0.2, 2.4);
/// The fits for a walk by positions (simulated: 38 of 51 dense, 3 of 8 sparse).
const WALK_DENSE: Fit = Fit(1.1, 1.3);
const WALK_SPARSE: Fit = Fit(-0.2, 1.5);
/// The fits for stairs: by height (recordings: 13 of 15), and by the stride alone. The latter was
/// right in 8 of 8, but for one phone in one pocket, so it stays below 0.7.
const CLIMB_HEIGHT: Fit = Fit(2.3, 0.0);
const CLIMB_ALONE: Fit = Fit(0.8, 0.0);
/// The fits for rides: by body and height (recordings: 29 of 29), by height (44 of 45), by pushes
/// (simulated: 22 of 26).
const RIDE_BOTH: Fit = Fit(3.4, 0.0);
const RIDE_HEIGHT: Fit = Fit(2.9, 0.0);
const RIDE_PUSHED: Fit = Fit(1.9, 0.0);
/// The fits for drives: with the body (simulated: 454 of 461), and by positions alone (recorded):
/// dense 6 of 10, the wrong ones with halts and crawling; one each 4 to 7 s 30 of 34; sparse 14 of
/// 36.
const DRIVE_BODY: Fit = Fit(2.6, 0.0);
const DRIVE_DENSE: Fit = Fit(1.5, 2.5);
const DRIVE_MIDDLING: Fit = Fit(1.9, 0.0);
const DRIVE_SPARSE: Fit = Fit(-0.4, 0.0);

/// The log-odds added to those of a passage. Its evidence is conservative (simulated: at 0.6 108 of
/// 127 right, beyond 100 of 106), but no recording contains one, so this is less than the
/// simulation suggests.
const GATE_RAISED: f32 = 1.05;
/// The log-odds of a passage above which further evidence counts less.
const GATE_LOG_ODDS: f32 = 0.4;
const GATE_SHARE: f32 = 0.22;
/// The log-odds of a retraced path of the minimum length, which is as often wrong as right
/// (simulated, tuning ranges: of those up to 20 m 0 of 4 right, up to 30 m 12 of 14, beyond 82 of
/// 84). Longer ones are surer; no recording contains one, so none is very sure.
const RETRACED_LOG_ODDS: f32 = 0.0;
const RETRACED_PER_M: f32 = 0.15;
const RETRACED_M_MAX: f32 = 17.0;

/// Returns the confidence in a run.
pub(super) fn of(seen: &Seen) -> Confidence {
    let every = |seconds: f32| f32::from(seen.fix_sec) * seconds >= seen.seconds;
    let Fit(log_odds, slope) = match (seen.state, seen.by_body, seen.has_height) {
        (State::Still, true, false) if !every(SELDOM_SEC) => STILL_ALONE,
        (State::Still, true, _) => STILL_BODY,
        (State::Still, false, _) if every(DENSE_SEC) => STILL_DENSE,
        (State::Still, false, _) => STILL_SPARSE,
        (State::Walk, true, true) => WALK_HEIGHT,
        (State::Walk, true, false) if every(SELDOM_SEC) => WALK_PLACED,
        (State::Walk, true, false) => WALK_ALONE,
        (State::Walk, false, _) if every(DENSE_SEC) => WALK_DENSE,
        (State::Walk, false, _) => WALK_SPARSE,
        (State::Climb, _, true) => CLIMB_HEIGHT,
        (State::Climb, _, false) => CLIMB_ALONE,
        (State::Ride, true, true) => RIDE_BOTH,
        (State::Ride, false, true) => RIDE_HEIGHT,
        (State::Ride, _, false) => RIDE_PUSHED,
        (State::Drive, true, _) => DRIVE_BODY,
        (State::Drive, false, _) if every(DENSE_SEC) => DRIVE_DENSE,
        (State::Drive, false, _) if every(MIDDLING_SEC) => DRIVE_MIDDLING,
        (State::Drive, false, _) => DRIVE_SPARSE,
    };
    let evidence = seen.evidence.clamp(0.0, EVIDENCE_MAX) - USUAL_EVIDENCE;
    logistic((log_odds + slope * evidence).clamp(-LOG_ODDS_MAX, LOG_ODDS_MAX))
}

/// Returns the confidence in a controlled passage, from the sum of its evidence.
pub(super) fn of_passage(log_odds: f32) -> Confidence {
    let over = (log_odds - GATE_LOG_ODDS).max(0.0);
    let raised = GATE_RAISED + log_odds.min(GATE_LOG_ODDS) + GATE_SHARE * over;
    logistic(raised.min(LOG_ODDS_MAX))
}

/// Returns the confidence in a retraced path that is `beyond_m` metres longer than the minimum.
pub(super) fn of_retraced(beyond_m: f32) -> Confidence {
    logistic(RETRACED_LOG_ODDS + RETRACED_PER_M * beyond_m.clamp(0.0, RETRACED_M_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: State, by_body: bool, has_height: bool, fix_sec: u16, evidence: f32) -> f64 {
        let seen = Seen {
            state,
            seconds: 60.0,
            evidence,
            fix_sec,
            by_body,
            has_height,
        };
        of(&seen).as_probability()
    }

    /// Better measurements and clearer evidence never lower the confidence.
    #[test]
    fn more_evidence_raises_the_confidence() {
        use State::*;
        for evidence in [0.0, 0.4, 0.8, 1.2] {
            for state in [Still, Walk, Climb, Ride] {
                assert!(
                    seen(state, true, true, 60, evidence) >= seen(state, false, false, 5, evidence)
                );
            }
            assert!(seen(Walk, true, true, 60, 0.9) > seen(Walk, true, false, 0, 0.9));
            assert!(
                seen(Still, false, false, 60, evidence) > seen(Still, false, false, 6, evidence)
            );
            assert!(seen(Drive, true, true, 60, evidence) > seen(Drive, false, false, 6, evidence));
        }
        for state in [Still, Walk, Climb, Ride, Drive] {
            for by_body in [false, true] {
                for fix_sec in [0, 6, 12, 60] {
                    let of = |evidence| seen(state, by_body, false, fix_sec, evidence);
                    assert!(of(0.9) >= of(0.3));
                    assert!((0.03..=0.97).contains(&of(5.0)) && (0.03..=0.97).contains(&of(-5.0)));
                }
            }
        }
    }

    #[test]
    fn gates_and_backtracking_are_never_certain() {
        assert!(of_passage(9.0).as_probability() < 0.98);
        assert!(of_passage(3.5).as_probability() < 0.9);
        assert!(of_passage(0.4) > of_passage(0.0));
        assert!(of_retraced(0.0) < of_retraced(40.0) && of_retraced(500.0).as_probability() < 0.94);
    }
}
