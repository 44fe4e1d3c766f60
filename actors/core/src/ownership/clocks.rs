//! Measures the differences of this node's wall clock from those of the other members.
//!
//! Each heartbeat carries the time of its sender's wall clock. A node that reads a new heartbeat
//! knows that it was sent before the read ended, and after the newest read that did not show the
//! heartbeat's predecessor was started. This bounds the difference of the two clocks from both
//! sides, without any assumption about delays. A member that does not know whether a heartbeat was
//! applied leaves out a number, and the heartbeat after it is not compared.
//!
//! Nothing decides on ownership by these clocks. The differences are reported, and a node whose
//! clock is far from those of the members does not join.

use std::collections::{BTreeMap, VecDeque};

use porchlight_schema::time::TimestampMs;

use super::{Incarnation, MemberRow, MemberStatus, MembersRead, MonotonicMs, NodeName};

/// A difference of two nodes' wall clocks above which operators are warned, milliseconds.
pub const CLOCK_WARN_MS: i64 = 1_000;
/// A difference from the clocks of the members above which a node does not join, milliseconds.
pub const CLOCK_REFUSE_MS: i64 = 10_000;
/// The time that a node that wants to join waits for heartbeats with which it can compare its
/// clock, milliseconds. Members that do not send any are about to be declared dead.
pub const CLOCKS_COMPARED_WITHIN_MS: u64 = 4_000;
/// The number of heartbeats of each member that are compared. A single slow write or read cannot
/// make clocks look different.
const COMPARED: usize = 8;

/// The agreement of this node's wall clock with those of the other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockState {
    /// The clocks may agree.
    #[default]
    Agrees,
    /// The clock differs from another node's by more than [`CLOCK_WARN_MS`].
    Differs,
    /// This node does not join, because its clock differs from those of most members by more than
    /// [`CLOCK_REFUSE_MS`].
    Refused,
}

/// Bounds of a difference: this node's wall clock minus the other's, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    low_ms: i64,
    high_ms: i64,
}

impl Bounds {
    /// Returns the certain part of the difference in milliseconds, with its sign; 0 if the clocks
    /// may agree.
    fn certain_ms(self) -> i64 {
        if self.low_ms > 0 {
            self.low_ms
        } else {
            self.high_ms.min(0)
        }
    }
}

/// The heartbeats of another member, as this node read them.
#[derive(Debug, Clone)]
struct Heartbeats {
    incarnation: Incarnation,
    /// The number of the newest heartbeat.
    heartbeat: u64,
    /// The start of the newest read that returned that heartbeat.
    read_at: MonotonicMs,
    /// The start of the newest read that returned an earlier heartbeat.
    earlier_read_at: Option<MonotonicMs>,
    compared: VecDeque<Bounds>,
}

impl Heartbeats {
    fn first(row: &MemberRow, started: MonotonicMs) -> Self {
        Self {
            incarnation: row.member.incarnation,
            heartbeat: row.heartbeat,
            read_at: started,
            earlier_read_at: None,
            compared: VecDeque::new(),
        }
    }

    fn read(
        &mut self,
        row: &MemberRow,
        sent_at: TimestampMs,
        now: MonotonicMs,
        read: &MembersRead,
    ) {
        if row.heartbeat == self.heartbeat {
            self.read_at = self.read_at.max(read.started);
            return;
        }
        if row.heartbeat < self.heartbeat {
            return;
        }
        // A member sends the next number after its predecessor was applied. So it was sent after
        // the start of any read that did not return the predecessor.
        let is_next = row.heartbeat == self.heartbeat + 1;
        if let Some(sent_after) = self.earlier_read_at.filter(|_| is_next) {
            let high_ms = read.wall.since_ms(sent_at);
            // A quarter more, because this node's monotonic clock may run slow.
            let age_ms = now.since_ms(sent_after).saturating_mul(5) / 4;
            let age_ms = i64::try_from(age_ms).unwrap_or(i64::MAX);
            if self.compared.len() >= COMPARED {
                self.compared.pop_front();
            }
            self.compared.push_back(Bounds {
                low_ms: high_ms.saturating_sub(age_ms),
                high_ms,
            });
        }
        self.earlier_read_at = Some(self.read_at);
        self.read_at = read.started;
        self.heartbeat = row.heartbeat;
    }

    /// Returns the certain difference; `None` before enough heartbeats were read.
    fn certain_ms(&self) -> Option<i64> {
        let low_ms = self.compared.iter().map(|bounds| bounds.low_ms).min()?;
        let high_ms = self.compared.iter().map(|bounds| bounds.high_ms).min()?;
        Some(Bounds { low_ms, high_ms }.certain_ms())
    }
}

/// The decision whether the node may join, from the members' clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockVerdict {
    /// Not all clocks are compared yet.
    Pending,
    /// The node may join.
    Join,
    /// This node's clock differs from those of most members by more than [`CLOCK_REFUSE_MS`].
    Refuse,
}

/// The wall clocks of the other members, compared with this node's.
#[derive(Debug, Clone, Default)]
pub(super) struct Clocks {
    others: BTreeMap<NodeName, Heartbeats>,
    /// The start of the first read.
    since: Option<MonotonicMs>,
}

impl Clocks {
    /// Processes a read of all members by the node `me`.
    pub(super) fn read(&mut self, now: MonotonicMs, me: &NodeName, read: &MembersRead) {
        self.since.get_or_insert(read.started);
        for row in &read.rows {
            let node = &row.member.node;
            let up = row.status == MemberStatus::Up && node != me;
            // A member of the previous release sends no time.
            let Some(sent_at) = row.clock.filter(|_| up) else {
                self.others.remove(node);
                continue;
            };
            match self.others.get_mut(node) {
                Some(heartbeats) if heartbeats.incarnation == row.member.incarnation => {
                    heartbeats.read(row, sent_at, now, read);
                }
                _ => {
                    let heartbeats = Heartbeats::first(row, read.started);
                    self.others.insert(node.clone(), heartbeats);
                }
            }
        }
    }

    /// Decides whether this node may join as far as its clock is concerned.
    pub(super) fn verdict(&self, now: MonotonicMs) -> ClockVerdict {
        let differences: Vec<_> = self.others.values().map(Heartbeats::certain_ms).collect();
        let waited_ms = self.since.map_or(0, |since| now.since_ms(since));
        if waited_ms < CLOCKS_COMPARED_WITHIN_MS && differences.contains(&None) {
            return ClockVerdict::Pending;
        }
        let compared = differences.iter().flatten();
        let too_far_apart = compared.clone().filter(|ms| ms.abs() > CLOCK_REFUSE_MS);
        if too_far_apart.count() * 2 > compared.count() {
            ClockVerdict::Refuse
        } else {
            ClockVerdict::Join
        }
    }

    /// Returns the state of this node's clock. `is_joining` says whether the node is no member yet.
    pub(super) fn state(&self, now: MonotonicMs, is_joining: bool) -> ClockState {
        if is_joining && self.verdict(now) == ClockVerdict::Refuse {
            ClockState::Refused
        } else if self.ahead_ms().max(self.behind_ms()) > CLOCK_WARN_MS {
            ClockState::Differs
        } else {
            ClockState::Agrees
        }
    }

    /// Returns the milliseconds by which this node's clock is at least ahead of another member's; 0
    /// if it may be ahead of none.
    pub(super) fn ahead_ms(&self) -> i64 {
        let differences = self.others.values().filter_map(Heartbeats::certain_ms);
        differences.max().unwrap_or(0).max(0)
    }

    /// Returns the milliseconds by which this node's clock is at least behind another member's; 0
    /// if it may be behind none.
    pub(super) fn behind_ms(&self) -> i64 {
        let differences = self.others.values().filter_map(Heartbeats::certain_ms);
        -differences.min().unwrap_or(0).min(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Member;
    use super::*;

    const T0_MS: i64 = 1_795_305_600_000;

    fn row(heartbeat: u64, sent_at_ms: i64) -> MemberRow {
        MemberRow {
            member: Member {
                node: NodeName("b:1".to_owned()),
                incarnation: Incarnation(1),
            },
            heartbeat,
            status: MemberStatus::Up,
            clock: Some(TimestampMs(sent_at_ms)),
        }
    }

    /// Reads every 500 ms, 20 ms long, of a member that sends each second; its clock is this node's
    /// minus `ahead_ms`. Returns the clocks and the time of the last read.
    fn after_reads(ahead_ms: i64, reads: u64) -> (Clocks, MonotonicMs) {
        let mut clocks = Clocks::default();
        let mut now = MonotonicMs::default();
        for number in 0..reads {
            let started = MonotonicMs(500 * number);
            now = started.plus_ms(20);
            let heartbeat = started.0 / 1_000;
            // Sent 100 ms into each second.
            let sent_ms = heartbeat as i64 * 1_000 - 900;
            let read = MembersRead {
                rows: vec![row(heartbeat, T0_MS + sent_ms - ahead_ms)],
                started,
                wall: TimestampMs(T0_MS + now.0 as i64),
            };
            clocks.read(now, &NodeName("a:1".to_owned()), &read);
        }
        (clocks, now)
    }

    #[test]
    fn equal_clocks_are_not_apart_and_the_node_joins_after_a_few_heartbeats() {
        let (clocks, now) = after_reads(0, 2);
        assert_eq!(clocks.verdict(now), ClockVerdict::Pending);
        let (clocks, now) = after_reads(0, 6);
        assert_eq!(clocks.verdict(now), ClockVerdict::Join);
        assert_eq!((clocks.ahead_ms(), clocks.behind_ms()), (0, 0));
    }

    #[test]
    fn a_clock_that_is_far_off_keeps_only_a_node_out_that_joins() {
        for (apart_ms, joining, member) in [
            (0, ClockState::Agrees, ClockState::Agrees),
            (5_000, ClockState::Differs, ClockState::Differs),
            (15_000, ClockState::Refused, ClockState::Differs),
        ] {
            let (clocks, now) = after_reads(-apart_ms, 12);
            assert_eq!(clocks.state(now, true), joining);
            assert_eq!(clocks.state(now, false), member);
        }
    }

    #[test]
    fn a_difference_is_bounded_from_both_sides() {
        for apart_ms in [5_000, 15_000, 2_400_000] {
            let (clocks, now) = after_reads(-apart_ms, 12);
            let behind_ms = clocks.behind_ms();
            assert!(
                (apart_ms - 1_000..=apart_ms).contains(&behind_ms),
                "{behind_ms}"
            );
            assert_eq!(clocks.ahead_ms(), 0);
            let refused = clocks.verdict(now) == ClockVerdict::Refuse;
            assert_eq!(refused, apart_ms > CLOCK_REFUSE_MS);
            let (clocks, now) = after_reads(apart_ms, 12);
            let ahead_ms = clocks.ahead_ms();
            assert!(
                (apart_ms - 4_000..=apart_ms).contains(&ahead_ms),
                "{ahead_ms}"
            );
            assert_eq!(clocks.behind_ms(), 0);
            let refused = clocks.verdict(now) == ClockVerdict::Refuse;
            assert_eq!(refused, apart_ms > CLOCK_REFUSE_MS);
        }
    }

    #[test]
    fn a_heartbeat_after_one_without_an_answer_is_not_compared() {
        let mut clocks = Clocks::default();
        // The member does not know whether its second heartbeat was applied, sends the third with
        // the next number but one at 2.05 s, and the database applies it four seconds later.
        for (read_at_ms, heartbeat, sent_ms) in [(100, 1, 0), (6_000, 1, 0), (6_200, 3, 2_050)] {
            let now = MonotonicMs(read_at_ms);
            let read = MembersRead {
                rows: vec![row(heartbeat, T0_MS + sent_ms)],
                started: now,
                wall: TimestampMs(T0_MS + now.0 as i64),
            };
            clocks.read(now, &NodeName("a:1".to_owned()), &read);
        }
        assert_eq!((clocks.ahead_ms(), clocks.behind_ms()), (0, 0));
    }

    #[test]
    fn members_that_send_nothing_delay_a_join_only_for_some_seconds() {
        let mut clocks = Clocks::default();
        let me = NodeName("a:1".to_owned());
        for number in 0..12 {
            let started = MonotonicMs(500 * number);
            let read = MembersRead {
                // A row that a dead member left, with an old time.
                rows: vec![row(7, T0_MS - 3_600_000)],
                started,
                wall: TimestampMs(T0_MS),
            };
            clocks.read(started, &me, &read);
            let expected = if started.0 < CLOCKS_COMPARED_WITHIN_MS {
                ClockVerdict::Pending
            } else {
                ClockVerdict::Join
            };
            assert_eq!(clocks.verdict(started), expected);
        }
    }

    #[test]
    fn a_member_of_the_previous_release_is_not_compared() {
        let mut clocks = Clocks::default();
        let mut old = row(3, 0);
        old.clock = None;
        let read = MembersRead {
            rows: vec![old],
            started: MonotonicMs(0),
            wall: TimestampMs(T0_MS),
        };
        clocks.read(MonotonicMs(5), &NodeName("a:1".to_owned()), &read);
        assert_eq!(clocks.verdict(MonotonicMs(5)), ClockVerdict::Join);
    }
}
