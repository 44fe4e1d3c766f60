//! Batches and samples as JSON (contract section 3).
//!
//! A valid text is decoded in one pass straight into columns. An invalid text is decoded again,
//! slowly, to report each fault and its position.

mod fast;
mod shape;
mod slow;

use std::borrow::Cow;

pub use fast::{Keys, Scalar, Scanner};

use super::packed::{BatchBuilder, FixParts, PackedBatch};
use super::{
    Activity, ActivityType, FieldError, Imu, Kind, Magnetic, Mark, Motion, Pressure, Provider,
    Sample, Steps, System, SystemName, check,
};

/// A decoded and checked batch.
#[derive(Debug, Clone)]
pub struct DecodedBatch {
    /// Number of the batch within the session.
    pub seq: u32,
    /// The decoded samples.
    pub batch: PackedBatch,
    /// Number of samples of unknown kinds, which were skipped.
    pub unknown_kinds: u32,
}

/// The reason why a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not JSON; the position of the error.
    #[error("not JSON: {0}")]
    Syntax(String),
    /// The text is JSON but not a valid batch: the errors, at most [`FIELD_ERRORS_MAX`], never
    /// empty.
    #[error("not a batch")]
    Invalid(Vec<FieldError>),
    /// The batch has too many samples.
    #[error("more samples than a batch may have")]
    TooManySamples,
}

/// Maximum number of errors listed for one batch.
pub const FIELD_ERRORS_MAX: usize = 20;

/// Decodes a batch: `{"seq": 17, "samples": [...]}`.
pub fn decode_batch(text: &[u8]) -> Result<DecodedBatch, DecodeError> {
    match fast::decode_batch(text) {
        Some(decoded) => Ok(decoded),
        None => slow::decode_batch(text),
    }
}

/// A decoded line of an NDJSON body: a batch and its session, as far as they are readable.
#[derive(Debug, Clone)]
pub struct DecodedLine {
    /// The `sessionId`; `None` if it is not a string.
    pub session_id: Option<String>,
    /// The `seq`; `None` if it is not a valid number.
    pub seq: Option<u32>,
    /// The batch, or the reason why it is invalid.
    pub batch: Result<DecodedBatch, DecodeError>,
}

/// Decodes a line: `{"sessionId": "ses_…", "seq": 17, "samples": [...]}`.
///
/// # Errors
///
/// Returns [`DecodeError::Syntax`] if the line is not a JSON object.
pub fn decode_line(text: &[u8]) -> Result<DecodedLine, DecodeError> {
    if let Some((session_id, decoded)) = fast::decode_line(text) {
        return Ok(DecodedLine {
            session_id: Some(session_id.to_owned()),
            seq: Some(decoded.seq),
            batch: Ok(decoded),
        });
    }
    slow::decode_line(text)
}

/// Decodes one sample, as a line of a recording holds it, into `builder`. Returns `false` if its
/// kind is unknown and it was skipped.
pub fn decode_sample(text: &[u8], builder: &mut BatchBuilder) -> Result<bool, DecodeError> {
    slow::decode_sample(text, builder)
}

/// The fields of a sample, of which its kind determines the required ones.
pub(super) trait Fields {
    /// Returns the number under `name`; `None` if absent or null.
    fn number(&self, name: &'static str) -> Result<Option<f64>, FieldError>;
    /// Returns the string under `name`.
    fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, FieldError>;
    /// Returns the boolean under `name`.
    fn flag(&self, name: &'static str) -> Result<Option<bool>, FieldError>;
    /// Returns the `kind`. The outer `None` means that it is absent or null, and the inner `None`
    /// that it is unknown.
    #[inline(always)]
    fn kind(&self) -> Result<Option<Option<Kind>>, FieldError> {
        Ok(self.text("kind")?.map(|name| Kind::from_name(&name)))
    }
    /// Appends the numbers of `field` to `values`. A number outside of the field's range may be
    /// replaced by another one outside of it. Returns `false` if the field is absent.
    fn numbers(&self, field: &check::Field, values: &mut Vec<f32>) -> Result<bool, FieldError>;
    /// Returns the rate `hz` with the precision in which it was given.
    fn rate(&self, hz: f64) -> check::Rate {
        check::Rate::Double(hz)
    }
}

/// Returns the error for a required field that is absent.
fn missing(name: &str) -> FieldError {
    invalid_field(name, "is required")
}

/// Returns the error for a field with an invalid value.
fn invalid_field(name: &str, detail: &str) -> FieldError {
    FieldError {
        pointer: format!("/{name}"),
        detail: detail.to_owned(),
    }
}

/// Returns a number that must be present and within its range.
#[inline(always)]
fn required_number<F: Fields>(fields: &F, field: &check::Field) -> Result<f64, FieldError> {
    let value = fields
        .number(field.name)?
        .ok_or_else(|| missing(field.name))?;
    field.check(value)?;
    Ok(value)
}

/// Returns a number that may be absent; a present one must be within its range.
#[inline(always)]
fn optional_number<F: Fields>(fields: &F, field: &check::Field) -> Result<Option<f32>, FieldError> {
    let Some(value) = fields.number(field.name)? else {
        return Ok(None);
    };
    field.check(value)?;
    Ok(Some(value as f32))
}

/// Returns a number that may be absent, which a negative value also means (contract 9).
#[inline(always)]
fn optional_unless_negative<F: Fields>(
    fields: &F,
    field: &check::Field,
) -> Result<Option<f32>, FieldError> {
    match fields.number(field.name)? {
        Some(value) if value < 0.0 => Ok(None),
        _ => optional_number(fields, field),
    }
}

/// Returns a value from a closed list of names; it may be absent.
#[inline(always)]
fn optional_name<F: Fields, T>(
    fields: &F,
    name: &'static str,
    from_name: fn(&str) -> Option<T>,
) -> Result<Option<T>, FieldError> {
    let Some(text) = fields.text(name)? else {
        return Ok(None);
    };
    from_name(&text)
        .map(Some)
        .ok_or_else(|| invalid_field(name, "is not a known name"))
}

/// Checks the fields and appends their sample. Returns `false` if its kind is unknown.
pub(super) fn push<F: Fields>(
    fields: &F,
    buffer: &mut Vec<f32>,
    builder: &mut BatchBuilder,
) -> Result<bool, FieldError> {
    let kind = fields.kind()?.ok_or_else(|| missing("kind"))?;
    let t_ms = check::rounded(required_number(fields, &check::T)? * 1000.0) as u32;
    let Some(kind) = kind else {
        return Ok(false);
    };
    let name;
    let sample = match kind {
        Kind::Location => {
            push_fix(fields, t_ms, builder)?;
            return Ok(true);
        }
        Kind::Pressure => Sample::Pressure(Pressure {
            t_ms,
            hpa: required_number(fields, &check::HPA)? as f32,
        }),
        Kind::Steps => {
            let count = required_number(fields, &check::COUNT)?;
            if count.fract() != 0.0 {
                return Err(invalid_field("count", "must be a whole number"));
            }
            Sample::Steps(Steps {
                t_ms,
                count: count as u32,
            })
        }
        Kind::Imu => Sample::Imu(imu(fields, t_ms, buffer)?),
        Kind::Motion => Sample::Motion(Motion {
            t_ms,
            accel_mean: required_number(fields, &check::ACCEL_MEAN)? as f32,
            accel_std: required_number(fields, &check::ACCEL_STD)? as f32,
            vertical_mean: optional_number(fields, &check::VERTICAL_MEAN)?,
            cadence_hz: optional_number(fields, &check::CADENCE_HZ)?,
            yaw_rad: optional_number(fields, &check::YAW_RAD)?,
        }),
        Kind::Magnetic => {
            let [x, y, z] = &check::FIELD_UT;
            let field_ut = [
                required_number(fields, x)? as f32,
                required_number(fields, y)? as f32,
                required_number(fields, z)? as f32,
            ];
            Sample::Magnetic(Magnetic { t_ms, field_ut })
        }
        Kind::Activity => Sample::Activity(Activity {
            t_ms,
            activity_type: optional_name(fields, "type", ActivityType::from_name)?
                .ok_or_else(|| missing("type"))?,
            confidence: required_number(fields, &check::CONFIDENCE)? as f32,
        }),
        Kind::Mark => {
            name = fields.text("name")?.ok_or_else(|| missing("name"))?;
            Sample::Mark(Mark { t_ms, name: &name })
        }
        Kind::System => Sample::System(System {
            t_ms,
            name: optional_name(fields, "name", SystemName::from_name)?
                .ok_or_else(|| missing("name"))?,
        }),
    };
    builder.push(&sample)?;
    Ok(true)
}

/// Appends a fix. Almost all samples are fixes, so their values are checked once and go straight
/// into their columns.
#[inline(always)]
fn push_fix<F: Fields>(
    fields: &F,
    t_ms: u32,
    builder: &mut BatchBuilder,
) -> Result<(), FieldError> {
    let whole = |field: &check::Field, value: f64| check::rounded(value * field.parts);
    let single = |field: &check::Field, value: Option<f32>| {
        value.map(|value| whole(field, f64::from(value)))
    };
    let fix = FixParts {
        lat: whole(&check::LAT, required_number(fields, &check::LAT)?),
        lng: whole(&check::LNG, required_number(fields, &check::LNG)?),
        accuracy_m: single(
            &check::ACCURACY_M,
            optional_unless_negative(fields, &check::ACCURACY_M)?,
        ),
        altitude_m: single(
            &check::ALTITUDE_M,
            optional_number(fields, &check::ALTITUDE_M)?,
        ),
        speed_mps: single(
            &check::SPEED_MPS,
            optional_unless_negative(fields, &check::SPEED_MPS)?,
        ),
        bearing_deg: single(
            &check::BEARING_DEG,
            optional_unless_negative(fields, &check::BEARING_DEG)?,
        ),
        mock: fields.flag("mock")?.unwrap_or(false),
        provider: optional_name(fields, "provider", Provider::from_name)?,
    };
    builder.push_fix(t_ms, &fix);
    Ok(())
}

fn imu<'b, F: Fields>(
    fields: &F,
    t_ms: u32,
    buffer: &'b mut Vec<f32>,
) -> Result<Imu<'b>, FieldError> {
    let hz = required_number(fields, &check::HZ)?;
    buffer.clear();
    let mut ends = [0_usize; 6];
    let mut present = [false; 6];
    for (place, field) in check::ACCEL.iter().chain(&check::GYRO).enumerate() {
        present[place] = fields.numbers(field, buffer)?;
        if place < 3 && !present[place] {
            return Err(missing(field.name));
        }
        ends[place] = buffer.len();
    }
    let lengths = |at: usize| ends[at] - if at == 0 { 0 } else { ends[at - 1] };
    let has_gyro = present[3..].iter().all(|present| *present);
    let gyro_lengths = has_gyro.then(|| [lengths(3), lengths(4), lengths(5)]);
    let accel_lengths = [lengths(0), lengths(1), lengths(2)];
    check::imu_lengths(fields.rate(hz), accel_lengths, gyro_lengths)?;
    let axis = |at: usize| &buffer[ends[at] - lengths(at)..ends[at]];
    let gyro = gyro_lengths.map(|_| [axis(3), axis(4), axis(5)]);
    if gyro.is_none() {
        // Each axis is optional. Fewer than three do not form a turn rate, but present ones are
        // checked.
        for (at, field) in (3..).zip(&check::GYRO).filter(|(at, _)| present[*at]) {
            check::imu_axis(field, axis(at), lengths(0))?;
        }
    }
    Ok(Imu {
        t_ms,
        hz: hz as f32,
        accel: [axis(0), axis(1), axis(2)],
        gyro,
    })
}

#[cfg(test)]
mod tests;
