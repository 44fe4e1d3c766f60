//! Live changes are a prefix of the recomputed changes, in any order of arrival.

use std::collections::BTreeMap;
use std::fmt::Write;

use porchlight_schema::sample::json::decode_batch;
use proptest::prelude::*;

use super::*;
use crate::session::tests::context;
use crate::session::{SessionMachine, Step};

const ENDED: TimestampMs = TimestampMs(1_000);

/// Ten seconds of a ride that halts every other minute and sometimes loses GPS.
fn batch(seq: u32) -> PackedBatch {
    let mut samples = String::new();
    for t in seq * 10..seq * 10 + 10 {
        let (minute, second) = (t / 60, t % 60);
        let ridden = minute.div_ceil(2) * 60 + if minute % 2 == 0 { second } else { 0 };
        let lat = 52.5 + f64::from(ridden) * 1e-4;
        let accuracy_m = if second / 20 == 1 { 400 } else { 5 };
        let _ = write!(
            samples,
            r#"{{"t":{t},"kind":"location","lat":{lat},"lng":13.4,"accuracyM":{accuracy_m}}},"#
        );
    }
    samples.pop();
    let text = format!(r#"{{"seq":{seq},"samples":[{samples}]}}"#);
    decode_batch(text.as_bytes()).unwrap().batch
}

/// A machine, its journal with times of arrival, its notes, and its changes.
struct Live {
    context: SessionContext,
    machine: SessionMachine,
    journal: BTreeMap<u32, (TimestampMs, PackedBatch)>,
    skipped_gaps: Vec<(u32, u32)>,
    changes: Vec<NumberedChange>,
}

impl Live {
    fn new() -> Self {
        let context = context();
        Self {
            machine: SessionMachine::default(),
            context,
            journal: BTreeMap::new(),
            skipped_gaps: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn arrive(&mut self, seq: u32) {
        let is_new = !self.journal.contains_key(&seq);
        let entry = (TimestampMs(ENDED.0 - 1), batch(seq));
        self.journal.entry(seq).or_insert(entry);
        if !is_new {
            return;
        }
        let mut step = self.give(seq);
        loop {
            step = match step {
                Step::Wait => break,
                Step::Read { from_seq } => {
                    let seqs: Vec<_> = self
                        .journal
                        .range(from_seq..)
                        .map(|(&seq, _)| seq)
                        .collect();
                    for seq in seqs {
                        self.give(seq);
                    }
                    self.machine.on_journal_read()
                }
                Step::SkipGap { first, last } => {
                    self.skipped_gaps.push((first, last));
                    self.machine.skip_gap(first, last)
                }
            };
        }
        let number = u32::try_from(self.changes.len()).unwrap();
        self.changes
            .extend(self.machine.numbered_changes_since(number, usize::MAX));
        // A crash at any time: emitted changes stay.
        let snapshot = self.machine.snapshot();
        self.machine = SessionMachine::restore(&snapshot).unwrap();
        self.machine
            .recall(self.skipped_gaps.iter().copied(), std::iter::empty());
    }

    fn give(&mut self, seq: u32) -> Step {
        let (_, batch) = &self.journal[&seq];
        self.machine.receive(&self.context, seq, batch)
    }

    fn computed(&self) -> Vec<NumberedChange> {
        self.feed().detected
    }

    fn feed(&self) -> FeedChanges {
        let mut feed = Feed::new(
            &self.context,
            ENDED,
            self.skipped_gaps.clone(),
            BTreeSet::new(),
        );
        for (&seq, (received_at, batch)) in &self.journal {
            feed.batch(seq, *received_at, batch);
        }
        feed.finish()
    }
}

#[test]
fn closing_emits_the_event_again_and_keeps_its_opening() {
    let mut live = Live::new();
    (0..36).for_each(|seq| live.arrive(seq));
    let computed = live.computed();
    assert!(computed.len() > 12, "{}", computed.len());
    for (number, changes) in computed.iter().enumerate() {
        assert_eq!(changes.number as usize, number);
        let before = computed[..number]
            .iter()
            .find(|before| before.index == changes.index);
        match before {
            Some(opened) => assert!(opened.event.is_open() && !changes.event.is_open()),
            None => assert!(changes.event.t_end_ms.is_none()),
        }
    }
    // Openings carry the metadata known at that time; some of it was learned later.
    let differs = |changes: &NumberedChange| {
        let closed = computed
            .iter()
            .rfind(|closed| closed.index == changes.index);
        closed.is_some_and(|closed| closed.event.confidence != changes.event.confidence)
    };
    assert!(computed.iter().any(differs));
}

#[test]
fn events_after_the_end_are_not_emitted() {
    let mut live = Live::new();
    (0..20).for_each(|seq| live.arrive(seq));
    let before = live.computed();
    for seq in 20..40 {
        live.journal
            .insert(seq, (TimestampMs(ENDED.0 + 1), batch(seq)));
    }
    assert_eq!(live.computed(), before);
}

/// Returns the changes of the timeline of all batches, in order.
fn of_all_batches(live: &Live) -> Vec<NumberedChange> {
    let mut timeline = Timeline::default();
    for (_, batch) in live.journal.values() {
        timeline.push_batch(&live.context, batch).unwrap();
    }
    timeline.finish(&live.context);
    timeline.numbered_changes_since(0, usize::MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Batches overtake each other, some by so much that the gap is skipped and filled later.
    #[test]
    fn emitted_events_are_never_withdrawn(lags in proptest::collection::vec(prop_oneof![6 => 0_usize..2, 2 => 0_usize..6, 1 => 0_usize..30], 40)) {
        let mut order: Vec<_> = lags.iter().enumerate().map(|(seq, lag)| (seq + lag, seq as u32)).collect();
        order.sort_unstable();
        let mut live = Live::new();
        for (_, seq) in order {
            live.arrive(seq);
        }
        let computed = live.computed();
        prop_assert!(live.changes.len() <= computed.len());
        prop_assert_eq!(&live.changes[..], &computed[..live.changes.len()]);
        let feed = live.feed();
        prop_assert_eq!(feed.recomputed.is_some(), !live.skipped_gaps.is_empty());
        // A reader continues in the timeline of its newest change, and a new reader begins the
        // insight's.
        let detected = feed.detected.len() as u32;
        for seen in 0..=feed.count() {
            let after = feed.clone().after(seen);
            let is_detected = feed.recomputed.is_none() || (1..=detected).contains(&seen);
            let end = if is_detected { detected } else { feed.count() };
            let begin = if is_detected { seen } else { seen.max(detected) };
            prop_assert!(after.iter().map(|change| change.number).eq(begin..end));
        }
        prop_assert_eq!(feed.recomputed.unwrap_or(feed.detected), of_all_batches(&live));
    }
}
