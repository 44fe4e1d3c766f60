//! Columns of integers: zigzag deltas in LEB128.

mod written;

use super::PackedError;
pub(super) use written::{Column, OptionalColumn, put_number};

/// The first byte of an optional column in which no row has a value. [`ALL_PRESENT`] stands for a
/// value in every row, and [`BITMAP`] for a bitmap of the rows with a value.
const ALL_ABSENT: u8 = 0;
const ALL_PRESENT: u8 = 1;
const BITMAP: u8 = 2;

/// Reads forward through bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the bytes that were not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, PackedError> {
        let (&byte, rest) = self.bytes.split_first().ok_or(PackedError::Damaged(what))?;
        self.bytes = rest;
        Ok(byte)
    }

    #[inline(always)]
    pub(super) fn long_number(&mut self, what: &'static str) -> Result<u64, PackedError> {
        // Most numbers take one or two bytes, at random in most columns, so the processor would
        // often mispredict a branch. Masks need no branch.
        match *self.bytes {
            [low, high, ..] if low & high < 0x80 => {
                let is_long = low >> 7;
                let high = u64::from(high) << 7 & 0_u64.wrapping_sub(u64::from(is_long));
                self.bytes = self
                    .bytes
                    .get(1 + usize::from(is_long)..)
                    .unwrap_or_default();
                Ok(u64::from(low & 0x7f) | high)
            }
            _ => self.longer_number(what),
        }
    }

    // A separate function, so that the path of short numbers stays inlined.
    #[inline(never)]
    fn longer_number(&mut self, what: &'static str) -> Result<u64, PackedError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(PackedError::Damaged(what))
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<u32, PackedError> {
        u32::try_from(self.long_number(what)?).map_err(|_| PackedError::Damaged(what))
    }

    pub(super) fn take(
        &mut self,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], PackedError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(PackedError::Damaged(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads a length and that many bytes.
    pub(super) fn slice(&mut self, what: &'static str) -> Result<&'a [u8], PackedError> {
        let length = self.number(what)? as usize;
        self.take(length, what)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A column being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ColumnReader<'a> {
    cursor: Cursor<'a>,
    previous: i64,
}

impl<'a> ColumnReader<'a> {
    pub(super) fn new(cursor: &mut Cursor<'a>, what: &'static str) -> Result<Self, PackedError> {
        Ok(Self {
            cursor: Cursor::new(cursor.slice(what)?),
            previous: 0,
        })
    }

    #[inline]
    pub(super) fn next(&mut self, what: &'static str) -> Result<i64, PackedError> {
        let coded = self.cursor.long_number(what)?;
        Ok(self.add(coded))
    }

    #[inline]
    fn add(&mut self, coded: u64) -> i64 {
        let delta = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        self.previous = self.previous.wrapping_add(delta);
        self.previous
    }

    /// Reads the next values of three columns of equal units, as many as `out` has room for,
    /// converted by `value_of`. The columns are read side by side: the position of a number depends
    /// on all before it, so the processor can work on one column while it waits for another.
    pub(super) fn fill_three(
        columns: &mut [Self; 3],
        mut out: [&mut [f32]; 3],
        value_of: impl Fn(i64) -> f32,
        what: [&'static str; 3],
        rooms: &mut Rooms,
    ) -> Result<(), PackedError> {
        while out.iter().any(|out| !out.is_empty()) {
            let filled = Self::fill_by_short_numbers(columns, &mut out, &value_of, rooms);
            for ((column, out), what) in columns.iter_mut().zip(&mut out).zip(what) {
                let rest = std::mem::take(out).get_mut(filled..).unwrap_or_default();
                let few = rest.len().min(4);
                let (few, rest) = rest.split_at_mut(few);
                column.fill_one_by_one(few, &value_of, what)?;
                *out = rest;
            }
        }
        Ok(())
    }

    /// Fills in values that are short in all three columns, four at a time, up to [`AT_ONCE`];
    /// returns their number. It proceeds in stages over all of them, so that every stage but the
    /// first can be vectorised.
    fn fill_by_short_numbers(
        columns: &mut [Self; 3],
        out: &mut [&mut [f32]; 3],
        value_of: &impl Fn(i64) -> f32,
        rooms: &mut Rooms,
    ) -> usize {
        // From a previous value below this bound, further short differences stay within the 32 bits
        // of a vector lane.
        let is_far = |column: &Self| column.previous.unsigned_abs() >= 1 << 30;
        if columns.iter().any(is_far) {
            return 0;
        }
        let wanted = out.iter().map(|out| out.len()).min().unwrap_or(0);
        let mut bytes = columns.each_ref().map(|column| column.cursor.bytes);
        let gathered = gather_short_numbers(&mut bytes, rooms, wanted);
        let mut sums = [0_i32; AT_ONCE];
        for (((column, out), room), rest) in columns.iter_mut().zip(out).zip(rooms).zip(bytes) {
            // Values after the gathered ones are meaningless; computing them costs less than
            // skipping them.
            let eights = room.as_chunks_mut::<8>().0.iter_mut();
            for eight in eights.take(gathered.div_ceil(8)) {
                // A mask for two-byte numbers, followed by the arithmetic of `add`.
                *eight = eight.map(|number| {
                    let second = 0_u16.wrapping_sub((number >> 7) & 1);
                    let both = (number & 0x7f) | ((number >> 1) & 0x3f80 & second);
                    (both >> 1) ^ 0_u16.wrapping_sub(both & 1)
                });
            }
            let mut sum = column.previous as i32;
            for (number, &delta) in sums.iter_mut().zip(&*room).take(gathered) {
                sum = sum.wrapping_add(i32::from(delta as i16));
                *number = sum;
            }
            for (out, &number) in out.iter_mut().zip(&sums).take(gathered) {
                *out = value_of(i64::from(number));
            }
            column.previous = i64::from(sum);
            column.cursor.bytes = rest;
        }
        gathered
    }

    fn fill_one_by_one(
        &mut self,
        out: &mut [f32],
        value_of: &impl Fn(i64) -> f32,
        what: &'static str,
    ) -> Result<(), PackedError> {
        out.iter_mut().try_for_each(|value| {
            *value = value_of(self.next(what)?);
            Ok(())
        })
    }
}

/// The places of four one- or two-byte numbers within eight bytes, by their continuation bits: bit i
/// of the index is the highest bit of byte i. The three lower bytes of an entry are the bit offsets
/// of the second, third and fourth number, and the highest is the number of the last byte; an entry
/// is 0 if one of the four is longer. With this table the next position is known before a number is
/// decoded.
static PLACES: [u32; 256] = places();

const fn places() -> [u32; 256] {
    let mut places = [0; 256];
    let mut goes_on = 0;
    while goes_on < 256 {
        let (mut entry, mut byte, mut number, mut is_short) = (0, 0, 0, true);
        while number < 4 {
            if number > 0 {
                entry |= (8 * byte) << (8 * (number - 1));
            }
            if goes_on >> byte & 1 == 1 {
                byte += 1;
                is_short = is_short && goes_on >> byte & 1 == 0;
            }
            byte += 1;
            number += 1;
        }
        places[goes_on] = if is_short {
            entry | (byte - 1) << 24
        } else {
            0
        };
        goes_on += 1;
    }
    places
}

/// Number of a column's values that are processed together.
pub(super) const AT_ONCE: usize = 64;

/// Buffers for three columns.
pub(super) type Rooms = [[u16; AT_ONCE]; 3];

/// Puts the next four numbers into a buffer, two bytes for each, and returns their entry in
/// [`PLACES`]. Returns `None` if fewer than eight bytes are left or one of the four is longer than two
/// bytes; the content of the buffer is then meaningless.
#[inline(always)]
fn put_four(bytes: &[u8], room: &mut [u16; 4]) -> Option<u32> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    // The highest bit of each byte but a number's last is 1; the product gathers them in the
    // highest byte.
    let highest = word & 0x8080_8080_8080_8080;
    let places = PLACES[(highest.wrapping_mul(0x0002_0408_1020_4081) >> 56) as usize & 255];
    // The four numbers are stored before the next column is read: the numbers of three columns
    // exceed the processor's registers, and a second of `imu` took 6 % more instructions.
    *room = [
        word as u16,
        (word >> (places & 63)) as u16,
        (word >> (places >> 8 & 63)) as u16,
        (word >> (places >> 16 & 63)) as u16,
    ];
    (places > 0).then_some(places)
}

/// Returns the bytes after four numbers, by their entry in [`PLACES`].
#[inline(always)]
fn after_four(bytes: &[u8], places: u32) -> &[u8] {
    bytes
        .get((places >> 24 & 7) as usize + 1..)
        .unwrap_or_default()
}

/// Puts the next numbers of each column into its buffer, two bytes for each, four at a time. Stops
/// when fewer than four are `wanted`, when a number takes more than two bytes, and when fewer than
/// eight bytes are left. Returns the count of numbers of each column, and removes their bytes from
/// `bytes`.
// A separate function, so that it has the processor's registers to itself.
#[inline(never)]
fn gather_short_numbers(bytes: &mut [&[u8]; 3], rooms: &mut Rooms, wanted: usize) -> usize {
    let wanted = wanted.min(AT_ONCE);
    let [mut x, mut y, mut z] = *bytes;
    let mut fours = 0;
    let [x_room, y_room, z_room] = rooms.each_mut().map(|room| room.as_chunks_mut::<4>().0);
    for ((x_room, y_room), z_room) in x_room.iter_mut().zip(y_room).zip(z_room).take(wanted / 4) {
        let Some(x_places) = put_four(x, x_room) else {
            break;
        };
        let Some(y_places) = put_four(y, y_room) else {
            break;
        };
        let Some(z_places) = put_four(z, z_room) else {
            break;
        };
        x = after_four(x, x_places);
        y = after_four(y, y_places);
        z = after_four(z, z_places);
        fours += 1;
    }
    *bytes = [x, y, z];
    4 * fours
}

/// An optional column being read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OptionalReader<'a> {
    mode: u8,
    present: &'a [u8],
    row: usize,
    column: ColumnReader<'a>,
}

impl<'a> OptionalReader<'a> {
    pub(super) fn new(
        cursor: &mut Cursor<'a>,
        rows: usize,
        what: &'static str,
    ) -> Result<Self, PackedError> {
        let mut inside = Cursor::new(cursor.slice(what)?);
        let mode = inside.byte(what)?;
        if mode > BITMAP {
            return Err(PackedError::Damaged(what));
        }
        let present = if mode == BITMAP {
            inside.take(rows.div_ceil(8), what)?
        } else {
            &[]
        };
        Ok(Self {
            mode,
            present,
            row: 0,
            column: ColumnReader {
                cursor: inside,
                previous: 0,
            },
        })
    }

    #[inline]
    pub(super) fn next(&mut self, what: &'static str) -> Result<Option<i64>, PackedError> {
        match self.mode {
            ALL_ABSENT => Ok(None),
            ALL_PRESENT => self.column.next(what).map(Some),
            _ => self.next_marked(what),
        }
    }

    /// Reads the next value of a column with a bitmap.
    #[inline(never)]
    fn next_marked(&mut self, what: &'static str) -> Result<Option<i64>, PackedError> {
        let marks = self.present.get(self.row / 8);
        let is_present = marks.ok_or(PackedError::Damaged(what))? >> (self.row % 8) & 1 == 1;
        self.row += 1;
        if is_present {
            self.column.next(what).map(Some)
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers_one() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => -70_i64..70,
            4 => -9_000_i64..9_000,
            1 => -3_000_000_i64..3_000_000,
            1 => any::<i64>(),
        ]
    }

    fn numbers() -> impl Strategy<Value = Vec<i64>> {
        prop::collection::vec(numbers_one(), 0..60)
    }

    proptest! {
        /// Reading many numbers together equals reading them one by one, at any truncation of the
        /// column.
        #[test]
        fn bulk_reading_equals_reading_one_by_one(numbers in numbers(), cut in 0_usize..12, place in 0_usize..3) {
            let mut column = Column::default();
            numbers.iter().for_each(|&number| column.push(number));
            let mut bytes = Vec::new();
            column.finish(&mut bytes);
            let mut one_by_one = ColumnReader::new(&mut Cursor::new(&bytes), "column").unwrap();
            for &number in &numbers {
                prop_assert_eq!(one_by_one.next("column"), Ok(number));
            }
            let whole = ColumnReader::new(&mut Cursor::new(&bytes), "column").unwrap();
            let kept = whole.cursor.bytes.len().saturating_sub(cut);
            let cut_off = ColumnReader { cursor: Cursor::new(&whole.cursor.bytes[..kept]), ..whole };
            let mut rooms = [[0; AT_ONCE]; 3];
            let mut read = [vec![0.0; numbers.len()], vec![0.0; numbers.len()], vec![0.0; numbers.len()]];
            // Next to two intact columns, in any position.
            let mut columns = [whole; 3];
            columns[place] = cut_off;
            let out = read.each_mut().map(Vec::as_mut_slice);
            let filled = ColumnReader::fill_three(&mut columns, out, |number| number as f32, ["column"; 3], &mut rooms);
            if cut == 0 {
                let wanted: Vec<_> = numbers.iter().map(|&number| number as f32).collect();
                prop_assert_eq!(filled, Ok(()));
                prop_assert!(read.iter().all(|read| *read == wanted));
            } else {
                prop_assert_eq!(filled.is_err(), !numbers.is_empty());
            }
        }

        /// Columns of different numbers do not affect each other.
        #[test]
        fn three_columns_are_read_independently(numbers in prop::array::uniform3(prop::collection::vec(numbers_one(), 90))) {
            let written = numbers.each_ref().map(|numbers| {
                let (mut column, mut bytes) = (Column::default(), Vec::new());
                numbers.iter().for_each(|&number| column.push(number));
                column.finish(&mut bytes);
                bytes
            });
            let mut columns = written.each_ref().map(|bytes| ColumnReader::new(&mut Cursor::new(bytes), "column").unwrap());
            let mut rooms = [[0; AT_ONCE]; 3];
            // In arrays of different lengths, one after the other.
            for part in [0..7, 7..50, 50..90] {
                let mut read = [[0.0; 90]; 3];
                let out = read.each_mut().map(|read| &mut read[part.clone()]);
                ColumnReader::fill_three(&mut columns, out, |number| number as f32, ["column"; 3], &mut rooms).unwrap();
                for (read, numbers) in read.iter().zip(&numbers) {
                    let wanted: Vec<_> = numbers[part.clone()].iter().map(|&number| number as f32).collect();
                    prop_assert_eq!(&read[part.clone()], wanted);
                }
            }
        }
    }
}
