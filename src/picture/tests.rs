//! Tests the pictures of paths against reference pictures.

use std::path::Path;

use porchlight_schema::sample::json::decode_sample;
use porchlight_schema::sample::packed::BatchBuilder;
use porchlight_schema::session::{Address, Point};
use proptest::prelude::*;
use serde_json::{Value, json};

use porchlight_core::context::SessionContext;
use porchlight_core::path::PathInput;
use porchlight_core::score::{Knowledge, ScoreInput, score};
use porchlight_core::session::replay::Replay;
use porchlight_core::window::Window;
use porchlight_map::StreetMap;

use super::*;

const ADDRESS: Point = Point {
    lat: 52.52,
    lng: 13.405,
};

fn context() -> SessionContext {
    let address = Address {
        floor: Some(2),
        accuracy_m: 12.0,
        ..Address::at(ADDRESS)
    };
    SessionContext::of_address(&address, None)
}

/// Scores these samples, and prepares their path.
fn prepared(samples: &[Value]) -> (Option<Track>, Score) {
    let context = context();
    let mut builder = BatchBuilder::default();
    for sample in samples {
        assert!(
            decode_sample(sample.to_string().as_bytes(), &mut builder).is_ok(),
            "{sample}"
        );
    }
    let mut replay = Replay::new(&context);
    replay.batch(0, &builder.pack());
    let replayed = replay.finish();
    let last_ms = replayed.windows.last().map_or(0, Window::end_ms);
    let known = Knowledge::default();
    let score = score(&ScoreInput {
        context: &context,
        windows: &replayed.windows,
        events: &replayed.events,
        marks: &replayed.marks,
        system: &replayed.system,
        clock_steps: &replayed.clock_steps,
        pod: None,
        duration_ms: last_ms,
        timed_out: false,
        missing_batches: 0,
        quarantined_batches: 0,
        known: &known,
    });
    let track = Track::of(&PathInput {
        context: &context,
        windows: &replayed.windows,
        clock_steps: &replayed.clock_steps,
        score: &score,
        duration_ms: last_ms,
    });
    assert_eq!(track.is_some(), score.has_path);
    (track, score)
}

/// Draws the picture of these samples, and its SVG.
fn drawn(samples: &[Value]) -> Option<(Picture, String)> {
    let (track, score) = prepared(samples);
    track.map(|track| draw(&track, &score)).map(|picture| {
        let text = svg::write(&picture);
        (picture, text)
    })
}

/// Returns a fix at this distance in metres east and north of the address.
fn fix(t_sec: u32, east_m: f64, north_m: f64, accuracy_m: f64, speed_mps: f64) -> Value {
    json!({
        "kind": "location", "t": t_sec, "accuracyM": accuracy_m, "speedMps": speed_mps,
        "lat": ADDRESS.lat + north_m / 111_195.0,
        "lng": ADDRESS.lng + east_m / (111_195.0 * 0.6085),
    })
}

/// Returns a second of body samples: the motion and the air pressure.
fn body(t_sec: u32, is_walking: bool, height_m: f64) -> [Value; 2] {
    let (spread, cadence_hz) = if is_walking { (2.0, 1.9) } else { (0.05, 0.0) };
    [
        json!({ "kind": "motion", "t": t_sec, "accelMean": 9.81, "accelStd": spread, "cadenceHz": cadence_hz }),
        json!({ "kind": "pressure", "t": t_sec, "hPa": 1_010.0 - height_m * 0.12 }),
    ]
}

/// Returns a drive from the west, a walk north, two floors up, a minute at the door, and the same
/// way back.
fn delivery() -> Vec<Value> {
    let mut samples = Vec::new();
    for t_sec in 0..420_u32 {
        let t = f64::from(t_sec);
        let (east_m, north_m, speed_mps, height_m) = match t_sec {
            0..=89 => (-830.0 + 9.0 * t, -60.0, 9.0, 0.0),
            90..=99 => (-20.0, -60.0, 0.0, 0.0),
            100..=139 => (
                -20.0 + (t - 100.0) * 0.5,
                -60.0 + (t - 100.0) * 1.4,
                1.5,
                0.0,
            ),
            140..=189 => (0.0, -3.0, 0.4, (t - 140.0) * 0.2),
            190..=259 => (0.0, 0.0, 0.0, 10.0),
            260..=309 => (0.0, -3.0, 0.4, 10.0 - (t - 260.0) * 0.2),
            310..=349 => (-(t - 310.0) * 0.5, -3.0 - (t - 310.0) * 1.4, 1.5, 0.0),
            _ => (-20.0 + 9.0 * (t - 350.0), -60.0, 9.0, 0.0),
        };
        let is_inside = (145..305).contains(&t_sec);
        if !is_inside {
            samples.push(fix(t_sec, east_m, north_m, 6.0, speed_mps));
        }
        let is_walking = (100..190).contains(&t_sec) || (260..350).contains(&t_sec);
        samples.extend(body(t_sec, is_walking, height_m));
    }
    samples
}

#[test]
fn a_delivery_matches_the_reference_picture() {
    let (_, text) = drawn(&delivery()).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/delivery.svg");
    if std::env::var_os("PORCHLIGHT_REGENERATE").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    let before = std::fs::read_to_string(golden).unwrap_or_default();
    assert!(
        text == before,
        "the picture has changed: look at it after PORCHLIGHT_REGENERATE=1 cargo test -p porchlight-picture --lib, \
         and raise VERSION"
    );
}

#[test]
fn the_text_of_a_picture_is_readable() {
    let (picture, text) = drawn(&delivery()).unwrap();
    for words in [
        "in or on a vehicle",
        "on foot",
        "on stairs",
        "door",
        "address ±12 m",
        "3 floors up",
        "Height on foot, metres",
    ] {
        assert!(text.contains(words), "{words} in {}", picture.description);
    }
    assert!(
        picture.description.contains("3 floors up"),
        "{}",
        picture.description
    );
}

#[test]
fn a_missing_profile_is_explained() {
    let with_pressure_at = |seconds: std::ops::Range<u64>| {
        let is_kept = |sample: &Value| {
            let t_sec = sample["t"].as_u64().unwrap();
            sample["kind"] != "pressure" || seconds.contains(&t_sec)
        };
        let samples: Vec<Value> = delivery().into_iter().filter(is_kept).collect();
        drawn(&samples).unwrap().1
    };
    let none = with_pressure_at(0..0);
    assert!(none.contains("There was no barometer to measure it."));
    let few = with_pressure_at(200..205);
    assert!(few.contains("There are too few readings of the air pressure."));
}

/// Opens the map of the synthetic town.
fn town() -> StreetMap {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../map/town.pmtiles");
    StreetMap::open(&file).unwrap()
}

#[test]
fn a_street_map_lies_under_the_path() {
    let (track, score) = prepared(&delivery());
    let (map, track) = (town(), track.unwrap());
    let bounds = map.bounds();
    let origin = Point {
        lat: f64::midpoint(bounds.low.lat, bounds.high.lat),
        lng: f64::midpoint(bounds.low.lng, bounds.high.lng),
    };
    let ground = |origin| Some(Ground { map: &map, origin });
    let on_map = draw_on(&track, &score, ground(origin));
    let text = svg::write(&on_map);
    assert!(on_map.has_map && text.contains("Synthetic map"));
    let class = |ink| format!("class=\"f{}\"", svg::class_number(ink));
    for ink in [Ink::MapLand, Ink::MapBuilding] {
        assert!(text.contains(&class(ink)), "{ink:?}");
    }
    let streets = format!("class=\"s{}\"", svg::class_number(Ink::MapStreet));
    let (street, walk) = (
        text.find(&streets),
        text.find("stroke-dasharray=\"0.01 7\""),
    );
    assert!(street.unwrap() < walk.unwrap(), "the path is above the map");
    assert!(text.len() < 400_000, "{} bytes", text.len());
    for number in numbers(&on_map) {
        assert!((-40.0..=WIDTH_PX + 40.0).contains(&number), "{number}");
    }
    assert!(png::png(&on_map).unwrap().starts_with(b"\x89PNG"));

    // Elsewhere the picture is the same as without a map, to the byte.
    let elsewhere = draw_on(&track, &score, ground(ADDRESS));
    let without = draw(&track, &score);
    assert_eq!(svg::write(&elsewhere), svg::write(&without));
    assert_eq!(png::png(&elsewhere).unwrap(), png::png(&without).unwrap());
}

/// Prints the time to draw a path image on a map. Run it alone, with a release build.
#[test]
#[ignore = "a measurement"]
fn measure_a_path_image_on_a_map() {
    let (track, score) = prepared(&delivery());
    let (map, track) = (town(), track.unwrap());
    let bounds = map.bounds();
    let origin = Point {
        lat: f64::midpoint(bounds.low.lat, bounds.high.lat),
        lng: f64::midpoint(bounds.low.lng, bounds.high.lng),
    };
    let rounds = |ground: Option<Ground<'_>>| {
        let mut took_ms: Vec<[f64; 3]> = Vec::new();
        for _ in 0..300 {
            let start = std::time::Instant::now();
            let picture = draw_on(&track, &score, ground);
            let drawn = start.elapsed().as_secs_f64() * 1e3;
            let text = svg::write(&picture).len();
            let written = start.elapsed().as_secs_f64() * 1e3;
            let pixels = png::png(&picture).unwrap().len();
            assert!(text > 0 && pixels > 0);
            took_ms.push([drawn, written, start.elapsed().as_secs_f64() * 1e3]);
        }
        took_ms.sort_by(|a, b| a[2].total_cmp(&b[2]));
        let (half, most) = (took_ms[150], took_ms[297]);
        let kilobytes = png::png(&draw_on(&track, &score, ground)).unwrap().len() / 1_000;
        println!("draw, + SVG, + PNG in ms: p50 {half:.1?}, p99 {most:.1?}; {kilobytes} kB");
    };
    for ground in [None, Some(Ground { map: &map, origin })] {
        rounds(ground);
        rounds(ground);
    }
}

#[test]
fn one_fix_is_not_a_path() {
    assert!(drawn(&[fix(0, 1.0, 2.0, 5.0, 0.0)]).is_none());
    assert!(drawn(&[fix(0, 1.0, 2.0, 5.0, 0.0), fix(1, 1.0, 2.0, 900.0, 0.0)]).is_none());
    assert!(drawn(&[fix(0, 1.0, 2.0, 5.0, 0.0), fix(1, 1.0, 2.0, 5.0, 0.0)]).is_some());
}

/// Returns every number of every shape.
fn numbers(picture: &Picture) -> Vec<f32> {
    let mut all = Vec::new();
    for shape in &picture.shapes {
        match shape {
            Shape::Line { points, .. } => all.extend(points.iter().flat_map(|at| [at.x, at.y])),
            Shape::Paths { parts, .. } => {
                all.extend(parts.iter().flatten().flat_map(|at| [at.x, at.y]));
            }
            Shape::Circle { middle, radius, .. } => all.extend([middle.x, middle.y, *radius]),
            Shape::Text { at, .. } => all.extend([at.x, at.y]),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any positions and movements, the picture stays on its page and is identical each time.
    #[test]
    fn all_drawn_elements_stay_on_the_page(
        steps in proptest::collection::vec((1_u32..40, -80.0_f64..80.0, -80.0_f64..80.0, 0.0_f64..200.0, -1.0_f64..1.0), 2..60),
        far_m in prop_oneof![Just(0.0), Just(2_000.0), Just(900_000.0)],
    ) {
        let (mut t_sec, mut east_m, mut north_m, mut height_m) = (0, far_m, 0.0, 0.0);
        let mut samples = Vec::new();
        for (later_sec, east, north, accuracy_m, up) in steps {
            (t_sec, east_m, north_m, height_m) = (t_sec + later_sec, east_m + east, north_m + north, height_m + up);
            samples.push(fix(t_sec, east_m, north_m, accuracy_m, 1.0));
            samples.extend(body(t_sec, up > 0.0, height_m));
        }
        if let Some((picture, text)) = drawn(&samples) {
            for number in numbers(&picture) {
                prop_assert!((-40.0..=WIDTH_PX + 40.0).contains(&number), "{number}");
            }
            prop_assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
            prop_assert_eq!(text, drawn(&samples).unwrap().1);
        }
    }
}
