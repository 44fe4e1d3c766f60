//! Tests that a delivery that an app pushes gives the same result as the same delivery sent through
//! the API: the same events within a second, and the same scores within a hundredth.

use porchlight_core::shares::ShareLimits;
use porchlight_ports::Clock;
use porchlight_sim::{Delivery, Kind, ParameterSet, Reading, Sample, Scenario};
use serde_json::{Value, json};

use super::{CreatedRecorder, body, create, push, show};
use crate::server::{Server, config, insights, telemetry};

/// Returns the beginning of the delivery by the phone's clock, in milliseconds since 1970.
pub(super) fn begins_ms(server: &Server) -> i64 {
    server.clock.now().0 - 3_600_000
}

/// Returns a delivery without the data that no app can send.
pub(crate) fn delivery(kind: Kind) -> Delivery {
    let mut seed = 4_000;
    loop {
        let delivery = Scenario::new(kind, ParameterSet::Tuning, seed).deliver();
        let has_imu = |sample: &Sample| matches!(sample.reading, Reading::Imu { .. });
        if delivery.samples.iter().any(has_imu) {
            return from_first(delivery);
        }
        seed += 1;
    }
}

/// Shifts the delivery to begin with its first sample, which is where a recorder's session begins.
fn from_first(mut delivery: Delivery) -> Delivery {
    let times = delivery.samples.iter().map(|sample| sample.t);
    let first = times.fold(f64::MAX, f64::min);
    for sample in &mut delivery.samples {
        sample.t -= first;
        sample.ready_t -= first;
    }
    delivery.end_t -= first;
    delivery
}

/// Returns one sample as Sensor Logger pushes it, as JSON of its `payload`.
fn entries(sample: &Sample, begins_ms: i64) -> Vec<Value> {
    let at_ns = |t: f64| begins_ms * 1_000_000 + (t * 1e9).round() as i64;
    let entry = |name: &str, t: f64, values: Value| json!({ "name": name, "time": at_ns(t), "values": values });
    let one = |name: &str, values: Value| vec![entry(name, sample.t, values)];
    match &sample.reading {
        Reading::Location(fix) => one(
            "location",
            json!({
                "latitude": fix.lat, "longitude": fix.lng, "altitude": fix.altitude_m, "speed": fix.speed_mps,
                "bearing": fix.bearing_deg, "horizontalAccuracy": fix.accuracy_m,
            }),
        ),
        Reading::Pressure { hpa } => one("barometer", json!({ "pressure": hpa })),
        Reading::Steps { count } => one("pedometer", json!({ "steps": count })),
        Reading::Magnetic { x, y, z } => one("magnetometer", json!({ "x": x, "y": y, "z": z })),
        Reading::Mark { name } => one("annotation", json!({ "text": name })),
        Reading::Imu {
            hz,
            ax,
            ay,
            az,
            gx,
            gy,
            gz,
        } => {
            let mut entries = Vec::new();
            for place in 0..ax.len() {
                let t = sample.t + place as f64 / hz;
                let accel = json!({ "x": ax[place], "y": ay[place], "z": az[place] });
                entries.push(entry("totalacceleration", t, accel));
                if let (Some(x), Some(y), Some(z)) = (gx, gy, gz) {
                    let turn = json!({ "x": x[place], "y": y[place], "z": z[place] });
                    entries.push(entry("gyroscope", t, turn));
                }
            }
            entries
        }
        // No app sends these kinds of samples.
        Reading::Motion { .. } | Reading::Activity { .. } | Reading::System { .. } => Vec::new(),
    }
}

/// Returns the delivery's samples as the API accepts them; no app reports which source a fix came
/// from.
fn native(delivery: &Delivery) -> Vec<Value> {
    let taken = |sample: &&Sample| {
        !matches!(
            sample.reading,
            Reading::Activity { .. } | Reading::System { .. } | Reading::Motion { .. }
        )
    };
    let as_sent = |sample: &Sample| {
        let mut sample = json!(sample);
        sample.as_object_mut().unwrap().remove("provider");
        sample
    };
    let samples: Vec<_> = delivery.samples.iter().filter(taken).collect();
    let batches = samples.chunk_by(|a, b| (a.t / 10.0) as u32 == (b.t / 10.0) as u32);
    let batch = |(seq, samples): (usize, &[&Sample])| {
        let samples: Vec<_> = samples.iter().map(|sample| as_sent(sample)).collect();
        json!({ "seq": seq, "samples": samples })
    };
    batches.enumerate().map(batch).collect()
}

fn address(delivery: &Delivery) -> Value {
    delivery.start["address"].clone()
}

/// Returns the insight of the delivery when it is sent through the API.
pub(crate) async fn sent_natively(server: &Server, delivery: &Delivery) -> Value {
    let started_at = porchlight_schema::time::TimestampMs(begins_ms(server));
    let start = json!({
        "deliveryId": "order-1", "externalRiderId": "rider-native", "address": address(delivery),
        "startedAt": started_at.to_string(),
    });
    let started = server
        .post("/v1/sessions/start", &server.keys.secret, &start)
        .await;
    assert_eq!(started.status, 201, "{started:?}");
    let id = started.json["sessionId"].as_str().unwrap().to_owned();
    for batch in native(delivery) {
        let answer = server
            .post(&telemetry(&id), &server.keys.secret, &batch)
            .await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    let ended_at = started_at
        .plus_ms((delivery.end_t * 1_000.0) as i64)
        .to_string();
    let stop = json!({ "sessionId": id, "endedAt": ended_at });
    server
        .post("/v1/sessions/stop", &server.keys.secret, &stop)
        .await;
    server.wait_until_ready(&id).await.json
}

/// Returns the insight of the delivery as Sensor Logger pushes it: one message per second, some
/// twice, some out of order.
async fn pushed(server: &Server, delivery: &Delivery) -> Value {
    let order = json!({ "externalRiderId": "rider-app", "deliveryId": "order-1", "address": address(delivery) });
    let recorder = create(server, &order).await;
    let begins_ms = begins_ms(server);
    let mut messages: Vec<Vec<Value>> = Vec::new();
    for entry in (delivery.samples.iter()).flat_map(|sample| entries(sample, begins_ms)) {
        let at_ms = entry["time"].as_i64().unwrap() / 1_000_000;
        let second = ((at_ms - begins_ms) / 1_000) as usize;
        messages.resize_with(messages.len().max(second + 1), Vec::new);
        messages[second].push(entry);
    }
    let messages: Vec<_> = messages
        .into_iter()
        .filter(|message| !message.is_empty())
        .collect();
    let mut order: Vec<usize> = (0..messages.len()).collect();
    for place in (6..order.len().saturating_sub(1)).step_by(5) {
        order.swap(place, place + 1);
    }
    for (place, number) in order.into_iter().enumerate() {
        push_message(server, &recorder, number, &messages[number]).await;
        if place % 10 == 9 {
            push_message(server, &recorder, number, &messages[number]).await;
        }
    }
    let end_ns = begins_ms * 1_000_000 + (delivery.end_t * 1e9) as i64;
    let end = json!({ "name": "annotation", "time": end_ns, "values": { "text": "stop" } });
    push_message(server, &recorder, messages.len(), &[end]).await;
    let id = show(server, &recorder).await["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    server.wait_until_ready(&id).await.json
}

pub(super) async fn push_message(
    server: &Server,
    recorder: &CreatedRecorder,
    number: usize,
    payload: &[Value],
) {
    let message =
        json!({ "messageId": number, "sessionId": "s", "deviceId": "d", "payload": payload });
    let answer = push(server, recorder, "sensor-logger", message.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

pub(super) fn assert_alike(pushed: &Value, native: &Value, about: &str) {
    let events = |insight: &Value| insight["events"].as_array().unwrap().clone();
    let (of_app, of_api) = (events(pushed), events(native));
    let types = |events: &[Value]| {
        events
            .iter()
            .map(|event| event["type"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        types(&of_app),
        types(&of_api),
        "{about}: {of_app:?} {of_api:?}"
    );
    for (one, other) in of_app.iter().zip(&of_api) {
        for time in ["tStart", "tEnd"] {
            match (one[time].as_f64(), other[time].as_f64()) {
                (Some(one), Some(other)) => {
                    assert!((one - other).abs() <= 1.0, "{about}: {one} {other}")
                }
                (one, other) => assert_eq!(one, other, "{about}"),
            }
        }
    }
    for score in ["fraudScore", "frictionScore", "visibilityScore"] {
        let of = |insight: &Value| insight["summary"][score].as_f64().unwrap();
        let (one, other) = (of(pushed), of(native));
        assert!(
            (one - other).abs() <= 0.01,
            "{about}: {score} {one} {other}"
        );
    }
    for field in [
        "rightDoorstep",
        "suspiciousBehavior",
        "floorsClimbed",
        "elevatorUsed",
        "attemptCycles",
    ] {
        assert_eq!(
            pushed["summary"][field], native["summary"][field],
            "{about}: {field}"
        );
    }
    assert_eq!(pushed["reasonCodes"], native["reasonCodes"], "{about}");
}

#[actix::test]
async fn sensor_logger_gives_the_same_result_as_the_api() {
    for kind in [Kind::Stairs, Kind::Elevator, Kind::House, Kind::Gate] {
        // Each delivery has its own service, which knows neither the place nor the trace in
        // advance.
        let (of_app, of_api) = (Server::start().await, Server::start().await);
        let delivery = delivery(kind);
        // The word by which the app ends the session is its last sample.
        let mut with_end = delivery.clone();
        with_end.samples.push(Sample {
            t: delivery.end_t,
            reading: Reading::Mark { name: "stop" },
            ready_t: delivery.end_t,
        });
        let (one, other) = (
            pushed(&of_app, &delivery).await,
            sent_natively(&of_api, &with_end).await,
        );
        assert_alike(&one, &other, &format!("{kind:?}"));
        of_app.stop().await;
        of_api.stop().await;
    }
}

#[actix::test]
async fn position_only_apps_give_the_same_result_as_the_api() {
    let delivery = Scenario::new(Kind::LocationOnly, ParameterSet::Tuning, 4_100).deliver();
    // The apps' times are whole seconds, or milliseconds.
    let mut whole = delivery.clone();
    let samples = whole.samples.iter_mut();
    samples.for_each(|sample| sample.t = sample.t.round());
    whole.end_t = whole.end_t.round();
    let whole = from_first(whole);
    let of_api = Server::start().await;
    let native = sent_natively(&of_api, &whole).await;
    for app in ["traccar", "owntracks", "overland", "gpslogger"] {
        let server = Server::start().await;
        let recorder = create(
            &server,
            &json!({ "externalRiderId": "r", "address": address(&whole) }),
        )
        .await;
        let begins_ms = begins_ms(&server) / 1_000 * 1_000;
        for sample in &whole.samples {
            let Reading::Location(fix) = &sample.reading else {
                continue;
            };
            let at_sec = begins_ms / 1_000 + sample.t as i64;
            let optional = |value: Option<f64>| value.unwrap_or(-1.0);
            let (lat, lng, acc) = (fix.lat, fix.lng, optional(fix.accuracy_m));
            let (speed, course) = (optional(fix.speed_mps), optional(fix.bearing_deg));
            let altitude = fix.altitude_m.unwrap_or(0.0);
            let text = match app {
                "traccar" => format!(
                    "id=1&lat={lat}&lon={lng}&timestamp={at_sec}&accuracy={acc}&speed={}&bearing={course}&altitude={altitude}",
                    speed * 3_600.0 / 1_852.0
                ),
                "gpslogger" => format!(
                    "lat={lat}&lon={lng}&timestamp={at_sec}&acc={acc}&spd={speed}&dir={course}&alt={altitude}"
                ),
                "owntracks" => json!({
                    "_type": "location", "lat": lat, "lon": lng, "tst": at_sec, "acc": acc, "vel": speed * 3.6, "cog": course,
                    "alt": altitude,
                })
                .to_string(),
                _ => json!({ "locations": [{ "type": "Feature", "geometry": { "type": "Point", "coordinates": [lng, lat] },
                    "properties": { "timestamp": porchlight_schema::time::TimestampMs(at_sec * 1_000).to_string(), "horizontal_accuracy": acc,
                    "speed": speed, "course": course, "altitude": altitude } }] })
                .to_string(),
            };
            assert_eq!(push(&server, &recorder, app, text).await.status, 200);
        }
        let end_sec = begins_ms / 1_000 + whole.end_t as i64;
        let end = format!("id=1&timestamp={end_sec}&event=stop");
        assert_eq!(push(&server, &recorder, "traccar", end).await.status, 200);
        let id = show(&server, &recorder).await["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let insight = server.wait_until_ready(&id).await.json;
        assert_alike(&insight, &native, app);
        server.get(&insights(&id), &server.keys.secret).await;
        server.stop().await;
    }
    of_api.stop().await;
}

/// A form has one position. A body of thousands of fields would take far more memory than its bytes.
#[actix::test]
async fn a_form_that_is_far_longer_than_a_position_is_refused() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let form = "lat=51.38&lon=-2.36&timestamp=1763636100".to_owned() + &"&a=1".repeat(5_000);
    for app in ["traccar", "gpslogger"] {
        let answer = push(&server, &recorder, app, form.clone()).await;
        assert_eq!(answer.status, 413, "{app}: {answer:?}");
        assert_eq!(answer.json["code"], "body_too_large", "{app}");
    }
    server.stop().await;
}

/// A session that a push opens counts against the same rate as one that the API starts.
#[actix::test]
async fn sessions_of_recorders_count_against_the_rate_of_starts() {
    let limits = ShareLimits {
        session_starts_per_sec: 1,
        ..ShareLimits::default()
    };
    let server = Server::with_shares(config(), limits).await;
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let recorder = create(&server, &body()).await;
        let at_sec = server.clock.now().0 / 1_000;
        let form = format!("lat=51.38&lon=-2.36&acc=5&timestamp={at_sec}");
        let answer = push(&server, &recorder, "gpslogger", form).await;
        if answer.status == 429 {
            answer.assert_problem(429, "tenant_session_starts");
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429]);
    server.stop().await;
}
