//! Pins the bytes of every variant of the stored enums of the machines and of the ports; those of
//! the schema are pinned there.

use core::fmt::Debug;

use porchlight_core::webhook::{Cause, State};
use porchlight_schema::hex;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::Note;
use crate::outbox::SecretRequest;
use crate::sessions::Covered;

/// Asserts that each value has these bytes, in hexadecimal digits, and that the bytes have this
/// value. Asserts also that the enum has no variant after these.
fn assert_pinned<T>(pinned: &[(T, &str)])
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    for (value, expected) in pinned {
        let bytes = postcard::to_allocvec(value).unwrap();
        assert_eq!(
            hex::encode(&bytes),
            *expected,
            "stored rows hold these bytes of {value:?}: append a variant, never insert one"
        );
        assert_eq!(&postcard::from_bytes::<T>(&bytes).unwrap(), value);
    }
    let mut next = [0; 32];
    next[0] = u8::try_from(pinned.len()).unwrap();
    if let Ok((value, _)) = postcard::take_from_bytes::<T>(&next) {
        panic!("pin the bytes of {value:?} here");
    }
}

#[test]
fn every_stored_state_and_cause_keeps_its_bytes() {
    assert_pinned(&[
        (State::Waiting, "00"),
        (State::Delivered, "01"),
        (State::Failed, "02"),
        (State::Superseded, "03"),
        (State::Held, "04"),
        (State::Cancelled, "05"),
    ]);
    assert_pinned(&[
        (Cause::Dns, "00"),
        (Cause::Connect, "01"),
        (Cause::Tls, "02"),
        (Cause::BlockedAddress, "03"),
        (Cause::Timeout, "04"),
        (Cause::Status, "05"),
        (Cause::Redirect, "06"),
        (Cause::Protocol, "07"),
        (Cause::Internal, "08"),
    ]);
}

#[test]
fn every_stored_enum_of_the_ports_keeps_its_bytes() {
    assert_pinned(&[(SecretRequest::Create, "00"), (SecretRequest::Rotate, "01")]);
    assert_pinned(&[
        (Note::Skipped { first: 1, last: 2 }, "000102"),
        (Note::Quarantined { seq: 3 }, "0103"),
        (Note::TelemetryExpired, "02"),
        (Note::MessagesExpired, "03"),
    ]);
}

#[test]
fn the_parts_that_an_insight_covers_keep_their_bytes() {
    let [pod, stop] = [Some(TimestampMs(1)), Some(TimestampMs(2))];
    for (pod_received_at, late_stop_at, expected) in [
        (None, None, "0700"),
        (pod, None, "070102"),
        (None, stop, "070204"),
        (pod, stop, "07030204"),
    ] {
        let covered = Covered {
            batches: 7,
            pod_received_at,
            late_stop_at,
        };
        let bytes = postcard::to_allocvec(&covered).unwrap();
        assert_eq!(hex::encode(&bytes), expected, "{covered:?}");
    }
}
