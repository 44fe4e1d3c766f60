//! Filters the speed that a phone reports with its fixes: some platforms, and some apps, report 0
//! for an unknown speed.

use serde::{Deserialize, Serialize};

use crate::geo::Place;

/// The distance, in metres and in addition to both accuracies, from the first fix with a reported
/// speed of 0. A phone that reports only 0 has moved if it is farther away: the drift of a parked
/// phone and one jump under a roof stay within this distance.
const MOVED_M: f32 = 25.0;

/// Decides whether to trust the reported speeds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct ReportedSpeed {
    /// Whether the phone has reported a speed other than 0; its 0 is then a real speed.
    has_reported: bool,
    /// Whether the phone moved while it reported 0, so that its 0 means an unknown speed.
    is_unknown_as_zero: bool,
    /// The place and accuracy of the first fix with a 0.
    since: Option<(Place, f32)>,
}

impl ReportedSpeed {
    /// Returns the speed of the next fix if the reported value can be trusted.
    pub(super) fn trusted(
        &mut self,
        reported_mps: Option<f32>,
        place: Place,
        accuracy_m: f32,
    ) -> Option<f32> {
        let reported_mps = reported_mps?;
        if reported_mps > 0.0 {
            *self = Self {
                has_reported: true,
                ..Self::default()
            };
        } else if !self.has_reported {
            let (from, from_m) = *self.since.get_or_insert((place, accuracy_m));
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
        assert_eq!(speed.trusted(Some(0.0), at(0.0), 5.0), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(34.0), 5.0), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(36.0), 5.0), None);
        assert_eq!(speed.trusted(Some(0.0), at(36.0), 5.0), None);
        assert_eq!(speed.trusted(None, at(36.0), 5.0), None);
    }

    #[test]
    fn a_phone_that_reported_a_speed_is_trusted_at_rest() {
        let mut speed = ReportedSpeed::default();
        assert_eq!(speed.trusted(Some(0.0), at(0.0), 5.0), Some(0.0));
        assert_eq!(speed.trusted(Some(0.0), at(90.0), 5.0), None);
        assert_eq!(speed.trusted(Some(7.0), at(99.0), 5.0), Some(7.0));
        assert_eq!(speed.trusted(Some(0.0), at(400.0), 5.0), Some(0.0));
    }
}
