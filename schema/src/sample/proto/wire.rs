//! The part of protobuf's wire format that a reader needs: fields in sequence, each a key and a
//! value.

/// Maximum depth of skipped groups; the schema has none.
const GROUPS_MAX: usize = 32;

/// The error for bytes that are not protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// Integers, enums, booleans.
    Varint(u64),
    /// A field of eight bytes, used for doubles.
    Fixed64(u64),
    /// A field of four bytes, used for floats.
    Fixed32(u32),
    /// Strings, messages, packed arrays.
    Bytes(&'a [u8]),
    /// A group, which is skipped because no known field is one.
    Group,
}

/// A message being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire<'a> {
    bytes: &'a [u8],
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the next field's number and value; `None` at the end.
    #[inline(always)]
    pub(super) fn next_field(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        if number == 0 {
            return Err(Malformed);
        }
        let value = match key & 7 {
            3 => {
                self.skip_group(number)?;
                Value::Group
            }
            wire_type => self.value(wire_type)?,
        };
        Ok(Some((number, value)))
    }

    #[inline(always)]
    fn value(&mut self, wire_type: u64) -> Result<Value<'a>, Malformed> {
        Ok(match wire_type {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed)?;
                self.bytes = rest;
                Value::Bytes(taken)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed()?)),
            _ => return Err(Malformed),
        })
    }

    #[inline(always)]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(*taken)
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.bytes = rest;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.bytes.split_first().ok_or(Malformed)?;
            self.bytes = rest;
            // Only one bit of the tenth byte fits.
            if shift == 63 && byte > 1 {
                return Err(Malformed);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    /// Skips everything to the end of group `number`, including nested groups.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            let key = self.varint()?;
            let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
            match key & 7 {
                3 if open.len() < GROUPS_MAX => open.push(number),
                4 if number == innermost => {
                    open.pop();
                }
                wire_type => {
                    self.value(wire_type)?;
                }
            }
        }
        Ok(())
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends an integer as field `number`.
pub(super) fn put_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends bytes as field `number`.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
