//! Decodes a batch in one pass. Returns `None` at the first irregularity, without a reason.
//!
//! The code does not use serde's derive: it reads a sample into fixed slots and recognises keys by
//! their bytes. That takes a third of the time, and decoding is the largest part of a batch's cost.
//! The samples of a kind are usually written alike, so a key is first compared with the one at the
//! same position in an earlier sample of the kind ([`layouts`]). The columns are thread-local and
//! reused, so a batch allocates only its packed form.

mod digits;
mod eight_bytes;
mod keys;
mod layouts;
mod scanner;

use std::borrow::Cow;

use layouts::{Layouts, Member};

pub use keys::Keys;
pub use scanner::{Scalar, Scanner};

use super::{DecodedBatch, Fields, push};
use crate::limits::{BATCH_SAMPLES_MAX, BATCH_SEQ_MAX};
use crate::sample::check::{self, Field};
use crate::sample::packed::{BatchBuilder, with_builder};
use crate::sample::{FieldError, Kind};

pub(super) fn decode_batch(text: &[u8]) -> Option<DecodedBatch> {
    decode(text, &mut |scanner, _| scanner.skip_scalar())
}

/// Decodes a batch with its `sessionId`, which must be present.
pub(super) fn decode_line(text: &[u8]) -> Option<(&str, DecodedBatch)> {
    let mut session_id = None;
    let decoded = decode(text, &mut |scanner, key| match key {
        b"sessionId" if session_id.is_none() => {
            session_id = Some(scanner.text()?);
            Some(())
        }
        b"sessionId" => None,
        _ => scanner.skip_scalar(),
    })?;
    Some((session_id?, decoded))
}

/// Decodes a batch. `other` reads the members that a batch does not define.
fn decode<'a>(
    text: &'a [u8],
    other: &mut impl FnMut(&mut Scanner<'a>, &'a [u8]) -> Option<()>,
) -> Option<DecodedBatch> {
    with_builder(text.len(), |builder| decode_into(text, builder, other))
}

fn decode_into<'a>(
    text: &'a [u8],
    builder: &mut BatchBuilder,
    other: &mut impl FnMut(&mut Scanner<'a>, &'a [u8]) -> Option<()>,
) -> Option<DecodedBatch> {
    let mut scanner = Scanner::new(text);
    let mut seq = None;
    let mut unknown_kinds = None;
    scanner.members(|scanner, key| match key {
        // A duplicate key is left to the decoder that parses into a tree.
        b"seq" if seq.is_none() => {
            seq = Some(scanner.whole_number()?);
            Some(())
        }
        b"samples" if unknown_kinds.is_none() => {
            unknown_kinds = Some(read_samples(scanner, builder)?);
            Some(())
        }
        b"seq" | b"samples" => None,
        _ => other(scanner, key),
    })?;
    scanner.end()?;
    let seq = u32::try_from(seq?)
        .ok()
        .filter(|&seq| seq <= BATCH_SEQ_MAX)?;
    let unknown_kinds = unknown_kinds?;
    builder.skip(unknown_kinds);
    Some(DecodedBatch {
        seq,
        unknown_kinds,
        batch: builder.pack(),
    })
}

/// Adds the samples to `builder`, and returns the number of samples of unknown kinds.
fn read_samples(scanner: &mut Scanner<'_>, builder: &mut BatchBuilder) -> Option<u32> {
    let mut sample = WireSample::default();
    let mut buffer = Vec::new();
    let (mut count, mut unknown_kinds) = (0, 0);
    scanner.elements(|scanner| {
        count += 1;
        if count > BATCH_SAMPLES_MAX {
            return None;
        }
        sample.read(scanner)?;
        unknown_kinds += u32::from(!push(&sample, &mut buffer, builder).ok()?);
        Some(())
    })?;
    Some(unknown_kinds)
}

const NUMBERS: usize = 19;
const TEXTS: usize = 3;
const AXES: usize = 6;
/// The largest magnitude of a value of each axis.
const AXES_MAX: [f64; AXES] = {
    let ([ax, ay, az], [gx, gy, gz]) = (&check::ACCEL, &check::GYRO);
    [ax.max, ay.max, az.max, gx.max, gy.max, gz.max]
};

/// The raw fields of a sample, by slot; a set records the present ones.
#[derive(Default)]
struct WireSample<'a> {
    present: u64,
    numbers: [f64; NUMBERS],
    texts: [&'a str; TEXTS],
    mock: bool,
    /// The arrays, one after the other, and their positions.
    values: Vec<f32>,
    axes: [(usize, usize); AXES],
    /// The kind, if it is present; `None` if unknown.
    kind: Option<Kind>,
    layouts: Layouts,
}

/// The place in which a field is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Slot {
    Kind,
    Number(usize),
    Text(usize),
    Axis(usize),
    Mock,
}

impl Slot {
    /// Returns the slot of the member with this name, or `None` if no kind has the member.
    #[inline(always)]
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"t" => Self::Number(0),
            b"lat" => Self::Number(1),
            b"lng" => Self::Number(2),
            b"accuracyM" => Self::Number(3),
            b"altitudeM" => Self::Number(4),
            b"speedMps" => Self::Number(5),
            b"bearingDeg" => Self::Number(6),
            b"hPa" => Self::Number(7),
            b"count" => Self::Number(8),
            b"hz" => Self::Number(9),
            b"accelMean" => Self::Number(10),
            b"accelStd" => Self::Number(11),
            b"verticalMean" => Self::Number(12),
            b"cadenceHz" => Self::Number(13),
            b"yawRad" => Self::Number(14),
            b"x" => Self::Number(15),
            b"y" => Self::Number(16),
            b"z" => Self::Number(17),
            b"confidence" => Self::Number(18),
            b"kind" => Self::Kind,
            b"name" => Self::Text(0),
            b"type" => Self::Text(1),
            b"provider" => Self::Text(2),
            b"ax" => Self::Axis(0),
            b"ay" => Self::Axis(1),
            b"az" => Self::Axis(2),
            b"gx" => Self::Axis(3),
            b"gy" => Self::Axis(4),
            b"gz" => Self::Axis(5),
            b"mock" => Self::Mock,
            _ => return None,
        })
    }

    /// Returns the slot's bit in the set of present fields.
    #[inline(always)]
    fn bit(self) -> u64 {
        1 << match self {
            Self::Number(place) => place,
            Self::Text(place) => NUMBERS + place,
            Self::Axis(place) => NUMBERS + TEXTS + place,
            Self::Mock => NUMBERS + TEXTS + AXES,
            Self::Kind => NUMBERS + TEXTS + AXES + 1,
        }
    }
}

impl<'a> WireSample<'a> {
    fn read(&mut self, scanner: &mut Scanner<'a>) -> Option<()> {
        self.present = 0;
        self.values.clear();
        if !scanner.open(b'{', b'}')? {
            return Some(());
        }
        self.layouts.begin();
        for place in 0.. {
            match self.layouts.expected(place) {
                Some(member) if scanner.pass_expected(member.key) => {
                    self.read_value(scanner, place, member.slot)?;
                }
                _ => self.read_member(scanner, place)?,
            }
            if !scanner.goes_on(b'}')? {
                break;
            }
        }
        self.layouts.end();
        Some(())
    }

    /// Reads a member whose key differs from the expected one.
    fn read_member(&mut self, scanner: &mut Scanner<'a>, place: usize) -> Option<()> {
        if let Some(member) = self.layouts.select_by_key(scanner, place) {
            return self.read_value(scanner, place, member.slot);
        }
        let from = scanner.place();
        let key = scanner.key()?;
        let slot = Slot::of(key);
        match scanner.expected_since(from) {
            Some(key) => self.layouts.put(place, Member::new(key, slot)),
            None => self.layouts.cut(place),
        }
        self.read_value(scanner, place, slot)
    }

    #[inline]
    fn read_value(
        &mut self,
        scanner: &mut Scanner<'a>,
        place: usize,
        slot: Option<Slot>,
    ) -> Option<()> {
        // The kind's text is usually the expected one, and never null then.
        if slot == Some(Slot::Kind)
            && self.present & Slot::Kind.bit() == 0
            && let Some(kind) = self.layouts.pass_kind(scanner, place)
        {
            self.kind = kind;
            self.present |= Slot::Kind.bit();
            return Some(());
        }
        let Some(slot) = slot else {
            return scanner.skip_scalar();
        };
        // A duplicate key is left to the decoder that parses into a tree.
        if self.present & slot.bit() != 0 {
            return None;
        }
        if scanner.null() {
            return Some(());
        }
        match slot {
            Slot::Number(place) => *self.numbers.get_mut(place)? = scanner.number()?,
            Slot::Kind => {
                let from = scanner.place();
                self.kind = Kind::from_name(scanner.text()?);
                if let Some(text) = scanner.expected_since(from) {
                    self.layouts.put_kind(place, text, self.kind);
                }
            }
            Slot::Text(place) => {
                let text = self.texts.get_mut(place)?;
                // Usually the text equals the previous one.
                if !scanner.pass_text(text) {
                    *text = scanner.text()?;
                }
            }
            Slot::Axis(place) => {
                let from = self.values.len();
                let values = &mut self.values;
                let mut largest = 0.0_f64;
                scanner.elements(|scanner| {
                    let number = scanner.number()?;
                    largest = largest.max(number.abs());
                    values.push(number as f32);
                    Some(())
                })?;
                // A value just outside of the range may become its bound in single precision.
                if largest > AXES_MAX.get(place).copied()? {
                    return None;
                }
                *self.axes.get_mut(place)? = (from, self.values.len());
            }
            Slot::Mock => self.mock = scanner.truth()?,
        }
        self.present |= slot.bit();
        Some(())
    }

    /// Returns the slot of a present field.
    #[inline(always)]
    fn slot(&self, name: &str) -> Option<Slot> {
        Slot::of(name.as_bytes()).filter(|slot| self.present & slot.bit() != 0)
    }
}

impl Fields for WireSample<'_> {
    #[inline(always)]
    fn number(&self, name: &'static str) -> Result<Option<f64>, FieldError> {
        Ok(match self.slot(name) {
            Some(Slot::Number(place)) => self.numbers.get(place).copied(),
            _ => None,
        })
    }

    #[inline(always)]
    fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, FieldError> {
        Ok(match self.slot(name) {
            Some(Slot::Text(place)) => self.texts.get(place).map(|text| Cow::Borrowed(*text)),
            _ => None,
        })
    }

    #[inline(always)]
    fn kind(&self) -> Result<Option<Option<Kind>>, FieldError> {
        Ok((self.present & Slot::Kind.bit() != 0).then_some(self.kind))
    }

    #[inline(always)]
    fn flag(&self, name: &'static str) -> Result<Option<bool>, FieldError> {
        Ok(self.slot(name).map(|_| self.mock))
    }

    fn numbers(&self, field: &Field, values: &mut Vec<f32>) -> Result<bool, FieldError> {
        let Some(Slot::Axis(place)) = self.slot(field.name) else {
            return Ok(false);
        };
        let (from, to) = self.axes.get(place).copied().unwrap_or_default();
        values.extend_from_slice(self.values.get(from..to).unwrap_or_default());
        Ok(true)
    }
}
