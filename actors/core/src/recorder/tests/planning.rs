//! The choice of session and `seq` for pushes that arrive twice, in any order, or days late, and
//! for ends.

use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::Kind;
use porchlight_schema::time::TimestampMs;
use proptest::prelude::*;

use super::super::*;

const IDLE_MS: i64 = 30 * 60_000;
const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

fn push(number: Option<(u64, u32)>, times_ms: &[i64], ends_ms: &[i64]) -> Push {
    let readings = times_ms.iter().map(|&at_ms| Reading {
        at_ms,
        measurement: Measurement::Pressure(1_000.0),
    });
    let mut digest = 0_u64;
    for &at_ms in times_ms.iter().chain(ends_ms) {
        digest = digest.wrapping_mul(31).wrapping_add(at_ms as u64);
    }
    Push {
        readings: readings.collect(),
        ends_at_ms: ends_ms.to_vec(),
        number: number.map(|(recording, number)| PushNumber { recording, number }),
        digest,
        skipped: 0,
    }
}

/// The appended batches: session, `seq`, samples.
type Appended = Vec<(u32, u32, u32)>;

fn play(state: &mut RecorderState, push: &Push) -> (Appended, Vec<(u32, i64)>) {
    let plan = state.plan(push, IDLE_MS, NOW);
    for opening in &plan.openings {
        let id = SessionId::new(NOW, opening.ordinal.into());
        state.mark_created(opening.ordinal, id, opening.started_at_ms);
    }
    let appends = plan.appends.iter().map(|append| {
        let session = state.session(append.ordinal).unwrap();
        let batch = append.pack(session.started_at_ms);
        (append.ordinal, append.seq, batch.samples())
    });
    let stops = plan
        .stops
        .iter()
        .map(|stop| (stop.ordinal, stop.ended_at_ms));
    (appends.collect(), stops.collect())
}

#[test]
fn unnumbered_pushes_get_a_seq_and_are_deduplicated() {
    let mut state = RecorderState::default();
    let pushes: Vec<_> = (0..5).map(|n| push(None, &[n * 1_000], &[])).collect();
    for (seq, one) in (0..).zip(&pushes) {
        assert_eq!(play(&mut state, one).0, [(0, seq, 1)]);
    }
    for (seq, one) in (0..).zip(&pushes) {
        assert_eq!(play(&mut state, one).0, [(0, seq, 1)], "again");
    }
    assert_eq!(state.newest().unwrap().started_at_ms, 0);
}

#[test]
fn numbered_pushes_keep_the_order_of_their_numbers() {
    let numbered = |number: u32| {
        let from_ms = i64::from(number) * 1_000;
        push(Some((1, number)), &[from_ms, from_ms + 500], &[])
    };
    let mut state = RecorderState::default();
    for number in [0, 2, 1, 5, 4, 3, 3, 0] {
        assert_eq!(play(&mut state, &numbered(number)).0, [(0, number, 2)]);
    }
    // The first push to arrive is not the first of its recording: there is room for the pushes
    // in flight.
    let mut state = RecorderState::default();
    for number in [2, 0, 1, 3] {
        assert_eq!(
            play(&mut state, &numbered(number)).0.first().unwrap().1,
            number
        );
    }
    let began_ms = state.newest().unwrap().started_at_ms;
    assert_eq!(
        began_ms, 0,
        "as far back as the length of the first to come says"
    );
    // A recording that began long before does not wait for earlier pushes.
    let mut state = RecorderState::default();
    assert_eq!(play(&mut state, &numbered(1_000)).0, [(0, 0, 2)]);
    assert_eq!(play(&mut state, &numbered(1_001)).0, [(0, 1, 2)]);
}

#[test]
fn another_recording_continues_the_same_session() {
    let mut state = RecorderState::default();
    let of = |recording, number, at_ms| push(Some((recording, number)), &[at_ms], &[]);
    assert_eq!(play(&mut state, &of(1, 0, 0)).0, [(0, 0, 1)]);
    assert_eq!(play(&mut state, &of(1, 1, 1_000)).0, [(0, 1, 1)]);
    assert_eq!(play(&mut state, &of(2, 0, 9_000)).0, [(0, 2, 1)]);
    // The rest of the first recording arrives late: its place is taken.
    let late = of(1, 2, 2_000);
    let (first, again) = (play(&mut state, &late).0, play(&mut state, &late).0);
    assert_eq!(first, again);
    assert_eq!(first[0].1, 3);
    // The second recording continues after it.
    assert_eq!(play(&mut state, &of(2, 1, 10_000)).0, [(0, 4, 1)]);
    assert_eq!(play(&mut state, &of(2, 0, 9_000)).0, [(0, 2, 1)]);
}

#[test]
fn an_end_word_ends_the_session_and_newer_data_opens_the_next() {
    let mut state = RecorderState::default();
    let first = push(Some((1, 0)), &[0, 1_000], &[]);
    let both = push(Some((1, 1)), &[2_000, 3_000, 4_000], &[3_000]);
    assert_eq!(play(&mut state, &first), (vec![(0, 0, 2)], vec![]));
    let expected = (vec![(0, 1, 2), (1, 0, 1)], vec![(0, 3_000)]);
    assert_eq!(play(&mut state, &both), expected);
    assert_eq!(play(&mut state, &both), expected, "again");
    // A reading from before the end belongs to the ended session, however late it arrives.
    let late = push(None, &[2_500], &[]);
    assert_eq!(play(&mut state, &late).0, [(0, 2, 1)]);
    let next = push(Some((1, 2)), &[5_000], &[]);
    assert_eq!(play(&mut state, &next).0, [(1, 1, 1)]);
    assert_eq!(state.newest().unwrap().ordinal, 1);
}

#[test]
fn an_end_word_alone_opens_no_session() {
    let word = |at_ms: i64| Push {
        readings: vec![Reading {
            at_ms,
            measurement: Measurement::Mark("stop".to_owned()),
        }],
        ends_at_ms: vec![at_ms],
        ..push(None, &[], &[at_ms])
    };
    let mut state = RecorderState::default();
    assert_eq!(play(&mut state, &word(0)), (vec![], vec![]));
    play(&mut state, &push(None, &[1_000], &[]));
    assert_eq!(play(&mut state, &word(2_000)).1, [(0, 2_000)]);
    assert_eq!(
        play(&mut state, &word(3_000)),
        (vec![], vec![]),
        "said twice"
    );
}

#[test]
fn an_offline_phone_continues_and_an_idle_one_starts_again() {
    let mut state = RecorderState::default();
    play(&mut state, &push(None, &[0, 10_000], &[]));
    state.mark_newest_ended(EndOfSession::Idle);
    // The phone recorded continuously, but had no network.
    let kept = push(None, &[20_000, IDLE_MS + 20_000], &[]);
    assert_eq!(play(&mut state, &kept).0, [(0, 1, 2)]);
    let after = push(None, &[3 * IDLE_MS], &[]);
    assert_eq!(play(&mut state, &after).0, [(1, 0, 1)]);
    // The customer stops the next session.
    state.mark_newest_ended(EndOfSession::At(3 * IDLE_MS + 500));
    let last = push(None, &[3 * IDLE_MS + 400, 3 * IDLE_MS + 600], &[]);
    assert_eq!(play(&mut state, &last).0, [(1, 1, 1), (2, 0, 1)]);
}

/// Returns the counts of the batches of a push: session, samples, skipped samples.
fn counts(state: &mut RecorderState, push: &Push) -> Vec<(u32, u32, u32)> {
    let plan = state.plan(push, IDLE_MS, NOW);
    for opening in &plan.openings {
        let id = SessionId::new(NOW, opening.ordinal.into());
        state.mark_created(opening.ordinal, id, opening.started_at_ms);
    }
    let appends = plan.appends.iter().map(|append| {
        let batch = append.pack(state.session(append.ordinal).unwrap().started_at_ms);
        (append.ordinal, batch.samples(), batch.skipped())
    });
    appends.collect()
}

#[test]
fn readings_outside_of_all_sessions_are_counted_as_skipped() {
    let mut state = RecorderState::default();
    let first = push(None, &[10_000, 20_000], &[20_000]);
    assert_eq!(counts(&mut state, &first), [(0, 2, 0)]);
    assert_eq!(counts(&mut state, &push(None, &[40_000], &[])), [(1, 1, 0)]);
    for (times_ms, expected) in [
        (&[5_000, 11_000][..], &[(0, 1, 1)][..]),
        (&[5_000, 6_000], &[(0, 0, 2)]),
        (&[20_000, 30_000, 41_000], &[(0, 1, 0), (1, 1, 1)]),
    ] {
        let one = push(None, times_ms, &[]);
        assert_eq!(counts(&mut state, &one), expected, "{times_ms:?}");
        assert_eq!(counts(&mut state, &one), expected, "again");
    }
}

/// An app repeats an end word after each reading, or somebody tries to open a session for each.
#[test]
fn one_push_opens_only_a_few_sessions() {
    let mut state = RecorderState::default();
    let times_ms: Vec<i64> = (0..1_000).map(|n| n * 10_000).collect();
    let ends_ms: Vec<i64> = times_ms.iter().map(|at_ms| at_ms + 5_000).collect();
    let counts = counts(&mut state, &push(None, &times_ms, &ends_ms));
    assert_eq!(counts, [(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 996)]);
}

#[test]
fn one_wrong_time_ahead_does_not_move_the_session_into_the_future() {
    let mut state = RecorderState::default();
    let wrong = push(None, &[NOW.0 + 7_200_000], &[]);
    let plan = state.plan(&wrong, IDLE_MS, NOW);
    assert_eq!(plan.openings[0].begins_at, NOW);
    assert_eq!(counts(&mut state, &wrong), [(0, 1, 0)]);
    for n in 1..4 {
        let right = push(None, &[NOW.0 + n * 1_000], &[]);
        assert_eq!(counts(&mut state, &right), [(0, 1, 0)]);
    }
    assert_eq!(state.newest().unwrap().started_at_ms, NOW.0);
    // The session ended while only the wrong time was known.
    let mut state = RecorderState::default();
    let ended = push(
        None,
        &[NOW.0 + 7_200_000, NOW.0 + 7_210_000],
        &[NOW.0 + 7_210_000],
    );
    counts(&mut state, &ended);
    let right = push(None, &[NOW.0 + 5_000, NOW.0 + 15_000], &[]);
    assert_eq!(counts(&mut state, &right), [(0, 1, 0), (1, 1, 0)]);
}

#[test]
fn a_phone_whose_clock_is_ahead_keeps_its_times() {
    let mut state = RecorderState::default();
    for at_ms in [0, 1_000, 2_000] {
        let ahead = push(None, &[NOW.0 + 86_400_000 + at_ms], &[]);
        assert_eq!(counts(&mut state, &ahead), [(0, 1, 0)]);
    }
    let started_at_ms = state.newest().unwrap().started_at_ms;
    assert_eq!(started_at_ms, NOW.0 + 86_400_000);
    // A clock that is barely ahead and a push that is overtaken are not a reason for a correction.
    let mut state = RecorderState::default();
    counts(&mut state, &push(None, &[NOW.0 + 301_000], &[]));
    let overtaken = push(None, &[NOW.0 + 299_000], &[]);
    assert_eq!(counts(&mut state, &overtaken), [(0, 0, 1)]);
}

#[test]
fn rates_are_counted_over_the_last_pushes() {
    let mut state = RecorderState::default();
    assert_eq!(state.rates_hz(), []);
    for second in 0..20 {
        let from_ms = second * 1_000;
        play(&mut state, &push(None, &[from_ms, from_ms + 500], &[]));
    }
    let [(Kind::Pressure, hz)] = state.rates_hz()[..] else {
        panic!("{:?}", state.rates_hz());
    };
    assert!((hz - 2.0).abs() < 0.01, "{hz}");
}

#[test]
fn the_state_stays_small() {
    let mut state = RecorderState::default();
    for n in 0..20_000_i64 {
        let ends: &[i64] = if n % 100 == 99 { &[n * 1_000] } else { &[] };
        let number = (n % 3 > 0).then_some((n as u64 / 7, n as u32));
        play(&mut state, &push(number, &[n * 1_000], ends));
    }
    let bytes = serde_json::to_vec(&state).unwrap().len();
    assert!(bytes < 64 * 1024, "{bytes}");
}

proptest! {
    /// A process that is killed at any point sends no response and receives the push again, with
    /// the state from before or after. Either way all pushes have a `seq` of their own in the
    /// end, and the same one each time.
    #[test]
    fn a_repeated_push_gets_the_same_session_and_seq(
        order in Just((0..12_u32).collect::<Vec<_>>()).prop_shuffle(),
        kills in prop::collection::vec(0..3_u8, 12),
        numbered in any::<bool>(),
    ) {
        let mut state = RecorderState::default();
        let pushes: Vec<_> = (0..12_u32)
            .map(|n| {
                let at_ms = 1_000_000 + i64::from(n) * 1_000;
                push(numbered.then_some((1, n)), &[at_ms, at_ms + 400], &[])
            })
            .collect();
        // The first push comes first, so that nothing lies before the start.
        let order: Vec<u32> = std::iter::once(0).chain(order.into_iter().filter(|&n| n > 0)).collect();
        let mut places = std::collections::BTreeMap::new();
        for (&n, kill) in order.iter().zip(kills) {
            let one = &pushes[n as usize];
            let before = state.clone();
            let stored = play(&mut state, one).0;
            if kill == 1 {
                state = before;
            }
            let again = play(&mut state, one).0;
            prop_assert_eq!(&again, &stored);
            places.insert(n, again);
            let text = serde_json::to_string(&state).unwrap();
            state = serde_json::from_str(&text).unwrap();
        }
        let mut seqs: Vec<u32> = places.values().map(|appended| appended[0].1).collect();
        if numbered {
            prop_assert_eq!(&seqs, &(0..12).collect::<Vec<_>>());
        }
        seqs.sort_unstable();
        seqs.dedup();
        prop_assert_eq!(seqs.len(), 12);
        for (&n, expected) in &places {
            prop_assert_eq!(&play(&mut state, &pushes[n as usize]).0, expected);
        }
    }
}

#[test]
fn the_arrival_of_empty_pushes_is_stored_once_a_second() {
    let mut state = RecorderState::default();
    let (empty, reading) = (push(None, &[], &[]), push(None, &[NOW.0], &[]));
    let mut must_store = |push: &Push, after_ms: i64| {
        let heard_at = state.last_heard_at;
        let plan = state.plan(push, IDLE_MS, NOW.plus_ms(after_ms));
        state.must_store(&plan, heard_at)
    };
    assert!(must_store(&empty, 0), "the first");
    assert!(!must_store(&empty, 999));
    assert!(must_store(&empty, 2_000));
    assert!(must_store(&reading, 2_001), "a reading is stored");
}
