//! Derives the GPS events of a complete list of fixes by the contract's definitions.

use porchlight_schema::event::{EventType, Metadata};

use super::{TruthEvent, event, ms};

/// The accuracy from which a fix counts as degraded (contract 4).
const DEGRADED_M: f64 = 50.0;
/// The degraded threshold as a multiple of the session's usual accuracy (contract 4).
const DEGRADED_TIMES: f64 = 2.5;
/// The number of fixes that define a usual accuracy.
const USUAL_FIXES: usize = 8;
/// The accuracy beyond which a fix is unusable (contract 4).
const LOST_M: f64 = 150.0;
/// The time without a usable fix after which GPS is lost (contract 4).
const LOST_S: f64 = 10.0;
/// The accuracy of a good fix (contract 4).
const GOOD_M: f64 = 35.0;
/// The time within which three good fixes restore GPS (contract 4).
const RESTORED_S: f64 = 15.0;
/// The assumed accuracy of a fix without one (contract 3).
const UNKNOWN_M: f64 = 20.0;

/// A fix as its time and claimed accuracy.
pub(crate) type Fix = (f64, Option<f64>);

/// Returns the GPS events for the fixes. `alive_t` holds the times of samples of other kinds, in
/// order.
pub(crate) fn gps_events(fixes: &[Fix], alive_t: &[f64]) -> Vec<TruthEvent> {
    let Some(first_good) = fixes.iter().position(|fix| accuracy(fix) <= GOOD_M) else {
        return Vec::new();
    };
    let fixes = &fixes[first_good..];
    let lost = lost_spans(fixes, alive_t);
    let degraded = degraded_spans(fixes, &lost);
    let mut events: Vec<TruthEvent> = Vec::new();
    let spans = |spans: &[(f64, f64)], event_type| {
        spans
            .iter()
            .map(|&(from, to)| event(event_type, from, to, Metadata::None))
            .collect::<Vec<_>>()
    };
    events.extend(spans(&lost, EventType::GpsLost));
    events.extend(spans(&degraded, EventType::GpsDegraded));
    let mut troubles: Vec<(f64, f64)> = lost.iter().chain(&degraded).copied().collect();
    troubles.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (place, &(_, over_t)) in troubles.iter().enumerate() {
        // The search ends where the next trouble begins; a loss begins with a fix that was still
        // good.
        let next_t = troubles.get(place + 1).map_or(f64::INFINITY, |next| next.0);
        if let Some(t) = restored_between(fixes, over_t, next_t) {
            events.push(TruthEvent {
                event_type: EventType::GpsRestored,
                t_start_ms: ms(t),
                t_end_ms: None,
                metadata: Metadata::None,
            });
        }
    }
    events
}

fn accuracy(fix: &Fix) -> f64 {
    fix.1.unwrap_or(UNKNOWN_M)
}

/// Returns the spans from the last usable fix to the next, if they are 10 s or longer and other
/// samples continue.
fn lost_spans(fixes: &[Fix], alive_t: &[f64]) -> Vec<(f64, f64)> {
    let usable: Vec<usize> = (0..fixes.len())
        .filter(|&place| accuracy(&fixes[place]) <= LOST_M)
        .collect();
    let stream_end = alive_t
        .last()
        .copied()
        .into_iter()
        .chain(fixes.last().map(|fix| fix.0))
        .fold(0.0, f64::max);
    let mut spans = Vec::new();
    for (order, &place) in usable.iter().enumerate() {
        let to = usable
            .get(order + 1)
            .map_or(stream_end, |&next| fixes[next].0);
        // If unusable fixes follow directly, the loss begins with the first of them, otherwise with
        // the last good one.
        let from = match fixes.get(place + 1) {
            Some(next) if accuracy(next) > LOST_M && next.0 - fixes[place].0 < LOST_S => next.0,
            _ => fixes[place].0,
        };
        if to - from >= LOST_S && lived_s(fixes, alive_t, from, to) >= LOST_S {
            spans.push((from, to));
        }
    }
    spans
}

/// Returns how long the stream was alive within a span: the total time between samples only seconds
/// apart.
fn lived_s(fixes: &[Fix], alive_t: &[f64], from: f64, to: f64) -> f64 {
    let mut received: Vec<f64> = fixes
        .iter()
        .map(|fix| fix.0)
        .chain(alive_t.iter().copied())
        .collect();
    received.retain(|&t| t >= from && t <= to);
    received.sort_by(f64::total_cmp);
    received
        .windows(2)
        .map(|two| two[1] - two[0])
        .filter(|&pause_s| pause_s < LOST_S)
        .sum()
}

/// Returns runs of two or more degraded fixes outside of losses.
fn degraded_spans(fixes: &[Fix], lost: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let is_lost = |&(t, accuracy_m): &Fix| {
        let useless = accuracy_m.unwrap_or(UNKNOWN_M) > LOST_M;
        lost.iter()
            .any(|span| (t > span.0 && t < span.1) || (t == span.0 && useless))
    };
    let mut usable: Vec<f64> = Vec::new();
    let mut poor = Vec::with_capacity(fixes.len());
    // After a loss or a degradation beyond the restoring accuracy, restoring fixes count as usable
    // until one is as accurate as usual.
    let (mut is_lenient, mut run, mut is_coarse) = (false, 0, false);
    for (place, fix) in fixes.iter().enumerate() {
        let accuracy_m = accuracy(fix);
        let came_back = place > 0 && lost.iter().any(|span| span.1 == fix.0);
        is_lenient |= came_back;
        let usual = (usable.len() >= USUAL_FIXES)
            .then(|| usable.get(usable.len() / 2).copied())
            .flatten();
        let is_unusual = usual.is_some_and(|usual| accuracy_m >= DEGRADED_TIMES * usual);
        is_lenient &= accuracy_m > GOOD_M || is_unusual;
        let is_poor = !is_lost(fix)
            && (accuracy_m >= DEGRADED_M || (is_unusual && !(is_lenient && accuracy_m <= GOOD_M)));
        if accuracy_m < DEGRADED_M {
            let place = usable.partition_point(|&other| other < accuracy_m);
            usable.insert(place, accuracy_m);
        }
        (run, is_coarse) = if is_poor {
            (run + 1, (run > 0 && is_coarse) || accuracy_m > GOOD_M)
        } else {
            (0, false)
        };
        is_lenient |= run >= 2 && is_coarse;
        poor.push((is_poor, came_back));
    }
    let mut spans = Vec::new();
    let mut place = 0;
    while place < fixes.len() {
        let goes_on = |&&(is_poor, comes_back): &&(bool, bool)| is_poor && !comes_back;
        let length = usize::from(poor[place].0)
            + poor[place..]
                .iter()
                .skip(1)
                .take(if poor[place].0 { usize::MAX } else { 0 })
                .take_while(goes_on)
                .count();
        if length >= 2 {
            let from = fixes[place].0;
            let next = fixes
                .get(place + length)
                .map_or(fixes[place + length - 1].0, |fix| fix.0);
            let cut = lost
                .iter()
                .map(|span| span.0)
                .filter(|&t| t > from)
                .fold(next, f64::min);
            spans.push((from, cut));
        }
        place += length.max(1);
    }
    spans
}

/// Returns the time of the first of three good fixes between the end of one trouble and the start
/// of the next.
fn restored_between(fixes: &[Fix], over_t: f64, next_t: f64) -> Option<f64> {
    let good: Vec<f64> = fixes
        .iter()
        .filter(|fix| fix.0 >= over_t && fix.0 < next_t && accuracy(fix) <= GOOD_M)
        .map(|fix| fix.0)
        .collect();
    good.windows(3)
        .find(|three| three[2] - three[0] <= RESTORED_S)
        .map(|three| three[0])
}
