//! Sensor Logger's format: every field and every unit, after the vendor's documentation.

use porchlight_schema::sample::ActivityType;

use super::super::*;
use super::formats::{T0_MS, location, near, only};

fn sensor(name: &str, values: &str) -> Push {
    let payload = format!(
        r#"{{"messageId":3,"sessionId":"s","deviceId":"d","payload":[{{"name":"{name}","time":1698501144401745123,"accuracy":3,"values":{values}}}]}}"#
    );
    sensor_logger::read(payload.as_bytes()).unwrap()
}

#[test]
fn a_sensor_logger_position_is_read_without_unknown_values() {
    let push = sensor(
        "location",
        r#"{"latitude":52.52,"longitude":13.405,"altitude":34.5,"altitudeAboveMeanSeaLevel":0.1,"speed":1.25,"bearing":271.5,
            "horizontalAccuracy":4.5,"verticalAccuracy":3,"speedAccuracy":0.5,"bearingAccuracy":10}"#,
    );
    let reading = only(&push);
    // Nanoseconds beyond 2^53 are read exactly.
    assert_eq!(reading.at_ms, T0_MS + 401);
    let fix = location(reading);
    assert_eq!((fix.lat, fix.lng), (52.52, 13.405));
    near(fix.altitude_m, 34.5);
    near(fix.speed_mps, 1.25);
    near(fix.bearing_deg, 271.5);
    near(fix.accuracy_m, 4.5);
    assert_eq!((fix.mock, fix.provider), (false, None));
    let none = r#"{"latitude":1,"longitude":2,"speed":-1,"bearing":-1,"horizontalAccuracy":-1}"#;
    let fix = location(only(&sensor("Location", none)));
    assert_eq!(
        (fix.speed_mps, fix.bearing_deg, fix.accuracy_m),
        (None, None, None)
    );
    assert_eq!(fix.altitude_m, None);
}

#[test]
fn other_sensors_of_sensor_logger_are_read_or_skipped() {
    let pressure = sensor(
        "barometer",
        r#"{"pressure":1013.25,"relativeAltitude":0.4}"#,
    );
    assert_eq!(only(&pressure).measurement, Measurement::Pressure(1_013.25));
    let steps = sensor("pedometer", r#"{"steps":12}"#);
    assert_eq!(only(&steps).measurement, Measurement::Steps(12));
    let magnetic = sensor("magnetometer", r#"{"x":20.5,"y":-3,"z":40}"#);
    assert_eq!(
        only(&magnetic).measurement,
        Measurement::Magnetic([20.5, -3.0, 40.0])
    );
    for (word, activity_type) in [
        ("walking", ActivityType::Walking),
        ("running", ActivityType::Running),
        ("cycling", ActivityType::Cycling),
        ("automotive", ActivityType::Driving),
        ("stationary", ActivityType::Still),
        ("unknown", ActivityType::Unknown),
    ] {
        for (said, confidence) in [
            ("low", 0.33),
            ("medium", 0.67),
            ("high", 1.0),
            ("unknown", 0.0),
        ] {
            let values = format!(r#"{{"activity":"{word}","confidence":"{said}"}}"#);
            let activity = sensor("activity", &values);
            assert_eq!(
                only(&activity).measurement,
                Measurement::Activity(activity_type, confidence)
            );
        }
    }
    let tilting = sensor("activity", r#"{"activity":"tilting","confidence":"high"}"#);
    assert_eq!((tilting.readings.len(), tilting.skipped), (0, 1));
    for unused in [
        "battery",
        "camera",
        "orientation",
        "wristmotion",
        "microphone",
    ] {
        let unused = sensor(
            unused,
            r#"{"batteryLevel":0.5,"image":"x","qx":1,"dBFS":-20}"#,
        );
        assert_eq!((unused.readings.len(), unused.skipped), (0, 1));
    }
}

#[test]
fn sensor_logger_texts_are_marks_and_end_words_end_the_session() {
    for (text, ends) in [
        ("delivered", true),
        (" Delivered ", true),
        ("stop", true),
        ("END", true),
        ("arrived", false),
        ("delivered it", false),
    ] {
        let values = format!(r#"{{"text":"{text}","millisecond_press_duration":80}}"#);
        let push = sensor("annotation", &values);
        assert_eq!(
            only(&push).measurement,
            Measurement::Mark(text.trim().to_owned())
        );
        let expected: &[i64] = if ends { &[T0_MS + 401] } else { &[] };
        assert_eq!(push.ends_at_ms, expected, "{text}");
    }
    assert_eq!(sensor("annotation", r#"{"text":""}"#).readings, []);
}

#[test]
fn sensor_logger_numbers_its_pushes_within_a_recording() {
    let read = |session: &str, id: &str| {
        let text =
            format!(r#"{{"messageId":{id},"sessionId":"{session}","deviceId":"d","payload":[]}}"#);
        sensor_logger::read(text.as_bytes()).unwrap().number
    };
    let first = read("a", "0").unwrap();
    assert_eq!(read("a", "7").unwrap(), PushNumber { number: 7, ..first });
    assert_ne!(read("b", "0").unwrap().recording, first.recording);
    assert_eq!(read("a", "-1"), None);
    assert_eq!(read("a", "\"x\""), None);
}

/// A push is read twice: as machines write it, and with an escape, which only the slower reader
/// understands. Both give the same push.
#[test]
fn both_readers_of_sensor_logger_agree() {
    let at_ns = |n: i64| T0_MS * 1_000_000 + n * 20_000_000;
    let mut entries = vec![
        r#"{"name":"Location","time":1698501144401745123,"values":{"latitude":52.52,"longitude":-13.405,"altitude":34.5,"speed":-1,"bearing":271.5,"horizontalAccuracy":4.5}}"#.to_owned(),
        r#"{"name":"barometer","time":1698501144401745124,"values":{"pressure":1013.25,"relativeAltitude":0.4}}"#.to_owned(),
        r#"{"values":{"steps":12},"time":1698501144401745125,"name":"pedometer"}"#.to_owned(),
        r#"{"name":"activity","time":1698501144401745126,"values":{"activity":"walking","confidence":"high"}}"#.to_owned(),
        r#"{"name":"annotation","time":1698501144401745127,"values":{"text":"delivered","millisecond_press_duration":80}}"#.to_owned(),
        r#"{"name":"battery","time":1698501144401745128,"values":{"batteryLevel":0.5,"batteryState":"full","lowPowerMode":false}}"#.to_owned(),
        r#"{"name":"magnetometer","time":0,"values":{"x":1,"y":2,"z":3}}"#.to_owned(),
        r#"{"name":"magnetometer","time":1698501144401745129,"values":{"x":1e1,"y":-2.5,"z":3.25}}"#.to_owned(),
        "{}".to_owned(),
    ];
    for (n, name) in ["accelerometer", "gravity", "gyroscope"]
        .into_iter()
        .cycle()
        .take(300)
        .enumerate()
    {
        let at_ns = at_ns(n as i64 / 3);
        entries.push(format!(
            r#"{{"name":"{name}","time":{at_ns},"values":{{"x":0.125,"y":-0.5,"z":{n}.5}}}}"#
        ));
    }
    let text = |id: &str| {
        let entries = entries.join(", ");
        format!(
            r#"{{ "messageId": 4, "sessionId": "s{id}", "deviceId": "d", "payload": [{entries}] }}"#
        )
    };
    let plain = sensor_logger::read(text("x").as_bytes()).unwrap();
    assert_eq!(plain.readings.len(), 8);
    assert_eq!((plain.skipped, plain.ends_at_ms.len()), (3, 1));
    let escaped = sensor_logger::read(text("\\u0078").as_bytes()).unwrap();
    assert_eq!(plain, escaped);
}

#[test]
fn sensor_logger_motion_is_combined_with_gravity() {
    let mut entries = Vec::new();
    for n in 0..200_i64 {
        let at_ns = T0_MS * 1_000_000 + n * 10_000_000;
        entries.push(format!(
            r#"{{"name":"accelerometer","time":{at_ns},"values":{{"x":0.5,"y":0.25,"z":1}}}}"#
        ));
        entries.push(format!(
            r#"{{"name":"gravity","time":{at_ns},"values":{{"x":0,"y":0,"z":9.8}}}}"#
        ));
        entries.push(format!(
            r#"{{"name":"gyroscope","time":{at_ns},"values":{{"x":0.1,"y":0.2,"z":0.3}}}}"#
        ));
    }
    let text = format!(
        r#"{{"messageId":0,"sessionId":"s","deviceId":"d","payload":[{}]}}"#,
        entries.join(",")
    );
    let push = sensor_logger::read(text.as_bytes()).unwrap();
    let starts: Vec<i64> = push.readings.iter().map(|reading| reading.at_ms).collect();
    assert_eq!(starts, [T0_MS, T0_MS + 1_000]);
    for reading in &push.readings {
        let Measurement::Imu(imu) = &reading.measurement else {
            panic!("{reading:?}");
        };
        assert!((imu.hz - 100.0).abs() < 0.01, "{}", imu.hz);
        assert_eq!(imu.accel[0].len(), 100);
        assert!(imu.accel[0].iter().all(|&x| x == 0.5) && imu.accel[1].iter().all(|&y| y == 0.25));
        assert!(imu.accel[2].iter().all(|&z| (z - 10.8).abs() < 1e-5));
        let gyro = imu.gyro.as_ref().unwrap();
        assert!(
            gyro.iter()
                .zip([0.1, 0.2, 0.3])
                .all(|(axis, value)| axis.iter().all(|&one| one == value))
        );
    }
    // If the phone also measures acceleration with gravity, that measurement counts.
    let total = text.replace("accelerometer", "TotalAcceleration");
    let push = sensor_logger::read(total.as_bytes()).unwrap();
    let Measurement::Imu(imu) = &push.readings[0].measurement else {
        panic!("{push:?}");
    };
    assert_eq!(imu.accel[2][0], 1.0);
    // Acceleration without gravity is useless.
    let without = text.replace("gravity", "battery");
    let push = sensor_logger::read(without.as_bytes()).unwrap();
    assert_eq!((push.readings.len(), push.skipped), (0, 400));
}

/// The turn rate and gravity of another time say nothing about a value of acceleration.
#[test]
fn a_silent_sensor_is_not_combined_with_another() {
    let push = |names: [&str; 2], second_until_ms: i64| {
        let entry = |name: &str, ms: i64| {
            let at_ns = (T0_MS + ms) * 1_000_000;
            format!(r#"{{"name":"{name}","time":{at_ns},"values":{{"x":0,"y":0,"z":9.75}}}}"#)
        };
        let times = || (0..500).map(|n| n * 20);
        let entries = times().map(|ms| entry(names[0], ms));
        let second = times().filter(|&ms| ms < second_until_ms);
        let entries: Vec<String> = entries
            .chain(second.map(|ms| entry(names[1], ms)))
            .collect();
        let text = format!(r#"{{"payload":[{}]}}"#, entries.join(","));
        sensor_logger::read(text.as_bytes()).unwrap()
    };
    // Ten seconds of acceleration, and a gyroscope that ends after the first one.
    let turned = push(["totalacceleration", "gyroscope"], 1_000);
    let arrays: Vec<(i64, usize, bool)> = turned
        .readings
        .iter()
        .map(|reading| match &reading.measurement {
            Measurement::Imu(imu) => {
                let axes = imu.gyro.iter().flatten();
                assert!(
                    axes.chain(&imu.accel)
                        .all(|axis| axis.len() == imu.accel[0].len())
                );
                (
                    reading.at_ms - T0_MS,
                    imu.accel[0].len(),
                    imu.gyro.is_some(),
                )
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        arrays[..3],
        [(0, 50, true), (1_000, 12, true), (1_240, 50, false)]
    );
    assert!(arrays[2..].iter().all(|&(_, _, has_gyro)| !has_gyro));
    assert_eq!((arrays.len(), turned.skipped), (11, 0));
    // Acceleration without gravity ends with gravity.
    let unweighted = push(["accelerometer", "gravity"], 1_000);
    let last_ms = unweighted
        .readings
        .last()
        .map(|reading| reading.at_ms - T0_MS);
    assert_eq!((unweighted.readings.len(), last_ms), (2, Some(1_000)));
    assert_eq!(unweighted.skipped, 500 - 62);
}

#[test]
fn motion_is_split_at_silences_and_thinned_above_the_rate_limit() {
    let vectors = |times: &[i64]| {
        let entry = |&ms: &i64| {
            let at_ns = (T0_MS + ms) * 1_000_000;
            format!(
                r#"{{"name":"totalacceleration","time":{at_ns},"values":{{"x":0,"y":0,"z":9.8}}}}"#
            )
        };
        let entries: Vec<String> = times.iter().map(entry).collect();
        let text = format!(r#"{{"payload":[{}]}}"#, entries.join(","));
        let push = sensor_logger::read(text.as_bytes()).unwrap();
        let arrays = push
            .readings
            .iter()
            .map(|reading| match &reading.measurement {
                Measurement::Imu(imu) => (reading.at_ms - T0_MS, imu.hz, imu.accel[0].len()),
                other => panic!("{other:?}"),
            });
        (arrays.collect::<Vec<_>>(), push.skipped)
    };
    assert_eq!(
        vectors(&[0, 20, 40, 500, 550, 600]),
        (vec![(0, 50.0, 3), (500, 20.0, 3)], 0)
    );
    // A single value has no rate.
    assert_eq!(vectors(&[0, 20, 40, 900]), (vec![(0, 50.0, 3)], 1));
    let fast: Vec<i64> = (0..500).map(|n| n * 2).collect();
    let (arrays, _) = vectors(&fast);
    assert_eq!(arrays.len(), 1);
    assert!(
        (arrays[0].1 - 166.67).abs() < 0.1 && arrays[0].2 == 167,
        "{arrays:?}"
    );
}

#[test]
fn invalid_sensor_logger_payloads_are_refused() {
    for text in ["", "x", "{", r#"{"payload":[}"#, r#"{"payload":[]} x"#] {
        let read = sensor_logger::read(text.as_bytes());
        assert!(
            matches!(read, Err(PayloadError::Malformed(_))),
            "{text} {read:?}"
        );
    }
    // JSON of another form.
    for text in ["[]", "{}", "5", r#"{"payload":1}"#, r#"{"payload":[1]}"#] {
        let read = sensor_logger::read(text.as_bytes());
        assert!(
            matches!(read, Err(PayloadError::Missing(_))),
            "{text} {read:?}"
        );
    }
    for values in ["null", "{}", r#"{"pressure":null}"#] {
        let without = sensor("barometer", values);
        assert_eq!((without.readings.len(), without.skipped), (0, 1));
    }
    // A value of another type counts as absent.
    let odd = sensor(
        "location",
        r#"{"latitude":"x","longitude":null,"speed":[]}"#,
    );
    assert_eq!((odd.readings.len(), odd.skipped), (0, 1));
    let untimed =
        sensor_logger::read(br#"{"payload":[{"name":"barometer","values":{"pressure":1000}}]}"#);
    assert_eq!(untimed.unwrap().skipped, 1);
}
