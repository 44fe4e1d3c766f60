//! Reads a batch in one pass. Gives up (none) on the first thing amiss, without saying what.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{DecodedBatch, Fields, push};
use crate::limits::{BATCH_SAMPLES_MAX, BATCH_SEQ_MAX};
use crate::sample::FieldError;
use crate::sample::packed::BatchBuilder;

pub(super) fn decode_batch(text: &[u8]) -> Option<DecodedBatch> {
    let mut samples = Samples::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let seq = deserializer
        .deserialize_map(BatchVisitor {
            samples: &mut samples,
        })
        .ok()?;
    deserializer.end().ok()?;
    (seq <= BATCH_SEQ_MAX).then(|| DecodedBatch {
        seq,
        batch: samples.builder.pack(),
        unknown_kinds: samples.unknown_kinds,
    })
}

#[derive(Default)]
struct Samples {
    builder: BatchBuilder,
    buffer: Vec<f32>,
    unknown_kinds: u32,
}

struct BatchVisitor<'s> {
    samples: &'s mut Samples,
}

impl<'de> Visitor<'de> for BatchVisitor<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u32, A::Error> {
        let (mut seq, mut seen_samples) = (None, false);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "seq" if seq.is_none() => seq = Some(map.next_value()?),
                "samples" if !seen_samples => {
                    map.next_value_seed(SamplesSeed {
                        samples: &mut *self.samples,
                    })?;
                    seen_samples = true;
                }
                // Given twice: the tree says which of them counts.
                "seq" | "samples" => return Err(A::Error::custom("given twice")),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if seen_samples {
            seq.ok_or_else(|| A::Error::missing_field("seq"))
        } else {
            Err(A::Error::missing_field("samples"))
        }
    }
}

struct SamplesSeed<'s> {
    samples: &'s mut Samples,
}

impl<'de> DeserializeSeed<'de> for SamplesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for SamplesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Samples {
            builder,
            buffer,
            unknown_kinds,
        } = self.samples;
        let mut count = 0;
        while let Some(sample) = seq.next_element::<WireSample<'de>>()? {
            count += 1;
            if count > BATCH_SAMPLES_MAX {
                return Err(A::Error::custom("too many samples"));
            }
            if !push(&sample, buffer, builder).map_err(A::Error::custom)? {
                *unknown_kinds += 1;
            }
        }
        Ok(())
    }
}

/// Every field of every kind, as it came. A text with an escape can't be borrowed and is left to the slow way.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WireSample<'a> {
    #[serde(borrow)]
    kind: Option<&'a str>,
    #[serde(borrow)]
    name: Option<&'a str>,
    #[serde(borrow, rename = "type")]
    activity_type: Option<&'a str>,
    #[serde(borrow)]
    provider: Option<&'a str>,
    t: Option<f64>,
    lat: Option<f64>,
    lng: Option<f64>,
    #[serde(rename = "accuracyM")]
    accuracy_m: Option<f64>,
    #[serde(rename = "altitudeM")]
    altitude_m: Option<f64>,
    #[serde(rename = "speedMps")]
    speed_mps: Option<f64>,
    #[serde(rename = "bearingDeg")]
    bearing_deg: Option<f64>,
    mock: Option<bool>,
    #[serde(rename = "hPa")]
    hpa: Option<f64>,
    count: Option<f64>,
    hz: Option<f64>,
    ax: Option<Vec<f32>>,
    ay: Option<Vec<f32>>,
    az: Option<Vec<f32>>,
    gx: Option<Vec<f32>>,
    gy: Option<Vec<f32>>,
    gz: Option<Vec<f32>>,
    #[serde(rename = "accelMean")]
    accel_mean: Option<f64>,
    #[serde(rename = "accelStd")]
    accel_std: Option<f64>,
    #[serde(rename = "verticalMean")]
    vertical_mean: Option<f64>,
    #[serde(rename = "cadenceHz")]
    cadence_hz: Option<f64>,
    #[serde(rename = "yawRad")]
    yaw_rad: Option<f64>,
    x: Option<f64>,
    y: Option<f64>,
    z: Option<f64>,
    confidence: Option<f64>,
}

impl Fields for WireSample<'_> {
    fn number(&self, name: &'static str) -> Result<Option<f64>, FieldError> {
        Ok(match name {
            "t" => self.t,
            "lat" => self.lat,
            "lng" => self.lng,
            "accuracyM" => self.accuracy_m,
            "altitudeM" => self.altitude_m,
            "speedMps" => self.speed_mps,
            "bearingDeg" => self.bearing_deg,
            "hPa" => self.hpa,
            "count" => self.count,
            "hz" => self.hz,
            "accelMean" => self.accel_mean,
            "accelStd" => self.accel_std,
            "verticalMean" => self.vertical_mean,
            "cadenceHz" => self.cadence_hz,
            "yawRad" => self.yaw_rad,
            "x" => self.x,
            "y" => self.y,
            "z" => self.z,
            "confidence" => self.confidence,
            _ => None,
        })
    }

    fn text(&self, name: &'static str) -> Result<Option<Cow<'_, str>>, FieldError> {
        let text = match name {
            "kind" => self.kind,
            "name" => self.name,
            "type" => self.activity_type,
            "provider" => self.provider,
            _ => None,
        };
        Ok(text.map(Cow::Borrowed))
    }

    fn flag(&self, _name: &'static str) -> Result<Option<bool>, FieldError> {
        Ok(self.mock)
    }

    fn numbers(&self, name: &'static str, values: &mut Vec<f32>) -> Result<bool, FieldError> {
        let axis = match name {
            "ax" => &self.ax,
            "ay" => &self.ay,
            "az" => &self.az,
            "gx" => &self.gx,
            "gy" => &self.gy,
            _ => &self.gz,
        };
        Ok(axis.as_ref().is_some_and(|axis| {
            values.extend_from_slice(axis);
            true
        }))
    }
}
