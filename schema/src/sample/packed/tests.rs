//! Tests the promises of packed batches between releases.

use super::*;
use crate::sample::{ActivityType, Kind, Pressure, Provider, Sample, SystemName};

fn batch(skipped: u32) -> PackedBatch {
    let mut builder = BatchBuilder::default();
    for t_ms in [0, 1_000, 2_500] {
        let hpa = 1_000.0;
        builder
            .push(&Sample::Pressure(Pressure { t_ms, hpa }))
            .unwrap();
    }
    builder.skip(skipped);
    builder.pack()
}

#[test]
fn a_new_kind_or_value_takes_a_new_format() {
    let known = (
        FORMAT_WITH_SKIPPED,
        Kind::ALL.len(),
        ActivityType::ALL.len(),
        Provider::ALL.len(),
        SystemName::ALL.len(),
    );
    assert_eq!(
        known,
        (2, 9, 6, 4, 9),
        "raise the number of the format for batches with a new kind or value, so that earlier releases do not take them \
         for damaged; then change this test"
    );
}

#[test]
fn a_repeat_is_recognized_in_the_form_of_the_first_release() {
    let (plain, counted) = (batch(0), batch(3));
    assert_eq!(plain.as_bytes()[0], FORMAT);
    assert_eq!(counted.as_bytes()[0], FORMAT_WITH_SKIPPED);
    assert!(plain.is_repeat_of(plain.as_bytes()) && counted.is_repeat_of(counted.as_bytes()));
    assert!(
        counted.is_repeat_of(plain.as_bytes()),
        "the first release left out the count"
    );
    assert_eq!(counted.hash_without_skipped(), Some(plain.hash()));
    assert_eq!(plain.hash_without_skipped(), None);
    assert!(!plain.is_repeat_of(counted.as_bytes()));
    assert!(!batch(2).is_repeat_of(counted.as_bytes()));
    let mut other = plain.as_bytes().to_vec();
    *other.last_mut().unwrap() ^= 1;
    assert!(!counted.is_repeat_of(&other));
}

#[test]
fn a_check_reads_the_columns() {
    assert_eq!(batch(1).check(), Ok(()));
    let mut bytes = batch(0).as_bytes().to_vec();
    // The format, the number of samples, two bytes of `t_max_ms`, the number of runs, and then the
    // kind of the first run.
    assert_eq!(bytes[4..6], [1, Kind::Pressure as u8]);
    bytes[5] = 9;
    let unknown = PackedBatch::from_bytes(Arc::from(bytes)).unwrap();
    assert_eq!(unknown.check(), Err(PackedError::Damaged("run")));
}
