//! Compares the processor time of an app's push with that of the same samples as native JSON: a
//! minute of a delivery, parsed, assigned to a session, and packed. `cargo run --release -p
//! porchlight-core --example recorder_cost`.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a tool for developers: it measures time, and an error stops it"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use porchlight_core::recorder::{Message, RecorderState, overland, sensor_logger, traccar};
use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::time::TimestampMs;
use serde_json::json;

const SECONDS: u64 = 60;
const IMU_HZ: u64 = 25;
const BEGAN_MS: u64 = 1_698_501_144_000;
/// The measurements of each side, which take turns; the fastest one counts.
const TURNS: usize = 200;

/// A minute of a delivery in both forms, and the function that reads the app's.
struct Case {
    name: &'static str,
    native: String,
    pushed: String,
    read: fn(&[u8]) -> Message,
}

fn lat(second: u64) -> f64 {
    52.52 + second as f64 * 1.26e-5
}

/// Positions once a second; with more, also pressure, steps, acceleration and turn rate.
fn case(name: &'static str, has_pressure: bool, has_imu: bool) -> Case {
    let (mut samples, mut payload) = (Vec::new(), Vec::new());
    for second in 0..SECONDS {
        let at_ns = (BEGAN_MS + second * 1_000) * 1_000_000;
        let lat = lat(second);
        samples.push(json!({ "t": second, "kind": "location", "lat": lat, "lng": 13.405, "accuracyM": 5.2, "speedMps": 1.4 }));
        payload.push(json!({ "name": "location", "time": at_ns, "values": { "latitude": lat, "longitude": 13.405,
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
        native: json!({ "seq": 0, "samples": samples }).to_string(),
        pushed: push.to_string(),
        read: |payload| sensor_logger::read(payload).unwrap(),
    }
}

fn traccar_case() -> Case {
    let positions: Vec<_> = (0..SECONDS)
        .map(|second| {
            json!({ "id": "1", "lat": lat(second), "lon": 13.405, "timestamp": BEGAN_MS / 1_000 + second,
                "accuracy": 5.2, "altitude": 34.0, "speed": 2.7, "bearing": 3.0, "batt": 80 })
        })
        .collect();
    Case {
        name: "Traccar Client, positions",
        pushed: json!(positions).to_string(),
        read: |payload| traccar::read_json(payload).unwrap(),
        ..case("", false, false)
    }
}

fn overland_case() -> Case {
    let features: Vec<_> = (0..SECONDS)
        .map(|second| {
            let at = TimestampMs((BEGAN_MS + second * 1_000) as i64);
            json!({ "type": "Feature", "geometry": { "type": "Point", "coordinates": [13.405, lat(second)] },
                "properties": { "timestamp": at.to_string(), "horizontal_accuracy": 5.2, "altitude": 34.0,
                    "speed": 1.4, "course": 3.0, "motion": ["walking"], "battery_level": 0.8, "wifi": "" } })
        })
        .collect();
    Case {
        name: "Overland, positions",
        pushed: json!({ "locations": features }).to_string(),
        read: |payload| overland::read(payload).unwrap(),
        ..case("", false, false)
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn main() {
    for case in [
        case("Sensor Logger, positions", false, false),
        case("Sensor Logger, positions, pressure and steps", true, false),
        case("Sensor Logger, all with motion at 25 Hz", true, true),
        traccar_case(),
        overland_case(),
    ] {
        let (mut native, mut pushed) = (Duration::MAX, Duration::MAX);
        for _ in 0..TURNS {
            native = native.min(timed(|| {
                black_box(decode_batch(case.native.as_bytes()).unwrap());
            }));
            pushed = pushed.min(timed(|| {
                let message = (case.read)(case.pushed.as_bytes());
                let mut state = RecorderState::default();
                let plan = state.plan(&message, 1_800_000, TimestampMs(BEGAN_MS as i64));
                black_box(plan.appends[0].pack(BEGAN_MS as i64));
            }));
        }
        println!(
            "{}: native {native:?} ({} bytes), pushed {pushed:?} ({} bytes), {:.2} times",
            case.name,
            case.native.len(),
            case.pushed.len(),
            pushed.as_secs_f64() / native.as_secs_f64()
        );
    }
}
