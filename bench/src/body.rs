//! The batches that the load generator sends, and how the floor parses them.

mod mix;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;

pub use mix::Mix;
use mix::{CYCLE_MS, Tail, Template};

/// The number of samples in a batch of [`Mix::Location`], one per second.
pub const SAMPLES: u32 = 60;

/// Writes the batches of a session. Only the times and step counts differ between the minutes of a
/// session, so writing a batch costs little. The positions repeat every minute, so the batches of a
/// session form one unbroken trace.
#[derive(Debug, Clone)]
pub struct BatchWriter {
    mix: Mix,
    /// One minute of samples, by time.
    cycle: Arc<[Template]>,
    text: String,
    /// The fields of the same samples as protobuf; empty for mixes other than [`Mix::Location`].
    packed_tails: Vec<Vec<u8>>,
    packed: Vec<u8>,
}

impl Default for BatchWriter {
    fn default() -> Self {
        Self::of(Mix::Location)
    }
}

impl BatchWriter {
    /// Creates a writer for batches of a mix.
    #[must_use]
    pub fn of(mix: Mix) -> Self {
        let cycle = mix.cycle();
        let packed_tails = match mix {
            Mix::Location => cycle.iter().map(packed_tail).collect(),
            _ => Vec::new(),
        };
        Self {
            mix,
            cycle,
            packed_tails,
            packed: Vec::with_capacity(4 * 1024),
            text: String::with_capacity(16 * 1024),
        }
    }

    /// Writes a batch of [`Mix::Location`] as protobuf, by `schema/porchlight.proto`. For other
    /// mixes the batch has no samples.
    pub fn write_protobuf(&mut self, seq: u32) -> &[u8] {
        self.packed.clear();
        self.packed.push(0x08);
        let mut number = seq;
        while number >= 0x80 {
            self.packed.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.packed.push(number as u8);
        for (second, tail) in (seq * SAMPLES..).zip(&self.packed_tails) {
            let length = 2 + 9 + tail.len();
            // The length is below 128 and therefore one byte.
            self.packed
                .extend_from_slice(&[0x12, length as u8, 0x08, 1, 0x11]);
            let t = f64::from(second) + 0.25;
            self.packed.extend_from_slice(&t.to_le_bytes());
            self.packed.extend_from_slice(tail);
        }
        &self.packed
    }

    /// Writes batch `seq` as JSON.
    pub fn write(&mut self, seq: u32) -> &[u8] {
        let from_ms = seq * self.mix.span_ms();
        let (cycles, from_ms) = (from_ms / CYCLE_MS, from_ms % CYCLE_MS);
        let to_ms = from_ms + self.mix.span_ms();
        let within = |bound_ms: u32| self.cycle.partition_point(|one| one.t_ms < bound_ms);
        let samples = self.cycle.get(within(from_ms)..within(to_ms));
        self.text.clear();
        let _ = write!(self.text, "{{\"seq\":{seq},\"samples\":[");
        for sample in samples.unwrap_or_default() {
            let second = (cycles * CYCLE_MS + sample.t_ms) / 1_000;
            self.text.push_str(sample.head);
            let _ = write!(self.text, "{second}{}", sample.fraction);
            match &sample.tail {
                Tail::Fields(fields) => self.text.push_str(fields),
                Tail::Steps(steps) => {
                    let count = mix::STEPS_BEFORE + cycles * mix::STEPS_PER_CYCLE + steps;
                    let _ = write!(self.text, ",\"count\":{count}}},");
                }
            }
        }
        self.text.pop();
        self.text.push_str("]}");
        self.text.as_bytes()
    }
}

/// Encodes the fields of a fix after its time: two doubles, and floats.
fn packed_tail(sample: &Template) -> Vec<u8> {
    let Tail::Fields(fields) = &sample.tail else {
        return Vec::new();
    };
    let text = fields.trim_end_matches(',').trim_start_matches(',');
    let fields: serde_json::Value = serde_json::from_str(&format!("{{{text}")).unwrap_or_default();
    let number = |name: &str| fields.get(name).and_then(serde_json::Value::as_f64);
    let mut out = Vec::new();
    for (key, name) in [(0x19, "lat"), (0x21, "lng")] {
        out.push(key);
        out.extend_from_slice(&number(name).unwrap_or_default().to_le_bytes());
    }
    let floats = [
        (0x2d, "accuracyM"),
        (0x35, "altitudeM"),
        (0x3d, "speedMps"),
        (0x45, "bearingDeg"),
    ];
    for (key, name) in floats {
        out.push(key);
        out.extend_from_slice(&(number(name).unwrap_or_default() as f32).to_le_bytes());
    }
    out
}

/// A batch as the floor parses it: in one pass into one flat struct per sample.
#[derive(Debug, Deserialize)]
pub struct Batch<'a> {
    /// The number of the batch.
    pub seq: u32,
    /// The samples of the batch.
    #[serde(borrow)]
    pub samples: Vec<FlatSample<'a>>,
}

/// The fields of all kinds that the mixes contain.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of contract section 3")]
pub struct FlatSample<'a> {
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    pub t: f64,
    pub lat: Option<f64>,
    pub lng: Option<f64>,
    pub accuracy_m: Option<f64>,
    pub altitude_m: Option<f64>,
    pub speed_mps: Option<f64>,
    pub bearing_deg: Option<f64>,
    pub mock: Option<bool>,
    #[serde(borrow)]
    pub provider: Option<Cow<'a, str>>,
    #[serde(rename = "hPa")]
    pub hpa: Option<f64>,
    pub count: Option<u32>,
    pub hz: Option<f32>,
    pub ax: Option<Vec<f32>>,
    pub ay: Option<Vec<f32>>,
    pub az: Option<Vec<f32>>,
    pub gx: Option<Vec<f32>>,
    pub gy: Option<Vec<f32>>,
    pub gz: Option<Vec<f32>>,
    pub accel_mean: Option<f64>,
    pub accel_std: Option<f64>,
    pub vertical_mean: Option<f64>,
    pub cadence_hz: Option<f64>,
    pub yaw_rad: Option<f64>,
    pub x: Option<f64>,
    pub y: Option<f64>,
    pub z: Option<f64>,
}

#[cfg(test)]
mod tests {
    use porchlight_schema::sample::json::decode_batch;

    use super::*;

    #[test]
    fn a_batch_of_locations_is_accepted_and_follows_the_previous_one() {
        let mut writer = BatchWriter::default();
        for seq in [0, 1, 2_000] {
            let text = writer.write(seq);
            assert!((6_000..9_000).contains(&text.len()), "{}", text.len());
            let decoded = decode_batch(text).unwrap();
            assert_eq!((decoded.seq, decoded.batch.samples()), (seq, SAMPLES));
            assert_eq!(decoded.batch.t_max_ms(), seq * 60_000 + 59_250);
            let packed = porchlight_schema::sample::proto::decode_batch(writer.write_protobuf(seq));
            let packed = packed.unwrap();
            assert_eq!((packed.seq, packed.batch), (seq, decoded.batch));
        }
    }

    #[test]
    fn the_batches_of_a_mix_are_accepted_and_the_floor_parses_all_of_their_samples() {
        for mix in Mix::ALL {
            let (span_ms, samples) = (mix.span_ms(), mix.batch_samples());
            let mut writer = BatchWriter::of(mix);
            let mut count = 0;
            for seq in [0, 1, 2, 2_000] {
                let text = writer.write(seq);
                let decoded = decode_batch(text).unwrap();
                assert_eq!((decoded.seq, decoded.unknown_kinds), (seq, 0), "{mix}");
                assert_eq!(decoded.batch.samples(), samples, "{mix}");
                let t_max_ms = decoded.batch.t_max_ms();
                assert!(
                    (seq * span_ms..(seq + 1) * span_ms).contains(&t_max_ms),
                    "{mix}"
                );
                let batch: Batch<'_> = serde_json::from_slice(text).unwrap();
                assert_eq!(batch.samples.len(), samples as usize, "{mix}");
                for steps in batch.samples.iter().filter_map(|sample| sample.count) {
                    assert!(steps >= count, "the step count never falls");
                    count = steps;
                }
            }
        }
        let walk = BatchWriter::of(Mix::Walk).write(3).len();
        assert!((5_500..6_100).contains(&walk), "{walk}");
    }
}
