//! The learned confidence in an event: the share of similar events that was correct.
//!
//! Events are similar if the same sensors showed them ([`SensorSet`]) with the same strength. For
//! each set, a monotone table maps strength to confidence. The tables are fitted by isotonic
//! regression on detected events of labelled recordings and simulated deliveries, by the training
//! program of `porchlight-bench`, and stored in [`table`].

// Generated, and formatted by the generator.
#[rustfmt::skip]
#[allow(
    clippy::approx_constant,
    reason = "a fitted strength may lie close to a known constant"
)]
mod table;

use porchlight_schema::event::Confidence;

use crate::source::by_source;
pub use table::VERSION;

/// The sensors that showed an event, by event type. The strength of an event is given in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SensorSet {
    /// A stay by acceleration, with fixes or pressure (evidence for rest per second).
    StoppedBody,
    /// A stay by acceleration alone, which may be in a vehicle (evidence per second).
    StoppedAlone,
    /// A stay by the step counter (evidence per second).
    StoppedCounter,
    /// A stay by a fix every 3 s or more often (evidence per second).
    StoppedDense,
    /// A stay by rarer fixes (evidence per second).
    StoppedSparse,
    /// A walk by acceleration, with pressure (evidence for gait per second).
    WalkingHeight,
    /// A walk by acceleration, with fixes but no pressure (evidence per second).
    WalkingPlaced,
    /// A walk by acceleration alone (evidence per second).
    WalkingAlone,
    /// A walk by the step counter (evidence per second).
    WalkingCounter,
    /// A walk by a fix every 3 s or more often (evidence per second).
    WalkingDense,
    /// A walk by rarer fixes (evidence per second).
    WalkingSparse,
    /// Stairs by pressure and acceleration (height in metres).
    StairsBody,
    /// Stairs by pressure, without acceleration (height in metres).
    StairsHeight,
    /// Stairs by the stride, without pressure (length in seconds).
    StairsStride,
    /// A ride by pressure and acceleration (height in metres).
    ElevatorBody,
    /// A ride by pressure, without acceleration (height in metres).
    ElevatorHeight,
    /// A ride by the pushes of the cabin, without pressure (length in seconds).
    ElevatorPushed,
    /// A drive by fixes, with acceleration or a step counter (mean speed, m/s).
    DrivingBody,
    /// A drive by a fix every 7 s or less often, with acceleration or a step counter (mean speed,
    /// m/s).
    DrivingBodySparse,
    /// A drive by a fix every 3 s or more often, without other sensors (mean speed, m/s).
    DrivingDense,
    /// A drive by a fix every 3 to 7 s, without other sensors (mean speed, m/s).
    DrivingMiddling,
    /// A drive by rarer fixes, without other sensors (mean speed, m/s).
    DrivingSparse,
    /// A gate, on a phone that sends acceleration (log-odds of the evidence).
    Gate,
    /// A gate, on a phone that sends no acceleration (log-odds of the evidence).
    GateUnfelt,
    /// Backtracking (retraced length beyond the minimum, metres).
    Backtracking,
}

impl SensorSet {
    /// All sets, in the order of the tables.
    pub const ALL: [Self; 25] = [
        Self::StoppedBody,
        Self::StoppedAlone,
        Self::StoppedCounter,
        Self::StoppedDense,
        Self::StoppedSparse,
        Self::WalkingHeight,
        Self::WalkingPlaced,
        Self::WalkingAlone,
        Self::WalkingCounter,
        Self::WalkingDense,
        Self::WalkingSparse,
        Self::StairsBody,
        Self::StairsHeight,
        Self::StairsStride,
        Self::ElevatorBody,
        Self::ElevatorHeight,
        Self::ElevatorPushed,
        Self::DrivingBody,
        Self::DrivingBodySparse,
        Self::DrivingDense,
        Self::DrivingMiddling,
        Self::DrivingSparse,
        Self::Gate,
        Self::GateUnfelt,
        Self::Backtracking,
    ];

    /// Returns the upper end of the strengths that occur; the rare greater ones count as clear,
    /// too.
    #[must_use]
    pub const fn strength_max(self) -> f32 {
        match self {
            Self::StoppedBody
            | Self::StoppedAlone
            | Self::StoppedCounter
            | Self::StoppedDense
            | Self::StoppedSparse
            | Self::WalkingHeight
            | Self::WalkingPlaced
            | Self::WalkingAlone
            | Self::WalkingCounter
            | Self::WalkingDense
            | Self::WalkingSparse => 2.0,
            Self::StairsBody
            | Self::StairsHeight
            | Self::StairsStride
            | Self::ElevatorBody
            | Self::ElevatorHeight
            | Self::ElevatorPushed => 100.0,
            Self::DrivingBody
            | Self::DrivingBodySparse
            | Self::DrivingDense
            | Self::DrivingMiddling
            | Self::DrivingSparse => 50.0,
            Self::Gate | Self::GateUnfelt => 10.0,
            Self::Backtracking => 100.0,
        }
    }
}

/// A knot of a table: a strength, and the confidence at it in thousandths.
pub type Knot = (f32, u16);

/// The confidence by sensor set and strength.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceTable {
    /// The knots of each set, by rising strength and confidence.
    pub knots: [&'static [Knot]; SensorSet::ALL.len()],
}

/// The table that a session uses. Live sessions use the shipped one; an evaluation uses one that
/// was fitted without the source that it judges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidences(&'static ConfidenceTable);

impl Default for Confidences {
    fn default() -> Self {
        Self(&table::SHIPPED)
    }
}

impl Confidences {
    /// Uses any table, for the training program.
    #[must_use]
    pub const fn of_table(table: &'static ConfidenceTable) -> Self {
        Self(table)
    }

    /// Returns the table that was fitted without the source of a recording, by the recording's
    /// name (see [`crate::source`]). Returns `None` for a source that the training does not
    /// use: the shipped table was fitted without it.
    #[must_use]
    pub fn without_source_of(recording: &str) -> Option<Self> {
        by_source(table::LEFT_OUT, recording).map(Self)
    }

    /// Returns the confidence in an event. Between two knots it rises steadily, and outside them it
    /// is that of the nearer end.
    pub(crate) fn of(self, set: SensorSet, strength: f32) -> Confidence {
        let knots = self.0.knots.get(set as usize).copied().unwrap_or_default();
        let after = knots.iter().position(|(at, _)| strength < *at);
        let permille = match (after, knots.last()) {
            (Some(0), _) => knots.first().map_or(0.0, |(_, low)| f32::from(*low)),
            (Some(after), _) => match knots.get(after - 1..=after) {
                Some(&[(low_at, low), (high_at, high)]) => {
                    let share = (strength - low_at) / (high_at - low_at);
                    f32::from(low) + share * (f32::from(high) - f32::from(low))
                }
                _ => 0.0,
            },
            (None, Some((_, highest))) => f32::from(*highest),
            (None, None) => 0.0,
        };
        Confidence::from_probability(f64::from(permille) / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_table() -> impl Iterator<Item = &'static ConfidenceTable> {
        let left_out = table::LEFT_OUT.iter().map(|(_, table)| table);
        std::iter::once(&table::SHIPPED).chain(left_out)
    }

    #[test]
    fn more_strength_never_lowers_the_confidence() {
        for table in every_table() {
            for knots in table.knots {
                assert!(!knots.is_empty());
                for pair in knots.windows(2) {
                    assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1, "{pair:?}");
                }
            }
        }
    }

    #[test]
    fn no_event_is_certain_and_none_is_impossible() {
        for table in every_table() {
            let mut all = table.knots.into_iter().flatten();
            assert!(all.all(|(_, permille)| (10..=970).contains(permille)));
        }
    }

    #[test]
    fn the_sets_are_in_the_order_of_their_numbers() {
        for (number, set) in SensorSet::ALL.into_iter().enumerate() {
            assert_eq!(set as usize, number);
        }
    }

    /// More sensors never claim less for a clear event.
    #[test]
    fn acceleration_raises_the_confidence() {
        let shipped = Confidences::default();
        for (with, without) in [
            (SensorSet::StoppedBody, SensorSet::StoppedDense),
            (SensorSet::WalkingHeight, SensorSet::WalkingDense),
            (SensorSet::WalkingHeight, SensorSet::WalkingCounter),
            (SensorSet::DrivingBody, SensorSet::DrivingSparse),
        ] {
            let clear = |set: SensorSet| shipped.of(set, set.strength_max());
            assert!(clear(with) >= clear(without), "{with:?} {without:?}");
        }
    }

    #[test]
    fn between_two_knots_the_confidence_rises_steadily() {
        static KNOTS: [Knot; 2] = [(1.0, 400), (3.0, 800)];
        static TABLE: ConfidenceTable = ConfidenceTable {
            knots: [&KNOTS; SensorSet::ALL.len()],
        };
        let of = |strength| {
            Confidences::of_table(&TABLE)
                .of(SensorSet::Gate, strength)
                .as_probability()
        };
        assert_eq!(
            [of(-5.0), of(1.0), of(2.0), of(3.0), of(9.0)],
            [0.4, 0.4, 0.6, 0.8, 0.8]
        );
    }
}
