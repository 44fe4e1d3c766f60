//! A short row of values in place: pushed at its end, dropped at its front. Written, it is as long as what stands in it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// At most `N` values, of which there are at most 255. They begin anywhere: what is dropped at the front is not moved up
/// before the room behind runs out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<T, const N: usize> {
    values: [T; N],
    from: u8,
    end: u8,
}

impl<T: Copy + Default, const N: usize> Default for Row<T, N> {
    fn default() -> Self {
        Self {
            values: [T::default(); N],
            from: 0,
            end: 0,
        }
    }
}

impl<T: Copy + Default, const N: usize> Row<T, N> {
    // Of the slice there are the same; these need not make one.

    /// How many values there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.end - self.from)
    }

    /// The newest value.
    #[inline]
    pub(super) fn last(&self) -> Option<&T> {
        if self.end == self.from {
            return None;
        }
        self.values.get(usize::from(self.end) - 1)
    }

    /// Appends a value; false, and nothing done, where there is no room.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> bool {
        if usize::from(self.end) == N && !self.move_up() {
            return false;
        }
        let Some(place) = self.values.get_mut(usize::from(self.end)) else {
            return false;
        };
        *place = value;
        self.end += 1;
        true
    }

    /// Makes room behind, if there is some before.
    #[inline(never)]
    fn move_up(&mut self) -> bool {
        let from = self.from;
        self.values
            .copy_within(usize::from(from)..usize::from(self.end), 0);
        self.from = 0;
        self.end -= from;
        from > 0
    }

    /// Takes away the first `count` values, or all there are.
    #[inline]
    pub(super) fn drop_first(&mut self, count: usize) {
        self.from += count.min(usize::from(self.end - self.from)) as u8;
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
            .get(usize::from(self.from)..usize::from(self.end))
            .unwrap_or_default()
    }
}

impl<T, const N: usize> DerefMut for Row<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.values
            .get_mut(usize::from(self.from)..usize::from(self.end))
            .unwrap_or_default()
    }
}

impl<T: Serialize, const N: usize> Serialize for Row<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Deserialize<'de> for Row<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader(PhantomData))
    }
}

struct Reader<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Copy + Default, const N: usize> Visitor<'de> for Reader<T, N> {
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
    fn a_row_takes_what_it_has_room_for_and_reads_back() {
        let mut row = Row::<u8, 4>::default();
        assert!((1..=4).all(|value| row.push(value)) && !row.push(5));
        row.drop_first(3);
        assert!(row.push(9));
        assert_eq!(*row, [4, 9]);
        let bytes = postcard::to_stdvec(&row).unwrap();
        assert_eq!(bytes, [2, 4, 9]);
        assert_eq!(postcard::from_bytes::<Row<u8, 4>>(&bytes), Ok(row));
        assert!(postcard::from_bytes::<Row<u8, 1>>(&bytes).is_err());
        row.drop_first(7);
        assert_eq!(row, Row::default());
    }
}
