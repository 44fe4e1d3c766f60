//! The batch of the load generator: 60 location samples of seven fields, about 7.5 KB.

use std::fmt::Write as _;

use serde::Deserialize;

/// The number of samples in a batch, one per second.
pub const SAMPLES: u32 = 60;

/// Writes batches that differ only in sequence number and times, so that writing them is cheap. The
/// positions circle a block once per minute at 1.4 m/s, so the batches of a session form one
/// continuous walk.
#[derive(Debug, Clone)]
pub struct BatchWriter {
    /// The JSON text after the time, for each sample.
    tails: Vec<String>,
    text: String,
    /// The tails encoded as protobuf.
    packed_tails: Vec<Vec<u8>>,
    packed: Vec<u8>,
}

impl Default for BatchWriter {
    fn default() -> Self {
        Self::new(52.520_006_6, 13.404_954_1)
    }
}

impl BatchWriter {
    /// Creates a writer for a walk around a position in degrees.
    #[must_use]
    pub fn new(lat: f64, lng: f64) -> Self {
        let tails: Vec<_> = (0..SAMPLES)
            .map(|second| tail(lat, lng, f64::from(second) / f64::from(SAMPLES)))
            .collect();
        Self {
            packed_tails: tails.iter().map(|tail| packed_tail(tail)).collect(),
            packed: Vec::with_capacity(4 * 1024),
            tails,
            text: String::with_capacity(8 * 1024),
        }
    }

    /// Writes the batch `seq` as protobuf, as defined in `schema/porchlight.proto`.
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
            // The length is below 128, so it fits in one byte.
            self.packed
                .extend_from_slice(&[0x12, length as u8, 0x08, 1, 0x11]);
            let t = f64::from(second) + 0.25;
            self.packed.extend_from_slice(&t.to_le_bytes());
            self.packed.extend_from_slice(tail);
        }
        &self.packed
    }

    /// Writes the batch `seq`, which covers the minute from second 60 × `seq`.
    pub fn write(&mut self, seq: u32) -> &[u8] {
        self.text.clear();
        let _ = write!(self.text, "{{\"seq\":{seq},\"samples\":[");
        for (second, tail) in (seq * SAMPLES..).zip(&self.tails) {
            let _ = write!(
                self.text,
                "{{\"kind\":\"location\",\"t\":{second}.25,{tail}"
            );
        }
        self.text.pop();
        self.text.push_str("]}");
        self.text.as_bytes()
    }
}

fn tail(lat: f64, lng: f64, turn: f64) -> String {
    let angle = turn * std::f64::consts::TAU;
    // A circumference of 84 m is a radius of 13.4 m.
    let (east_m, north_m) = (13.4 * libm::sin(angle), 13.4 * libm::cos(angle));
    let (lat, lng) = (lat + north_m / 111_195.0, lng + east_m / 67_600.0);
    let course_deg = (90.0 + turn * 360.0) % 360.0;
    let accuracy_m = 4.0 + 1.5 * libm::sin(3.0 * angle);
    let altitude_m = 34.5 + 0.8 * libm::cos(2.0 * angle);
    let speed_mps = 1.4 + 0.1 * libm::sin(5.0 * angle);
    format!(
        "\"lat\":{lat:.7},\"lng\":{lng:.7},\"accuracyM\":{accuracy_m:.1},\"speedMps\":{speed_mps:.2},\"bearingDeg\":{course_deg:.1},\"altitudeM\":{altitude_m:.1}}},"
    )
}

/// Encodes the fields of a tail with their field numbers and wire types: two doubles, then floats.
fn packed_tail(tail: &str) -> Vec<u8> {
    let text = format!("{{{}", tail.trim_end_matches(','));
    let fields: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
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

/// A batch that `serde_json` parses into owned structs, as in the floor.
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// The sequence number.
    pub seq: u32,
    /// The samples.
    pub samples: Vec<Location>,
}

/// A sample with the seven fields of the benchmark's batch, and its kind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of contract section 3")]
pub struct Location {
    pub kind: String,
    pub t: f64,
    pub lat: f64,
    pub lng: f64,
    pub accuracy_m: Option<f64>,
    pub altitude_m: Option<f64>,
    pub speed_mps: Option<f64>,
    pub bearing_deg: Option<f64>,
}

#[cfg(test)]
mod tests {
    use porchlight_schema::sample::json::decode_batch;

    use super::*;

    #[test]
    fn batches_are_valid_and_consecutive() {
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
}
