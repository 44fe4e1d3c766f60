//! Filters the speed that a phone reports with its fixes: some platforms, and some apps, report 0
//! for an unknown speed.

use serde::{Deserialize, Serialize};

use crate::geo::Place;

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
    /// Returns the speed of the next fix if the reported value can be trusted.
    pub(super) fn trusted(
        &mut self,
        reported_mps: Option<f32>,
        place: Place,
        (accuracy_m, accuracy_known): (f32, bool),
    ) -> Option<f32> {
        let reported_mps = reported_mps?;
        // An app that passes on no accuracy fills in what its platform left out.
        self.is_unknown_as_zero |= !accuracy_known && !self.has_reported;
        if reported_mps > 0.0 {
            *self = Self {
                has_reported: true,
                ..Self::default()
            };
        } else if !self.has_reported {
            // A receiver that has just started may be off by a kilometre, within which any drive
            // would look like rest.
            let is_far_better = |&(_, from_m): &(Place, f32)| EXACTER_TIMES * accuracy_m < from_m;
            let since = self.since.filter(|since| !is_far_better(since));
            let (from, from_m) = since.unwrap_or((place, accuracy_m));
            self.since = Some((from, from_m));
            self.is_unknown_as_zero |= from.distance_m(place) > MOVED_M + from_m + accuracy_m;
        }
        (!self.is_unknown_as_zero).then_some(reported_mps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(east_m: f32) -> Place {
        Place {
            east_m,
            north_m: 0.0,
        }
    }

    #[test]
    fn a_zero_speed_is_trusted_only_at_rest() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(speed.trusted(Some(0.0), at(0.0), (5.0, true)), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(34.0), (5.0, true)), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(36.0), (5.0, true)), None);
        assert_eq!(speed.trusted(Some(0.0), at(36.0), (5.0, true)), None);
        assert_eq!(speed.trusted(None, at(36.0), (5.0, true)), None);
    }

    /// The first fixes come from a cell, with an accuracy of 1,400 m, and the exact ones begin when the
    /// vehicle has left. They show that it moves.
    #[test]
    fn a_zero_speed_is_not_trusted_after_a_cold_start() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(
            speed.trusted(Some(0.0), at(0.0), (1_414.0, true)),
            Some(0.0)
        );
        assert_eq!(speed.trusted(Some(0.0), at(300.0), (5.0, true)), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(334.0), (5.0, true)), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(336.0), (5.0, true)), None);
    }

    /// An app passes on places only and fills in a speed of 0, also in a moving vehicle.
    #[test]
    fn a_zero_speed_without_an_accuracy_is_not_trusted() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(speed.trusted(Some(0.0), at(0.0), (20.0, false)), None);
        assert_eq!(speed.trusted(Some(0.0), at(10.0), (20.0, false)), None);
        // A tracker measures the speed, and stands at a light.
        assert_eq!(speed.trusted(Some(7.0), at(99.0), (20.0, false)), Some(7.0));
        assert_eq!(
            speed.trusted(Some(0.0), at(150.0), (20.0, false)),
            Some(0.0)
        );
    }

    #[test]
    fn a_phone_that_reported_a_speed_is_trusted_at_rest() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(speed.trusted(Some(0.0), at(0.0), (5.0, true)), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(90.0), (5.0, true)), None);
        assert_eq!(speed.trusted(Some(7.0), at(99.0), (5.0, true)), Some(7.0));
        assert_eq!(speed.trusted(Some(0.0), at(400.0), (5.0, true)), Some(0.0));
    }
}
