//! Decodes a batch to find each fault and its position. Only the sample that is being read is kept
//! as it was written, so that an invalid text takes no more memory than a valid one.

use std::borrow::Cow;

use serde::de::{MapAccess, SeqAccess};

use super::fast::Slot;
use super::shape::{Ignored, Number, Scalar, Shape, Shaped, Text};
use super::{
    DecodeError, DecodedBatch, DecodedLine, FIELD_ERRORS_MAX, Fields, invalid_field, push,
};
use crate::limits::{BATCH_SAMPLES_MAX, BATCH_SEQ_MAX, IMU_VALUES_MAX};
use crate::sample::FieldError;
use crate::sample::check::Field;
use crate::sample::packed::BatchBuilder;

/// Maximum number of values of an array that are kept: one more than a valid array has.
const VALUES_KEPT_MAX: usize = IMU_VALUES_MAX + 1;

fn invalid(pointer: &str, detail: &str) -> DecodeError {
    DecodeError::Invalid(vec![FieldError {
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
    }])
}

/// Decodes a batch.
pub(super) fn decode_batch(text: &[u8]) -> Result<DecodedBatch, DecodeError> {
    let batch: Option<Batch> = read(text)?;
    batch
        .ok_or_else(|| invalid("", "must be an object"))?
        .finish()
}

/// Decodes a line of an NDJSON body.
pub(super) fn decode_line(text: &[u8]) -> Result<DecodedLine, DecodeError> {
    let batch: Option<Batch> = read(text)?;
    let mut batch = batch.ok_or_else(|| DecodeError::Syntax("not an object".into()))?;
    Ok(DecodedLine {
        session_id: batch.session_id.take(),
        seq: batch.seq().ok(),
        batch: batch.finish(),
    })
}

/// Decodes a sample into `builder`. Returns `false` if its kind is unknown and it was skipped.
pub(super) fn decode_sample(text: &[u8], builder: &mut BatchBuilder) -> Result<bool, DecodeError> {
    let sample: Option<Sample> = read(text)?;
    push_sample(sample, builder).map_err(|error| DecodeError::Invalid(vec![error]))
}

fn read<T: for<'de> Shape<'de>>(text: &[u8]) -> Result<T, DecodeError> {
    let read = crate::json::parse_from_phone(text, |text| serde_json::from_slice(text));
    read.map(|Shaped(value)| value)
        .map_err(|error| DecodeError::Syntax(error.to_string()))
}

fn push_sample(sample: Option<Sample>, builder: &mut BatchBuilder) -> Result<bool, FieldError> {
    let sample = sample.ok_or_else(|| FieldError {
        pointer: String::new(),
        detail: "must be an object".into(),
    })?;
    push(&sample, &mut Vec::new(), builder)
}

/// The members of a batch; the last one of a name counts.
#[derive(Default)]
struct Batch {
    session_id: Option<String>,
    /// The number under `seq`, if the member is present and if it is a number.
    seq: Option<Option<f64>>,
    samples: Option<Samples>,
}

impl Batch {
    fn seq(&self) -> Result<u32, DecodeError> {
        let seq = self.seq.ok_or_else(|| invalid("/seq", "is required"))?;
        let detail = format!("must be a whole number between 0 and {BATCH_SEQ_MAX}");
        // `5.0` and `5e0` are whole numbers too.
        seq.filter(|seq| seq.fract() == 0.0 && (0.0..=f64::from(BATCH_SEQ_MAX)).contains(seq))
            .map(|seq| seq as u32)
            .ok_or_else(|| invalid("/seq", &detail))
    }

    fn finish(self) -> Result<DecodedBatch, DecodeError> {
        let seq = self.seq();
        let samples = match self.samples {
            // The number of samples is checked before their content (contract 9).
            Some(Samples::List(list)) if list.count > BATCH_SAMPLES_MAX => {
                Err(DecodeError::TooManySamples)
            }
            Some(Samples::List(list)) => seq.map(|seq| (seq, list)),
            Some(Samples::Other) => seq.and(Err(invalid("/samples", "must be an array"))),
            None => seq.and(Err(invalid("/samples", "is required"))),
        };
        let (seq, mut list) = samples?;
        if !list.errors.is_empty() {
            return Err(DecodeError::Invalid(list.errors));
        }
        let unknown_kinds = list.unknown_kinds;
        list.builder.skip(unknown_kinds);
        Ok(DecodedBatch {
            seq,
            batch: list.builder.pack(),
            unknown_kinds,
        })
    }
}

impl<'de> Shape<'de> for Option<Batch> {
    fn scalar(_: Scalar<'_>) -> Self {
        None
    }

    fn other() -> Self {
        None
    }

    fn object<A: MapAccess<'de>>(mut members: A) -> Result<Self, A::Error> {
        let mut batch = Batch::default();
        while let Some(Shaped(BatchMember(name))) = members.next_key()? {
            match name {
                Some("sessionId") => {
                    batch.session_id = members.next_value::<Shaped<Text>>()?.0.0;
                }
                Some("seq") => batch.seq = Some(members.next_value::<Shaped<Number>>()?.0.0),
                Some("samples") => {
                    batch.samples = Some(members.next_value::<Shaped<Samples>>()?.0);
                }
                _ => {
                    members.next_value::<Shaped<Ignored>>()?;
                }
            }
        }
        Ok(Some(batch))
    }
}

/// The name of a batch's member, or `None` if it is unknown.
struct BatchMember(Option<&'static str>);

impl<'de> Shape<'de> for BatchMember {
    fn scalar(scalar: Scalar<'_>) -> Self {
        let Scalar::Text(text) = scalar else {
            return Self(None);
        };
        let names = ["sessionId", "seq", "samples"];
        Self(names.into_iter().find(|&name| name == text))
    }

    fn other() -> Self {
        Self(None)
    }
}

/// The value of `samples`.
enum Samples {
    List(Box<List>),
    /// The value is not an array.
    Other,
}

/// The samples that were read.
#[derive(Default)]
struct List {
    /// The number of elements, also of those that were not kept.
    count: usize,
    builder: BatchBuilder,
    errors: Vec<FieldError>,
    unknown_kinds: u32,
}

impl<'de> Shape<'de> for Samples {
    fn scalar(_: Scalar<'_>) -> Self {
        Self::Other
    }

    fn other() -> Self {
        Self::Other
    }

    fn array<A: SeqAccess<'de>>(mut elements: A) -> Result<Self, A::Error> {
        let mut list = Box::<List>::default();
        while list.count < BATCH_SAMPLES_MAX && list.errors.len() < FIELD_ERRORS_MAX {
            let Some(Shaped(sample)) = elements.next_element::<Shaped<Option<Sample>>>()? else {
                return Ok(Self::List(list));
            };
            match push_sample(sample, &mut list.builder) {
                Ok(true) => {}
                Ok(false) => list.unknown_kinds += 1,
                Err(error) => list.errors.push(FieldError {
                    pointer: format!("/samples/{}{}", list.count, error.pointer),
                    detail: error.detail,
                }),
            }
            list.count += 1;
        }
        while elements.next_element::<Shaped<Ignored>>()?.is_some() {
            list.count += 1;
        }
        Ok(Self::List(list))
    }
}

/// The members of a sample that some kind has; the last one of a name counts.
struct Sample(Vec<(Slot, Member)>);

/// The value of a member.
enum Member {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    /// The first numbers of an array, and the place of the first element that is not a number.
    Array(Vec<f64>, Option<usize>),
    Object,
}

impl<'de> Shape<'de> for Option<Sample> {
    fn scalar(_: Scalar<'_>) -> Self {
        None
    }

    fn other() -> Self {
        None
    }

    fn object<A: MapAccess<'de>>(mut members: A) -> Result<Self, A::Error> {
        let mut sample = Sample(Vec::new());
        while let Some(Shaped(SampleMember(slot))) = members.next_key()? {
            let Some(slot) = slot else {
                members.next_value::<Shaped<Ignored>>()?;
                continue;
            };
            let Shaped(member) = members.next_value()?;
            sample.0.retain(|(present, _)| *present != slot);
            sample.0.push((slot, member));
        }
        Ok(Some(sample))
    }
}

/// The slot of a sample's member, or `None` if no kind has the member.
struct SampleMember(Option<Slot>);

impl<'de> Shape<'de> for SampleMember {
    fn scalar(scalar: Scalar<'_>) -> Self {
        Self(match scalar {
            Scalar::Text(name) => Slot::of(name.as_bytes()),
            _ => None,
        })
    }

    fn other() -> Self {
        Self(None)
    }
}

impl<'de> Shape<'de> for Member {
    fn scalar(scalar: Scalar<'_>) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Flag(flag) => Self::Flag(flag),
            Scalar::Number(number) => Self::Number(number),
            Scalar::Text(text) => Self::Text(text.to_owned()),
        }
    }

    fn other() -> Self {
        Self::Object
    }

    fn array<A: SeqAccess<'de>>(mut elements: A) -> Result<Self, A::Error> {
        let (mut values, mut other_at) = (Vec::new(), None);
        let mut place = 0;
        while let Some(Shaped(Number(number))) = elements.next_element()? {
            match number {
                Some(number) if values.len() < VALUES_KEPT_MAX => values.push(number),
                Some(_) => {}
                None => other_at = other_at.or(Some(place)),
            }
            place += 1;
        }
        Ok(Self::Array(values, other_at))
    }
}

impl Sample {
    /// Returns the value under `name`; null counts as absent.
    fn present(&self, name: &str) -> Option<&Member> {
        let slot = Slot::of(name.as_bytes())?;
        let member = self.0.iter().find(|(present, _)| *present == slot);
        member
            .map(|(_, member)| member)
            .filter(|member| !matches!(member, Member::Null))
    }
}

impl Fields for Sample {
    fn number(&self, name: &'static str) -> Result<Option<f64>, FieldError> {
        match self.present(name) {
            None => Ok(None),
            Some(Member::Number(number)) => Ok(Some(*number)),
            Some(_) => Err(invalid_field(name, "must be a number")),
        }
    }

    fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, FieldError> {
        match self.present(name) {
            None => Ok(None),
            Some(Member::Text(text)) => Ok(Some(Cow::Borrowed(text))),
            Some(_) => Err(invalid_field(name, "must be a string")),
        }
    }

    fn flag(&self, name: &'static str) -> Result<Option<bool>, FieldError> {
        match self.present(name) {
            None => Ok(None),
            Some(Member::Flag(flag)) => Ok(Some(*flag)),
            Some(_) => Err(invalid_field(name, "must be true or false")),
        }
    }

    fn numbers(&self, field: &Field, values: &mut Vec<f32>) -> Result<bool, FieldError> {
        let name = field.name;
        match self.present(name) {
            None => Ok(false),
            Some(Member::Array(numbers, other_at)) => {
                if let Some(place) = other_at {
                    return Err(invalid_field(
                        &format!("{name}/{place}"),
                        "must be a number",
                    ));
                }
                values.extend(numbers.iter().map(|&number| field.narrow(number)));
                Ok(true)
            }
            Some(_) => Err(invalid_field(name, "must be an array")),
        }
    }
}
