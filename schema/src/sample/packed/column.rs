//! Columns of integers: zigzag deltas in LEB128.

mod written;

use super::PackedError;
pub(super) use written::{Column, OptionalColumn, put_number};

/// How an optional column says which rows have a value: none, all, or by a bit for each.
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

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, PackedError> {
        let (&byte, rest) = self.bytes.split_first().ok_or(PackedError::Corrupt(what))?;
        self.bytes = rest;
        Ok(byte)
    }

    // Where it is a call of its own it costs as much again.
    #[inline(always)]
    pub(super) fn long_number(&mut self, what: &'static str) -> Result<u64, PackedError> {
        // Most take one byte or two.
        match *self.bytes {
            [low, ref rest @ ..] if low < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(low))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => self.longer_number(what),
        }
    }

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
        Err(PackedError::Corrupt(what))
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<u32, PackedError> {
        u32::try_from(self.long_number(what)?).map_err(|_| PackedError::Corrupt(what))
    }

    pub(super) fn take(
        &mut self,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], PackedError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or(PackedError::Corrupt(what))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A length, and so many bytes.
    pub(super) fn slice(&mut self, what: &'static str) -> Result<&'a [u8], PackedError> {
        let length = self.number(what)? as usize;
        self.take(length, what)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A column while it is read.
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

    /// The next values, as many as `out` has room for, each by `value_of`.
    pub(super) fn fill(
        &mut self,
        out: &mut [f32],
        value_of: impl Fn(i64) -> f32,
        what: &'static str,
    ) -> Result<(), PackedError> {
        let mut out = out;
        while !out.is_empty() {
            let filled = self.fill_by_short_numbers(out, &value_of);
            out = out.get_mut(filled..).unwrap_or_default();
            let few = out.len().min(4);
            let (few, rest) = out.split_at_mut(few);
            self.fill_one_by_one(few, &value_of, what)?;
            out = rest;
        }
        Ok(())
    }

    /// Fills in as many as are short, four at a time, up to [`AT_ONCE`]; how many. Step by step over all of them, so that
    /// each step but the first is one of vectors.
    fn fill_by_short_numbers(&mut self, out: &mut [f32], value_of: &impl Fn(i64) -> f32) -> usize {
        // So many short differences more do not leave the 32 bits that a vector's lane has.
        let Ok(mut sum) = i32::try_from(self.previous) else {
            return 0;
        };
        if sum.unsigned_abs() >= 1 << 30 {
            return 0;
        }
        let mut room = [0_u32; AT_ONCE];
        let length = out.len().min(AT_ONCE);
        let (coded, rest) = gather_short_numbers(self.cursor.bytes, room.get_mut(..length));
        for number in &mut *coded {
            // All bits where it takes two bytes; then what `add` does.
            let second = 0_u32.wrapping_sub((*number >> 7) & 1);
            let both = (*number & 0x7f) | ((*number >> 1) & 0x3f80 & second);
            *number = (both >> 1) ^ 0_u32.wrapping_sub(both & 1);
        }
        for number in &mut *coded {
            sum = sum.wrapping_add(*number as i32);
            *number = sum as u32;
        }
        for (out, &number) in out.iter_mut().zip(&*coded) {
            *out = value_of(i64::from(number as i32));
        }
        self.previous = i64::from(sum);
        self.cursor.bytes = rest;
        coded.len()
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

/// Where four numbers of one byte or two lie in eight bytes.
#[derive(Clone, Copy)]
struct Places {
    /// How many bits before each.
    shifts: [u8; 4],
    /// How many bytes they take; none where one of them is longer.
    bytes: u8,
}

/// By which of the eight bytes go on: bit i of the index is the highest bit of byte i. With it no number has to be read
/// before the next one's place is known.
static PLACES: [Places; 256] = places();

const fn places() -> [Places; 256] {
    let none = Places {
        shifts: [0; 4],
        bytes: 0,
    };
    let mut all = [none; 256];
    let mut goes_on = 0;
    while goes_on < all.len() {
        let (mut byte, mut number, mut is_short) = (0, 0, true);
        while number < 4 {
            all[goes_on].shifts[number] = 8 * byte;
            if goes_on >> byte & 1 == 1 {
                byte += 1;
                is_short = is_short && goes_on >> byte & 1 == 0;
            }
            byte += 1;
            number += 1;
        }
        all[goes_on].bytes = if is_short { byte } else { 0 };
        goes_on += 1;
    }
    all
}

/// Numbers that are looked at together.
const AT_ONCE: usize = 64;

/// Puts the next numbers into `room`, each with the bytes behind it, four at a time, as long as none of the four takes
/// more than two bytes and eight bytes are left. Those that were put, and the bytes that follow them.
fn gather_short_numbers<'a, 'b>(
    bytes: &'a [u8],
    room: Option<&'b mut [u32]>,
) -> (&'b mut [u32], &'a [u8]) {
    let (mut bytes, room) = (bytes, room.unwrap_or_default());
    let mut gathered = 0;
    for four in room.as_chunks_mut::<4>().0 {
        let Some(&word) = bytes.first_chunk() else {
            break;
        };
        let word = u64::from_le_bytes(word);
        // The highest bit of each byte but a number's last is 1: the product gathers them in the highest byte.
        let highest = (word >> 7) & 0x0101_0101_0101_0101;
        let goes_on = highest.wrapping_mul(0x0102_0408_1020_4080) >> 56;
        let places = PLACES
            .get(goes_on as usize)
            .filter(|places| places.bytes > 0);
        let Some((places, rest)) =
            places.and_then(|places| Some((places, bytes.get(usize::from(places.bytes)..)?)))
        else {
            break;
        };
        *four = places.shifts.map(|shift| (word >> (shift & 63)) as u32);
        bytes = rest;
        gathered += 4;
    }
    (room.get_mut(..gathered).unwrap_or_default(), bytes)
}

/// A column of a field that may be absent, while it is read.
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
            return Err(PackedError::Corrupt(what));
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

    /// The same where a bit for each row says whether it has a value.
    #[inline(never)]
    fn next_marked(&mut self, what: &'static str) -> Result<Option<i64>, PackedError> {
        let marks = self.present.get(self.row / 8);
        let is_present = marks.ok_or(PackedError::Corrupt(what))? >> (self.row % 8) & 1 == 1;
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

    fn numbers() -> impl Strategy<Value = Vec<i64>> {
        let number = prop_oneof![
            4 => -70_i64..70,
            4 => -9_000_i64..9_000,
            1 => -3_000_000_i64..3_000_000,
            1 => any::<i64>(),
        ];
        prop::collection::vec(number, 0..60)
    }

    proptest! {
        /// Many at once are the same as one by one, wherever the column is cut off.
        #[test]
        fn what_is_read_at_once_is_what_is_read_one_by_one(numbers in numbers(), cut in 0_usize..12) {
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
            let cursor = Cursor::new(&whole.cursor.bytes[..kept]);
            let mut at_once = ColumnReader { cursor, ..whole };
            let mut read = vec![0.0; numbers.len()];
            let filled = at_once.fill(&mut read, |number| number as f32, "column");
            if cut == 0 {
                let wanted: Vec<_> = numbers.iter().map(|&number| number as f32).collect();
                prop_assert_eq!((filled, read), (Ok(()), wanted));
            } else {
                prop_assert_eq!(filled.is_err(), !numbers.is_empty());
            }
        }
    }
}
