//! A short queue of values, pushed at the end and dropped at the front. Its serialized length is
//! that of its content.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A queue of at most `N` values. Most queues hold a few values, so their capacity follows their
/// content. A queue is read several times a second and shortened once, so a dropped value makes the
/// others move to the front.
#[derive(Debug, Clone)]
pub(super) struct ShortQueue<T, const N: usize>(Vec<T>);

impl<T, const N: usize> Default for ShortQueue<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy, const N: usize> ShortQueue<T, N> {
    /// The number of values by which the capacity grows.
    const ROOM: usize = if N > 8 { 4 } else { 2 };

    /// Appends a value. Returns `false` and does nothing if the queue is full.
    #[inline]
    pub(super) fn push(&mut self, value: T) -> bool {
        if self.0.len() == self.0.capacity() && !self.make_room() {
            return false;
        }
        self.0.push(value);
        true
    }

    /// Makes room at the end. Returns `false` if there are `N` values.
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        let room = N.saturating_sub(self.0.len()).min(Self::ROOM);
        self.0.reserve_exact(room);
        room > 0
    }

    /// Removes the first `count` values, or all if there are fewer.
    #[inline]
    pub(super) fn drop_first(&mut self, count: usize) {
        let Some(left) = self.0.len().checked_sub(count) else {
            self.0.clear();
            return;
        };
        self.0.copy_within(count.., 0);
        self.0.truncate(left);
        if self.0.capacity() > 2 * (left + Self::ROOM) {
            self.shrink();
        }
    }

    /// Releases the capacity beyond the content and [`Self::ROOM`].
    #[inline(never)]
    fn shrink(&mut self) {
        self.0.shrink_to(self.0.len() + Self::ROOM);
    }

    /// Removes the newest value.
    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Removes all values and keeps their capacity.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the heap size in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}

impl<T: PartialEq, const N: usize> PartialEq for ShortQueue<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T, const N: usize> Deref for ShortQueue<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for ShortQueue<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Serialize, const N: usize> Serialize for ShortQueue<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Copy, const N: usize> Deserialize<'de> for ShortQueue<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader(PhantomData))
    }
}

struct Reader<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Copy, const N: usize> Visitor<'de> for Reader<T, N> {
    type Value = ShortQueue<T, N>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "at most {N} values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<ShortQueue<T, N>, A::Error> {
        let mut queue = ShortQueue::default();
        while let Some(value) = values.next_element()? {
            if !queue.push(value) {
                return Err(A::Error::custom("more values than the queue holds"));
            }
        }
        Ok(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_returns_its_values_and_refuses_more_than_its_capacity() {
        let mut queue = ShortQueue::<u8, 4>::default();
        assert!((1..=4).all(|value| queue.push(value)) && !queue.push(5));
        queue.drop_first(3);
        assert!(queue.push(9));
        assert_eq!(*queue, [4, 9]);
        let bytes = postcard::to_stdvec(&queue).unwrap();
        assert_eq!(bytes, [2, 4, 9]);
        assert_eq!(
            postcard::from_bytes::<ShortQueue<u8, 4>>(&bytes),
            Ok(queue.clone())
        );
        assert!(postcard::from_bytes::<ShortQueue<u8, 1>>(&bytes).is_err());
        queue.drop_first(7);
        assert_eq!(queue, ShortQueue::default());
    }

    #[test]
    fn the_memory_of_a_queue_follows_its_content() {
        let mut queue = ShortQueue::<u32, 17>::default();
        assert_eq!(queue.heap_bytes(), 0);
        for value in 0..17 {
            assert!(queue.push(value));
        }
        assert!(!queue.push(17) && queue.len() == 17);
        queue.drop_first(15);
        for value in 17..1_000 {
            assert!(queue.push(value));
            queue.drop_first(1);
            assert_eq!(*queue, [value - 1, value]);
        }
        assert!(queue.heap_bytes() <= 4 * 12, "{}", queue.heap_bytes());
    }
}
