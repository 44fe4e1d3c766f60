//! Stores the newest crumbs of a path and finds those near a place.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

use crate::detect::parameters::backtracking::CRUMB_APART_M_MIN;
use crate::geo::Place;

/// The number of crumbs kept: 64 of 5 m are 320 m of path (sources: backtracking).
const CRUMBS: usize = 64;
/// The number of crumbs that are skipped in one step if none of them is near.
const LANES: usize = 8;
/// The number of crumbs by which the capacity grows.
const GROWTH: usize = 16;

/// A point of the path, with the time and the phone's own course there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Crumb {
    pub(super) t_ms: u32,
    pub(super) place: Place,
    pub(super) course: Course,
}

/// The phone's own course over ground, as 255 parts of the circle counted from 1; 0 if the phone
/// reported none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Course(u8);

impl Course {
    pub(super) fn of_degrees(course_deg: Option<f32>) -> Self {
        Self(course_deg.map_or(0, |deg| (deg * (255.0 / 360.0)) as u8 % 255 + 1))
    }

    /// Returns whether both courses are known and less than a right angle apart.
    pub(super) fn is_along(self, other: Self) -> bool {
        let apart = self.0.abs_diff(other.0);
        self.0 > 0 && other.0 > 0 && !(64..=191).contains(&apart)
    }
}

/// The newest [`CRUMBS`] crumbs, numbered from the oldest, which is 0.
#[derive(Debug, Clone, Default)]
pub(super) struct Trail(Option<Box<Ring>>);

/// A ring of crumbs as separate arrays per field, so that a SIMD vector holds several crumbs. Most
/// paths have few crumbs, so the capacity grows with them. An unused entry has a place that is
/// infinitely far away.
#[derive(Debug, Clone)]
struct Ring {
    east_m: Vec<f32>,
    north_m: Vec<f32>,
    t_ms: Vec<u32>,
    course: Vec<Course>,
    /// The index of the oldest crumb in the arrays.
    first: u8,
    length: u8,
    newest: Crumb,
}

impl Ring {
    /// Returns the index in the arrays of the crumb with this number.
    fn at(&self, number: usize) -> usize {
        (usize::from(self.first) + number) % CRUMBS
    }

    fn put(&mut self, at: usize, crumb: Crumb) {
        if at >= self.t_ms.len() {
            let room = self.t_ms.len() + GROWTH;
            for places_m in [&mut self.east_m, &mut self.north_m] {
                places_m.reserve_exact(GROWTH);
                places_m.resize(room, f32::INFINITY);
            }
            self.t_ms.reserve_exact(GROWTH);
            self.t_ms.resize(room, 0);
            self.course.reserve_exact(GROWTH);
            self.course.resize(room, Course(0));
        }
        if let (Some(east_m), Some(north_m), Some(t_ms), Some(course)) = (
            self.east_m.get_mut(at),
            self.north_m.get_mut(at),
            self.t_ms.get_mut(at),
            self.course.get_mut(at),
        ) {
            (*east_m, *north_m) = (crumb.place.east_m, crumb.place.north_m);
            (*t_ms, *course) = (crumb.t_ms, crumb.course);
        }
        self.newest = crumb;
    }
}

impl Trail {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ring| usize::from(ring.length))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the heap size in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |ring| {
            size_of::<Ring>()
                + ring.t_ms.capacity()
                    * (size_of::<u32>() + size_of::<Place>() + size_of::<Course>())
        })
    }

    /// Returns the crumb with this number.
    pub(super) fn get(&self, number: usize) -> Option<Crumb> {
        let ring = self.0.as_ref()?;
        if number >= usize::from(ring.length) {
            return None;
        }
        let at = ring.at(number);
        Some(Crumb {
            t_ms: *ring.t_ms.get(at)?,
            place: Place {
                east_m: *ring.east_m.get(at)?,
                north_m: *ring.north_m.get(at)?,
            },
            course: *ring.course.get(at)?,
        })
    }

    /// Returns the newest crumb.
    #[inline]
    pub(super) fn newest(&self) -> Option<Crumb> {
        self.0.as_ref().map(|ring| ring.newest)
    }

    /// Returns the length of the path from the crumb at `since_ms` to the newest, in metres.
    pub(super) fn path_m(&self, since_ms: u32) -> f32 {
        let newer = (0..self.len()).rev().filter_map(|number| self.get(number));
        let mut path_m = 0.0;
        let mut later: Option<Crumb> = None;
        for crumb in newer.take_while(|crumb| crumb.t_ms >= since_ms) {
            path_m += later.map_or(0.0, |later| later.place.distance_m(crumb.place));
            later = Some(crumb);
        }
        path_m
    }

    /// Returns how far `place` lies beyond the crumb `from` in the direction of the path, in
    /// metres; negative if it lies before the crumb.
    pub(super) fn ahead_m(&self, from: &Crumb, place: Place) -> f32 {
        let newer = (0..self.len()).filter_map(|number| self.get(number));
        let Some(next) = newer.into_iter().find(|crumb| crumb.t_ms > from.t_ms) else {
            return 0.0;
        };
        let path_m = next.place.distance_m(from.place).max(CRUMB_APART_M_MIN);
        ((next.place.east_m - from.place.east_m) * (place.east_m - from.place.east_m)
            + (next.place.north_m - from.place.north_m) * (place.north_m - from.place.north_m))
            / path_m
    }

    /// Appends a crumb and evicts the oldest if the trail is full.
    pub(super) fn push(&mut self, crumb: Crumb) {
        let ring = self.0.get_or_insert_with(|| {
            Box::new(Ring {
                east_m: Vec::new(),
                north_m: Vec::new(),
                t_ms: Vec::new(),
                course: Vec::new(),
                first: 0,
                length: 0,
                newest: crumb,
            })
        });
        let at = ring.at(usize::from(ring.length));
        if usize::from(ring.length) == CRUMBS {
            ring.first = ((at + 1) % CRUMBS) as u8;
        } else {
            ring.length += 1;
        }
        ring.put(at, crumb);
    }

    /// Calls `visit` with the number of each crumb within `near_m` of `place`, in any order. It
    /// also reports a few crumbs slightly farther away.
    pub(super) fn each_near(&self, place: Place, near_m: f32, mut visit: impl FnMut(usize)) {
        let Some(ring) = &self.0 else { return };
        // For most crumbs it is enough to know that they are far away, so roots are computed only
        // for the near ones.
        let far_m2 = near_m * near_m * 1.001;
        let mut is_near = [0_u8; CRUMBS];
        let places = ring.east_m.iter().zip(&ring.north_m);
        for (is_near, (east_m, north_m)) in is_near.iter_mut().zip(places) {
            let (east_m, north_m) = (east_m - place.east_m, north_m - place.north_m);
            *is_near = u8::from(east_m * east_m + north_m * north_m <= far_m2);
        }
        for (chunk, &lanes) in is_near.as_chunks::<LANES>().0.iter().enumerate() {
            let mut lanes = u64::from_le_bytes(lanes);
            while lanes != 0 {
                let at = LANES * chunk + lanes.trailing_zeros() as usize / 8;
                visit((CRUMBS + at - usize::from(ring.first)) % CRUMBS);
                lanes &= lanes - 1;
            }
        }
    }

    fn crumbs(&self) -> impl ExactSizeIterator<Item = Crumb> {
        let none = Crumb {
            t_ms: 0,
            place: Place::default(),
            course: Course(0),
        };
        (0..self.len()).map(move |number| self.get(number).unwrap_or(none))
    }
}

impl PartialEq for Trail {
    fn eq(&self, other: &Self) -> bool {
        self.crumbs().eq(other.crumbs())
    }
}

impl Serialize for Trail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.crumbs())
    }
}

impl<'de> Deserialize<'de> for Trail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Trail;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {CRUMBS} crumbs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut crumbs: A) -> Result<Trail, A::Error> {
        let mut trail = Trail::default();
        while let Some(crumb) = crumbs.next_element()? {
            if trail.len() == CRUMBS {
                return Err(A::Error::custom("more crumbs than a trail holds"));
            }
            trail.push(crumb);
        }
        Ok(trail)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The ring holds the newest crumbs in order and knows which of them are near.
        #[test]
        fn the_newest_crumbs_are_stored_and_found(
            places in prop::collection::vec((-40.0_f32..40.0, -40.0_f32..40.0), 0..200),
            (east_m, north_m) in (-40.0_f32..40.0, -40.0_f32..40.0),
            near_m in 1.0_f32..20.0,
        ) {
            let crumbs: Vec<_> = (0..).zip(&places).map(|(t_ms, &(east_m, north_m))| Crumb {
                t_ms,
                place: Place { east_m, north_m },
                course: Course::of_degrees(Some(7.0 * t_ms as f32 % 360.0).filter(|_| t_ms % 3 > 0)),
            }).collect();
            let mut trail = Trail::default();
            crumbs.iter().for_each(|&crumb| trail.push(crumb));
            let kept = &crumbs[crumbs.len().saturating_sub(CRUMBS)..];
            prop_assert_eq!(trail.len(), kept.len());
            prop_assert!(kept.iter().copied().eq(trail.crumbs()));
            prop_assert_eq!(trail.newest(), kept.last().copied());
            prop_assert_eq!(trail.get(kept.len()), None);
            let here = Place { east_m, north_m };
            let mut found = Vec::new();
            trail.each_near(here, near_m, |number| found.push(number));
            found.sort_unstable();
            let near = (0..kept.len())
                .filter(|&number| kept[number].place.distance_m(here) <= near_m);
            for number in near {
                prop_assert!(found.binary_search(&number).is_ok(), "{} of {:?}", number, found);
            }
            prop_assert!(found.iter().all(|&number| kept[number].place.distance_m(here) <= near_m * 1.001));
            let bytes = postcard::to_stdvec(&trail).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Trail>(&bytes), Ok(trail));
        }
    }
}
