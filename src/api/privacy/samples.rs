//! Writes stored batches as NDJSON, with the fields that the API accepts.

use std::io::{self, Write};

use porchlight_ports::JournalEntry;
use porchlight_schema::sample::Sample;
use porchlight_schema::sample::packed::PackedError;
use serde::Serialize;

/// The error of writing a batch.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The stored batch cannot be read.
    #[error("a stored batch cannot be read")]
    Packed(#[from] PackedError),
    /// A sample cannot be written as JSON.
    #[error("a sample cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The line cannot be written.
    #[error("a batch cannot be written")]
    Io(#[from] io::Error),
}

/// A sample as the API accepts it.
#[derive(Serialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
enum SampleView<'a> {
    Location {
        t: f64,
        lat: f64,
        lng: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy_m: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        altitude_m: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        speed_mps: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bearing_deg: Option<f32>,
        mock: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider: Option<&'static str>,
    },
    Pressure {
        t: f64,
        #[serde(rename = "hPa")]
        hpa: f32,
    },
    Steps {
        t: f64,
        count: u32,
    },
    Imu {
        t: f64,
        hz: f32,
        ax: &'a [f32],
        ay: &'a [f32],
        az: &'a [f32],
        #[serde(skip_serializing_if = "Option::is_none")]
        gx: Option<&'a [f32]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gy: Option<&'a [f32]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        gz: Option<&'a [f32]>,
    },
    Motion {
        t: f64,
        accel_mean: f32,
        accel_std: f32,
        #[serde(skip_serializing_if = "Option::is_none")]
        vertical_mean: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cadence_hz: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        yaw_rad: Option<f32>,
    },
    Magnetic {
        t: f64,
        x: f32,
        y: f32,
        z: f32,
    },
    Activity {
        t: f64,
        r#type: &'static str,
        confidence: f32,
    },
    Mark {
        t: f64,
        name: &'a str,
    },
    System {
        t: f64,
        name: &'static str,
    },
}

impl<'a> SampleView<'a> {
    fn new(sample: Sample<'a>) -> Self {
        let t = f64::from(sample.t_ms()) / 1_000.0;
        match sample {
            Sample::Location(fix) => Self::Location {
                t,
                lat: fix.lat,
                lng: fix.lng,
                accuracy_m: fix.accuracy_m,
                altitude_m: fix.altitude_m,
                speed_mps: fix.speed_mps,
                bearing_deg: fix.bearing_deg,
                mock: fix.mock,
                provider: fix.provider.map(|provider| provider.as_str()),
            },
            Sample::Pressure(pressure) => Self::Pressure {
                t,
                hpa: pressure.hpa,
            },
            Sample::Steps(steps) => Self::Steps {
                t,
                count: steps.count,
            },
            Sample::Imu(imu) => {
                let [ax, ay, az] = imu.accel;
                Self::Imu {
                    t,
                    hz: imu.hz,
                    ax,
                    ay,
                    az,
                    gx: imu.gyro.map(|[x, _, _]| x),
                    gy: imu.gyro.map(|[_, y, _]| y),
                    gz: imu.gyro.map(|[_, _, z]| z),
                }
            }
            Sample::Motion(motion) => Self::Motion {
                t,
                accel_mean: motion.accel_mean,
                accel_std: motion.accel_std,
                vertical_mean: motion.vertical_mean,
                cadence_hz: motion.cadence_hz,
                yaw_rad: motion.yaw_rad,
            },
            Sample::Magnetic(magnetic) => {
                let [x, y, z] = magnetic.field_ut;
                Self::Magnetic { t, x, y, z }
            }
            Sample::Activity(activity) => Self::Activity {
                t,
                r#type: activity.activity_type.as_str(),
                confidence: activity.confidence,
            },
            Sample::Mark(mark) => Self::Mark { t, name: mark.name },
            Sample::System(system) => Self::System {
                t,
                name: system.name.as_str(),
            },
        }
    }
}

/// Appends a batch as one line: `{seq, receivedAt, samples}`.
///
/// # Errors
///
/// Returns an error if the stored batch is damaged.
pub(super) fn write_line(entry: &JournalEntry, out: &mut Vec<u8>) -> Result<(), WriteError> {
    let (seq, received_at) = (entry.seq, entry.received_at);
    let head = format!(r#"{{"seq":{seq},"receivedAt":"{received_at}","samples":["#);
    out.write_all(head.as_bytes())?;
    let mut reader = entry.batch.reader()?;
    let mut is_first = true;
    while let Some(sample) = reader.next_sample()? {
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        serde_json::to_writer(&mut *out, &SampleView::new(sample))?;
    }
    out.extend_from_slice(b"]}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use porchlight_schema::sample::json::decode_batch;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_written_batch_decodes_to_the_stored_one() {
        let text = br#"{"seq":3,"samples":[
            {"kind":"location","t":1.5,"lat":51.38,"lng":-2.36,"accuracyM":5,"altitudeM":12.5,"speedMps":1,"bearingDeg":90,"mock":true,"provider":"gnss"},
            {"kind":"location","t":2,"lat":51.38,"lng":-2.36},
            {"kind":"pressure","t":2,"hPa":1013.25},
            {"kind":"steps","t":3,"count":12},
            {"kind":"imu","t":4,"hz":2,"ax":[0,1],"ay":[0.5,1],"az":[9.5,9.75],"gx":[0,1],"gy":[0,1],"gz":[0,1]},
            {"kind":"motion","t":5,"accelMean":9.5,"accelStd":0.5,"cadenceHz":1.5},
            {"kind":"magnetic","t":6,"x":1,"y":2,"z":3},
            {"kind":"activity","t":7,"type":"walking","confidence":0.5},
            {"kind":"mark","t":8,"name":"arr\"ived"},
            {"kind":"system","t":9,"name":"location_off"}]}"#;
        let decoded = decode_batch(text).unwrap();
        let entry = JournalEntry {
            seq: decoded.seq,
            received_at: TimestampMs(1_763_636_100_000),
            batch: decoded.batch.clone(),
        };
        let mut line = Vec::new();
        write_line(&entry, &mut line).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["samples"].as_array().unwrap().len(), 10);
        assert_eq!(
            value.as_object_mut().unwrap().remove("receivedAt"),
            Some(entry.received_at.to_string().into())
        );
        let again = decode_batch(value.to_string().as_bytes()).unwrap();
        assert_eq!((again.seq, again.batch), (decoded.seq, decoded.batch));
    }
}
