//! The types of events that the service detects (contract section 4).

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// The type of an event. On the wire it is the name in capitals, as in the contract. Events with
/// the same start are ordered by this enum, whose order is alphabetical.
///
/// Stores, and messages between nodes, hold the number of a type, which is also its rank in the
/// order: append a new one, and from then on sort by name explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    /// Turning back and retracing one's own path on foot.
    Backtracking,
    /// Moving in or on a vehicle.
    Driving,
    /// Riding an elevator up or down.
    Elevator,
    /// A controlled passage: a pause on the approach, then on through.
    Gate,
    /// Fixes arrive but are of little use.
    GpsDegraded,
    /// No fix, or only useless ones, although other samples arrive.
    GpsLost,
    /// Good fixes again after degradation or loss; an instant.
    GpsRestored,
    /// Climbing or descending stairs on foot.
    Stairs,
    /// Staying in one place.
    Stopped,
    /// Walking on level ground.
    Walking,
}

impl EventType {
    /// All types, in order.
    pub const ALL: [Self; 10] = [
        Self::Backtracking,
        Self::Driving,
        Self::Elevator,
        Self::Gate,
        Self::GpsDegraded,
        Self::GpsLost,
        Self::GpsRestored,
        Self::Stairs,
        Self::Stopped,
        Self::Walking,
    ];

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backtracking => "BACKTRACKING",
            Self::Driving => "DRIVING",
            Self::Elevator => "ELEVATOR",
            Self::Gate => "GATE",
            Self::GpsDegraded => "GPS_DEGRADED",
            Self::GpsLost => "GPS_LOST",
            Self::GpsRestored => "GPS_RESTORED",
            Self::Stairs => "STAIRS",
            Self::Stopped => "STOPPED",
            Self::Walking => "WALKING",
        }
    }

    /// Returns whether this type belongs to the movement track, whose events never overlap each
    /// other.
    #[must_use]
    pub fn is_movement(self) -> bool {
        match self {
            Self::Driving | Self::Elevator | Self::Stairs | Self::Stopped | Self::Walking => true,
            Self::Backtracking
            | Self::Gate
            | Self::GpsDegraded
            | Self::GpsLost
            | Self::GpsRestored => false,
        }
    }

    /// Returns whether an event of this type is an instant: it has a start and never an end.
    #[must_use]
    pub fn is_instant(self) -> bool {
        match self {
            Self::GpsRestored => true,
            Self::Backtracking
            | Self::Driving
            | Self::Elevator
            | Self::Gate
            | Self::GpsDegraded
            | Self::GpsLost
            | Self::Stairs
            | Self::Stopped
            | Self::Walking => false,
        }
    }
}

/// A detector's confidence, 0 to 1, stored in thousandths so that it is the same number on every
/// computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Confidence {
    permille: u16,
}

impl Confidence {
    /// Converts a probability, which is clamped to 0..1; NaN becomes 0.
    #[must_use]
    pub fn from_probability(probability: f64) -> Self {
        Self {
            permille: (probability.clamp(0.0, 1.0) * 1000.0).round() as u16,
        }
    }

    /// Returns the confidence as a probability.
    #[must_use]
    pub fn as_probability(self) -> f64 {
        f64::from(self.permille) / 1000.0
    }
}

/// The direction of a change of floors.
///
/// Stores, and messages between nodes, hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The direction upwards.
    Up,
    /// The direction downwards.
    Down,
}

/// Further facts about an event. On the wire it is an object, empty for [`Metadata::None`].
///
/// Stores, and messages between nodes, hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metadata {
    /// No further facts.
    None,
    /// Facts about `STAIRS` and `ELEVATOR`.
    Climb {
        /// Floors passed, at least 0; `None` if unknown.
        floors: Option<u16>,
        /// Up or down.
        direction: Direction,
        /// Height passed in centimetres, never negative; `None` if it was not measured.
        height_cm: Option<u32>,
    },
    /// Facts about `BACKTRACKING`.
    Backtracking {
        /// Length of the retraced path in metres.
        retraced_m: u32,
    },
    /// Facts about `GATE`.
    Gate {
        /// Length of the pause in seconds.
        wait_sec: u32,
    },
}

impl Metadata {
    fn serialize_wire<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match *self {
            Self::None => {}
            Self::Climb {
                floors,
                direction,
                height_cm,
            } => {
                map.serialize_entry("floors", &floors)?;
                map.serialize_entry("direction", &direction)?;
                map.serialize_entry(
                    "heightM",
                    &height_cm.map(|height_cm| f64::from(height_cm) / 100.0),
                )?;
            }
            Self::Backtracking { retraced_m } => map.serialize_entry("retracedM", &retraced_m)?,
            Self::Gate { wait_sec } => map.serialize_entry("waitSec", &wait_sec)?,
        }
        map.end()
    }
}

/// A detected event. Times are milliseconds since the session's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The type of the event.
    pub event_type: EventType,
    /// The start of the event.
    pub t_start_ms: u32,
    /// The end; `None` while the event is open, and for an instant.
    pub t_end_ms: Option<u32>,
    /// The detector's confidence.
    pub confidence: Confidence,
    /// Further facts about the event.
    pub metadata: Metadata,
}

impl Event {
    /// Returns whether the event is open: it has no end and is not an instant.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.t_end_ms.is_none() && !self.event_type.is_instant()
    }

    /// Returns the event in the contract's JSON form: times in seconds, metadata as an object.
    #[must_use]
    pub fn wire(&self) -> WireEvent<'_> {
        WireEvent(self)
    }
}

/// An [`Event`] in the contract's JSON form.
#[derive(Debug, Clone, Copy)]
pub struct WireEvent<'a>(&'a Event);

impl Serialize for WireEvent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Wire<'m>(&'m Metadata);
        impl Serialize for Wire<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize_wire(serializer)
            }
        }
        let event = self.0;
        let mut map = serializer.serialize_map(Some(5))?;
        map.serialize_entry("type", event.event_type.as_str())?;
        map.serialize_entry("tStart", &seconds(event.t_start_ms))?;
        map.serialize_entry("tEnd", &event.t_end_ms.map(seconds))?;
        map.serialize_entry("confidence", &event.confidence.as_probability())?;
        map.serialize_entry("metadata", &Wire(&event.metadata))?;
        map.end()
    }
}

/// Converts milliseconds to seconds.
#[must_use]
pub fn seconds(duration_ms: u32) -> f64 {
    f64::from(duration_ms) / 1000.0
}

/// Sorts events as they are listed: by start, then type, then end.
pub fn sort_events(events: &mut [Event]) {
    events.sort_by_key(|event| (event.t_start_ms, event.event_type, event.t_end_ms));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_contract_in_alphabetical_order() {
        for (event_type, next) in EventType::ALL.iter().zip(&EventType::ALL[1..]) {
            assert!(event_type < next && event_type.as_str() < next.as_str());
        }
        for event_type in EventType::ALL {
            assert_eq!(
                serde_json::to_value(event_type).unwrap(),
                event_type.as_str()
            );
        }
    }

    #[test]
    fn an_instant_is_never_open_and_is_no_movement() {
        for event_type in EventType::ALL {
            let event = Event {
                event_type,
                t_start_ms: 1,
                t_end_ms: None,
                confidence: Confidence::default(),
                metadata: Metadata::None,
            };
            assert_eq!(event.is_open(), !event_type.is_instant(), "{event_type:?}");
            assert!(!event_type.is_instant() || !event_type.is_movement());
        }
        let instants = EventType::ALL.into_iter().filter(|one| one.is_instant());
        assert_eq!(instants.collect::<Vec<_>>(), [EventType::GpsRestored]);
    }

    #[test]
    fn an_event_is_written_as_in_the_contract() {
        let metadata = Metadata::Climb {
            floors: Some(3),
            direction: Direction::Up,
            height_cm: Some(1025),
        };
        let confidence = Confidence::from_probability(0.8765);
        let ride = Event {
            event_type: EventType::Elevator,
            t_start_ms: 61_500,
            t_end_ms: Some(90_000),
            confidence,
            metadata,
        };
        assert_eq!(
            serde_json::to_string(&ride.wire()).unwrap(),
            r#"{"type":"ELEVATOR","tStart":61.5,"tEnd":90.0,"confidence":0.877,"metadata":{"floors":3,"direction":"up","heightM":10.25}}"#
        );
        let open = Event {
            t_end_ms: None,
            metadata: Metadata::None,
            event_type: EventType::Walking,
            ..ride
        };
        assert_eq!(
            serde_json::to_string(&open.wire()).unwrap(),
            r#"{"type":"WALKING","tStart":61.5,"tEnd":null,"confidence":0.877,"metadata":{}}"#
        );
    }
}
