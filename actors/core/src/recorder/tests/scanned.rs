//! The readers of one pass and the lenient readers agree on every payload.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::*;

/// Returns a value of any type, most often one of the type that the apps send.
fn value(usual: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let usual = proptest::sample::select(usual)
        .prop_map(|text| serde_json::from_str(text).unwrap_or(Value::Null));
    let odd = proptest::sample::select(vec![
        json!(null),
        json!(true),
        json!(" 7.5 "),
        json!("x\"y"),
        json!([1, "a"]),
        json!({ "type": "walking", "lat": 1 }),
        json!(-1),
    ]);
    prop_oneof![12 => usual, 1 => odd]
}

fn object(
    fields: &'static [(&'static str, &'static [&'static str])],
) -> impl Strategy<Value = Map<String, Value>> {
    let fields: Vec<_> = fields
        .iter()
        .map(|&(name, usual)| (Just(name), proptest::option::weighted(0.8, value(usual))))
        .collect();
    fields.prop_map(|fields| {
        let present = fields.into_iter();
        let present = present.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        present.collect()
    })
}

const TIMES: &[&str] = &[
    "1698501144",
    "1698501145000",
    r#""2023-10-28T13:52:24Z""#,
    r#""2023-10-28T15:52:25.250+0200""#,
    r#""2023-10-28 13:52:24""#,
];
const NUMBERS: &[&str] = &["52.52", "13.405", "-1", "0", "7.25e1", r#""3.5""#];
const FLAGS: &[&str] = &["true", "false"];
const EVENTS: &[&str] = &[r#""stop""#, r#""""#, r#""motionchange""#];

fn flat() -> impl Strategy<Value = Value> {
    object(&[
        ("timestamp", TIMES),
        ("lat", NUMBERS),
        ("lon", NUMBERS),
        ("accuracy", NUMBERS),
        ("altitude", NUMBERS),
        ("speed", NUMBERS),
        ("bearing", NUMBERS),
        ("mock", FLAGS),
        ("event", EVENTS),
        ("batt", NUMBERS),
    ])
    .prop_map(Value::Object)
}

fn with_coords() -> impl Strategy<Value = Value> {
    let coords = object(&[
        ("latitude", NUMBERS),
        ("longitude", NUMBERS),
        ("accuracy", NUMBERS),
        ("altitude", NUMBERS),
        ("speed", NUMBERS),
        ("heading", NUMBERS),
    ]);
    let activity = object(&[
        ("type", &[r#""walking""#, r#""in_vehicle""#, r#""other""#]),
        ("confidence", &["100", "50", "-3"]),
    ]);
    let outer = object(&[
        ("timestamp", TIMES),
        ("mock", FLAGS),
        ("event", EVENTS),
        ("extras", &["{}", r#"{"event":"end"}"#, "[]"]),
        ("battery", &[r#"{"level":0.5,"is_charging":true}"#]),
    ]);
    (coords, activity, outer, any::<[bool; 3]>()).prop_map(
        |(coords, activity, mut location, [has_coords, has_activity, is_list])| {
            if has_coords {
                location.insert("coords".to_owned(), coords.into());
            }
            if has_activity {
                location.insert("activity".to_owned(), activity.into());
            }
            if is_list {
                json!({ "location": [location], "device_id": "d" })
            } else {
                json!({ "location": location, "device_id": "d" })
            }
        },
    )
}

fn feature() -> impl Strategy<Value = Value> {
    let properties = object(&[
        ("type", &[r#""trip""#, r#""other""#, "null"]),
        ("timestamp", TIMES),
        ("end", TIMES),
        ("horizontal_accuracy", NUMBERS),
        ("altitude", NUMBERS),
        ("speed", NUMBERS),
        ("course", NUMBERS),
        ("motion", &[r#"["driving","stationary"]"#, "[]", r#"["?"]"#]),
        ("action", EVENTS),
        ("wifi", &[r#""""#]),
    ]);
    let geometry = object(&[
        ("type", &[r#""Point""#]),
        ("coordinates", &["[13.405,52.52]", "[13.4,52.5,34]", "[1]"]),
    ]);
    (properties, geometry).prop_map(|(properties, geometry)| {
        json!({ "type": "Feature", "geometry": geometry, "properties": properties })
    })
}

/// Returns a push of OwnTracks, most often of a used type.
fn report() -> impl Strategy<Value = Value> {
    object(&[
        (
            "_type",
            &[
                r#""location""#,
                r#""location""#,
                r#""steps""#,
                r#""transition""#,
                r#""waypoint""#,
                r#""lwt""#,
            ],
        ),
        ("tst", TIMES),
        ("from", &["1698501144", "1698501100"]),
        ("to", &["1698501150"]),
        ("lat", NUMBERS),
        ("lon", NUMBERS),
        ("acc", NUMBERS),
        ("alt", NUMBERS),
        ("vel", NUMBERS),
        ("cog", NUMBERS),
        ("p", &["101.325", "-1", r#""99""#]),
        ("steps", &["12", "0", "-1"]),
        (
            "motionactivities",
            &[
                r#"["?","walking","driving"]"#,
                "[]",
                r#"[1,"still"]"#,
                "null",
            ],
        ),
        ("poi", EVENTS),
        ("desc", EVENTS),
        ("inregions", &[r#"["home"]"#]),
    ])
    .prop_map(Value::Object)
}

proptest! {
    #[test]
    fn owntracks_is_read_alike(report in report(), is_repeated in any::<bool>()) {
        let mut payload = report.to_string();
        if is_repeated {
            // The last of equal keys counts.
            let again = r#","vel":3,"poi":null,"motionactivities":["running"]}"#;
            payload.truncate(payload.len() - 1);
            payload.push_str(if payload.len() > 1 { again } else { "}" });
        }
        prop_assert_eq!(
            owntracks::read(payload.as_bytes()),
            owntracks::read_lenient(payload.as_bytes())
        );
    }

    #[test]
    fn traccar_json_is_read_alike(
        positions in proptest::collection::vec(prop_oneof![flat(), with_coords()], 0..4),
        is_list in any::<bool>(),
    ) {
        let value = match positions.first() {
            Some(first) if !is_list => first.clone(),
            _ => Value::Array(positions),
        };
        let payload = value.to_string();
        prop_assert_eq!(
            traccar::read_json(payload.as_bytes()),
            traccar::read_lenient(payload.as_bytes())
        );
    }

    #[test]
    fn overland_is_read_alike(features in proptest::collection::vec(feature(), 0..4)) {
        let payload = json!({ "locations": features, "current": { "a": [1] } }).to_string();
        prop_assert_eq!(
            overland::read(payload.as_bytes()),
            overland::read_lenient(payload.as_bytes())
        );
    }
}
