//! The order of batches, tested on the machine alone: a journal is a map, and the shell a loop.

mod pinned;

use std::collections::BTreeMap;

use porchlight_schema::sample::json::decode_batch;
use porchlight_schema::session::{Address, Point};
use proptest::prelude::*;

use super::*;

/// Returns a session at a plain address.
pub(super) fn context() -> SessionContext {
    SessionContext::of_address(
        &Address::at(Point {
            lat: 52.5,
            lng: 13.4,
        }),
        None,
    )
}

/// Five seconds of pressure while walking, ending at `t_sec`.
fn batch(t_sec: u32) -> PackedBatch {
    let samples: Vec<String> = (0..5)
        .map(|n| {
            format!(
                r#"{{"t":{},"kind":"pressure","hPa":1013.2}}"#,
                f64::from(t_sec) - f64::from(n)
            )
        })
        .rev()
        .collect();
    decode_batch(format!(r#"{{"seq":0,"samples":[{}]}}"#, samples.join(",")).as_bytes())
        .unwrap()
        .batch
}

/// A shell without a runtime: durable batches, notes, and the machine.
struct Shell {
    context: SessionContext,
    machine: SessionMachine,
    journal: BTreeMap<u32, PackedBatch>,
    noted: Vec<(u32, u32)>,
    applied: Vec<u32>,
}

impl Shell {
    fn new() -> Self {
        let context = context();
        let machine = SessionMachine::default();
        Self {
            context,
            machine,
            journal: BTreeMap::new(),
            noted: Vec::new(),
            applied: Vec::new(),
        }
    }

    fn arrive(&mut self, seq: u32, t_sec: u32) {
        self.journal.entry(seq).or_insert_with(|| batch(t_sec));
        let step = self.apply(seq);
        self.drive(step);
    }

    /// Makes a batch durable without passing it to the actor.
    fn lose(&mut self, seq: u32, t_sec: u32) {
        self.journal.insert(seq, batch(t_sec));
    }

    fn apply(&mut self, seq: u32) -> Step {
        let before = self.machine.next_seq();
        let step = self
            .machine
            .receive(&self.context, seq, &self.journal[&seq]);
        if before == seq {
            self.applied.push(seq);
        }
        step
    }

    fn drive(&mut self, mut step: Step) {
        loop {
            step = match step {
                Step::Wait => return,
                Step::Read { from_seq } => {
                    for seq in self
                        .journal
                        .range(from_seq..)
                        .map(|(&seq, _)| seq)
                        .collect::<Vec<_>>()
                    {
                        self.apply(seq);
                    }
                    self.machine.on_journal_read()
                }
                Step::SkipGap { first, last } => {
                    self.noted.push((first, last));
                    self.machine.skip_gap(first, last)
                }
            }
        }
    }

    /// Kills the machine and rebuilds it from a snapshot or from nothing.
    fn restart(&mut self, from_snapshot: bool) {
        let mut machine = if from_snapshot {
            SessionMachine::restore(&self.machine.snapshot()).unwrap()
        } else {
            self.applied.clear();
            SessionMachine::default()
        };
        machine.recall(self.noted.iter().copied(), std::iter::empty());
        self.machine = machine;
        self.drive(Step::Read {
            from_seq: self.machine.next_seq(),
        });
    }
}

#[test]
fn batches_are_applied_in_order_for_any_arrival_order() {
    let mut shell = Shell::new();
    for seq in [2, 0, 1, 5, 4, 3, 3, 0] {
        shell.arrive(seq, 5 + 5 * seq);
    }
    assert_eq!(shell.applied, [0, 1, 2, 3, 4, 5]);
    assert!(shell.noted.is_empty());
}

#[test]
fn a_gap_is_skipped_after_60_s_of_telemetry_beyond_it() {
    let mut shell = Shell::new();
    shell.arrive(0, 10);
    shell.arrive(2, 69);
    assert_eq!(shell.applied, [0]);
    shell.arrive(3, 70);
    assert_eq!(
        (shell.applied.as_slice(), shell.noted.as_slice()),
        ([0, 2, 3].as_slice(), [(1, 1)].as_slice())
    );
    shell.arrive(1, 15);
    assert_eq!(
        shell.applied,
        [0, 2, 3],
        "it comes too late for the live timeline"
    );
}

#[test]
fn a_gap_is_skipped_64_batches_beyond_it() {
    let mut shell = Shell::new();
    for seq in 1..64 {
        shell.arrive(seq, 5);
        assert_eq!(shell.machine.next_seq(), 0);
    }
    shell.arrive(64, 5);
    assert_eq!(
        (shell.machine.next_seq(), shell.noted.as_slice()),
        (65, [(0, 0)].as_slice())
    );
}

#[test]
fn a_gap_is_skipped_by_the_number_of_batches_beyond_it_and_not_by_their_distance() {
    let mut shell = Shell::new();
    shell.arrive(0, 5);
    for (number, seq) in (1..).zip([2, 1_000_000, 66, 1_000_000, 67, 65]) {
        shell.arrive(seq, 5);
        assert_eq!(shell.machine.next_seq(), 1, "{number}: {seq}");
    }
    // 5 different batches have come, and 58 more are one too few.
    for seq in (3..).step_by(1_000).take(58) {
        shell.arrive(seq, 5);
        assert_eq!(shell.machine.next_seq(), 1, "{seq}");
    }
    shell.arrive(500_000, 5);
    assert_eq!(shell.noted, [(1, 1)]);
    assert_eq!(shell.machine.next_seq(), 4);
    // Two of the 64 batches beyond the gap were applied when it was skipped, so 62 are left.
    shell.arrive(600_000, 5);
    assert_eq!(shell.machine.next_seq(), 4);
    shell.arrive(600_001, 5);
    assert_eq!(shell.noted, [(1, 1), (4, 64)]);
}

#[test]
fn a_far_batch_is_applied_when_the_batches_before_it_have_come() {
    let mut shell = Shell::new();
    for seq in [0, 200, 201] {
        shell.arrive(seq, 5);
    }
    for seq in 1..200 {
        shell.arrive(seq, 5);
    }
    assert_eq!(shell.machine.next_seq(), 202);
    assert!(shell.noted.is_empty());
}

#[test]
fn the_numbers_beyond_a_gap_take_bounded_memory() {
    let mut shell = Shell::new();
    for seq in (100..1_000).rev() {
        shell.lose(seq, 5);
    }
    shell.arrive(1_000, 5);
    assert_eq!(shell.noted, [(0, 99)]);
    assert_eq!(shell.machine.next_seq(), 1_001);
    assert!(shell.machine.far.capacity() <= 128);
}

#[test]
fn a_lost_batch_is_read_from_the_journal_when_a_gap_appears() {
    let mut shell = Shell::new();
    shell.arrive(0, 5);
    shell.lose(1, 10);
    shell.lose(2, 15);
    shell.arrive(3, 20);
    assert_eq!(
        (shell.applied.as_slice(), shell.noted.len()),
        ([0, 1, 2, 3].as_slice(), 0)
    );
}

#[test]
fn a_restart_makes_the_same_decisions_about_gaps() {
    for from_snapshot in [false, true] {
        let mut shell = Shell::new();
        shell.arrive(0, 10);
        shell.arrive(2, 80);
        shell.arrive(1, 15);
        assert_eq!(shell.applied, [0, 2]);
        shell.restart(from_snapshot);
        assert_eq!(
            shell.applied,
            [0, 2],
            "the late batch lies in the journal and is still late"
        );
        shell.arrive(3, 85);
        assert_eq!(shell.applied, [0, 2, 3]);
    }
}

#[test]
fn a_passivated_machine_is_restored_unchanged() {
    let mut shell = Shell::new();
    for seq in [0, 1, 3, 5] {
        shell.arrive(seq, 5 + 5 * seq);
        let (context, machine) =
            SessionMachine::activate(&shell.machine.passivate(&shell.context)).unwrap();
        assert_eq!(context, shell.context);
        assert_eq!(format!("{machine:?}"), format!("{:?}", shell.machine));
        shell.machine = machine;
    }
    shell.arrive(2, 15);
    shell.arrive(4, 25);
    assert_eq!(shell.applied, [0, 1, 2, 3, 4, 5]);
    assert!(SessionMachine::activate(&[1, 2, 3]).is_err());
}

#[test]
fn a_quarantined_batch_is_skipped() {
    let mut shell = Shell::new();
    shell.machine.recall(std::iter::empty(), [1].into_iter());
    for seq in 0..3 {
        shell.arrive(seq, 5 + 5 * seq);
    }
    assert_eq!(shell.machine.next_seq(), 3);
    assert!(shell.machine.quarantined.is_empty());
}

#[test]
fn a_quarantined_batch_is_skipped_after_one_in_a_skipped_gap() {
    let mut shell = Shell::new();
    shell
        .machine
        .recall([(1, 2)].into_iter(), [1, 4].into_iter());
    for seq in [0, 3, 4] {
        shell.arrive(seq, 5 + 5 * seq);
    }
    assert_eq!(shell.machine.next_seq(), 5);
    assert!(shell.machine.quarantined.is_empty());
}

proptest! {
    /// Under any order, loss and restarts: batches are applied in ascending order, each at most
    /// once, and below `next_seq` only batches noted as skipped are missing.
    #[test]
    fn order_holds_under_loss_and_restarts(acts in proptest::collection::vec((0_u32..90, 0_u32..200, 0_u8..10), 1..120)) {
        let mut shell = Shell::new();
        for (seq, t_sec, act) in acts {
            match act {
                0 => shell.restart(false),
                1 => shell.restart(true),
                2 | 3 => { shell.journal.entry(seq).or_insert_with(|| batch(5 + t_sec)); }
                _ => shell.arrive(seq, 5 + t_sec),
            }
        }
        shell.drive(Step::Read { from_seq: shell.machine.next_seq() });
        prop_assert!(shell.applied.is_sorted());
        let given_up = |seq| shell.noted.iter().any(|&(first, last)| first <= seq && seq <= last);
        for seq in 0..shell.machine.next_seq() {
            prop_assert_eq!(shell.applied.contains(&seq), !given_up(seq), "{}", seq);
        }
        let next = shell.machine.next_seq();
        prop_assert!(!shell.journal.contains_key(&next), "the next batch is applied");
    }
}
