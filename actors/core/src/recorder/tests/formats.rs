//! Every field and every unit of each app's format. The payloads follow the vendors' documentation.

use porchlight_schema::sample::{ActivityType, Provider};

use super::super::*;

pub(super) const T0_MS: i64 = 1_698_501_144_000;

fn fields(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.split('&').map(pair).collect()
}

pub(super) fn location(reading: &Reading) -> porchlight_schema::sample::Location {
    match &reading.measurement {
        Measurement::Location(location) => *location,
        other => panic!("{other:?}"),
    }
}

pub(super) fn near(value: Option<f32>, expected: f64) {
    let value = value.unwrap();
    assert!(
        (f64::from(value) - expected).abs() < 1e-3,
        "{value} {expected}"
    );
}

pub(super) fn only(push: &Push) -> &Reading {
    assert_eq!(push.readings.len(), 1, "{push:?}");
    &push.readings[0]
}

#[test]
fn a_traccar_form_is_read_in_its_units() {
    let text = "id=123456&timestamp=1698501144&lat=52.52&lon=13.405&speed=10&bearing=90.5&altitude=34&accuracy=7&batt=80&mock=true";
    let push = traccar::read_form(text.as_bytes(), &fields(text)).unwrap();
    let reading = only(&push);
    assert_eq!(reading.at_ms, T0_MS);
    let fix = location(reading);
    assert_eq!((fix.lat, fix.lng, fix.mock), (52.52, 13.405, true));
    // 10 knots.
    near(fix.speed_mps, 5.1444);
    near(fix.bearing_deg, 90.5);
    near(fix.altitude_m, 34.0);
    near(fix.accuracy_m, 7.0);
    assert_eq!((push.number, push.skipped), (None, 0));
    for (time, at_ms) in [
        ("1698501144000", T0_MS),
        ("2023-10-28T13:52:24Z", T0_MS),
        ("2023-10-28T13:52:24.500Z", T0_MS + 500),
        ("2023-10-28T15:52:24%2B0200", T0_MS),
        ("2023-10-28 13:52:24", T0_MS),
    ] {
        let time = time.replace("%2B", "+");
        let text = format!("id=1&timestamp={time}&location=1.5,2.5&heading=12");
        let push = traccar::read_form(text.as_bytes(), &fields(&text)).unwrap();
        let reading = only(&push);
        assert_eq!(reading.at_ms, at_ms, "{time}");
        let fix = location(reading);
        assert_eq!((fix.lat, fix.lng, fix.bearing_deg), (1.5, 2.5, Some(12.0)));
    }
    let untimed = traccar::read_form(b"", &fields("lat=1&lon=2"));
    assert_eq!(untimed, Err(PayloadError::Missing("timestamp")));
    for time in ["yesterday", "99999999999999999999"] {
        let text = format!("lat=1&lon=2&timestamp={time}");
        let invalid = Err(PayloadError::InvalidTime("timestamp"));
        assert_eq!(traccar::read_form(b"", &fields(&text)), invalid, "{time}");
        assert_eq!(gpslogger::read(b"", &fields(&text)), invalid, "{time}");
    }
    assert_eq!(
        traccar::read_form(b"", &fields("id=1")).unwrap().readings,
        []
    );
}

#[test]
fn traccar_positions_in_json_are_read_by_time() {
    let sdk = br#"[{"id":"1","lat":52.52,"lon":13.405,"timestamp":1698501144,"accuracy":7,"altitude":34,"speed":10,"bearing":90,
        "batt":80,"charge":true,"event":"delivered"},{"id":"1","lat":52.6,"lon":13.5,"timestamp":1698501140}]"#;
    let push = traccar::read_json(sdk).unwrap();
    assert_eq!(push.readings.len(), 3);
    assert_eq!(push.readings[0].at_ms, T0_MS - 4_000, "by time");
    near(location(&push.readings[1]).speed_mps, 5.1444);
    assert_eq!(push.ends_at_ms, [T0_MS]);
    let plugin = br#"{"location":{"timestamp":"2023-10-28T13:52:24.000Z","coords":{"latitude":52.52,"longitude":13.405,"accuracy":7.5,
        "speed":1.5,"heading":-1,"altitude":34.5},"is_moving":true,"odometer":12,"mock":true,"event":"motionchange",
        "battery":{"level":0.8,"is_charging":false},"activity":{"type":"on_foot","confidence":75},"extras":{"event":"stop"}},"device_id":"1"}"#;
    let push = traccar::read_json(plugin).unwrap();
    let fix = location(&push.readings[0]);
    // The form with `coords` uses metres per second.
    near(fix.speed_mps, 1.5);
    near(fix.accuracy_m, 7.5);
    near(fix.altitude_m, 34.5);
    assert_eq!((fix.bearing_deg, fix.mock), (None, true));
    assert_eq!(
        push.readings[1].measurement,
        Measurement::Activity(ActivityType::Walking, 0.75)
    );
    assert_eq!(
        push.readings[2].measurement,
        Measurement::Mark("stop".to_owned())
    );
    assert_eq!((push.readings.len(), push.ends_at_ms), (3, vec![T0_MS]));
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
        let push = traccar::read_json(text.as_bytes()).unwrap();
        assert_eq!(
            only(&push).measurement,
            Measurement::Activity(activity_type, 1.0)
        );
    }
    assert!(traccar::read_json(b"1").is_err() && traccar::read_json(b"{").is_err());
}

#[test]
fn an_owntracks_location_is_read_with_its_sensors() {
    let text = br#"{"_type":"location","lat":52.52,"lon":13.405,"tst":1698501144,"acc":8,"alt":34,"vac":3,"vel":36,"cog":270,"p":101.325,
        "batt":80,"bs":1,"t":"u","tid":"ab","conn":"m","motionactivities":["walking"],"created_at":1698501145,"poi":"delivered"}"#;
    let push = owntracks::read(text).unwrap();
    let fix = location(&push.readings[0]);
    assert_eq!((fix.lat, fix.lng), (52.52, 13.405));
    near(fix.accuracy_m, 8.0);
    near(fix.altitude_m, 34.0);
    // 36 km/h.
    near(fix.speed_mps, 10.0);
    near(fix.bearing_deg, 270.0);
    // 101.325 kPa.
    assert_eq!(
        push.readings[1].measurement,
        Measurement::Pressure(1_013.25)
    );
    assert_eq!(
        push.readings[2].measurement,
        Measurement::Activity(ActivityType::Walking, 0.5)
    );
    assert_eq!(
        push.readings[3].measurement,
        Measurement::Mark("delivered".to_owned())
    );
    assert_eq!(push.ends_at_ms, [T0_MS]);
    let untimed = owntracks::read(br#"{"_type":"location","lat":1,"lon":2}"#);
    assert_eq!(untimed, Err(PayloadError::Missing("tst")));
}

#[test]
fn other_owntracks_types_are_read_or_skipped() {
    let steps =
        br#"{"_type":"steps","tst":1698501200,"steps":120,"from":1698501144,"to":1698501194}"#;
    let push = owntracks::read(steps).unwrap();
    let readings: Vec<_> = push
        .readings
        .iter()
        .map(|one| (one.at_ms - T0_MS, one.measurement.clone()))
        .collect();
    assert_eq!(
        readings,
        [
            (0, Measurement::Steps(0)),
            (50_000, Measurement::Steps(120))
        ]
    );
    let unknown =
        br#"{"_type":"steps","tst":1698501200,"steps":-1,"from":1698501144,"to":1698501194}"#;
    assert_eq!(owntracks::read(unknown).unwrap().skipped, 1);
    let waypoint =
        br#"{"_type":"waypoint","tst":1698501144,"desc":"stop","lat":1,"lon":2,"rad":50}"#;
    assert_eq!(owntracks::read(waypoint).unwrap().ends_at_ms, [T0_MS]);
    let transition = br#"{"_type":"transition","wtst":1698400000,"lat":52.52,"lon":13.405,"tst":1698501144,"acc":12,"tid":"ab",
        "event":"enter","desc":"delivered","t":"c","rid":"6da9cf"}"#;
    let push = owntracks::read(transition).unwrap();
    let fix = location(&push.readings[0]);
    assert_eq!((fix.lat, fix.lng), (52.52, 13.405));
    near(fix.accuracy_m, 12.0);
    assert_eq!(push.readings[0].at_ms, T0_MS);
    assert_eq!(push.ends_at_ms, [T0_MS]);
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
        let push = owntracks::read(text.as_bytes()).unwrap();
        assert_eq!((push.readings.len(), push.skipped), (0, 1), "{kind}");
    }
    assert_eq!(owntracks::read(b" ").unwrap().readings, []);
    assert!(owntracks::read(b"[]").is_err() && owntracks::read(b"x").is_err());
}

#[test]
fn overland_positions_are_read_and_an_ended_trip_ends_the_session() {
    let text = br#"{"locations":[{"type":"Feature","geometry":{"type":"Point","coordinates":[-122.030581,37.3318]},
        "properties":{"timestamp":"2023-10-28T06:52:24-0700","altitude":12,"speed":4,"course":33,"horizontal_accuracy":30,
        "vertical_accuracy":-1,"motion":["driving","stationary"],"pauses":false,"activity":"other_navigation","desired_accuracy":100,
        "battery_state":"charging","battery_level":0.89,"device_id":"","wifi":""}},
        {"type":"Feature","geometry":{"type":"Point","coordinates":[-122,37]},"properties":{"type":"trip","mode":"walk",
        "start":"2023-10-28T13:40:00Z","end":"2023-10-28T13:52:30Z","distance":20,"timestamp":"2023-10-28T13:52:30Z"}}],
        "current":{},"trip":{"mode":"walk","start":"2023-10-28T13:40:00Z"}}"#;
    let push = overland::read(text).unwrap();
    let fix = location(&push.readings[0]);
    assert_eq!(
        (push.readings[0].at_ms, fix.lat, fix.lng),
        (T0_MS, 37.3318, -122.030_581)
    );
    near(fix.speed_mps, 4.0);
    near(fix.bearing_deg, 33.0);
    near(fix.accuracy_m, 30.0);
    near(fix.altitude_m, 12.0);
    assert_eq!(
        push.readings[1].measurement,
        Measurement::Activity(ActivityType::Driving, 0.5)
    );
    assert_eq!(push.ends_at_ms, [T0_MS + 6_000], "the trip that has ended");
    let action = br#"{"locations":[{"type":"Feature","properties":{"timestamp":"2023-10-28T13:52:24Z","action":"delivered","speed":-1}},
        {"type":"Feature","properties":{"timestamp":"2023-10-28T13:52:25Z","action":"visit"}}]}"#;
    let push = overland::read(action).unwrap();
    assert_eq!((push.readings.len(), push.ends_at_ms), (1, vec![T0_MS]));
    assert_eq!(overland::read(b"{\"locations\":[]}").unwrap().readings, []);
    assert_eq!(
        overland::read(b"{}"),
        Err(PayloadError::Missing("locations"))
    );
}

/// An app that cuts the name of the device within an emoji repeats its push until it is accepted.
#[test]
fn half_of_a_surrogate_pair_does_not_refuse_a_push() {
    let text = br#"{"locations":[{"type":"Feature","geometry":{"type":"Point","coordinates":[-122.03,37.33]},
        "properties":{"timestamp":"2023-10-28T13:52:24Z","horizontal_accuracy":5,"device_id":"bike \ud83d"}}]}"#;
    let push = overland::read(text).unwrap();
    assert_eq!(location(&push.readings[0]).lat, 37.33);
}

#[test]
fn gpslogger_names_of_parameters_are_read_in_every_form() {
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
        let push = gpslogger::read(text.as_bytes(), &fields(text)).unwrap();
        let reading = only(&push);
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
    let push = gpslogger::read(text.as_bytes(), &fields(text)).unwrap();
    assert_eq!(location(&push.readings[0]).provider, None);
    assert_eq!(push.ends_at_ms, [T0_MS]);
    assert!(gpslogger::read(b"", &fields("lat=1&lon=2")).is_err());
    assert_eq!(gpslogger::read(b"", &fields("sat=3")).unwrap().readings, []);
}
