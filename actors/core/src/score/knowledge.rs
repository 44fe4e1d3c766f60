//! What was known beforehand, and how the service learns of a place from the sessions that went there.
//!
//! A place remembers its last confirmed sessions and no more. What is learned is the weighted median of what they
//! saw: a single session, however wrong, moves it at most to what a neighbour saw; weights fall by half in half a
//! year, and one courier counts for less than half of all.

use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{Address, Point, SessionEnd, SessionStart, Tenant};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::geo::{LocalFrame, Place};

use crate::storeys::STOREY_M;

/// Sessions that a place remembers.
pub const PLACE_SESSIONS_MAX: usize = 16;
/// After this many days a session counts half.
const HALF_LIFE_DAYS: f64 = 180.0;
/// Weight without which nothing is learned: two fresh sessions.
const WEIGHT_LEAST: f64 = 1.5;
/// Of what the others weigh, one courier weighs this much at most: less than half of all.
const ONE_COURIER_SHARE: f64 = 0.9;
/// What lies farther from the address is no place of it.
const PLACE_MOST_M: f32 = 150.0;
/// The least uncertainty of a learned place, metres.
const PLACE_SIGMA_LEAST_M: f32 = 5.0;

/// A place learned from earlier sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LearnedPoint {
    /// Where.
    pub point: Point,
    /// How exact, metres (68 % radius).
    pub sigma_m: f32,
    /// How many fresh sessions it is worth.
    pub weight: f32,
}

/// Another session with the same trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Which.
    pub session_id: SessionId,
    /// The share that is the same, 0 to 1.
    pub similarity: f32,
    /// Whether the two were recorded at once, by one courier: then it is one trace with two names, not a copy.
    #[serde(default)]
    pub together: bool,
}

/// Whether two sessions were recorded at once by one courier, as for two parcels of one stop: by the service's own
/// times, each began before the other was completed. Whoever sends a trace again does so after it was recorded.
#[must_use]
pub fn recorded_together(
    one: (&SessionStart, &SessionEnd),
    other: (&SessionStart, &SessionEnd),
) -> bool {
    one.0.tenant == other.0.tenant
        && one.0.external_rider_id == other.0.external_rider_id
        && one.0.created_at < other.1.completed_at
        && other.0.created_at < one.1.completed_at
}

/// What was known before a session was scored. Fixed when it is first scored, and stored with it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Knowledge {
    /// Height of a storey, metres.
    pub storey_height_m: Option<f32>,
    /// Measured heights of floors above the entrance, metres; by floor, each once.
    pub floor_heights_m: Vec<(i16, f32)>,
    /// The entrance.
    pub entrance: Option<LearnedPoint>,
    /// Where parcels for this address are handed over.
    pub drop_off: Option<LearnedPoint>,
    /// An earlier session with the same trace, if one was found.
    pub replay: Option<Replay>,
}

impl Knowledge {
    /// Storey height and measured floors, where they can be those of a building.
    pub(crate) fn storeys(&self) -> Option<(f32, Vec<(i16, f32)>)> {
        let storey_m = self
            .storey_height_m
            .filter(|metres| STOREY_M.contains(metres))?;
        let floors = self
            .floor_heights_m
            .iter()
            .copied()
            .filter(|(_, metres)| metres.is_finite());
        Some((storey_m, floors.take(PLACE_SESSIONS_MAX).collect()))
    }
}

/// What one scored session says of its place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlaceFacts {
    /// The day of its start, counted from 1970.
    pub day: u32,
    /// The courier, as a hash: couriers are told apart, not known.
    pub rider: u64,
    /// Floor and height above the entrance, metres; where the floor was right by what was known.
    pub floor_height_m: Option<(i16, f32)>,
    /// Where one went in.
    pub entrance: Option<(Point, f32)>,
    /// Where the parcel was handed over, and how exactly that is known, metres.
    pub drop_off: Option<(Point, f32)>,
}

/// What is remembered of a place: its last confirmed sessions, the newest last.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlaceKnowledge {
    sessions: Vec<PlaceFacts>,
}

/// Adds a confirmed session. Sessions count by their day, so that the order in which they are learned does not
/// matter as long as all are kept.
#[must_use]
pub fn learn(old: &PlaceKnowledge, facts: PlaceFacts) -> PlaceKnowledge {
    let mut sessions = old.sessions.clone();
    let at = sessions.partition_point(|session| session.day <= facts.day);
    sessions.insert(at, facts);
    if sessions.len() > PLACE_SESSIONS_MAX {
        // The oldest of the courier who has most of them: nobody can push out what others saw.
        let count = |rider: u64| sessions.iter().filter(|other| other.rider == rider).count();
        let most = sessions.iter().map(|session| count(session.rider)).max();
        let oldest = sessions
            .iter()
            .position(|session| Some(count(session.rider)) == most);
        sessions.remove(oldest.unwrap_or(0));
    }
    PlaceKnowledge { sessions }
}

impl PlaceKnowledge {
    /// What is known on `day` (since 1970) about `address`. Nothing of a replay: that is looked up elsewhere.
    #[must_use]
    pub fn known(&self, address: &Address, day: u32) -> Knowledge {
        let frame = LocalFrame::new(address.point);
        let weights = self.weights(day);
        let storeys = self.values(&weights, |facts| {
            let (floor, height_m) = facts.floor_height_m?;
            let storey_m = height_m / f32::from(floor);
            STOREY_M.contains(&storey_m).then_some(storey_m)
        });
        Knowledge {
            storey_height_m: median(storeys),
            floor_heights_m: self.floor_heights(&weights),
            entrance: self.place(frame, &weights, |facts| facts.entrance),
            drop_off: self.place(frame, &weights, |facts| facts.drop_off),
            replay: None,
        }
    }

    /// The weight of each session: by its age, and so that one courier makes less than half of all.
    fn weights(&self, day: u32) -> Vec<f64> {
        let fresh = |facts: &PlaceFacts| {
            libm::exp(
                -core::f64::consts::LN_2 * f64::from(day.saturating_sub(facts.day))
                    / HALF_LIFE_DAYS,
            )
        };
        let ages: Vec<f64> = self.sessions.iter().map(fresh).collect();
        let all: f64 = ages.iter().sum();
        let share = |facts: &PlaceFacts, age: f64| {
            let own: f64 = self
                .sessions
                .iter()
                .zip(&ages)
                .filter(|(other, _)| other.rider == facts.rider)
                .map(|(_, age)| age)
                .sum();
            let others = all - own;
            // A courier who is alone keeps the weight of a single session.
            let most = (others * ONE_COURIER_SHARE).max(1.0);
            if own > most { age * most / own } else { age }
        };
        self.sessions
            .iter()
            .zip(&ages)
            .map(|(facts, &age)| share(facts, age))
            .collect()
    }

    fn values(
        &self,
        weights: &[f64],
        value: impl Fn(&PlaceFacts) -> Option<f32>,
    ) -> Vec<(f32, f64)> {
        let weighed = self.sessions.iter().zip(weights);
        weighed
            .filter_map(|(facts, &weight)| {
                Some((value(facts).filter(|value| value.is_finite())?, weight))
            })
            .collect()
    }

    fn floor_heights(&self, weights: &[f64]) -> Vec<(i16, f32)> {
        let mut floors: Vec<i16> = self
            .sessions
            .iter()
            .filter_map(|facts| Some(facts.floor_height_m?.0))
            .collect();
        floors.sort_unstable();
        floors.dedup();
        let height = |floor: i16| {
            let of_floor = self.values(weights, |facts| {
                facts
                    .floor_height_m
                    .filter(|known| known.0 == floor)
                    .map(|known| known.1)
            });
            Some((floor, median(of_floor)?))
        };
        floors.into_iter().filter_map(height).collect()
    }

    fn place(
        &self,
        frame: LocalFrame,
        weights: &[f64],
        place: impl Fn(&PlaceFacts) -> Option<(Point, f32)>,
    ) -> Option<LearnedPoint> {
        let near = |facts: &PlaceFacts| {
            let (point, sigma_m) = place(facts)?;
            let place = frame.place(point);
            (place.distance_m(Place::default()) <= PLACE_MOST_M).then_some((place, sigma_m))
        };
        let east_m = median(self.values(weights, |facts| Some(near(facts)?.0.east_m)))?;
        let north_m = median(self.values(weights, |facts| Some(near(facts)?.0.north_m)))?;
        let middle = Place { east_m, north_m };
        let apart_m = median(self.values(weights, |facts| {
            let (place, sigma_m) = near(facts)?;
            Some(place.distance_m(middle).max(sigma_m / 2.0))
        }))?;
        let weight: f64 = self
            .values(weights, |facts| Some(near(facts)?.1))
            .iter()
            .map(|(_, weight)| weight)
            .sum();
        let sigma_m = apart_m.max(PLACE_SIGMA_LEAST_M);
        Some(LearnedPoint {
            point: frame.point(middle),
            sigma_m,
            weight: weight as f32,
        })
    }
}

/// The weighted median; none below the least weight.
fn median(mut values: Vec<(f32, f64)>) -> Option<f32> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    if all < WEIGHT_LEAST {
        return None;
    }
    let mut below = 0.0;
    for (value, weight) in &values {
        below += weight;
        if below >= all / 2.0 {
            return Some(*value);
        }
    }
    None
}

/// Words after which a part of a building is named: what follows belongs to the unit, not to the place.
const UNIT_WORDS: [&str; 12] = [
    "apt",
    "apartment",
    "unit",
    "suite",
    "ste",
    "flat",
    "room",
    "rm",
    "floor",
    "fl",
    "wohnung",
    "whg",
];

/// Towns of one name lie farther apart than this, degrees: 11 km of latitude. A building on the line between two cells may
/// be remembered twice, which costs it some sessions of learning …
const REGION_DEG: f64 = 0.1;
/// … and no round coordinate lies on such a line: they are shifted by this part of a cell.
const REGION_SHIFT: f64 = 0.371;

/// The key under which a place is remembered: one for each building of a customer, in one environment. Case,
/// punctuation and the unit do not matter; the same street in a town of the same name elsewhere is another place.
#[must_use]
pub fn place_key(tenant: Tenant, address: &Address) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(tenant.organization_id.to_bytes());
    hash.update(tenant.env.as_str().as_bytes());
    for part in [
        without_unit(&address.line1),
        normalised(&address.city),
        normalised(&address.country),
    ] {
        hash.update([0]);
        hash.update(part.join(" ").as_bytes());
    }
    for degrees in [address.point.lat, address.point.lng] {
        hash.update(((degrees / REGION_DEG + REGION_SHIFT).floor() as i32).to_le_bytes());
    }
    let mut key = [0; 16];
    for (to, from) in key.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    key
}

/// Words in lower case, without punctuation.
fn normalised(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    lower
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The words of a street line up to where it names a unit. The number after `#` is a unit too.
fn without_unit(line: &str) -> Vec<String> {
    let street = line.split('#').next().unwrap_or_default();
    let words = normalised(street);
    let unit = words
        .iter()
        .skip(1)
        .position(|word| UNIT_WORDS.contains(&word.as_str()));
    let kept = unit.map_or(words.len(), |index| index + 1);
    words.into_iter().take(kept).collect()
}
