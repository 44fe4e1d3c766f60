//! Tests that a real recording gives the same insight whether an app pushes it or the API receives
//! it. The recordings are in the folder `PORCHLIGHT_RECORDINGS`, or else next to the project;
//! without them the test prints a line and is skipped.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use porchlight_schema::time::TimestampMs;
use serde_json::{Value, json};

use super::native::{assert_alike, begins_ms, push_message};
use super::{create, push, show};
use crate::server::{Server, telemetry};

/// A recording: its samples from `t` = 0, in order.
struct Recording {
    samples: Vec<Value>,
    end_ms: i64,
}

fn t_ms(sample: &Value) -> i64 {
    (sample["t"].as_f64().unwrap() * 1_000.0).round() as i64
}

fn recording(name: &str) -> Option<Recording> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/recordings");
    let folder = std::env::var_os("PORCHLIGHT_RECORDINGS").map_or(beside, PathBuf::from);
    let packed = std::fs::read(folder.join(format!("{name}.ndjson.gz"))).ok()?;
    let mut text = String::new();
    GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .unwrap();
    let mut samples: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    samples.sort_by_key(t_ms);
    let first_ms = t_ms(&samples[0]);
    for sample in &mut samples {
        let shifted_ms = t_ms(sample) - first_ms;
        sample["t"] = json!(shifted_ms as f64 / 1_000.0);
        // No app reports the source of a fix.
        sample.as_object_mut().unwrap().remove("provider");
    }
    let end_ms = t_ms(samples.last().unwrap()) + 1_000;
    Some(Recording { samples, end_ms })
}

/// Returns an address near the last fix.
fn address(recording: &Recording) -> Value {
    let mut newest_first = recording.samples.iter().rev();
    let fix = newest_first.find(|sample| sample["kind"] == "location");
    let fix = fix.unwrap();
    json!({ "line1": "", "city": "", "country": "", "lat": fix["lat"], "lng": fix["lng"] })
}

async fn sent_natively(recording: &Recording) -> Value {
    let server = Server::start().await;
    let started_at = TimestampMs(begins_ms(&server));
    let start = json!({ "deliveryId": "order-1", "externalRiderId": "rider", "address": address(recording),
        "startedAt": started_at.to_string() });
    let started = server
        .post("/v1/sessions/start", &server.keys.secret, &start)
        .await;
    let id = started.json["sessionId"].as_str().unwrap().to_owned();
    let batches = recording
        .samples
        .chunk_by(|a, b| t_ms(a) / 10_000 == t_ms(b) / 10_000);
    for (seq, samples) in batches.enumerate() {
        let batch = json!({ "seq": seq, "samples": samples });
        let answer = server
            .post(&telemetry(&id), &server.keys.secret, &batch)
            .await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let stop =
        json!({ "sessionId": id, "endedAt": started_at.plus_ms(recording.end_ms).to_string() });
    server
        .post("/v1/sessions/stop", &server.keys.secret, &stop)
        .await;
    let insight = server.wait_until_ready(&id).await.json;
    server.stop().await;
    insight
}

/// Returns a sample as Sensor Logger pushes it.
fn entries(sample: &Value, begins_ms: i64) -> Vec<Value> {
    let at_ns = (begins_ms + t_ms(sample)) * 1_000_000;
    let entry = |name: &str, at_ns: i64, values: Value| json!({ "name": name, "time": at_ns, "values": values });
    match sample["kind"].as_str().unwrap() {
        "location" => {
            let values = json!({ "latitude": sample["lat"], "longitude": sample["lng"], "altitude": sample["altitudeM"],
                "speed": sample["speedMps"], "bearing": sample["bearingDeg"], "horizontalAccuracy": sample["accuracyM"] });
            vec![entry("location", at_ns, values)]
        }
        "pressure" => vec![entry(
            "barometer",
            at_ns,
            json!({ "pressure": sample["hPa"] }),
        )],
        "steps" => vec![entry(
            "pedometer",
            at_ns,
            json!({ "steps": sample["count"] }),
        )],
        "magnetic" => vec![entry("magnetometer", at_ns, sample.clone())],
        "imu" => {
            let hz = sample["hz"].as_f64().unwrap();
            let count = sample["ax"].as_array().unwrap().len();
            let vectors = (0..count).flat_map(|place| {
                let at_ns = at_ns + (place as f64 * 1e9 / hz) as i64;
                let of = |names: [&str; 3]| {
                    let [x, y, z] = names.map(|name| sample[name][place].clone());
                    json!({ "x": x, "y": y, "z": z })
                };
                let accel = entry("totalacceleration", at_ns, of(["ax", "ay", "az"]));
                let turn = sample
                    .get("gx")
                    .map(|_| entry("gyroscope", at_ns, of(["gx", "gy", "gz"])));
                std::iter::once(accel).chain(turn)
            });
            vectors.collect()
        }
        other => panic!("Sensor Logger has no {other}"),
    }
}

async fn pushed_by_sensor_logger(recording: &Recording) -> Value {
    let server = Server::start().await;
    let order = json!({ "externalRiderId": "rider", "deliveryId": "order-1", "address": address(recording) });
    let recorder = create(&server, &order).await;
    let begins_ms = begins_ms(&server);
    let messages = recording
        .samples
        .chunk_by(|a, b| t_ms(a) / 2_000 == t_ms(b) / 2_000);
    let mut number = 0;
    for samples in messages {
        let payload: Vec<_> = samples
            .iter()
            .flat_map(|sample| entries(sample, begins_ms))
            .collect();
        push_message(&server, &recorder, number, &payload).await;
        number += 1;
    }
    let end_ns = (begins_ms + recording.end_ms) * 1_000_000;
    let end = json!({ "name": "annotation", "time": end_ns, "values": { "text": "stop" } });
    push_message(&server, &recorder, number, &[end]).await;
    let id = show(&server, &recorder).await["sessionId"].clone();
    let insight = server.wait_until_ready(id.as_str().unwrap()).await.json;
    server.stop().await;
    insight
}

/// Returns the insight of a recording as Overland pushes it: positions in batches, with times in
/// milliseconds.
async fn pushed_by_overland(recording: &Recording) -> Value {
    let server = Server::start().await;
    let order = json!({ "externalRiderId": "rider", "deliveryId": "order-1", "address": address(recording) });
    let recorder = create(&server, &order).await;
    let begins_ms = begins_ms(&server);
    let at = |ms: i64| TimestampMs(begins_ms + ms).to_string();
    let feature = |sample: &Value| {
        json!({ "type": "Feature", "geometry": { "type": "Point", "coordinates": [sample["lng"], sample["lat"]] },
            "properties": { "timestamp": at(t_ms(sample)), "horizontal_accuracy": sample["accuracyM"], "speed": sample["speedMps"],
            "course": sample["bearingDeg"], "altitude": sample["altitudeM"] } })
    };
    for samples in recording.samples.chunks(50) {
        let locations: Vec<_> = samples.iter().map(feature).collect();
        let body = json!({ "locations": locations }).to_string();
        assert_eq!(push(&server, &recorder, "overland", body).await.status, 200);
    }
    let end = json!({ "locations": [{ "type": "Feature", "properties": { "timestamp": at(recording.end_ms), "action": "stop" } }] });
    push(&server, &recorder, "overland", end.to_string()).await;
    let id = show(&server, &recorder).await["sessionId"].clone();
    let insight = server.wait_until_ready(id.as_str().unwrap()).await.json;
    server.stop().await;
    insight
}

#[actix::test]
async fn a_real_recording_gives_the_same_result_by_an_app() {
    for name in ["ipin23_trial01_r01", "gsdc_2020-05-14-US-MTV-1_pixel4"] {
        let Some(recording) = recording(name) else {
            println!("left out: there is no recording {name}");
            continue;
        };
        let native = sent_natively(&recording).await;
        let insight = pushed_by_sensor_logger(&recording).await;
        assert_alike(&insight, &native, &format!("{name} by Sensor Logger"));
        let mut samples = recording.samples.iter();
        if samples.all(|sample| sample["kind"] == "location") {
            let insight = pushed_by_overland(&recording).await;
            assert_alike(&insight, &native, &format!("{name} by Overland"));
        }
        let events = native["events"].as_array().unwrap().len();
        println!(
            "{name}: {} samples, {events} events alike",
            recording.samples.len()
        );
    }
}
