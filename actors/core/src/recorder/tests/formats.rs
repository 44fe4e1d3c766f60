//! Every field and every unit of each app's format. The payloads follow the vendors' documentation.

use porchlight_schema::sample::{ActivityType, Provider};

use super::super::*;

const T0_MS: i64 = 1_698_501_144_000;

fn fields(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.split('&').map(pair).collect()
}

fn location(reading: &Reading) -> porchlight_schema::sample::Location {
    match &reading.what {
        Measured::Location(location) => *location,
        other => panic!("{other:?}"),
    }
}

fn near(value: Option<f32>, expected: f64) {
    let value = value.unwrap();
    assert!(
        (f64::from(value) - expected).abs() < 1e-3,
        "{value} {expected}"
    );
}

fn only(message: &Message) -> &Reading {
    assert_eq!(message.readings.len(), 1, "{message:?}");
    &message.readings[0]
}

fn sensor(name: &str, values: &str) -> Message {
    let payload = format!(
        r#"{{"messageId":3,"sessionId":"s","deviceId":"d","payload":[{{"name":"{name}","time":1698501144401745123,"accuracy":3,"values":{values}}}]}}"#
    );
    sensor_logger::read(payload.as_bytes()).unwrap()
}

#[test]
fn sensor_logger_position() {
    let message = sensor(
        "location",
        r#"{"latitude":52.52,"longitude":13.405,"altitude":34.5,"altitudeAboveMeanSeaLevel":0.1,"speed":1.25,"bearing":271.5,
            "horizontalAccuracy":4.5,"verticalAccuracy":3,"speedAccuracy":0.5,"bearingAccuracy":10}"#,
    );
    let reading = only(&message);
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
fn sensor_logger_other_sensors() {
    let pressure = sensor(
        "barometer",
        r#"{"pressure":1013.25,"relativeAltitude":0.4}"#,
    );
    assert_eq!(only(&pressure).what, Measured::Pressure(1_013.25));
    let steps = sensor("pedometer", r#"{"steps":12}"#);
    assert_eq!(only(&steps).what, Measured::Steps(12));
    let magnetic = sensor("magnetometer", r#"{"x":20.5,"y":-3,"z":40}"#);
    assert_eq!(only(&magnetic).what, Measured::Magnetic([20.5, -3.0, 40.0]));
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
                only(&activity).what,
                Measured::Activity(activity_type, confidence)
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
        let message = sensor("annotation", &values);
        assert_eq!(only(&message).what, Measured::Mark(text.trim().to_owned()));
        let expected: &[i64] = if ends { &[T0_MS + 401] } else { &[] };
        assert_eq!(message.ends_at_ms, expected, "{text}");
    }
    assert_eq!(sensor("annotation", r#"{"text":""}"#).readings, []);
}

#[test]
fn sensor_logger_numbers_its_messages_within_a_recording() {
    let read = |session: &str, id: &str| {
        let text =
            format!(r#"{{"messageId":{id},"sessionId":"{session}","deviceId":"d","payload":[]}}"#);
        sensor_logger::read(text.as_bytes()).unwrap().number
    };
    let first = read("a", "0").unwrap();
    assert_eq!(
        read("a", "7").unwrap(),
        MessageNumber { number: 7, ..first }
    );
    assert_ne!(read("b", "0").unwrap().recording, first.recording);
    assert_eq!(read("a", "-1"), None);
    assert_eq!(read("a", "\"x\""), None);
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
    let message = sensor_logger::read(text.as_bytes()).unwrap();
    let starts: Vec<i64> = message
        .readings
        .iter()
        .map(|reading| reading.at_ms)
        .collect();
    assert_eq!(starts, [T0_MS, T0_MS + 1_000]);
    for reading in &message.readings {
        let Measured::Imu(imu) = &reading.what else {
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
    let message = sensor_logger::read(total.as_bytes()).unwrap();
    let Measured::Imu(imu) = &message.readings[0].what else {
        panic!("{message:?}");
    };
    assert_eq!(imu.accel[2][0], 1.0);
    // Acceleration without gravity is useless.
    let without = text.replace("gravity", "battery");
    let message = sensor_logger::read(without.as_bytes()).unwrap();
    assert_eq!((message.readings.len(), message.skipped), (0, 400));
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
        let message = sensor_logger::read(text.as_bytes()).unwrap();
        let arrays = message.readings.iter().map(|reading| match &reading.what {
            Measured::Imu(imu) => (reading.at_ms - T0_MS, imu.hz, imu.accel[0].len()),
            other => panic!("{other:?}"),
        });
        (arrays.collect::<Vec<_>>(), message.skipped)
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
    for text in ["", "x", "[]", "{\"payload\":1}", "{\"payload\":[1]}"] {
        let read = sensor_logger::read(text.as_bytes());
        assert!(
            matches!(read, Err(PayloadError::Malformed(_))),
            "{text} {read:?}"
        );
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

#[test]
fn traccar_form() {
    let text = "id=123456&timestamp=1698501144&lat=52.52&lon=13.405&speed=10&bearing=90.5&altitude=34&accuracy=7&batt=80&mock=true";
    let message = traccar::read_form(text.as_bytes(), &fields(text)).unwrap();
    let reading = only(&message);
    assert_eq!(reading.at_ms, T0_MS);
    let fix = location(reading);
    assert_eq!((fix.lat, fix.lng, fix.mock), (52.52, 13.405, true));
    // 10 knots.
    near(fix.speed_mps, 5.1444);
    near(fix.bearing_deg, 90.5);
    near(fix.altitude_m, 34.0);
    near(fix.accuracy_m, 7.0);
    assert_eq!((message.number, message.skipped), (None, 0));
    for (time, at_ms) in [
        ("1698501144000", T0_MS),
        ("2023-10-28T13:52:24Z", T0_MS),
        ("2023-10-28T13:52:24.500Z", T0_MS + 500),
        ("2023-10-28T15:52:24%2B0200", T0_MS),
        ("2023-10-28 13:52:24", T0_MS),
    ] {
        let time = time.replace("%2B", "+");
        let text = format!("id=1&timestamp={time}&location=1.5,2.5&heading=12");
        let message = traccar::read_form(text.as_bytes(), &fields(&text)).unwrap();
        let reading = only(&message);
        assert_eq!(reading.at_ms, at_ms, "{time}");
        let fix = location(reading);
        assert_eq!((fix.lat, fix.lng, fix.bearing_deg), (1.5, 2.5, Some(12.0)));
    }
    let untimed = traccar::read_form(b"", &fields("lat=1&lon=2"));
    assert_eq!(untimed, Err(PayloadError::Missing("timestamp")));
    assert_eq!(
        traccar::read_form(b"", &fields("id=1")).unwrap().readings,
        []
    );
}

#[test]
fn traccar_json() {
    let sdk = br#"[{"id":"1","lat":52.52,"lon":13.405,"timestamp":1698501144,"accuracy":7,"altitude":34,"speed":10,"bearing":90,
        "batt":80,"charge":true,"event":"delivered"},{"id":"1","lat":52.6,"lon":13.5,"timestamp":1698501140}]"#;
    let message = traccar::read_json(sdk).unwrap();
    assert_eq!(message.readings.len(), 3);
    assert_eq!(message.readings[0].at_ms, T0_MS - 4_000, "by time");
    near(location(&message.readings[1]).speed_mps, 5.1444);
    assert_eq!(message.ends_at_ms, [T0_MS]);
    let plugin = br#"{"location":{"timestamp":"2023-10-28T13:52:24.000Z","coords":{"latitude":52.52,"longitude":13.405,"accuracy":7.5,
        "speed":1.5,"heading":-1,"altitude":34.5},"is_moving":true,"odometer":12,"mock":true,"event":"motionchange",
        "battery":{"level":0.8,"is_charging":false},"activity":{"type":"on_foot","confidence":75},"extras":{"event":"stop"}},"device_id":"1"}"#;
    let message = traccar::read_json(plugin).unwrap();
    let fix = location(&message.readings[0]);
    // This form uses metres per second.
    near(fix.speed_mps, 1.5);
    near(fix.accuracy_m, 7.5);
    near(fix.altitude_m, 34.5);
    assert_eq!((fix.bearing_deg, fix.mock), (None, true));
    assert_eq!(
        message.readings[1].what,
        Measured::Activity(ActivityType::Walking, 0.75)
    );
    assert_eq!(message.readings[2].what, Measured::Mark("stop".to_owned()));
    assert_eq!(
        (message.readings.len(), message.ends_at_ms),
        (3, vec![T0_MS])
    );
    for (name, activity_type) in [
        ("still", ActivityType::Still),
        ("walking", ActivityType::Walking),
        ("running", ActivityType::Running),
        ("in_vehicle", ActivityType::Driving),
        ("on_bicycle", ActivityType::Cycling),
        ("unknown", ActivityType::Unknown),
    ] {
        let text = format!(
            r#"{{"location":[{{"timestamp":1698501144,"activity":{{"type":"{name}","confidence":100}}}}]}}"#
        );
        let message = traccar::read_json(text.as_bytes()).unwrap();
        assert_eq!(only(&message).what, Measured::Activity(activity_type, 1.0));
    }
    assert!(traccar::read_json(b"1").is_err() && traccar::read_json(b"{").is_err());
}

#[test]
fn owntracks_location() {
    let text = br#"{"_type":"location","lat":52.52,"lon":13.405,"tst":1698501144,"acc":8,"alt":34,"vac":3,"vel":36,"cog":270,"p":101.325,
        "batt":80,"bs":1,"t":"u","tid":"ab","conn":"m","motionactivities":["walking"],"created_at":1698501145,"poi":"delivered"}"#;
    let message = owntracks::read(text).unwrap();
    let fix = location(&message.readings[0]);
    assert_eq!((fix.lat, fix.lng), (52.52, 13.405));
    near(fix.accuracy_m, 8.0);
    near(fix.altitude_m, 34.0);
    // 36 km/h.
    near(fix.speed_mps, 10.0);
    near(fix.bearing_deg, 270.0);
    // 101.325 kPa.
    assert_eq!(message.readings[1].what, Measured::Pressure(1_013.25));
    assert_eq!(
        message.readings[2].what,
        Measured::Activity(ActivityType::Walking, 0.5)
    );
    assert_eq!(
        message.readings[3].what,
        Measured::Mark("delivered".to_owned())
    );
    assert_eq!(message.ends_at_ms, [T0_MS]);
    let untimed = owntracks::read(br#"{"_type":"location","lat":1,"lon":2}"#);
    assert_eq!(untimed, Err(PayloadError::Missing("tst")));
}

#[test]
fn owntracks_other_types() {
    let steps =
        br#"{"_type":"steps","tst":1698501200,"steps":120,"from":1698501144,"to":1698501194}"#;
    let message = owntracks::read(steps).unwrap();
    let readings: Vec<_> = message
        .readings
        .iter()
        .map(|one| (one.at_ms - T0_MS, one.what.clone()))
        .collect();
    assert_eq!(
        readings,
        [(0, Measured::Steps(0)), (50_000, Measured::Steps(120))]
    );
    let unknown =
        br#"{"_type":"steps","tst":1698501200,"steps":-1,"from":1698501144,"to":1698501194}"#;
    assert_eq!(owntracks::read(unknown).unwrap().skipped, 1);
    let waypoint =
        br#"{"_type":"waypoint","tst":1698501144,"desc":"stop","lat":1,"lon":2,"rad":50}"#;
    assert_eq!(owntracks::read(waypoint).unwrap().ends_at_ms, [T0_MS]);
    let transition = br#"{"_type":"transition","wtst":1698400000,"lat":52.52,"lon":13.405,"tst":1698501144,"acc":12,"tid":"ab",
        "event":"enter","desc":"delivered","t":"c","rid":"6da9cf"}"#;
    let message = owntracks::read(transition).unwrap();
    let fix = location(&message.readings[0]);
    assert_eq!((fix.lat, fix.lng), (52.52, 13.405));
    near(fix.accuracy_m, 12.0);
    assert_eq!(message.readings[0].at_ms, T0_MS);
    assert_eq!(message.ends_at_ms, [T0_MS]);
    for kind in [
        "lwt",
        "status",
        "encrypted",
        "card",
        "cmd",
        "waypoints",
        "beacon",
    ] {
        let text = format!(r#"{{"_type":"{kind}","tst":1698501144}}"#);
        let message = owntracks::read(text.as_bytes()).unwrap();
        assert_eq!((message.readings.len(), message.skipped), (0, 1), "{kind}");
    }
    assert_eq!(owntracks::read(b" ").unwrap().readings, []);
    assert!(owntracks::read(b"[]").is_err() && owntracks::read(b"x").is_err());
}

#[test]
fn overland_positions_and_trips() {
    let text = br#"{"locations":[{"type":"Feature","geometry":{"type":"Point","coordinates":[-122.030581,37.3318]},
        "properties":{"timestamp":"2023-10-28T06:52:24-0700","altitude":12,"speed":4,"course":33,"horizontal_accuracy":30,
        "vertical_accuracy":-1,"motion":["driving","stationary"],"pauses":false,"activity":"other_navigation","desired_accuracy":100,
        "battery_state":"charging","battery_level":0.89,"device_id":"","wifi":""}},
        {"type":"Feature","geometry":{"type":"Point","coordinates":[-122,37]},"properties":{"type":"trip","mode":"walk",
        "start":"2023-10-28T13:40:00Z","end":"2023-10-28T13:52:30Z","distance":20,"timestamp":"2023-10-28T13:52:30Z"}}],
        "current":{},"trip":{"mode":"walk","start":"2023-10-28T13:40:00Z"}}"#;
    let message = overland::read(text).unwrap();
    let fix = location(&message.readings[0]);
    assert_eq!(
        (message.readings[0].at_ms, fix.lat, fix.lng),
        (T0_MS, 37.3318, -122.030_581)
    );
    near(fix.speed_mps, 4.0);
    near(fix.bearing_deg, 33.0);
    near(fix.accuracy_m, 30.0);
    near(fix.altitude_m, 12.0);
    assert_eq!(
        message.readings[1].what,
        Measured::Activity(ActivityType::Driving, 0.5)
    );
    assert_eq!(
        message.ends_at_ms,
        [T0_MS + 6_000],
        "the trip that has ended"
    );
    let action = br#"{"locations":[{"type":"Feature","properties":{"timestamp":"2023-10-28T13:52:24Z","action":"delivered","speed":-1}},
        {"type":"Feature","properties":{"timestamp":"2023-10-28T13:52:25Z","action":"visit"}}]}"#;
    let message = overland::read(action).unwrap();
    assert_eq!(
        (message.readings.len(), message.ends_at_ms),
        (1, vec![T0_MS])
    );
    assert_eq!(overland::read(b"{\"locations\":[]}").unwrap().readings, []);
    assert_eq!(
        overland::read(b"{}"),
        Err(PayloadError::Missing("locations"))
    );
}

#[test]
fn gpslogger_url() {
    for (text, at_ms) in [
        (
            "lat=52.52&lon=13.405&timestamp=1698501144&spd=1.5&alt=34&acc=7&dir=12&prov=gps&sat=9&batt=80&desc=",
            T0_MS,
        ),
        (
            "lat=52.52&longitude=13.405&time=2023-10-28T13:52:24.000Z&s=1.5&alt=34&accuracy=7&bearing=12&provider=gps",
            T0_MS,
        ),
        (
            "LAT=52.52&LON=13.405&TIME=2023-10-28T15:52:24.250+02:00&SPD=1.5&ALT=34&ACC=7&DIR=12&PROV=gps",
            T0_MS + 250,
        ),
    ] {
        let message = gpslogger::read(text.as_bytes(), &fields(text)).unwrap();
        let reading = only(&message);
        assert_eq!(reading.at_ms, at_ms, "{text}");
        let fix = location(reading);
        assert_eq!(
            (fix.lat, fix.lng, fix.provider),
            (52.52, 13.405, Some(Provider::Gnss))
        );
        // Metres per second.
        near(fix.speed_mps, 1.5);
        near(fix.altitude_m, 34.0);
        near(fix.accuracy_m, 7.0);
        near(fix.bearing_deg, 12.0);
    }
    let text = "lat=1&lon=2&timestamp=1698501144&prov=network&desc=Delivered";
    let message = gpslogger::read(text.as_bytes(), &fields(text)).unwrap();
    assert_eq!(location(&message.readings[0]).provider, None);
    assert_eq!(message.ends_at_ms, [T0_MS]);
    assert!(gpslogger::read(b"", &fields("lat=1&lon=2")).is_err());
    assert_eq!(gpslogger::read(b"", &fields("sat=3")).unwrap().readings, []);
}
