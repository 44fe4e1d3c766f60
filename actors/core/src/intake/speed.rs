//! Filters the speed that a phone reports with its fixes: some platforms, and some apps, report 0
//! for an unknown speed.

use serde::{Deserialize, Serialize};

use crate::geo::Place;
use crate::window::Fix;

/// The distance, in metres and in addition to both accuracies, from the first fix with a reported
/// speed of 0. A phone that reports only 0 has moved if it is farther away: the drift of a parked
/// phone and one jump under a roof stay within this distance.
const MOVED_M: f32 = 25.0;

/// The number of times by which a later fix must be more exact than the first to replace it.
const EXACTER_TIMES: f32 = 2.0;

/// Decides whether to trust the reported speeds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct ReportedSpeed {
    /// Whether the phone has reported a speed other than 0; its 0 is then a real speed.
    has_reported: bool,
    /// Whether its 0 means an unknown speed: the phone moved while it reported 0, or the accuracy of
    /// the place is unknown, too.
    is_unknown_as_zero: bool,
    /// The place and accuracy of the first fix with a 0, or of a later one that is far more exact.
    since: Option<(Place, f32)>,
}

impl ReportedSpeed {
    /// Returns the reported speed of the next fix if it can be trusted.
    pub(super) fn trusted(&mut self, fix: &Fix) -> Option<f32> {
        let reported_mps = fix.speed_mps?;
        // An app that passes on no accuracy fills in the values that its platform left out.
        self.is_unknown_as_zero |= !fix.accuracy_known && !self.has_reported;
        if reported_mps > 0.0 {
            *self = Self {
                has_reported: true,
                ..Self::default()
            };
        } else if !self.has_reported {
            // A receiver that has just started may be off by a kilometre, within which any drive
            // would look like rest.
            let is_far_better =
                |&(_, from_m): &(Place, f32)| EXACTER_TIMES * fix.accuracy_m < from_m;
            let since = self.since.filter(|since| !is_far_better(since));
            let (from, from_m) = since.unwrap_or((fix.place, fix.accuracy_m));
            self.since = Some((from, from_m));
            self.is_unknown_as_zero |=
                from.distance_m(fix.place) > MOVED_M + from_m + fix.accuracy_m;
        }
        (!self.is_unknown_as_zero).then_some(reported_mps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the speed that is trusted of a fix with a reported speed, metres to the east of the
    /// first, and with a reported accuracy in metres.
    fn trusted(
        speed: &mut ReportedSpeed,
        speed_mps: Option<f32>,
        east_m: f32,
        reported_accuracy_m: Option<f32>,
    ) -> Option<f32> {
        let (accuracy_m, accuracy_known) = Fix::accuracy(reported_accuracy_m);
        speed.trusted(&Fix {
            t_ms: 0,
            place: Place {
                east_m,
                north_m: 0.0,
            },
            accuracy_m,
            accuracy_known,
            speed_mps,
            bearing_deg: None,
            altitude_m: None,
            mock: false,
            provider: None,
        })
    }

    #[test]
    fn a_zero_speed_is_trusted_only_at_rest() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(trusted(&mut speed, Some(0.0), 0.0, Some(5.0)), Some(0.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 34.0, Some(5.0)), Some(0.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 36.0, Some(5.0)), None);
        assert_eq!(trusted(&mut speed, Some(0.0), 36.0, Some(5.0)), None);
        assert_eq!(trusted(&mut speed, None, 36.0, Some(5.0)), None);
    }

    /// The first fixes come from a cell, with an accuracy of 1,400 m, and the exact ones begin when the
    /// vehicle has left. They show that it moves.
    #[test]
    fn a_zero_speed_is_not_trusted_after_a_cold_start() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(
            trusted(&mut speed, Some(0.0), 0.0, Some(1_414.0)),
            Some(0.0)
        );
        assert_eq!(trusted(&mut speed, Some(0.0), 300.0, Some(5.0)), Some(0.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 334.0, Some(5.0)), Some(0.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 336.0, Some(5.0)), None);
    }

    /// An app passes on places only and fills in a speed of 0, also in a moving vehicle.
    #[test]
    fn a_zero_speed_without_an_accuracy_is_not_trusted() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(trusted(&mut speed, Some(0.0), 0.0, None), None);
        assert_eq!(trusted(&mut speed, Some(0.0), 10.0, None), None);
        // A tracker measures the speed, and stands at a light.
        assert_eq!(trusted(&mut speed, Some(7.0), 99.0, None), Some(7.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 150.0, None), Some(0.0));
    }

    #[test]
    fn a_phone_that_reported_a_speed_is_trusted_at_rest() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(trusted(&mut speed, Some(0.0), 0.0, Some(5.0)), Some(0.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 90.0, Some(5.0)), None);
        assert_eq!(trusted(&mut speed, Some(7.0), 99.0, Some(5.0)), Some(7.0));
        assert_eq!(trusted(&mut speed, Some(0.0), 400.0, Some(5.0)), Some(0.0));
    }
}
