//! Compares the processor time of an app's push with that of the same samples as native JSON: a
//! minute of a delivery, parsed, assigned to a session, and packed. Both forms give the same packed
//! batches, to the byte. `cargo run --release -p porchlight-core --example recorder_cost`.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a tool for developers: it measures time, and an error stops it"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use porchlight_core::recorder::{Push, RecorderState, overland, owntracks, sensor_logger, traccar};
use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::time::TimestampMs;
use serde_json::{Value, json};

const SECONDS: u64 = 60;
const IMU_HZ: u64 = 25;
const BEGAN_MS: u64 = 1_698_501_144_000;
/// The measurements of each side, which take turns; the fastest one counts.
const TURNS: usize = 200;

/// A minute of a delivery in both forms, each as its requests, and the function that reads the
/// app's.
struct Case {
    name: &'static str,
    native: Vec<String>,
    pushed: Vec<String>,
    read: fn(&[u8]) -> Push,
}

fn lat(second: u64) -> f64 {
    52.52 + second as f64 * 1.26e-5
}

/// Returns a native position with every field that the apps push.
fn native_position(second: u64) -> Value {
    json!({ "t": second, "kind": "location", "lat": lat(second), "lng": 13.405, "accuracyM": 5.2,
        "altitudeM": 34.0, "speedMps": 1.4, "bearingDeg": 3.0 })
}

fn native_batch(seq: u64, samples: &[Value]) -> String {
    json!({ "seq": seq, "samples": samples }).to_string()
}

/// Positions once a second; with more, also pressure, steps, acceleration and turn rate.
fn sensor_logger_case(name: &'static str, has_pressure: bool, has_imu: bool) -> Case {
    let (mut samples, mut payload) = (Vec::new(), Vec::new());
    for second in 0..SECONDS {
        let at_ns = (BEGAN_MS + second * 1_000) * 1_000_000;
        samples.push(native_position(second));
        payload.push(json!({ "name": "location", "time": at_ns, "values": { "latitude": lat(second), "longitude": 13.405,
            "horizontalAccuracy": 5.2, "speed": 1.4, "altitude": 34.0, "bearing": 3.0, "verticalAccuracy": 3.0 } }));
        if has_pressure {
            samples.push(json!({ "t": second, "kind": "pressure", "hPa": 1013.21 }));
            samples.push(json!({ "t": second, "kind": "steps", "count": second * 2 }));
            payload.push(json!({ "name": "barometer", "time": at_ns, "values": { "pressure": 1013.21, "relativeAltitude": 0.4 } }));
            payload.push(
                json!({ "name": "pedometer", "time": at_ns, "values": { "steps": second * 2 } }),
            );
        }
        if has_imu {
            let axis = |scale: f64| -> Vec<f64> {
                (0..IMU_HZ)
                    .map(|place| (place as f64 * scale).round() / 100.0)
                    .collect()
            };
            let (x, y, z) = (axis(13.0), axis(17.0), axis(19.0));
            for place in 0..IMU_HZ as usize {
                let at_ns = at_ns + place as u64 * 1_000_000_000 / IMU_HZ;
                let values = json!({ "x": x[place], "y": y[place], "z": z[place] });
                for name in ["totalacceleration", "gyroscope"] {
                    payload.push(json!({ "name": name, "time": at_ns, "values": values }));
                }
            }
            samples.push(json!({ "t": second, "kind": "imu", "hz": IMU_HZ, "ax": x, "ay": y, "az": z, "gx": x, "gy": y, "gz": z }));
        }
    }
    let push = json!({ "messageId": 0, "sessionId": "s", "deviceId": "d", "payload": payload });
    Case {
        name,
        native: vec![native_batch(0, &samples)],
        pushed: vec![push.to_string()],
        read: |payload| sensor_logger::read(payload).unwrap(),
    }
}

fn traccar_case() -> Case {
    let samples: Vec<_> = (0..SECONDS).map(native_position).collect();
    // The speed is in knots.
    let positions: Vec<_> = (0..SECONDS)
        .map(|second| {
            json!({ "id": "1", "lat": lat(second), "lon": 13.405, "timestamp": BEGAN_MS / 1_000 + second,
                "accuracy": 5.2, "altitude": 34.0, "speed": 2.7214, "bearing": 3.0, "batt": 80 })
        })
        .collect();
    Case {
        name: "Traccar Client, positions",
        native: vec![native_batch(0, &samples)],
        pushed: vec![json!(positions).to_string()],
        read: |payload| traccar::read_json(payload).unwrap(),
    }
}

/// Returns the pushes of Overland, which sends the phone's activity with every position.
fn overland_case() -> Case {
    let (mut samples, mut features) = (Vec::new(), Vec::new());
    for second in 0..SECONDS {
        samples.push(native_position(second));
        samples
            .push(json!({ "t": second, "kind": "activity", "type": "walking", "confidence": 0.5 }));
        let at = TimestampMs((BEGAN_MS + second * 1_000) as i64);
        features.push(
            json!({ "type": "Feature", "geometry": { "type": "Point", "coordinates": [13.405, lat(second)] },
                "properties": { "timestamp": at.to_string(), "horizontal_accuracy": 5.2, "altitude": 34.0,
                    "speed": 1.4, "course": 3.0, "motion": ["walking"], "battery_level": 0.8, "wifi": "" } }),
        );
    }
    Case {
        name: "Overland, positions and activities",
        native: vec![native_batch(0, &samples)],
        pushed: vec![json!({ "locations": features }).to_string()],
        read: |payload| overland::read(payload).unwrap(),
    }
}

/// Returns the pushes of OwnTracks, which sends each position in a message of its own. Each native
/// batch therefore has one position too.
fn owntracks_case() -> Case {
    // The speed is in kilometres per hour.
    let message = |second: u64| {
        json!({ "_type": "location", "lat": lat(second), "lon": 13.405, "tst": BEGAN_MS / 1_000 + second,
            "acc": 5.2, "alt": 34.0, "vel": 5.04, "cog": 3.0, "vac": 3, "batt": 80, "bs": 1, "t": "t", "tid": "ab",
            "conn": "m", "created_at": BEGAN_MS / 1_000 + second })
    };
    Case {
        name: "OwnTracks, one position at a time",
        native: (0..SECONDS)
            .map(|second| native_batch(second, &[native_position(second)]))
            .collect(),
        pushed: (0..SECONDS)
            .map(|second| message(second).to_string())
            .collect(),
        read: |payload| owntracks::read(payload).unwrap(),
    }
}

impl Case {
    fn read_native(&self, mut each: impl FnMut(PackedBatch)) {
        for request in &self.native {
            each(decode_batch(request.as_bytes()).unwrap().batch);
        }
    }

    fn read_pushed(&self, mut each: impl FnMut(PackedBatch)) {
        let mut state = RecorderState::default();
        for request in &self.pushed {
            let push = (self.read)(request.as_bytes());
            let plan = state.plan(&push, 1_800_000, TimestampMs(BEGAN_MS as i64));
            each(plan.appends[0].pack(BEGAN_MS as i64));
        }
    }

    fn assert_same_samples(&self) {
        let (mut native, mut pushed) = (Vec::new(), Vec::new());
        self.read_native(|batch| native.push(batch));
        self.read_pushed(|batch| pushed.push(batch));
        assert!(native == pushed, "{}: other samples", self.name);
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn main() {
    for case in [
        sensor_logger_case("Sensor Logger, positions", false, false),
        sensor_logger_case("Sensor Logger, positions, pressure and steps", true, false),
        sensor_logger_case("Sensor Logger, all with motion at 25 Hz", true, true),
        traccar_case(),
        overland_case(),
        owntracks_case(),
    ] {
        case.assert_same_samples();
        let (mut native, mut pushed) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            native = native.min(timed(|| case.read_native(|batch| drop(black_box(batch)))));
            pushed = pushed.min(timed(|| case.read_pushed(|batch| drop(black_box(batch)))));
        }
        let bytes = |requests: &[String]| requests.iter().map(String::len).sum::<usize>();
        println!(
            "{}: native {native:?} ({} bytes), pushed {pushed:?} ({} bytes), {:.2} times",
            case.name,
            bytes(&case.native),
            bytes(&case.pushed),
            pushed.as_secs_f64() / native.as_secs_f64()
        );
    }
}
