//! Decodes a batch from a tree to find each fault and its position.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{DecodeError, DecodedBatch, FIELD_ERRORS_MAX, Fields, invalid_field, push};
use crate::limits::{BATCH_SAMPLES_MAX, BATCH_SEQ_MAX};
use crate::sample::FieldError;
use crate::sample::check::Field;
use crate::sample::packed::BatchBuilder;

fn invalid(pointer: &str, detail: &str) -> DecodeError {
    DecodeError::Invalid(vec![FieldError {
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
    }])
}

pub(super) fn decode_batch(value: &Value) -> Result<DecodedBatch, DecodeError> {
    let object = value
        .as_object()
        .ok_or_else(|| invalid("", "must be an object"))?;
    let samples = object.get("samples");
    let listed = samples.and_then(Value::as_array);
    // The number of samples is checked before their content (contract 9).
    if listed.is_some_and(|samples| samples.len() > BATCH_SAMPLES_MAX) {
        return Err(DecodeError::TooManySamples);
    }
    let seq = read_seq(object)?;
    let samples = listed.ok_or_else(|| match samples {
        None => invalid("/samples", "is required"),
        Some(_) => invalid("/samples", "must be an array"),
    })?;
    let mut builder = BatchBuilder::default();
    let mut errors = Vec::new();
    let mut unknown_kinds = 0;
    for (place, sample) in samples.iter().enumerate() {
        match push_sample(sample, &mut builder) {
            Ok(true) => {}
            Ok(false) => unknown_kinds += 1,
            Err(error) => {
                let pointer = format!("/samples/{place}{}", error.pointer);
                errors.push(FieldError {
                    pointer,
                    detail: error.detail,
                });
                if errors.len() == FIELD_ERRORS_MAX {
                    break;
                }
            }
        }
    }
    if errors.is_empty() {
        builder.skip(unknown_kinds);
        Ok(DecodedBatch {
            seq,
            batch: builder.pack(),
            unknown_kinds,
        })
    } else {
        Err(DecodeError::Invalid(errors))
    }
}

pub(super) fn read_seq(object: &Map<String, Value>) -> Result<u32, DecodeError> {
    let seq = object
        .get("seq")
        .ok_or_else(|| invalid("/seq", "is required"))?;
    let detail = format!("must be a whole number between 0 and {BATCH_SEQ_MAX}");
    // `5.0` and `5e0` are whole numbers too.
    seq.as_f64()
        .filter(|seq| seq.fract() == 0.0 && (0.0..=f64::from(BATCH_SEQ_MAX)).contains(seq))
        .map(|seq| seq as u32)
        .ok_or_else(|| invalid("/seq", &detail))
}

pub(super) fn push_sample(value: &Value, builder: &mut BatchBuilder) -> Result<bool, FieldError> {
    let object = value.as_object().ok_or_else(|| FieldError {
        pointer: String::new(),
        detail: "must be an object".into(),
    })?;
    push(&Tree(object), &mut Vec::new(), builder)
}

struct Tree<'a>(&'a Map<String, Value>);

impl Tree<'_> {
    /// Returns the value under `name`; null counts as absent.
    fn present(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}

impl Fields for Tree<'_> {
    fn number(&self, name: &'static str) -> Result<Option<f64>, FieldError> {
        self.present(name)
            .map(|value| {
                value
                    .as_f64()
                    .ok_or_else(|| invalid_field(name, "must be a number"))
            })
            .transpose()
    }

    fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, FieldError> {
        let text = |value: &'_ Value| value.as_str().map(|text| Cow::Owned(text.to_owned()));
        self.present(name)
            .map(|value| text(value).ok_or_else(|| invalid_field(name, "must be a string")))
            .transpose()
    }

    fn flag(&self, name: &'static str) -> Result<Option<bool>, FieldError> {
        self.present(name)
            .map(|value| {
                value
                    .as_bool()
                    .ok_or_else(|| invalid_field(name, "must be true or false"))
            })
            .transpose()
    }

    fn numbers(&self, field: &Field, values: &mut Vec<f32>) -> Result<bool, FieldError> {
        let name = field.name;
        let Some(value) = self.present(name) else {
            return Ok(false);
        };
        let array = value
            .as_array()
            .ok_or_else(|| invalid_field(name, "must be an array"))?;
        for (place, value) in array.iter().enumerate() {
            let number = value
                .as_f64()
                .ok_or_else(|| invalid_field(&format!("{name}/{place}"), "must be a number"))?;
            values.push(field.narrow(number));
        }
        Ok(true)
    }
}
