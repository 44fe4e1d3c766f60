//! Prior knowledge for scoring, and how the service learns about a place from the sessions that
//! went there.
//!
//! A place remembers only its last confirmed sessions. The learned value is the weighted median of
//! their observations, so a single session, however wrong, moves it at most to a neighbouring
//! observation. Weights halve in half a year, and one courier counts for less than half of all.

use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{Address, Point, SessionEnd, SessionStart, Tenant};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::floors::parameters::learned::MISSING_WEIGHT;
use crate::floors::{LearnedFloor, STOREY_M, begins_with_digit, introduces_unit, parts, words};
use crate::geo::{LocalFrame, Place};
use crate::score::parameters::door::knowledge::{
    FLOOR_WEIGHT_MIN, HALF_LIFE_DAYS, ONE_COURIER_SHARE, PLACE_M_MAX, PLACE_SIGMA_M_MIN,
    REGION_DEG, REGION_SHIFT, WEIGHT_MIN,
};

/// The number of sessions that a place remembers.
pub const PLACE_SESSIONS_MAX: usize = 16;

/// A place learned from earlier sessions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LearnedPoint {
    /// The position.
    pub point: Point,
    /// The accuracy in metres (68 % radius).
    pub sigma_m: f32,
    /// The weight, in fresh sessions.
    pub weight: f32,
}

/// Another session whose trace this session repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CopiedTrace {
    /// The ID of the other session.
    pub session_id: SessionId,
    /// The equal share of the trace, 0 to 1.
    pub similarity: f32,
    /// Whether one courier recorded both sessions at the same time. The two then share one trace,
    /// and neither is a copy.
    #[serde(default)]
    pub together: bool,
}

/// Returns whether one courier recorded two sessions at the same time, as for two parcels of one
/// stop: by the service's own times, each began before the other was completed. A copied trace is
/// sent after it was recorded.
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

/// The knowledge available before a session was scored. It is fixed at the first scoring, and
/// stored with the session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Knowledge {
    /// The measured heights of floors above the entrance in metres, one for each floor.
    pub floor_heights_m: Vec<(i16, f32)>,
    /// The weight of each of these heights, in fresh sessions; empty in data stored by earlier
    /// versions.
    #[serde(default)]
    pub floor_weights: Vec<f32>,
    /// The learned entrance.
    pub entrance: Option<LearnedPoint>,
    /// The learned drop-off point for this address.
    pub drop_off: Option<LearnedPoint>,
    /// An earlier session with the same trace, if one was found.
    #[serde(rename = "replay")]
    pub copied_trace: Option<CopiedTrace>,
}

impl Knowledge {
    /// Returns the heights of floors that are possible in a building.
    pub(crate) fn floors(&self) -> Vec<LearnedFloor> {
        let weights = self.floor_weights.iter().copied().map(Some);
        let weights = weights.chain(core::iter::repeat(None));
        let floors = self.floor_heights_m.iter().zip(weights);
        floors
            .filter(|((floor, height_m), _)| is_storey(*floor, *height_m))
            .map(|(&(floor, height_m), weight)| LearnedFloor {
                floor,
                height_m,
                weight: weight.unwrap_or(MISSING_WEIGHT),
            })
            .take(PLACE_SESSIONS_MAX)
            .collect()
    }
}

/// Returns whether a floor can have that height above the entrance, in metres. The ground floor has
/// none.
fn is_storey(floor: i16, height_m: f32) -> bool {
    floor != 0 && STOREY_M.contains(&(height_m / f32::from(floor)))
}

/// The observations of one scored session about its place.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlaceFacts {
    /// The day of the session's start, counted from 1970.
    pub day: u32,
    /// The courier as a hash: it distinguishes couriers without identifying them.
    pub rider: u64,
    /// The floor and its height above the entrance in metres, if the floor was right by prior
    /// knowledge.
    pub floor_height_m: Option<(i16, f32)>,
    /// The place where the courier went in, and its accuracy in metres.
    pub entrance: Option<(Point, f32)>,
    /// The place of the drop-off, and its accuracy in metres.
    pub drop_off: Option<(Point, f32)>,
}

/// The remembered knowledge of a place: its last confirmed sessions, the newest last.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlaceKnowledge {
    sessions: Vec<PlaceFacts>,
}

/// Adds a confirmed session. Sessions are ordered by day, so the order of learning does not matter
/// as long as all are kept.
#[must_use]
pub fn learn(old: &PlaceKnowledge, facts: PlaceFacts) -> PlaceKnowledge {
    let mut sessions = old.sessions.clone();
    let at = sessions.partition_point(|session| session.day <= facts.day);
    sessions.insert(at, facts);
    if sessions.len() > PLACE_SESSIONS_MAX {
        // Drops the oldest session of the courier with the most sessions, so that no courier can
        // displace the observations of others.
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
    /// Returns the knowledge without the contributions of one courier's sessions of one day, and
    /// the number of contributions left out.
    #[must_use]
    pub fn without(&self, rider: u64, day: u32) -> (Self, usize) {
        let is_theirs = |facts: &&PlaceFacts| facts.rider == rider && facts.day == day;
        let kept = self.sessions.iter().filter(|facts| !is_theirs(facts));
        let sessions: Vec<PlaceFacts> = kept.copied().collect();
        let left_out = self.sessions.len() - sessions.len();
        (Self { sessions }, left_out)
    }

    /// Returns the contributions of one courier's sessions of one day.
    pub fn contributions(&self, rider: u64, day: u32) -> impl Iterator<Item = &PlaceFacts> {
        let sessions = self.sessions.iter();
        sessions.filter(move |facts| facts.rider == rider && facts.day == day)
    }

    /// Returns whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the knowledge on `day` (since 1970) about `address`, without a copied trace: those
    /// are looked up elsewhere.
    #[must_use]
    pub fn known(&self, address: &Address, day: u32) -> Knowledge {
        let frame = LocalFrame::new(address.point);
        let weights = self.weights(day);
        let floors = self.floor_heights(frame, &weights);
        Knowledge {
            floor_heights_m: floors
                .iter()
                .map(|&(floor, metres, _)| (floor, metres))
                .collect(),
            floor_weights: floors.iter().map(|&(_, _, weight)| weight).collect(),
            entrance: self.place(frame, &weights, |facts| facts.entrance),
            drop_off: self.place(frame, &weights, |facts| facts.drop_off),
            copied_trace: None,
        }
    }

    /// Returns the weight of each session: by its age, and limited so that one courier makes up
    /// less than half of all.
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
            // A courier without others keeps the weight of a single session.
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

    /// Returns floor, height and weight. Even a single trusted session counts, because the weight
    /// shows how little evidence it is. A session whose entrance and drop-off lie elsewhere was in
    /// another building.
    fn floor_heights(&self, frame: LocalFrame, weights: &[f64]) -> Vec<(i16, f32, f32)> {
        let is_elsewhere = |facts: &PlaceFacts| {
            let points = [facts.entrance, facts.drop_off];
            let mut near = points.iter().flatten().map(|place| is_near(frame, place.0));
            near.next()
                .is_some_and(|first| !first && near.all(|near| !near))
        };
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
                    .filter(|known| known.0 == floor && is_storey(known.0, known.1))
                    .filter(|_| !is_elsewhere(facts))
                    .map(|known| known.1)
            });
            let weight: f64 = of_floor.iter().map(|(_, weight)| weight).sum();
            let height_m = median(of_floor, FLOOR_WEIGHT_MIN)?;
            Some((floor, height_m, weight as f32))
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
            is_near(frame, point).then_some((frame.place(point), sigma_m))
        };
        let east_m = median(
            self.values(weights, |facts| Some(near(facts)?.0.east_m)),
            WEIGHT_MIN,
        )?;
        let north_m = median(
            self.values(weights, |facts| Some(near(facts)?.0.north_m)),
            WEIGHT_MIN,
        )?;
        let middle = Place { east_m, north_m };
        let apart_m = median(
            self.values(weights, |facts| {
                let (place, sigma_m) = near(facts)?;
                Some(place.distance_m(middle).max(sigma_m / 2.0))
            }),
            WEIGHT_MIN,
        )?;
        let weight: f64 = self
            .values(weights, |facts| Some(near(facts)?.1))
            .iter()
            .map(|(_, weight)| weight)
            .sum();
        let sigma_m = apart_m.max(PLACE_SIGMA_M_MIN);
        Some(LearnedPoint {
            point: frame.point(middle),
            sigma_m,
            weight: weight as f32,
        })
    }
}

/// Returns whether a point is near enough to the address, the origin of `frame`, to belong to its
/// building.
fn is_near(frame: LocalFrame, point: Point) -> bool {
    frame.place(point).distance_m(Place::default()) <= PLACE_M_MAX
}

/// Returns the weighted median, or `None` below the least weight.
fn median(mut values: Vec<(f32, f64)>, weight_least: f64) -> Option<f32> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    if all < weight_least {
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

/// Words that introduce a part of a building: the words after them belong to the unit, not to the
/// place.
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

/// Returns the key under which a place is remembered: one for each building of a customer, in one
/// environment. Case, punctuation and the unit do not matter; the same street in a town of the same
/// name elsewhere is another place.
#[must_use]
pub fn place_key(tenant: Tenant, address: &Address) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(tenant.organization_id.to_bytes());
    hash.update(tenant.env.as_str().as_bytes());
    for part in [
        without_unit(&address.line1),
        words(&address.city),
        words(&address.country),
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

/// Returns the words of a street line up to the unit. A number after `#` is a unit if the line
/// begins with the number of the house; elsewhere it is the number of the house itself, as in "Calle
/// 45 #12-34". The words before the unit must name a street.
fn without_unit(line: &str) -> Vec<String> {
    let mut street = line;
    if let Some((before, _)) = line.split_once('#') {
        let words = words(before);
        if words.first().is_some_and(|word| begins_with_digit(word)) && names_street(&words) {
            street = before;
        }
    }
    let mut kept = Vec::new();
    for part in parts(street) {
        let unit = (0..part.len()).find(|&at| {
            introduces_unit(&part, at, &UNIT_WORDS)
                && (names_street(&kept) || names_street(&part[..at]))
        });
        kept.extend(part.into_iter().take(unit.unwrap_or(usize::MAX)));
        if unit.is_some() {
            break;
        }
    }
    kept
}

/// Returns whether words name a street: numbers alone do not.
fn names_street(words: &[String]) -> bool {
    words.iter().any(|word| !begins_with_digit(word))
}
