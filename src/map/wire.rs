//! Variable-length integers and the wire format of protocol buffers, read from a slice without
//! allocation.

/// The error for input that ends too early or is not in the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the data is damaged")]
pub(super) struct Damaged;

/// A reader over a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    /// A variable-length integer.
    Integer(u64),
    /// A string, a message, or packed integers.
    Bytes(&'a [u8]),
    /// A number of 4 or 8 bytes, which no reader of this crate needs.
    Fixed,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes left.
    pub(super) fn left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a variable-length integer of at most 64 bits.
    pub(super) fn integer(&mut self) -> Result<u64, Damaged> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(Damaged)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    /// Reads the number and the value of the next field.
    pub(super) fn field(&mut self) -> Result<(u64, Value<'a>), Damaged> {
        let tag = self.integer()?;
        let value = match tag & 7 {
            0 => Value::Integer(self.integer()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.integer()?).map_err(|_| Damaged)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Damaged),
        };
        Ok((tag >> 3, value))
    }
}

/// Undoes the zigzag encoding of a signed integer.
pub(super) fn signed(value: u32) -> i32 {
    ((value >> 1) as i32) ^ -((value & 1) as i32)
}
