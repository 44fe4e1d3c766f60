//! Columns being written.

use super::{ALL_ABSENT, ALL_PRESENT, BITMAP};

/// Appends `number` in LEB128.
pub(in crate::sample::packed) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Encodes a number below 2²⁸ in LEB128, the first byte lowest, and returns its length. The length
/// is unpredictable in noisy data, so the code does not branch on it.
#[inline(always)]
fn short_number(number: u32) -> (u32, usize) {
    let last = number.checked_ilog2().unwrap_or(0) / 7;
    let groups = (number & 0x7f)
        | (number << 1 & 0x7f00)
        | (number << 2 & 0x007f_0000)
        | (number << 3 & 0x7f00_0000);
    // The highest bit of each byte but the last is 1.
    let goes_on = 0x0080_8080 & ((1 << (8 * last)) - 1);
    (groups | goes_on, 1 + last as usize)
}

/// A column being written.
#[derive(Debug, Default)]
pub(in crate::sample::packed) struct Column {
    /// Written bytes and spare room.
    room: Vec<u8>,
    /// End of the written bytes.
    end: usize,
    previous: i64,
}

/// Initial size of a column's buffer; it doubles as needed.
const ROOM_BYTES: usize = 128;
/// Length of the longest number in LEB128.
const NUMBER_BYTES_MAX: usize = 10;

impl Column {
    #[inline(always)]
    pub(in crate::sample::packed) fn push(&mut self, value: i64) {
        let delta = value.wrapping_sub(self.previous);
        self.previous = value;
        let number = ((delta << 1) ^ (delta >> 63)) as u64;
        let room = self.room.get_mut(self.end..);
        match (room.and_then(|room| room.first_chunk_mut()), number) {
            (Some(room), 0..0x1000_0000) => {
                let (bytes, length) = short_number(number as u32);
                *room = bytes.to_le_bytes();
                self.end += length;
            }
            _ => self.push_number(number),
        }
    }

    /// Writes a long number, or a number that exceeds the remaining room.
    #[cold]
    fn push_number(&mut self, mut number: u64) {
        let needed = self.end + NUMBER_BYTES_MAX;
        if self.room.len() < needed {
            self.room.resize((2 * needed).max(ROOM_BYTES), 0);
        }
        let room = self.room.get_mut(self.end..).unwrap_or_default();
        for byte in room {
            self.end += 1;
            *byte = number as u8 | 0x80;
            number >>= 7;
            if number == 0 {
                *byte &= 0x7f;
                break;
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.room.get(..self.end).unwrap_or_default()
    }

    /// Clears the column and keeps its buffer.
    pub(in crate::sample::packed) fn clear(&mut self) {
        self.end = 0;
        self.previous = 0;
    }

    pub(in crate::sample::packed) fn finish(&self, out: &mut Vec<u8>) {
        put_number(out, self.end as u64);
        out.extend_from_slice(self.bytes());
    }
}

/// An optional column being written.
#[derive(Debug, Default)]
pub(in crate::sample::packed) struct OptionalColumn {
    /// One bit per row, once there are rows with and without a value.
    present: Vec<u8>,
    rows: usize,
    values: usize,
    column: Column,
}

impl OptionalColumn {
    #[inline(always)]
    pub(in crate::sample::packed) fn push(&mut self, value: Option<i64>) {
        let is_mixed = match value {
            Some(_) => self.values < self.rows,
            None => self.values > 0,
        };
        if is_mixed {
            self.mark(value.is_some());
        }
        self.rows += 1;
        if let Some(value) = value {
            self.values += 1;
            self.column.push(value);
        }
    }

    /// Records in the bitmap whether the next row has a value.
    fn mark(&mut self, is_present: bool) {
        let (bytes, bits) = (self.rows / 8, self.rows % 8);
        if self.present.is_empty() {
            // All rows so far are of one kind.
            let so_far = if self.values > 0 { u8::MAX } else { 0 };
            self.present.resize(bytes, so_far);
            if bits > 0 {
                self.present.push(so_far & ((1 << bits) - 1));
            }
        }
        if bits == 0 {
            self.present.push(0);
        }
        if let Some(byte) = self.present.last_mut() {
            *byte |= u8::from(is_present) << bits;
        }
    }

    /// Clears the column and keeps its buffer.
    pub(in crate::sample::packed) fn clear(&mut self) {
        self.present.clear();
        self.rows = 0;
        self.values = 0;
        self.column.clear();
    }

    pub(in crate::sample::packed) fn finish(&self, out: &mut Vec<u8>) {
        if self.values == 0 {
            out.extend_from_slice(&[1, ALL_ABSENT]);
            return;
        }
        let all = self.values == self.rows;
        put_number(out, (1 + self.present.len() + self.column.end) as u64);
        out.push(if all { ALL_PRESENT } else { BITMAP });
        out.extend_from_slice(&self.present);
        out.extend_from_slice(self.column.bytes());
    }
}
