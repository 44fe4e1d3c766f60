//! Decodes batches from protobuf (`schema/porchlight.proto`) directly into columns.
//!
//! A generated decoder would allocate a struct for every sample and a vector for every array. This
//! decoder reads a sample into fixed slots, one per field number, and applies the same checks as
//! JSON ([`super::json`]), so the decoded batch is bit for bit the same in both formats.

mod wire;

use std::borrow::Cow;

use super::check::{Field, Rate};
use super::json::{DecodeError, DecodedBatch, FIELD_ERRORS_MAX, Fields, push};
use super::packed::{BatchBuilder, with_builder};
use super::{ActivityType, FieldError, Kind, Provider};
use crate::ids::SessionId;
use crate::limits::{BATCH_SAMPLES_MAX, BATCH_SEQ_MAX};
use wire::{Malformed, Value, Wire};

/// The published schema.
pub const SCHEMA: &str = include_str!("../../porchlight.proto");

/// Decodes a `Batch`.
///
/// # Errors
///
/// Returns the errors that the same batch would have as JSON, with the same pointers.
pub fn decode_batch(bytes: &[u8]) -> Result<DecodedBatch, DecodeError> {
    with_builder(bytes.len(), |builder| decode_into(bytes, builder))
}

fn decode_into(bytes: &[u8], builder: &mut BatchBuilder) -> Result<DecodedBatch, DecodeError> {
    let mut reading = Reading::new(builder);
    let mut wire = Wire::new(bytes);
    while let Some((number, value)) = wire.next_field().map_err(not_protobuf)? {
        match (number, value) {
            (1, Value::Varint(seq)) => reading.seq = Some(seq as u32),
            (2, Value::Bytes(sample)) => reading.sample(sample).map_err(not_protobuf)?,
            (1 | 2, _) => return Err(not_protobuf(Malformed)),
            _ => {}
        }
    }
    reading.finish()
}

/// Encodes an `AckSeq`; `session_id` is left out if the connection belongs to one session.
#[must_use]
pub fn encode_ack(session_id: Option<SessionId>, seq: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    if let Some(session_id) = session_id {
        let text = session_id.to_string();
        wire::put_bytes(&mut out, 1, text.as_bytes());
    }
    wire::put_varint_field(&mut out, 2, u64::from(seq));
    out
}

fn not_protobuf(_: Malformed) -> DecodeError {
    DecodeError::Syntax("not a Batch of porchlight.proto".into())
}

/// State of decoding a batch.
struct Reading<'a, 'b> {
    seq: Option<u32>,
    builder: &'b mut BatchBuilder,
    sample: WireSample<'a>,
    buffer: Vec<f32>,
    count: usize,
    unknown_kinds: u32,
    errors: Vec<FieldError>,
}

impl<'a, 'b> Reading<'a, 'b> {
    fn new(builder: &'b mut BatchBuilder) -> Self {
        Self {
            seq: None,
            builder,
            sample: WireSample::default(),
            buffer: Vec::new(),
            count: 0,
            unknown_kinds: 0,
            errors: Vec::new(),
        }
    }

    fn sample(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        self.count += 1;
        // Decoding continues, because malformed bytes are reported first.
        self.sample.read(bytes)?;
        if self.count > BATCH_SAMPLES_MAX || self.errors.len() == FIELD_ERRORS_MAX {
            return Ok(());
        }
        match push(&self.sample, &mut self.buffer, self.builder) {
            Ok(is_known) => self.unknown_kinds += u32::from(!is_known),
            Err(error) => self.errors.push(FieldError {
                pointer: format!("/samples/{}{}", self.count - 1, error.pointer),
                detail: error.detail,
            }),
        }
        Ok(())
    }

    fn finish(self) -> Result<DecodedBatch, DecodeError> {
        // The number of samples is checked before their content (contract 9).
        if self.count > BATCH_SAMPLES_MAX {
            return Err(DecodeError::TooManySamples);
        }
        let invalid = |detail: String| {
            let pointer = "/seq".to_owned();
            DecodeError::Invalid(vec![FieldError { pointer, detail }])
        };
        let seq = self.seq.ok_or_else(|| invalid("is required".into()))?;
        if seq > BATCH_SEQ_MAX {
            return Err(invalid(format!(
                "must be a whole number between 0 and {BATCH_SEQ_MAX}"
            )));
        }
        if !self.errors.is_empty() {
            return Err(DecodeError::Invalid(self.errors));
        }
        self.builder.skip(self.unknown_kinds);
        Ok(DecodedBatch {
            seq,
            batch: self.builder.pack(),
            unknown_kinds: self.unknown_kinds,
        })
    }
}

/// Field numbers are slots; 0 is unused.
const SLOTS: usize = 31;
const AXES: usize = 6;
const FIRST_AXIS: usize = 14;
const NAME: usize = 30;
/// Sets of field numbers: doubles, floats, and integers.
const DOUBLES: u32 = set_of(&[2, 3, 4]);
const FLOATS: u32 = set_of(&[5, 6, 7, 8, 11, 13, 20, 21, 22, 23, 24, 25, 26, 27, 29]);
const WHOLES: u32 = set_of(&[1, 9, 10, 12, 28]);
/// A name that no enum has, for unknown numbers.
const UNKNOWN: &str = "?";

const fn set_of(numbers: &[u32]) -> u32 {
    let (mut set, mut place) = (0, 0);
    while place < numbers.len() {
        set |= 1 << numbers[place];
        place += 1;
    }
    set
}

/// The raw fields of a sample, by field number; a set records the present ones.
#[derive(Default)]
struct WireSample<'a> {
    present: u32,
    numbers: [f64; SLOTS],
    name: &'a str,
    axes: [Vec<f32>; AXES],
}

impl<'a> WireSample<'a> {
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        self.present = 0;
        let mut wire = Wire::new(bytes);
        while let Some((number, value)) = wire.next_field()? {
            let number = number as usize;
            if number >= SLOTS {
                continue;
            }
            match value {
                Value::Fixed32(bits) if FLOATS & (1 << number) != 0 => {
                    self.keep(number, f64::from(f32::from_bits(bits)))?;
                }
                Value::Fixed64(bits) if DOUBLES & (1 << number) != 0 => {
                    self.keep(number, f64::from_bits(bits))?;
                }
                // Enums and counts are 32 bits wide and sign-extended.
                Value::Varint(value) if WHOLES & (1 << number) != 0 => {
                    self.keep(number, f64::from(value as u32))?;
                }
                Value::Bytes(text) if number == NAME => {
                    self.name = std::str::from_utf8(text).map_err(|_| Malformed)?;
                }
                value if (FIRST_AXIS..FIRST_AXIS + AXES).contains(&number) => {
                    self.read_axis(number, value)?;
                }
                _ => return Err(Malformed),
            }
            self.present |= 1 << number;
        }
        Ok(())
    }

    #[inline(always)]
    fn keep(&mut self, number: usize, value: f64) -> Result<(), Malformed> {
        *self.numbers.get_mut(number).ok_or(Malformed)? = value;
        Ok(())
    }

    /// Appends the values of an array, packed or one by one, to earlier values of the sample;
    /// protobuf allows both.
    fn read_axis(&mut self, number: usize, value: Value<'a>) -> Result<(), Malformed> {
        let is_first = self.present & (1 << number) == 0;
        let axis = self.axes.get_mut(number - FIRST_AXIS).ok_or(Malformed)?;
        if is_first {
            axis.clear();
        }
        match value {
            Value::Fixed32(bits) => axis.push(f32::from_bits(bits)),
            Value::Bytes(packed) => {
                let (values, rest) = packed.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(Malformed);
                }
                axis.extend(values.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
            _ => return Err(Malformed),
        }
        Ok(())
    }

    #[inline(always)]
    fn at(&self, number: usize) -> Option<f64> {
        if self.present & (1 << number) == 0 {
            return None;
        }
        self.numbers.get(number).copied()
    }

    /// Returns the name of an enum's number; `None` if absent or unspecified.
    #[inline(always)]
    fn name_of<T: Copy>(
        &self,
        number: usize,
        all: &[T],
        as_str: fn(T) -> &'static str,
    ) -> Option<&'static str> {
        match self.at(number).map(|value| value as usize) {
            None | Some(0) => None,
            Some(value) => Some(all.get(value - 1).map_or(UNKNOWN, |one| as_str(*one))),
        }
    }
}

impl Fields for WireSample<'_> {
    #[inline(always)]
    fn number(&self, name: &'static str) -> Result<Option<f64>, FieldError> {
        Ok(match name.as_bytes() {
            b"t" => self.at(2),
            b"lat" => self.at(3),
            b"lng" => self.at(4),
            b"accuracyM" => self.at(5),
            b"altitudeM" => self.at(6),
            b"speedMps" => self.at(7),
            b"bearingDeg" => self.at(8),
            b"hPa" => self.at(11),
            b"count" => self.at(12),
            b"hz" => self.at(13),
            b"accelMean" => self.at(20),
            b"accelStd" => self.at(21),
            b"verticalMean" => self.at(22),
            b"cadenceHz" => self.at(23),
            b"yawRad" => self.at(24),
            b"x" => self.at(25),
            b"y" => self.at(26),
            b"z" => self.at(27),
            b"confidence" => self.at(29),
            _ => None,
        })
    }

    #[inline(always)]
    fn kind(&self) -> Result<Option<Option<Kind>>, FieldError> {
        Ok(match self.at(1).map(|number| number as usize) {
            None | Some(0) => None,
            Some(number) => Some(Kind::ALL.get(number - 1).copied()),
        })
    }

    #[inline(always)]
    fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, FieldError> {
        Ok(match name.as_bytes() {
            b"kind" => self.name_of(1, &Kind::ALL, Kind::as_str),
            b"provider" => self.name_of(10, Provider::ALL, Provider::as_str),
            b"type" => self.name_of(28, ActivityType::ALL, ActivityType::as_str),
            b"name" if self.present & (1 << NAME) != 0 => Some(self.name),
            _ => None,
        }
        .map(Cow::Borrowed))
    }

    fn flag(&self, _name: &'static str) -> Result<Option<bool>, FieldError> {
        Ok(self.at(9).map(|value| value != 0.0))
    }

    fn numbers(&self, field: &Field, values: &mut Vec<f32>) -> Result<bool, FieldError> {
        let number = FIRST_AXIS
            + match field.name.as_bytes() {
                b"ax" => 0,
                b"ay" => 1,
                b"az" => 2,
                b"gx" => 3,
                b"gy" => 4,
                b"gz" => 5,
                _ => return Ok(false),
            };
        // An empty array cannot be distinguished from an absent one.
        let present = self.present & (1 << number) != 0;
        if let Some(axis) = self.axes.get(number - FIRST_AXIS).filter(|_| present) {
            values.extend_from_slice(axis);
        }
        Ok(present)
    }

    fn rate(&self, hz: f64) -> Rate {
        Rate::Single(hz as f32)
    }
}

#[cfg(test)]
mod tests;
