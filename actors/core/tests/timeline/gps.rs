//! Tests the three GPS events against the contract: the detector works one fix at a time, the
//! oracle with all earlier fixes.

use porchlight_schema::event::{Event, EventType};
use porchlight_schema::sample::{
    Activity, ActivityType, Location, Mark, Pressure, Sample, System, SystemName,
};
use proptest::prelude::*;

use super::signals::{Owned, context_at, events_of};

const TYPES: [EventType; 3] = [
    EventType::GpsDegraded,
    EventType::GpsLost,
    EventType::GpsRestored,
];

/// A fix: its time, and its accuracy in metres.
type FixAt = (u32, f32);
/// A found event: type, from, to.
type Found = (EventType, u32, Option<u32>);

fn fix((t_ms, accuracy_m): FixAt) -> Owned {
    Owned::Plain(Sample::Location(Location {
        t_ms,
        lat: 52.0,
        lng: 13.0,
        accuracy_m: Some(accuracy_m),
        altitude_m: None,
        speed_mps: None,
        bearing_deg: None,
        mock: false,
        provider: None,
    }))
}

fn pressure(t_ms: u32) -> Owned {
    Owned::Plain(Sample::Pressure(Pressure { t_ms, hpa: 1_013.0 }))
}

/// Returns fixes in a stream with one pressure sample per second outside the silent times.
fn stream(fixes: &[FixAt], end_sec: u32, silent_sec: &[(u32, u32)]) -> Vec<Owned> {
    let is_heard = |sec: &u32| {
        !silent_sec
            .iter()
            .any(|&(from, to)| (from..to).contains(sec))
    };
    let mut all: Vec<Owned> = (0..end_sec)
        .filter(is_heard)
        .map(|sec| pressure(sec * 1_000 + 500))
        .collect();
    all.extend(fixes.iter().copied().map(fix));
    all.sort_by_key(|owned| owned.sample().t_ms());
    all
}

fn found(samples: &[Owned]) -> Vec<Found> {
    let events = events_of(&context_at(0.0, 0.0), samples, 20);
    let mut found: Vec<Found> = events
        .iter()
        .filter(|event| TYPES.contains(&event.event_type))
        .map(|event: &Event| (event.event_type, event.t_start_ms, event.t_end_ms))
        .collect();
    found.sort_unstable();
    found
}

fn each_second(from_sec: u32, accuracies_m: &[f32]) -> Vec<FixAt> {
    (from_sec..)
        .zip(accuracies_m)
        .map(|(sec, &accuracy_m)| (sec * 1_000 + 100, accuracy_m))
        .collect()
}

/// Returns the spans without useful fixes: from the last useful fix, or the useless fix that
/// follows immediately, to the next useful fix.
fn oracle_lost(fixes: &[FixAt], end_ms: u32) -> Vec<(u32, u32)> {
    let mut spans = Vec::new();
    let useful: Vec<usize> = (0..fixes.len())
        .filter(|&place| fixes[place].1 <= 150.0)
        .collect();
    for (order, &place) in useful.iter().enumerate() {
        let next = fixes.get(place + 1);
        let since_ms = match next {
            Some(&(t_ms, accuracy_m)) if accuracy_m > 150.0 && t_ms - fixes[place].0 < 10_000 => {
                t_ms
            }
            _ => fixes[place].0,
        };
        let (until_ms, seen_ms) = match useful.get(order + 1) {
            Some(&next) => (fixes[next].0, fixes[next].0),
            // The newest sample is the last that can show it.
            None => (end_ms, end_ms),
        };
        if seen_ms - since_ms >= 10_000 {
            spans.push((since_ms, until_ms));
        }
    }
    spans
}

fn median(values: &[f32]) -> Option<f32> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f32::total_cmp);
    (sorted.len() >= 8).then(|| sorted[(sorted.len() - 1) / 2])
}

/// Returns the runs of two and more fixes of 50 m, or of 2.5 times the usual accuracy, which end
/// where a loss begins or with the session. Returns also the times of the fixes that are worse than
/// that and do not restore.
fn oracle_degraded(
    fixes: &[FixAt],
    lost: &[(u32, u32)],
    end_ms: u32,
) -> (Vec<(u32, u32)>, Vec<u32>) {
    let mut usable: Vec<f32> = Vec::new();
    let (mut is_lenient, mut run): (bool, Vec<FixAt>) = (false, Vec::new());
    let (mut spans, mut poor_ms) = (Vec::new(), Vec::new());
    for &(t_ms, accuracy_m) in fixes {
        let comes_back = lost.iter().find(|span| span.1 == t_ms);
        let is_lost = lost.iter().any(|span| {
            (span.0 + 1..span.1).contains(&t_ms) || (t_ms == span.0 && accuracy_m > 150.0)
        });
        is_lenient |= comes_back.is_some();
        let is_good = accuracy_m <= 35.0;
        let is_unusual = median(&usable).is_some_and(|usual_m| accuracy_m >= 2.5 * usual_m);
        is_lenient &= !is_good || is_unusual;
        if accuracy_m < 50.0 {
            usable.push(accuracy_m);
        }
        let is_poor = accuracy_m >= 50.0 || (is_unusual && !(is_lenient && is_good));
        if comes_back.is_some() || is_lost || !is_poor {
            if let [first, _, ..] = run[..] {
                let since_ms = lost.iter().map(|span| span.0).find(|&ms| ms > first.0);
                spans.push((first.0, since_ms.map_or(t_ms, |ms| ms.min(t_ms))));
            }
            // A single fix that is worse than usual but still good degrades nothing, so it restores.
            if let ([(alone_ms, ..=35.0)], None, false) = (&run[..], comes_back, is_lost) {
                poor_ms.retain(|ms| ms != alone_ms);
            }
            run.clear();
        }
        if is_poor {
            poor_ms.push(t_ms);
        }
        if is_poor && !is_lost {
            run.push((t_ms, accuracy_m));
            is_lenient |= run.len() >= 2 && run.iter().any(|fix| fix.1 > 35.0);
        }
    }
    if let [first, _, ..] = run[..] {
        let since_ms = lost.iter().map(|span| span.0).find(|&ms| ms > first.0);
        spans.push((first.0, since_ms.unwrap_or(end_ms)));
    }
    (spans, poor_ms)
}

fn oracle(fixes: &[FixAt], end_ms: u32) -> Vec<Found> {
    let first_good = fixes.iter().position(|fix| fix.1 <= 35.0);
    let fixes = first_good.map_or(&[][..], |first_good| &fixes[first_good..]);
    let lost = oracle_lost(fixes, end_ms);
    let (degraded, poor_ms) = oracle_degraded(fixes, &lost, end_ms);
    let mut troubles: Vec<(u32, u32)> = lost.iter().chain(&degraded).copied().collect();
    troubles.sort_unstable();
    let mut all: Vec<Found> = Vec::new();
    for (place, &(_, over_ms)) in troubles.iter().enumerate() {
        // A loss begins with a fix that was still good.
        let next_ms = troubles
            .get(place + 1)
            .map_or(u32::MAX, |next| next.0 + u32::from(lost.contains(next)));
        let good: Vec<u32> = fixes
            .iter()
            .filter(|fix| (over_ms..next_ms).contains(&fix.0) && fix.1 <= 35.0)
            .filter(|fix| !poor_ms.contains(&fix.0))
            .map(|fix| fix.0)
            .collect();
        let three = good.windows(3).find(|three| three[2] - three[0] <= 15_000);
        all.extend(three.map(|three| (EventType::GpsRestored, three[0], None)));
    }
    let spans = |event_type, spans: Vec<(u32, u32)>| {
        spans
            .into_iter()
            .map(move |(from_ms, to_ms)| (event_type, from_ms, Some(to_ms)))
    };
    all.extend(spans(EventType::GpsDegraded, degraded));
    all.extend(spans(EventType::GpsLost, lost));
    all.sort_unstable();
    all
}

/// Returns stretches of fixes with varying count, interval and accuracy. No value lies within 3 %
/// of a limit.
fn fixes() -> impl Strategy<Value = Vec<FixAt>> {
    let accuracy = prop_oneof![
        4 => prop_oneof![Just(4.0_f32), Just(5.0), Just(6.0)],
        1 => prop_oneof![Just(16.5_f32), Just(20.0), Just(34.0)],
        1 => prop_oneof![Just(36.0_f32), Just(45.0)],
        2 => prop_oneof![Just(52.0_f32), Just(120.0), Just(149.0)],
        1 => prop_oneof![Just(151.0_f32), Just(400.0)],
    ];
    let stretch = (
        accuracy,
        1_u32..9,
        prop_oneof![4 => 1_u32..4, 1 => 4_u32..25],
    );
    let stretches = prop::collection::vec(stretch, 3..25);
    (stretches, any::<bool>()).prop_map(|(stretches, ends_well)| {
        let mut sec = 40;
        let mut fixes = each_second(0, &[5.0; 40]);
        for (accuracy_m, count, apart_sec) in stretches {
            for _ in 0..count {
                fixes.push((sec * 1_000 + 100, accuracy_m));
                sec += apart_sec;
            }
        }
        // A session ends under the open sky, or within any event.
        if ends_well {
            fixes.extend(each_second(sec, &[5.0; 20]));
        }
        fixes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_events_follow_the_rules_of_the_contract(fixes in fixes()) {
        let end_ms = fixes.last().unwrap().0;
        let samples = stream(&fixes, end_ms / 1_000, &[]);
        prop_assert_eq!(found(&samples), oracle(&fixes, end_ms));
    }

    #[test]
    fn no_events_are_found_under_the_open_sky(accuracies_m in prop::collection::vec(3.0_f32..7.4, 30..300)) {
        let fixes = each_second(0, &accuracies_m);
        let samples = stream(&fixes, fixes.len() as u32, &[]);
        prop_assert_eq!(found(&samples), Vec::<Found>::new());
    }
}

/// The courier enters a basement, where the phone falls back to the position of a cell. Its fixes
/// are useless, but a loss takes ten seconds.
#[test]
fn useless_fixes_before_the_end_or_a_silence_are_a_degradation() {
    let mut fixes = each_second(0, &[5.0; 40]);
    fixes.extend(each_second(40, &[160.0; 3]));
    let degraded = (EventType::GpsDegraded, 40_100, Some(42_500));
    assert_eq!(found(&stream(&fixes, 43, &[])), [degraded]);
    fixes.extend(each_second(90, &[5.0; 20]));
    let restored = (EventType::GpsRestored, 90_100, None);
    assert_eq!(
        found(&stream(&fixes, 110, &[(43, 90)])),
        [degraded, restored]
    );
}

#[test]
fn a_silent_stream_is_a_gap_and_not_a_loss() {
    let mut fixes = each_second(0, &[5.0; 40]);
    fixes.extend(each_second(60, &[5.0; 20]));
    assert_eq!(found(&stream(&fixes, 80, &[(40, 60)])), []);
    let lost = (EventType::GpsLost, 39_100, Some(60_100));
    let restored = (EventType::GpsRestored, 60_100, None);
    assert_eq!(found(&stream(&fixes, 80, &[])), [lost, restored]);
}

/// A phone that saves power sends a fix and its motion every ten seconds, and nothing in between.
#[test]
fn a_phone_that_sends_every_ten_seconds_keeps_its_position() {
    for period_ms in [10_000, 10_400, 10_900] {
        let fixes: Vec<FixAt> = (0..30).map(|number| (number * period_ms, 5.0)).collect();
        let silent: Vec<_> = (0..300)
            .filter(|sec| fixes.iter().all(|fix| fix.0 / 1_000 != *sec))
            .map(|sec| (sec, sec + 1))
            .collect();
        assert_eq!(found(&stream(&fixes, 300, &silent)), [], "{period_ms} ms");
    }
}

/// Returns one sample at `sec` of each kind that is sent on change.
fn on_change(sec: u32) -> [Owned; 3] {
    let t_ms = sec * 1_000;
    let mark = Mark { t_ms, name: "scan" };
    let name = SystemName::Background;
    let activity = Activity {
        t_ms,
        activity_type: ActivityType::Still,
        confidence: 0.9,
    };
    [
        Sample::Activity(activity),
        Sample::Mark(mark),
        Sample::System(System { t_ms, name }),
    ]
    .map(Owned::Plain)
}

#[test]
fn a_stream_of_samples_that_are_sent_on_change_is_alive() {
    for kind in 0..3 {
        let mut fixes = each_second(0, &[5.0; 40]);
        fixes.extend(each_second(100, &[5.0; 20]));
        let mut all = stream(&fixes, 120, &[(40, 100)]);
        let sparse = (45..100).step_by(6);
        all.extend(sparse.map(|sec| on_change(sec)[kind].clone()));
        all.sort_by_key(|owned| owned.sample().t_ms());
        let lost = (EventType::GpsLost, 39_100, Some(100_100));
        let restored = (EventType::GpsRestored, 100_100, None);
        assert_eq!(found(&all), [lost, restored], "kind {kind}");
        // Open events end at the last sample, of whatever kind.
        let mut all = stream(&each_second(0, &[5.0; 40]), 60, &[]);
        all.push(on_change(65)[kind].clone());
        let lost = (EventType::GpsLost, 39_100, Some(65_000));
        assert_eq!(found(&all), [lost], "kind {kind}");
    }
}

/// A phone that goes indoors while the stream is silent has lost the position when the stream
/// resumes without it.
#[test]
fn a_loss_may_begin_at_the_end_of_a_gap() {
    let mut fixes = each_second(0, &[5.0; 40]);
    fixes.extend(each_second(120, &[5.0; 20]));
    let lost = (EventType::GpsLost, 90_500, Some(120_100));
    let restored = (EventType::GpsRestored, 120_100, None);
    assert_eq!(found(&stream(&fixes, 140, &[(40, 90)])), [lost, restored]);
}

#[test]
fn useless_fixes_are_a_loss_and_not_a_degradation() {
    let accuracies_m = [vec![5.0; 40], vec![300.0; 20], vec![5.0; 20]].concat();
    let fixes = each_second(0, &accuracies_m);
    let lost = (EventType::GpsLost, 40_100, Some(60_100));
    let restored = (EventType::GpsRestored, 60_100, None);
    assert_eq!(found(&stream(&fixes, 80, &[])), [lost, restored]);
}

#[test]
fn nothing_is_degraded_or_lost_before_the_first_good_fix() {
    let accuracies_m = [
        vec![60.0; 2],
        vec![1_414.0; 15],
        vec![65.0; 2],
        vec![8.0; 40],
    ]
    .concat();
    let fixes = each_second(0, &accuracies_m);
    assert_eq!(found(&stream(&fixes, 59, &[])), []);
}

/// Good fixes restore even if one of them is far worse than the session's others: 30 m are good,
/// regardless of the usual accuracy.
#[test]
fn an_unusual_good_fix_counts_among_three_restoring_fixes() {
    let mut fixes = each_second(0, &[5.0; 40]);
    // The courier leaves a building, with a fix every 6 s at first: three fixes fit into 15 s only
    // with the second.
    fixes.extend([(60_100, 5.0), (66_100, 30.0), (72_100, 5.0)]);
    fixes.extend(each_second(78, &[5.0; 12]));
    let lost = (EventType::GpsLost, 39_100, Some(60_100));
    let restored = (EventType::GpsRestored, 60_100, None);
    assert_eq!(found(&stream(&fixes, 90, &[])), [lost, restored]);
}

/// Two providers report each fix, the second one some milliseconds later. A single inaccurate fix
/// among good ones degrades nothing, however often it is reported.
#[test]
fn a_fix_that_two_providers_report_is_one_fix() {
    let mut accuracies_m = vec![5.0; 90];
    accuracies_m[50] = 60.0;
    let once = each_second(0, &accuracies_m);
    let copies = once
        .iter()
        .map(|&(t_ms, accuracy_m)| (t_ms + 10, accuracy_m));
    let mut twice: Vec<FixAt> = once.iter().copied().chain(copies).collect();
    twice.sort_by_key(|fix| fix.0);
    assert_eq!(found(&stream(&once, 90, &[])), []);
    assert_eq!(found(&stream(&twice, 90, &[])), []);
    // Two inaccurate fixes are two, and the three fixes that restore are three.
    accuracies_m[51] = 60.0;
    let once = each_second(0, &accuracies_m);
    let copies = once
        .iter()
        .map(|&(t_ms, accuracy_m)| (t_ms + 10, accuracy_m));
    let mut twice: Vec<FixAt> = once.iter().copied().chain(copies).collect();
    twice.sort_by_key(|fix| fix.0);
    assert_eq!(
        found(&stream(&twice, 90, &[])),
        found(&stream(&once, 90, &[]))
    );
}
