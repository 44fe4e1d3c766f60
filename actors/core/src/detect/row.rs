//! A short queue of values, pushed at the end and dropped at the front. Its serialized length is
//! that of its content.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A queue of at most `N` values, where `N` is at most 255. Most rows hold a few values, so their
/// capacity grows on demand.
#[derive(Debug, Clone)]
pub(super) struct Row<T, const N: usize> {
    /// The values, preceded by dropped ones up to `from`. They are moved up only when the room at
    /// the end runs out.
    values: Vec<T>,
    from: u8,
}

/// The number of free places that makes moving the values up worthwhile.
const FREE_MIN: usize = 3;

impl<T, const N: usize> Default for Row<T, N> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            from: 0,
        }
    }
}

impl<T: Copy, const N: usize> Row<T, N> {
    /// The number of values by which the capacity grows.
    const ROOM: usize = if N > 8 { 4 } else { 2 };

    // The slice has methods of the same names, but these avoid creating the slice.

    /// Returns the number of values.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.values.len() - usize::from(self.from)
    }

    /// Returns the newest value.
    #[inline]
    pub(super) fn last(&self) -> Option<&T> {
        (**self).last()
    }

    /// Appends a value. Returns `false` and does nothing if the row is full.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> bool {
        if self.values.len() == self.values.capacity() && !self.make_room() {
            return false;
        }
        self.values.push(value);
        true
    }

    /// Makes room at the end if there are fewer than `N` values.
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        let (live, room) = (self.len(), self.values.capacity());
        if live >= N {
            return false;
        }
        if (live + FREE_MIN).min(N) <= room && room <= live + Self::ROOM + FREE_MIN {
            self.values.drain(..usize::from(self.from));
        } else {
            let mut values = Vec::with_capacity((live + Self::ROOM).min(N));
            values.extend_from_slice(self);
            self.values = values;
        }
        self.from = 0;
        true
    }

    /// Removes the first `count` values, or all if there are fewer.
    #[inline]
    pub(super) fn drop_first(&mut self, count: usize) {
        if count >= self.len() {
            self.clear();
        } else {
            self.from += count as u8;
        }
    }

    /// Removes the newest value.
    pub(super) fn pop(&mut self) {
        if !self.is_empty() {
            self.values.pop();
        }
    }

    /// Removes all values and keeps their capacity.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.from = 0;
    }

    /// Returns the heap size in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for Row<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T, const N: usize> Deref for Row<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.values
            .get(usize::from(self.from)..)
            .unwrap_or_default()
    }
}

impl<T, const N: usize> DerefMut for Row<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.values
            .get_mut(usize::from(self.from)..)
            .unwrap_or_default()
    }
}

impl<T: Serialize, const N: usize> Serialize for Row<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Copy, const N: usize> Deserialize<'de> for Row<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader(PhantomData))
    }
}

struct Reader<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Copy, const N: usize> Visitor<'de> for Reader<T, N> {
    type Value = Row<T, N>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {N} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Row<T, N>, A::Error> {
        let mut row = Row::default();
        while let Some(value) = values.next_element()? {
            if !row.push(value) {
                return Err(A::Error::custom("more values than there is room for"));
            }
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_returns_its_values_and_refuses_more_than_its_capacity() {
        let mut row = Row::<u8, 4>::default();
        assert!((1..=4).all(|value| row.push(value)) && !row.push(5));
        row.drop_first(3);
        assert!(row.push(9));
        assert_eq!(*row, [4, 9]);
        let bytes = postcard::to_stdvec(&row).unwrap();
        assert_eq!(bytes, [2, 4, 9]);
        assert_eq!(postcard::from_bytes::<Row<u8, 4>>(&bytes), Ok(row.clone()));
        assert!(postcard::from_bytes::<Row<u8, 1>>(&bytes).is_err());
        row.drop_first(7);
        assert_eq!(row, Row::default());
    }

    #[test]
    fn the_memory_of_a_row_follows_its_content() {
        let mut row = Row::<u32, 17>::default();
        assert_eq!(row.heap_bytes(), 0);
        for value in 0..17 {
            assert!(row.push(value));
        }
        assert!(!row.push(17) && row.len() == 17);
        row.drop_first(15);
        for value in 17..1_000 {
            assert!(row.push(value));
            row.drop_first(1);
            assert_eq!(*row, [value - 1, value]);
        }
        assert!(row.heap_bytes() <= 4 * 12, "{}", row.heap_bytes());
    }
}
