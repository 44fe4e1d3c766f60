//! Tests both JSON parsers of a batch, their errors and their equality.

use proptest::prelude::*;

use super::*;

fn batch(samples: &str) -> String {
    format!(r#"{{"seq":17,"samples":[{samples}]}}"#)
}

const ALL_KINDS: &str = r#"
    {"t":0.5,"kind":"location","lat":52.5200066,"lng":13.404954,"accuracyM":4.25,"altitudeM":34.5,"speedMps":1.25,"bearingDeg":270.5,"mock":true,"provider":"fused"},
    {"t":0.6,"kind":"location","lat":-0.0000001,"lng":-180,"speedMps":-1,"bearingDeg":-1,"accuracyM":null},
    {"t":1,"kind":"pressure","hPa":1013.257},
    {"t":1,"kind":"steps","count":100000000},
    {"t":2,"kind":"imu","hz":50,"ax":[0.1,-0.2],"ay":[0,1],"az":[9.81,9.79]},
    {"t":3,"kind":"imu","hz":2,"ax":[1],"ay":[2],"az":[3],"gx":[0.5],"gy":[-0.5],"gz":[0]},
    {"t":4,"kind":"motion","accelMean":9.81,"accelStd":0.4,"cadenceHz":1.9},
    {"t":5,"kind":"magnetic","x":20.5,"y":-3,"z":44},
    {"t":6,"kind":"activity","type":"walking","confidence":0.9},
    {"t":7,"kind":"mark","name":"pod_captured"},
    {"t":8,"kind":"system","name":"location_off"},
    {"t":9,"kind":"radio","apCount":7},
    {"t":9.5,"kind":"mark","name":"Übergabe"}"#;

#[test]
fn every_kind_is_read_packed_and_read_back() {
    let decoded = decode_batch(batch(ALL_KINDS).as_bytes()).unwrap();
    assert_eq!(
        (decoded.seq, decoded.batch.samples(), decoded.unknown_kinds),
        (17, 12, 1)
    );
    assert_eq!(decoded.batch.t_max_ms(), 9_500);
    let mut reader = decoded.batch.reader().unwrap();
    let mut texts = Vec::new();
    while let Some(sample) = reader.next_sample().unwrap() {
        texts.push(format!("{sample:?}"));
    }
    assert_eq!(texts.len(), 12);
    assert!(
        texts[0].contains("lat: 52.5200066, lng: 13.404954, accuracy_m: Some(4.25)"),
        "{}",
        texts[0]
    );
    assert!(
        texts[0].contains("bearing_deg: Some(270.5), mock: true, provider: Some(Fused)"),
        "{}",
        texts[0]
    );
    assert!(texts[1].contains(
        "accuracy_m: None, altitude_m: None, speed_mps: None, bearing_deg: None, mock: false"
    ));
    assert!(texts[2].contains("hpa: 1013.257"), "{}", texts[2]);
    assert!(
        texts[4].contains("accel: [[0.1, -0.2], [0.0, 1.0], [9.81, 9.79]], gyro: None"),
        "{}",
        texts[4]
    );
    assert!(
        texts[5].contains("gyro: Some([[0.5], [-0.5], [0.0]])"),
        "{}",
        texts[5]
    );
    assert!(texts[11].contains("Übergabe"));
}

#[test]
fn both_parsers_give_the_same_bytes() {
    let text = batch(ALL_KINDS);
    let fast = fast::decode_batch(text.as_bytes()).unwrap();
    let slow = slow::decode_batch(text.as_bytes()).unwrap();
    assert_eq!(fast.batch, slow.batch);
}

#[test]
fn the_error_points_at_a_bad_sample() {
    let cases = [
        (
            r#"{"t":1,"kind":"location","lat":91,"lng":0}"#,
            "/samples/0/lat",
        ),
        (r#"{"t":1,"kind":"location","lng":0}"#, "/samples/0/lat"),
        (
            r#"{"t":1,"kind":"location","lat":"52","lng":0}"#,
            "/samples/0/lat",
        ),
        (r#"{"t":-1,"kind":"pressure","hPa":1000}"#, "/samples/0/t"),
        (
            r#"{"t":172800.1,"kind":"pressure","hPa":1000}"#,
            "/samples/0/t",
        ),
        (r#"{"t":1,"kind":"pressure","hPa":299.9}"#, "/samples/0/hPa"),
        (r#"{"t":1,"kind":"steps","count":1.5}"#, "/samples/0/count"),
        (
            r#"{"t":1,"kind":"imu","hz":50,"ax":[1],"ay":[1,2],"az":[1]}"#,
            "/samples/0/ay",
        ),
        (
            r#"{"t":1,"kind":"imu","hz":50,"ax":[401],"ay":[1],"az":[1]}"#,
            "/samples/0/ax/0",
        ),
        (
            r#"{"t":1,"kind":"imu","hz":50,"ax":[1,"2"],"ay":[1,2],"az":[1,2]}"#,
            "/samples/0/ax/1",
        ),
        (
            r#"{"t":1,"kind":"imu","hz":50,"ax":[1],"ay":[1],"az":[1],"gy":[1,2]}"#,
            "/samples/0/gy",
        ),
        (
            r#"{"t":1,"kind":"imu","hz":50,"ax":[1],"ay":[1],"az":[1],"gx":[1],"gz":[101]}"#,
            "/samples/0/gz/0",
        ),
        (
            r#"{"t":1,"kind":"location","lat":1e400,"lng":1}"#,
            "/samples/0/lat",
        ),
        (
            r#"{"t":1,"kind":"activity","type":"flying","confidence":1}"#,
            "/samples/0/type",
        ),
        (r#"{"t":1,"kind":"mark","name":""}"#, "/samples/0/name"),
        (r#"{"t":1}"#, "/samples/0/kind"),
        (r#"{"kind":"radio"}"#, "/samples/0/t"),
        (r#"{"t":-1,"kind":"radio"}"#, "/samples/0/t"),
        (r#"{"t":"x","kind":"radio"}"#, "/samples/0/t"),
        ("7", "/samples/0"),
    ];
    for (sample, pointer) in cases {
        match decode_batch(batch(sample).as_bytes()) {
            Err(DecodeError::Invalid(errors)) => assert_eq!(errors[0].pointer, pointer, "{sample}"),
            other => panic!("{sample}: {other:?}"),
        }
    }
}

#[test]
fn a_value_that_rounds_to_its_bound_is_out_of_range() {
    let sample = |ax: &str, gx: &str| {
        let text = format!(
            r#"{{"t":1,"kind":"imu","hz":50,"ax":[{ax}],"ay":[1],"az":[1],"gx":[{gx}],"gy":[0],"gz":[0]}}"#
        );
        decode_batch(batch(&text).as_bytes())
    };
    for (ax, gx) in [("400", "100"), ("-400.0", "-1e2"), ("399.9999999", "0")] {
        assert!(sample(ax, gx).is_ok(), "{ax} {gx}");
    }
    for (ax, gx, pointer) in [
        ("400.00001", "0", "/samples/0/ax/0"),
        ("-400.00001", "0", "/samples/0/ax/0"),
        ("0", "100.000001", "/samples/0/gx/0"),
        ("0", "-100.000001", "/samples/0/gx/0"),
        ("1e300", "0", "/samples/0/ax/0"),
    ] {
        match sample(ax, gx) {
            Err(DecodeError::Invalid(errors)) => assert_eq!(errors[0].pointer, pointer, "{ax}"),
            other => panic!("{ax} {gx}: {other:?}"),
        }
    }
    // An array is checked only in the kind that has it.
    let other = r#"{"t":1,"kind":"pressure","hPa":1000,"ax":[500]}"#;
    assert!(decode_batch(batch(other).as_bytes()).is_ok());
}

#[test]
fn the_batch_itself_is_checked() {
    for (text, pointer) in [
        (r#"[]"#, ""),
        (r#"{"samples":[]}"#, "/seq"),
        (r#"{"seq":-1,"samples":[]}"#, "/seq"),
        (r#"{"seq":1000001,"samples":[]}"#, "/seq"),
        (r#"{"seq":1.5,"samples":[]}"#, "/seq"),
        (r#"{"seq":1e400,"samples":[]}"#, "/seq"),
        (r#"{"seq":0}"#, "/samples"),
        (r#"{"seq":0,"samples":{}}"#, "/samples"),
    ] {
        match decode_batch(text.as_bytes()) {
            Err(DecodeError::Invalid(errors)) => assert_eq!(errors[0].pointer, pointer, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in [
        "",
        "{",
        "{\"seq\":0,\"samples\":[]} x",
        "{\"seq\":0,\"samples\":[{\"t\":NaN}]}",
        "\u{feff}{}",
    ] {
        assert!(
            matches!(decode_batch(text.as_bytes()), Err(DecodeError::Syntax(_))),
            "{text}"
        );
    }
    let many =
        batch(&vec!["{\"kind\":\"none\",\"t\":0}"; crate::limits::BATCH_SAMPLES_MAX + 1].join(","));
    // The limit is checked before the content.
    for seq in ["17", "-1", "null", "\"x\""] {
        let many = many.replacen("17", seq, 1);
        assert_eq!(
            decode_batch(many.as_bytes()).unwrap_err(),
            DecodeError::TooManySamples,
            "{seq}"
        );
    }
    assert_eq!(
        decode_batch(br#"{"seq":0,"samples":[],"more":{}}"#)
            .unwrap()
            .batch
            .samples(),
        0
    );
}

#[test]
fn the_last_of_several_members_with_one_name_counts() {
    let sample = r#"{"t":9,"hPa":"x","kind":"pressure","hPa":1000,"t":1}"#;
    let text = format!(
        r#"{{"samples":[7],"seq":"x","sessionId":7,"samples":[{sample}],"seq":3,"sessionId":"ses_1"}}"#
    );
    let line = decode_line(text.as_bytes()).unwrap();
    assert_eq!(
        (line.session_id.as_deref(), line.seq),
        (Some("ses_1"), Some(3))
    );
    let read = line.batch.unwrap();
    let plain = decode_batch(batch(r#"{"t":1,"kind":"pressure","hPa":1000}"#).as_bytes()).unwrap();
    assert_eq!(read.batch, plain.batch);
    let last = text.replacen(r#""sessionId":"ses_1"}"#, r#""sessionId":null}"#, 1);
    assert_eq!(decode_line(last.as_bytes()).unwrap().session_id, None);
}

#[test]
fn a_member_without_meaning_must_be_well_formed_json_too() {
    for member in [r#""\ud80""#, r#"{"a":[}"#, "01", "\"\u{1}\""] {
        let text = batch(&format!(
            r#"{{"t":1,"kind":"pressure","hPa":1000,"x":{member}}}"#
        ));
        let decoded = decode_batch(text.as_bytes());
        assert!(matches!(decoded, Err(DecodeError::Syntax(_))), "{member}");
    }
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let text = r#"{"a":[{"a":1},null,"\ud83d\ude00"]}"#;
    // RFC 8259, section 8.2: the grammar allows half of a surrogate pair.
    for member in ["1e400", r#""\ud800""#, text, &deep] {
        let text = batch(&format!(
            r#"{{"t":1,"kind":"pressure","hPa":1000,"x":{member}}}"#
        ));
        let decoded = decode_batch(text.as_bytes());
        assert_eq!(decoded.unwrap().batch.samples(), 1, "{member}");
    }
}

#[test]
fn an_array_beyond_the_limit_is_refused() {
    let array = |values: usize| format!("[{}0]", "0,".repeat(values - 1));
    for (values, pointer) in [(4_001, "/samples/0/ax"), (100_000, "/samples/0/ax")] {
        let array = array(values);
        let sample =
            format!(r#"{{"t":1,"kind":"imu","hz":400,"ax":{array},"ay":{array},"az":{array}}}"#);
        match decode_batch(batch(&sample).as_bytes()) {
            Err(DecodeError::Invalid(errors)) => assert_eq!(errors[0].pointer, pointer),
            other => panic!("{values}: {other:?}"),
        }
    }
}

#[test]
fn an_incomplete_turn_rate_is_ignored() {
    let plain = r#"{"t":1,"kind":"imu","hz":50,"ax":[1],"ay":[1],"az":[1]"#;
    let without = decode_batch(batch(&format!("{plain}}}")).as_bytes()).unwrap();
    for axes in [
        r#""gx":[1]"#,
        r#""gz":[1],"gy":null"#,
        r#""gx":[1],"gz":[-100]"#,
    ] {
        let decoded = decode_batch(batch(&format!("{plain},{axes}}}")).as_bytes()).unwrap();
        assert_eq!(decoded.batch.as_bytes(), without.batch.as_bytes(), "{axes}");
    }
}

#[test]
fn a_whole_number_may_be_written_in_any_number_form() {
    for (seq, read) in [("5.0", 5), ("5e0", 5), ("1e6", 1_000_000), ("-0", 0)] {
        let text = format!(r#"{{"seq":{seq},"samples":[]}}"#);
        assert_eq!(decode_batch(text.as_bytes()).unwrap().seq, read, "{seq}");
        let line = decode_line(text.as_bytes()).unwrap();
        assert_eq!(line.seq, Some(read), "{seq}");
    }
}

#[test]
fn a_field_of_another_kind_is_an_unknown_field() {
    let decoded =
        decode_batch(batch(r#"{"t":1,"kind":"pressure","hPa":1000,"lat":"north"}"#).as_bytes())
            .unwrap();
    assert_eq!(decoded.batch.samples(), 1);
}

proptest! {
    /// Reading arbitrary bytes as a packed batch ends with samples or an error, never a panic.
    #[test]
    fn packed_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), honest in any::<bool>(), at in 0_usize..400) {
        if honest {
            let mut packed = decode_batch(batch(ALL_KINDS).as_bytes()).unwrap().batch.as_bytes().to_vec();
            let place = at % packed.len();
            packed[place] = bytes.first().copied().unwrap_or(0);
            bytes = packed;
        }
        if let Ok(packed) = PackedBatch::from_bytes(bytes.into()) && let Ok(mut reader) = packed.reader() {
            while let Ok(Some(_)) = reader.next_sample() {}
        }
    }

    /// Both decoders agree on whether a text is a batch, and on its content.
    #[test]
    fn both_parsers_agree(seq in -2_i64..3, t in -1.0_f64..1e5, hpa in 200.0_f64..1200.0, lat in proptest::option::of(-100.0_f64..100.0), text in "[a-z{}\\[\\],:\"0-9]{0,12}") {
        let lat = lat.map_or("null".into(), |lat| lat.to_string());
        let text = format!(
            r#"{{"seq":{seq},"samples":[{{"t":{t},"kind":"pressure","hPa":{hpa}}},{{"kind":"location","t":{t},"lat":{lat},"lng":1}},{{"t":3,"kind":"mark","name":{text:?}}}]}}"#
        );
        let slow = slow::decode_batch(text.as_bytes());
        match fast::decode_batch(text.as_bytes()) {
            Some(fast) => prop_assert_eq!(fast.batch, slow.unwrap().batch),
            None => prop_assert!(slow.is_err() || text.contains('"'), "the fast reader leaves only escapes to the slow one"),
        }
    }
}

/// Returns whether an `imu` sample with this rate and number of values is accepted.
fn accepts_imu(hz: &str, values: usize) -> bool {
    let axis = vec!["0"; values].join(",");
    let sample =
        format!(r#"{{"t":0,"kind":"imu","hz":{hz},"ax":[{axis}],"ay":[{axis}],"az":[{axis}]}}"#);
    decode_batch(batch(&sample).as_bytes()).is_ok()
}

proptest! {
    /// The bounds are decimals, which neither precision represents.
    #[test]
    fn an_imu_sample_of_up_to_ten_seconds_is_accepted(tenths in 10_usize..=4_000) {
        let hz = format!("{}.{}", tenths / 10, tenths % 10);
        prop_assert!(accepts_imu(&hz, tenths), "{}", hz);
        prop_assert!(!accepts_imu(&hz, tenths + 1), "{}", hz);
    }
}

#[test]
fn a_rate_just_below_the_lowest_permitted_one_is_refused() {
    assert!(accepts_imu("33.3", 333));
    assert!(!accepts_imu("33.29999", 333));
    assert!(
        !accepts_imu("33.2999999999", 333),
        "the rate has the f32 of 33.3"
    );
    assert!(accepts_imu("33.3000000001", 333));
}
