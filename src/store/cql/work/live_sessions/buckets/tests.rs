//! Tests the buckets, and the order of rows from several of them.

use super::*;

const T0: TimestampMs = TimestampMs(1_763_636_100_000);

fn session(at_ms: i64, number: u128) -> SessionId {
    SessionId::new(T0.plus_ms(at_ms), number)
}

#[test]
fn a_row_is_found_again_by_a_node_whose_clock_is_up_to_an_hour_behind() {
    let id = session(0, 1);
    for age_ms in [
        0,
        1_000,
        HOUR_MS,
        OLD_AFTER_MS,
        OLD_AFTER_MS + 1,
        90 * DAY_MS,
    ] {
        let written = bucket_of(id, T0.plus_ms(age_ms));
        for later_ms in [-HOUR_MS + 1, 0, DAY_MS] {
            let cleared = buckets_to_clear(id, T0.plus_ms(age_ms + later_ms));
            assert!(cleared.contains(&written), "{age_ms} {later_ms}");
        }
        assert!(all_buckets(id).contains(&written));
    }
    assert_eq!(
        buckets_to_clear(id, T0).len(),
        1,
        "most sessions need one delete"
    );
}

#[test]
fn a_watermark_never_passes_an_hour_into_which_rows_are_still_written() {
    // Clocks that differ by less than three hours.
    for minutes in 0..60 {
        let id = session(minutes * 60_000, 1);
        let written_at = id.made_at().plus_ms(OLD_AFTER_MS);
        let bucket = bucket_of(id, written_at);
        assert_ne!(bucket, OLD);
        let ahead = written_at.plus_ms(3 * HOUR_MS);
        let watermark = slot_of(ahead.plus_ms(-WATERMARK_AFTER_MS), HOUR_MS);
        assert!(end_ms(bucket) > watermark * HOUR_MS, "{minutes}");
    }
}

/// Pages through partitions of these sizes, and returns all sessions found and the rows read.
fn paged(partitions: &[Vec<Entry>], limit: usize) -> (Vec<SessionId>, usize) {
    let (mut found, mut rows_read) = (Vec::new(), 0);
    loop {
        let after: Option<SessionId> = found.last().copied();
        let per_shard = rows_per_shard(limit, partitions.len());
        let mut rows = EntryPage::default();
        for partition in partitions {
            let later = partition.iter();
            let later = later.filter(|entry| after.is_none_or(|after| entry.session_id > after));
            let later: Vec<Entry> = later.take(per_shard).copied().collect();
            rows_read += later.len();
            rows.add(later, per_shard);
        }
        let (entries, are_all) = rows.in_order(limit);
        found.extend(entries.iter().map(|entry| entry.session_id));
        if are_all {
            return (found, rows_read);
        }
    }
}

#[test]
fn pages_return_each_session_once_and_read_a_bounded_number_of_rows() {
    let sizes = [vec![0, 0, 0], vec![1, 700, 3], vec![400; 16], vec![5_000]];
    for sizes in sizes {
        let mut all = Vec::new();
        let partitions = sizes.iter().enumerate().map(|(shard, &size)| {
            let entries = (0..size).map(|number: i64| Entry {
                session_id: session(number * 7 + shard as i64, number as u128),
                bucket: 0,
            });
            let entries: Vec<_> = entries.collect();
            all.extend(entries.iter().map(|entry| entry.session_id));
            entries
        });
        let partitions: Vec<Vec<Entry>> = partitions.collect();
        all.sort_unstable();
        let (found, rows) = paged(&partitions, 100);
        assert_eq!(found, all);
        let pages = all.len() / 100 + 2;
        let most = 8 * all.len() + pages * partitions.len() * SHARD_ROWS_MIN;
        assert!(rows <= most, "{rows} rows for {} sessions", all.len());
    }
}
