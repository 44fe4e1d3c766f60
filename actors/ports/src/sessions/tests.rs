//! Tests that rows of earlier releases are read.

use serde::{Deserialize, Serialize};

use super::*;

/// The fields of [`Covered`] as version 1.0 stored them.
#[derive(Serialize, Deserialize)]
struct CoveredOf10 {
    batches: u32,
    pod_received_at: Option<TimestampMs>,
}

/// The fields of [`StoredInsight`] as version 1.0 stored them.
#[derive(Serialize)]
struct InsightOf10 {
    record: InsightRecord,
    covered: CoveredOf10,
    known: Vec<u8>,
}

fn record() -> InsightRecord {
    InsightRecord {
        revision: 3,
        score: None,
        error_message: Some("no".to_owned()),
        pod: None,
        updated_at: TimestampMs(7),
    }
}

#[test]
fn covered_rows_of_version_1_0_are_read_and_written_unchanged() {
    for pod_received_at in [None, Some(TimestampMs(1_800_000_000_000))] {
        let old = CoveredOf10 {
            batches: 300,
            pod_received_at,
        };
        let bytes = postcard::to_allocvec(&old).unwrap();
        let read: Covered = postcard::from_bytes(&bytes).unwrap();
        let expected = Covered {
            batches: 300,
            pod_received_at,
            late_stop_at: None,
        };
        assert_eq!(read, expected);
        assert_eq!(postcard::to_allocvec(&expected).unwrap(), bytes);
    }
}

#[test]
fn covered_rows_round_trip() {
    let times = [None, Some(TimestampMs(-5)), Some(TimestampMs(9))];
    for pod_received_at in times {
        for late_stop_at in times {
            let covered = Covered {
                batches: 1,
                pod_received_at,
                late_stop_at,
            };
            let bytes = postcard::to_allocvec(&covered).unwrap();
            assert_eq!(postcard::from_bytes::<Covered>(&bytes).unwrap(), covered);
        }
    }
}

#[test]
fn an_insight_of_version_1_0_has_no_dropped_samples() {
    let old = InsightOf10 {
        record: record(),
        covered: CoveredOf10 {
            batches: 2,
            pod_received_at: None,
        },
        known: vec![1, 2, 3],
    };
    let bytes = postcard::to_allocvec(&old).unwrap();
    let read: StoredInsight = postcard::from_bytes(&bytes).unwrap();
    let mut expected = StoredInsight {
        record: record(),
        covered: Covered {
            batches: 2,
            ..Covered::default()
        },
        known: vec![1, 2, 3],
        dropped: DroppedSamples::default(),
    };
    assert_eq!(read, expected);
    expected.dropped = DroppedSamples {
        out_of_order: 1,
        too_late: 200,
        unknown_kind: 3,
    };
    let bytes = postcard::to_allocvec(&expected).unwrap();
    assert_eq!(
        postcard::from_bytes::<StoredInsight>(&bytes).unwrap(),
        expected
    );
}

#[test]
fn an_end_of_version_1_0_is_read() {
    #[derive(Serialize)]
    enum ReasonOf10 {
        #[expect(dead_code, reason = "it has the first number")]
        Stopped,
        Idle,
    }
    let old = (TimestampMs(5), TimestampMs(6), ReasonOf10::Idle);
    let bytes = postcard::to_allocvec(&old).unwrap();
    let read: SessionEnd = postcard::from_bytes(&bytes).unwrap();
    let expected = SessionEnd {
        ended_at: TimestampMs(5),
        completed_at: TimestampMs(6),
        reason: porchlight_schema::session::EndReason::Idle,
    };
    assert_eq!(read, expected);
}
