//! Columns of integers: zigzag deltas in LEB128.

use super::PackedError;

/// Appends `number` in LEB128.
#[inline]
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    // Most take one byte or two.
    if number < 0x80 {
        bytes.push(number as u8);
        return;
    }
    if number < 0x4000 {
        bytes.extend_from_slice(&[number as u8 | 0x80, (number >> 7) as u8]);
        return;
    }
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A column while it is written.
#[derive(Debug, Default)]
pub(super) struct Column {
    bytes: Vec<u8>,
    previous: i64,
}

impl Column {
    #[inline]
    pub(super) fn push(&mut self, value: i64) {
        let delta = value.wrapping_sub(self.previous);
        self.previous = value;
        put_number(&mut self.bytes, ((delta << 1) ^ (delta >> 63)) as u64);
    }

    /// Makes it empty, and keeps its room.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.previous = 0;
    }

    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        put_number(out, self.bytes.len() as u64);
        out.extend_from_slice(&self.bytes);
    }
}

/// A column of a field that may be absent, while it is written.
#[derive(Debug, Default)]
pub(super) struct OptionalColumn {
    present: Vec<u8>,
    rows: usize,
    values: usize,
    column: Column,
}

const ALL_ABSENT: u8 = 0;
const ALL_PRESENT: u8 = 1;
const BITMAP: u8 = 2;

impl OptionalColumn {
    pub(super) fn push(&mut self, value: Option<i64>) {
        if self.rows.is_multiple_of(8) {
            self.present.push(0);
        }
        if let Some(value) = value {
            self.present[self.rows / 8] |= 1 << (self.rows % 8);
            self.values += 1;
            self.column.push(value);
        }
        self.rows += 1;
    }

    /// Makes it empty, and keeps its room.
    pub(super) fn clear(&mut self) {
        self.present.clear();
        self.rows = 0;
        self.values = 0;
        self.column.clear();
    }

    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        if self.values == 0 {
            out.extend_from_slice(&[1, ALL_ABSENT]);
            return;
        }
        let all = self.values == self.rows;
        let bitmap = if all { 0 } else { self.present.len() };
        put_number(out, (1 + bitmap + self.column.bytes.len()) as u64);
        out.push(if all { ALL_PRESENT } else { BITMAP });
        out.extend_from_slice(&self.present[..bitmap]);
        out.extend_from_slice(&self.column.bytes);
    }
}

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

    pub(super) fn long_number(&mut self, what: &'static str) -> Result<u64, PackedError> {
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

    pub(super) fn next(&mut self, what: &'static str) -> Result<i64, PackedError> {
        let coded = self.cursor.long_number(what)?;
        let delta = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        self.previous = self.previous.wrapping_add(delta);
        Ok(self.previous)
    }
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

    pub(super) fn next(&mut self, what: &'static str) -> Result<Option<i64>, PackedError> {
        let present = match self.mode {
            ALL_ABSENT => false,
            ALL_PRESENT => true,
            _ => {
                self.present
                    .get(self.row / 8)
                    .ok_or(PackedError::Corrupt(what))?
                    >> (self.row % 8)
                    & 1
                    == 1
            }
        };
        self.row += 1;
        if present {
            self.column.next(what).map(Some)
        } else {
            Ok(None)
        }
    }
}
