//! Tests of the input of scoring: dropped samples do not count, for each source of the events.

use porchlight_schema::sample::json::decode_batch;

use super::*;
use crate::session::SessionMachine;
use crate::session::tests::context;

fn batch(samples: &[&str]) -> PackedBatch {
    let text = format!(r#"{{"seq":0,"samples":[{}]}}"#, samples.join(","));
    decode_batch(text.as_bytes()).unwrap().batch
}

/// Replays one batch, once with detection and once with the events of a live machine.
fn replays(samples: &[&str]) -> [Replayed; 2] {
    let (context, batch) = (context(), batch(samples));
    let mut machine = SessionMachine::default();
    machine.receive(&context, 0, &batch);
    let known = Replay::with_events(&context, machine.final_events(&context));
    [Replay::new(&context), known].map(|mut replay| {
        replay.batch(0, &batch);
        replay.finish()
    })
}

#[test]
fn a_dropped_mark_or_incident_does_not_count() {
    let replays = replays(&[
        r#"{"t":100,"kind":"pressure","hPa":1000}"#,
        r#"{"t":100,"kind":"mark","name":"arrived"}"#,
        r#"{"t":99,"kind":"mark","name":"handed_over"}"#,
        r#"{"t":100,"kind":"system","name":"background"}"#,
        r#"{"t":99,"kind":"system","name":"integrity_failed"}"#,
        r#"{"t":120,"kind":"pressure","hPa":1000}"#,
        r#"{"t":107,"kind":"mark","name":"left_at_door"}"#,
        r#"{"t":107,"kind":"system","name":"clock_changed"}"#,
        r#"{"t":108,"kind":"mark","name":"pod_captured"}"#,
    ]);
    for replayed in replays {
        let marks = [
            (100_000, MarkName::Arrived),
            (108_000, MarkName::PodCaptured),
        ];
        assert_eq!(replayed.marks, marks);
        assert_eq!(replayed.system, [(100_000, SystemName::Background)]);
        let dropped = replayed.dropped;
        assert_eq!((dropped.out_of_order, dropped.too_late), (2, 2));
    }
}

#[test]
fn the_last_drop_off_counts_after_any_number_of_marks() {
    let own: Vec<String> = (0..2_000)
        .map(|n| format!(r#"{{"t":{n},"kind":"mark","name":"step {n}"}}"#))
        .collect();
    let mut samples: Vec<&str> = own.iter().map(String::as_str).collect();
    samples.push(r#"{"t":2000,"kind":"mark","name":"handed_over"}"#);
    for replayed in replays(&samples) {
        assert_eq!(
            replayed.marks.last(),
            Some(&(2_000_000, MarkName::HandedOver))
        );
        assert!(replayed.marks.len() < 300);
    }
}

#[test]
fn a_mark_ends_a_silence_and_measures_nothing() {
    let silences = |samples: &[&str]| {
        replays(samples).map(|replayed| {
            let windows = &replayed.windows;
            let silent = |window: &&Window| window.silent_since_ms.is_some();
            (
                windows.iter().filter(silent).count(),
                windows
                    .iter()
                    .filter(|window| window.has_measurement)
                    .count(),
                windows.iter().filter(|window| window.has_sample).count(),
            )
        })
    };
    let (before, after) = (
        r#"{"t":100,"kind":"pressure","hPa":1000}"#,
        r#"{"t":140,"kind":"pressure","hPa":1000}"#,
    );
    let mark = r#"{"t":115,"kind":"mark","name":"scan"}"#;
    assert_eq!(silences(&[before, after]), [(1, 2, 2); 2]);
    assert_eq!(silences(&[before, mark, after]), [(0, 2, 3); 2]);
    assert_eq!(silences(&[before, mark]), [(0, 1, 2); 2]);
}

/// A release that does not know a kind of sample reads the batch up to it.
#[test]
fn a_batch_that_cannot_be_read_to_its_end_counts_as_quarantined() {
    let context = context();
    let readable = batch(&[r#"{"t":1,"kind":"activity","type":"still","confidence":1}"#]);
    let mut bytes = readable.as_bytes().to_vec();
    // The format, the number of samples, two bytes of `t_max_ms`, the number of runs, and then the
    // kind of the first run.
    bytes[5] = 9;
    let undecodable = PackedBatch::from_bytes(bytes.into()).unwrap();
    let mut machine = SessionMachine::default();
    machine.receive(&context, 0, &undecodable);
    assert_eq!(machine.next_seq(), 1);
    let known = Replay::with_events(&context, machine.final_events(&context));
    for mut replay in [Replay::new(&context), known] {
        assert!(!replay.batch(0, &undecodable));
        assert!(replay.batch(1, &readable));
        let replayed = replay.finish();
        assert_eq!(replayed.quarantined_batches, 1);
        assert_eq!(replayed.missing_batches, 0);
    }
}

/// Returns a fix and a pressure for each second of `times_sec`.
fn each_second(times_sec: impl Iterator<Item = u32>) -> Vec<String> {
    let samples = times_sec.map(|t| {
        format!(
            r#"{{"t":{t}.25,"kind":"location","lat":48,"lng":11}},{{"t":{t}.5,"kind":"pressure","hPa":1000}}"#
        )
    });
    samples.collect()
}

#[test]
fn a_clock_that_was_set_back_is_found_and_late_samples_are_none() {
    let steps = |times_sec: Vec<u32>| {
        let samples = each_second(times_sec.into_iter());
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        replays(&samples).map(|replayed| replayed.clock_steps)
    };
    let step = ClockStep {
        t_ms: 99_250,
        by_ms: 19_000,
    };
    let set_back: Vec<u32> = (0..100).chain(80..200).collect();
    assert_eq!(steps(set_back), [vec![step], vec![step]]);
    // A phone that sends fixes alone.
    let fixes: Vec<String> = (0..100)
        .chain(80..200)
        .map(|t| format!(r#"{{"t":{t}.25,"kind":"location","lat":48,"lng":11}}"#))
        .collect();
    let fixes: Vec<&str> = fixes.iter().map(String::as_str).collect();
    for replayed in replays(&fixes) {
        assert_eq!(replayed.clock_steps, [step]);
    }
    // Each sample comes a second time, five seconds late.
    let late = (5..200).flat_map(|sec| [sec, sec - 5]).collect();
    assert_eq!(steps(late), [vec![], vec![]]);
}
