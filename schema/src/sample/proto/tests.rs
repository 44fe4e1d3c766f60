//! Tests the protobuf form of a batch against its schema.

use proptest::prelude::*;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::{Value as Json, json};

use super::*;
use crate::sample::json;
use crate::time::TimestampMs;

fn message(name: &str) -> MessageDescriptor {
    let folder = env!("CARGO_MANIFEST_DIR");
    let files = protox::compile(["porchlight.proto"], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    pool.get_message_by_name(&format!("porchlight.v1.{name}"))
        .unwrap()
}

/// Returns the bytes that a generated encoder produces from a JSON batch, by the published schema.
fn encoded(batch: &MessageDescriptor, text: &str) -> Vec<u8> {
    let mut json = serde_json::Deserializer::from_str(text);
    let message = DynamicMessage::deserialize(batch.clone(), &mut json).unwrap();
    json.end().unwrap();
    message.encode_to_vec()
}

fn sample(seed: (u8, u16, i32), values: &[f32]) -> Json {
    let (kind, t_ms, number) = seed;
    // Floats that are exact in both formats.
    let part = |parts: i32, of: f64| f64::from((f64::from(parts) / of) as f32);
    let t = f64::from(t_ms) / 8.0;
    let share = f64::from(number.rem_euclid(1_024)) / 1_024.0;
    match kind % 9 {
        0 => {
            json!({ "kind": "location", "t": t, "lat": f64::from(number % 900_000_000) / 1e7, "lng": -13.404_954 })
        }
        1 => {
            json!({ "kind": "location", "t": t, "lat": share, "lng": share * 179.0, "accuracyM": part(number % 4_096, 32.0).abs(),
            "altitudeM": part(number % 8_192, 16.0), "speedMps": share * 64.0 - 1.0, "bearingDeg": share * 256.0, "mock": number % 2 == 0,
            "provider": (Provider::ALL[number.rem_euclid(4) as usize].as_str()) })
        }
        2 => json!({ "kind": "pressure", "t": t, "hPa": 890.0 + share * 256.0 }),
        3 => json!({ "kind": "steps", "t": t, "count": number.unsigned_abs() % 100_000_000 }),
        4 => {
            let mut imu = json!({ "kind": "imu", "t": t, "hz": 400.0, "ax": values, "ay": values, "az": values });
            if number % 2 == 0 {
                for axis in ["gx", "gy", "gz"] {
                    imu[axis] = json!(values);
                }
            }
            imu
        }
        5 => {
            json!({ "kind": "motion", "t": t, "accelMean": share, "accelStd": share * 2.0, "verticalMean": -share, "cadenceHz": share * 8.0, "yawRad": share * -64.0 })
        }
        6 => {
            json!({ "kind": "magnetic", "t": t, "x": share, "y": -share, "z": part(number % 4_096, 4.0) })
        }
        7 => json!({ "kind": "activity", "t": t, "confidence": share,
            "type": (ActivityType::ALL[number.rem_euclid(6) as usize].as_str()) }),
        _ => json!({ "kind": if number % 2 == 0 { "mark" } else { "system" }, "t": t,
            "name": if number % 2 == 0 { "Übergabe" } else { "power_save" } }),
    }
}

#[test]
fn the_acknowledgement_matches_the_schema() {
    let ack = message("AckSeq");
    let session_id = SessionId::new(TimestampMs(1_700_000_000_000), 7);
    for (session_id, seq) in [(Some(session_id), 0), (None, 17), (None, BATCH_SEQ_MAX)] {
        let read =
            DynamicMessage::decode(ack.clone(), encode_ack(session_id, seq).as_slice()).unwrap();
        let mut expected = json!({ "ackSeq": seq });
        if let Some(session_id) = session_id {
            expected["sessionId"] = json!(session_id.to_string());
        }
        assert_eq!(serde_json::to_value(&read).unwrap(), expected);
    }
}

#[test]
fn names_and_numbers_of_enums_match_the_schema() {
    let sample = message("Sample");
    let names = |field: &str| {
        let field = sample.get_field_by_name(field).unwrap();
        let kind = field.kind();
        let values = kind.as_enum().unwrap().clone();
        let mut names: Vec<_> = values
            .values()
            .map(|value| (value.number(), value.name().to_owned()))
            .collect();
        names.sort_unstable();
        let zero = names.remove(0);
        assert!(
            zero.0 == 0 && zero.1.ends_with("_UNSPECIFIED"),
            "{}",
            zero.1
        );
        names.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("kind"), Kind::ALL.map(Kind::as_str));
    let expected: Vec<_> = Provider::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(names("provider"), expected);
    let expected: Vec<_> = ActivityType::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(names("type"), expected);
    assert!(
        sample
            .fields()
            .all(|field| (field.number() as usize) < SLOTS)
    );
}

#[test]
fn faults_are_reported_as_in_json() {
    let batch = message("Batch");
    let cases = [
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "location", "lat": 91, "lng": 0 }] }),
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "location", "lng": 0 }, { "t": -1, "kind": "mark", "name": "x" }] }),
        json!({ "seq": 1, "samples": [{ "kind": "pressure", "hPa": 1000 }] }),
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "imu", "hz": 50, "ax": [1], "ay": [1, 2], "az": [1] }] }),
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "imu", "hz": 50, "ax": [1, 500], "ay": [1, 2], "az": [1, 2] }] }),
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "imu", "hz": 50, "ax": [1], "ay": [1], "az": [1], "gx": [1], "gz": [101] }] }),
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "imu", "hz": 50, "ax": [1], "ay": [1], "az": [1], "gy": [1, 2] }] }),
        json!({ "seq": 1, "samples": [{ "t": 1, "kind": "mark", "name": "" }] }),
        json!({ "seq": 1, "samples": [{ "t": 1 }] }),
        json!({ "seq": 1, "samples": vec![json!({ "t": -1, "kind": "steps", "count": 1 }); FIELD_ERRORS_MAX + 3] }),
        json!({ "seq": 1_000_001, "samples": [] }),
        json!({ "samples": [{ "t": 1 }] }),
        json!({ "seq": 1, "samples": vec![json!({ "t": 1, "kind": "steps", "count": 1 }); BATCH_SAMPLES_MAX + 1] }),
        json!({ "samples": vec![json!({ "t": 1, "kind": "steps", "count": 1 }); BATCH_SAMPLES_MAX + 1] }),
    ];
    for case in cases {
        let text = case.to_string();
        assert_eq!(
            decode_batch(&encoded(&batch, &text)).unwrap_err(),
            json::decode_batch(text.as_bytes()).unwrap_err(),
            "{}",
            &text[..text.len().min(200)]
        );
    }
}

/// A rate with one decimal is a float in protobuf, below or above the decimal.
#[test]
fn an_imu_sample_of_up_to_ten_seconds_is_accepted() {
    let takes = |tenths: usize, values: usize| {
        // The kind, a time of 0, and the number of the rate.
        let head = [&[0x08, Kind::Imu as u8 + 1, 0x11][..], &[0; 8], &[0x6d]];
        let mut sample = head.concat();
        sample.extend_from_slice(&(tenths as f32 / 10.0).to_le_bytes());
        for axis in FIRST_AXIS..FIRST_AXIS + 3 {
            wire::put_bytes(&mut sample, axis as u32, &vec![0; 4 * values]);
        }
        let mut bytes = vec![0x08, 0];
        wire::put_bytes(&mut bytes, 2, &sample);
        decode_batch(&bytes).is_ok()
    };
    for tenths in (10..=4_000).step_by(7).chain([333, 3_999, 4_000]) {
        assert!(takes(tenths, tenths), "{tenths}");
        assert!(!takes(tenths, tenths + 1), "{tenths}");
    }
}

#[test]
fn unusual_valid_encodings_are_read() {
    let read = |bytes: &[u8]| decode_batch(bytes).map(|decoded| (decoded.seq, decoded.batch));
    let plain = json::decode_batch(br#"{"seq":3,"samples":[{"t":1.5,"kind":"steps","count":7}]}"#);
    let plain = plain.unwrap().batch;
    let sample = [0x08, 3, 0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0x60, 7];
    let with = |before: &[u8], inside: &[u8], after: &[u8]| {
        let mut bytes = before.to_vec();
        wire::put_bytes(&mut bytes, 2, &[&sample[..], inside].concat());
        bytes.extend_from_slice(after);
        bytes
    };
    // `seq` at the end, and twice (the last one counts).
    assert_eq!(
        read(&with(&[0x08, 1], &[], &[0x08, 3])),
        Ok((3, plain.clone()))
    );
    // Unknown fields: a varint, bytes, a group within a group.
    let unknown = [
        0xf8, 0x3f, 1, 0xfa, 0x3f, 2, 9, 9, 0xfb, 0x3f, 0x0b, 0x0c, 0xfc, 0x3f,
    ];
    assert_eq!(
        read(&with(&unknown, &unknown, &[0x08, 3])),
        Ok((3, plain.clone()))
    );
    // A varint with redundant bytes.
    assert_eq!(read(&with(&[0x08, 0x83, 0x00], &[], &[])), Ok((3, plain)));
    // Samples of unknown kinds are skipped; a missing kind or time is an error.
    let at_0 = [0x11, 0, 0, 0, 0, 0, 0, 0, 0];
    let unknown = [&[0x08, 0, 0x12, 11, 0x08, 99][..], &at_0].concat();
    let decoded = decode_batch(&unknown).unwrap();
    assert_eq!((decoded.batch.samples(), decoded.unknown_kinds), (0, 1));
    for missing in [
        &[0x08, 0, 0x12, 0][..],
        &[0x08, 0, 0x12, 2, 0x08, 0],
        &[0x08, 0, 0x12, 2, 0x08, 99],
    ] {
        assert!(matches!(
            decode_batch(missing),
            Err(DecodeError::Invalid(_))
        ));
    }
}

#[test]
fn invalid_protobuf_is_reported() {
    for bytes in [
        &b"{}"[..],
        &[0x08],
        &[0x08, 0x80],
        &[0x00, 1],
        &[0x0a, 1, 1],
        &[0x12, 5, 1],
        &[0x10, 1],
        &[0x12, 2, 0x09, 1],
        &[0x12, 2, 0x18, 1],
        &[0x12, 4, 0xf2, 1, 1, 0xff],
        &[0x12, 4, 0x72, 3, 1, 2, 3],
        &[0x0b],
        &[0x0f, 1],
        &[
            0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ],
    ] {
        assert!(
            matches!(decode_batch(bytes), Err(DecodeError::Syntax(_))),
            "{bytes:02x?}"
        );
    }
    let nested = [0xfb, 0x3f].repeat(1_000);
    assert!(decode_batch(&nested).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A batch from a generated encoder equals the JSON batch with the same content, to the last
    /// bit.
    #[test]
    fn protobuf_and_json_agree(
        seq in 0_u32..=BATCH_SEQ_MAX,
        seeds in proptest::collection::vec((any::<u8>(), any::<u16>(), any::<i32>()), 0..40),
        values in proptest::collection::vec((-3_200_i16..3_200).prop_map(|parts| f32::from(parts) / 32.0), 1..50),
    ) {
        let samples: Vec<_> = seeds.into_iter().map(|seed| sample(seed, &values)).collect();
        let text = json!({ "seq": seq, "samples": samples }).to_string();
        let of_json = json::decode_batch(text.as_bytes()).unwrap();
        let of_proto = decode_batch(&encoded(&message("Batch"), &text)).unwrap();
        prop_assert_eq!(of_proto.seq, of_json.seq);
        prop_assert_eq!(of_proto.batch.as_bytes(), of_json.batch.as_bytes());
    }
}
