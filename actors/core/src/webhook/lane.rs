//! Decides how to proceed with the waiting messages of one lane.

use porchlight_schema::limits::HELD_MS_MAX;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::{AttemptResult, Change, ManualRetry, Queued, State, Update, schedule};

/// The next step for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No message is waiting.
    Empty,
    /// This change must be committed before an attempt.
    Commit(Change),
    /// The first message of the lane is due.
    Send(Queued),
    /// The first message of the lane is due at this later time.
    Wait(TimestampMs),
    /// The first message of the lane is held until the endpoint is resumed, but no later than this
    /// time.
    Held(TimestampMs),
}

/// Examines a lane's waiting messages, in order of number. `paused_at` is the time at which the
/// endpoint was paused, if it is paused.
///
/// A newer `insight.updated` supersedes a waiting one. A message that was held for too long is
/// cancelled. A message behind a held message, or behind a message that is due later, is parked, so
/// that the store's ready list contains only messages that can be processed.
pub(super) fn examine(
    waiting: &[Queued],
    now: TimestampMs,
    paused_at: Option<TimestampMs>,
) -> Verdict {
    let newest_insight = newest_insight(waiting);
    let pause = paused_at.or_else(|| expired_pause(waiting, now));
    let mut change = Change::default();
    let mut head: Option<Queued> = None;
    for message in waiting {
        let mut after = *message;
        let is_insight = message.event == MessageEvent::InsightUpdated;
        let held_until = pause.map(|pause| message.held_since(pause).plus_ms(HELD_MS_MAX));
        if is_insight && newest_insight.is_some_and(|newest| message.number < newest) {
            after.state = State::Superseded;
        } else if held_until.is_some_and(|until| until <= now) {
            after.state = State::Cancelled;
            after.due_at = None;
        } else if let Some(head) = head {
            after.parked |= !may_be_sent(&head, now, paused_at);
            if after.state == State::Held {
                after.state = State::Waiting;
                after.due_at = None;
            }
        } else {
            after.parked = false;
            if paused_at.is_some() && may_be_sent(&after, now, None) {
                after.state = State::Held;
            }
            if after.state == State::Held && paused_at.is_some() {
                after.due_at = held_until;
            }
            head = Some(after);
        }
        push(&mut change, *message, after, None);
    }
    match head {
        _ if !change.updates.is_empty() => Verdict::Commit(change),
        None => Verdict::Empty,
        Some(head) => match (head.state, head.due_at) {
            (State::Held, Some(until)) if paused_at.is_some() => Verdict::Held(until),
            (State::Waiting, Some(due_at)) if due_at > now => Verdict::Wait(due_at),
            _ => Verdict::Send(head),
        },
    }
}

/// Returns whether the first message of a lane may be sent now. A held message may be sent as soon
/// as the pause has ended.
fn may_be_sent(message: &Queued, now: TimestampMs, paused_at: Option<TimestampMs>) -> bool {
    match message.state {
        State::Held => paused_at.is_none(),
        _ => message.due_at.is_none_or(|due_at| due_at <= now),
    }
}

/// Returns the start of the pause that lasted beyond the end of the first message's holding time,
/// even if the message was not cancelled then. The messages behind it count as held from that start
/// on, or from their creation.
fn expired_pause(waiting: &[Queued], now: TimestampMs) -> Option<TimestampMs> {
    let head = waiting.first().filter(|head| head.state == State::Held)?;
    let until = head.due_at.filter(|&until| until <= now)?;
    Some(until.plus_ms(-HELD_MS_MAX))
}

/// Returns the number of the newest waiting `insight.updated`.
fn newest_insight(waiting: &[Queued]) -> Option<u32> {
    waiting
        .iter()
        .filter(|message| message.event == MessageEvent::InsightUpdated)
        .map(|message| message.number)
        .max()
}

/// Adds an update to a change, unless it changes and reports nothing.
fn push(change: &mut Change, before: Queued, after: Queued, report: Option<AttemptResult>) {
    if before != after || report.is_some() {
        change.updates.push(Update {
            before,
            after,
            report,
        });
    }
}

/// Returns the changes at the end of an attempt: the message itself and, when it leaves the lane,
/// the message behind it.
///
/// `waiting` is the lane as it was when the attempt began. The report's cause is not
/// [`super::Cause::Internal`].
pub(super) fn changes_after_attempt(
    waiting: &[Queued],
    attempted: Queued,
    manual_retry: Option<ManualRetry>,
    report: AttemptResult,
    random: u64,
) -> Change {
    let mut after = attempted;
    after.attempts = attempted.attempts.saturating_add(1);
    if report.cause.is_none() {
        after.state = State::Delivered;
        after.due_at = None;
    } else if attempted.is_waiting() {
        after.due_at = schedule::next_due(after.attempts, report.ended_at(), random);
        after.state = match after.due_at {
            Some(_) => State::Waiting,
            None => State::Failed,
        };
    }
    // Only a lane's first message is listed by its due time. A later message, attempted manually,
    // waits for those before it.
    after.parked = after.state == State::Waiting && !is_head(waiting, &attempted);
    let mut change = leaving(waiting, attempted, after, manual_retry);
    push(&mut change, attempted, after, Some(report));
    change
}

/// Returns the changes that end a message whose stored body is missing or damaged: the message
/// itself fails without an attempt and, when it leaves the lane, the message behind it follows.
///
/// `waiting` is the lane as it was when the message was chosen.
#[must_use]
pub fn changes_without_body(
    waiting: &[Queued],
    message: Queued,
    manual_retry: Option<ManualRetry>,
) -> Change {
    let mut after = message;
    if message.is_waiting() {
        after.state = State::Failed;
        after.due_at = None;
        after.parked = false;
    }
    let mut change = leaving(waiting, message, after, manual_retry);
    push(&mut change, message, after, None);
    change
}

/// The reason why a message cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The stored body of the message is missing or damaged.
    Damaged,
    /// The message was removed with its session.
    Removed,
}

/// Returns the changes for a message that was removed with its session. They leave the message as
/// it was, and the store removes the rows that still list it.
pub(super) fn changes_of_removed(message: Queued, manual_retry: Option<ManualRetry>) -> Change {
    let update = Update {
        before: message,
        after: message,
        report: None,
    };
    Change {
        updates: vec![update],
        manual_done: manual_retry,
    }
}

/// Returns whether a message is the first of its lane.
fn is_head(waiting: &[Queued], message: &Queued) -> bool {
    waiting.first().is_some_and(|head| head.id == message.id)
}

/// Begins the change of a message from `before` to `after`: if the first message leaves the lane,
/// the message behind it is no longer parked.
fn leaving(
    waiting: &[Queued],
    before: Queued,
    after: Queued,
    manual_retry: Option<ManualRetry>,
) -> Change {
    let mut change = Change {
        updates: Vec::with_capacity(1),
        manual_done: manual_retry,
    };
    if is_head(waiting, &before)
        && !after.is_waiting()
        && let Some(next) = waiting.get(1)
    {
        let unparked = Queued {
            parked: false,
            ..*next
        };
        push(&mut change, *next, unparked, None);
    }
    change
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::{MessageId, SessionId};

    use super::super::{AttemptDetails, Cause, Index};
    use super::*;

    const NOW: TimestampMs = TimestampMs(1_763_636_100_000);

    fn message(number: u32, event: MessageEvent) -> Queued {
        let session_id = SessionId::new(NOW, 1);
        Queued::new(
            MessageId::derived(NOW, session_id, number),
            session_id,
            number,
            event,
        )
    }

    fn lane() -> Vec<Queued> {
        vec![
            message(0, MessageEvent::SessionStarted),
            message(1, MessageEvent::SessionStopped),
            message(2, MessageEvent::InsightUpdated),
            message(3, MessageEvent::InsightUpdated),
        ]
    }

    fn failure() -> AttemptResult {
        AttemptResult {
            at: NOW,
            duration_ms: 5,
            status_code: Some(500),
            cause: Some(Cause::Status),
            response: None,
            details: AttemptDetails::default(),
        }
    }

    #[test]
    fn only_an_older_insight_is_superseded() {
        let Verdict::Commit(change) = examine(&lane(), NOW, None) else {
            panic!("there is something to supersede");
        };
        let states: Vec<_> = change
            .updates
            .iter()
            .map(|update| (update.after.number, update.after.state))
            .collect();
        assert_eq!(states, [(2, State::Superseded)]);
    }

    #[test]
    fn later_messages_are_parked_while_the_first_waits_for_a_retry() {
        let mut lane = lane();
        lane.remove(2);
        assert_eq!(examine(&lane, NOW, None), Verdict::Send(lane[0]));
        lane[0].due_at = Some(NOW.plus_ms(1));
        let Verdict::Commit(change) = examine(&lane, NOW, None) else {
            panic!("there is something to park");
        };
        assert!(change.updates.iter().all(|update| update.after.parked));
        assert_eq!(change.updates.len(), 2);
        for update in change.updates {
            let place = lane.iter().position(|m| m.id == update.before.id).unwrap();
            lane[place] = update.after;
        }
        assert_eq!(examine(&lane, NOW, None), Verdict::Wait(NOW.plus_ms(1)));
        assert_eq!(examine(&lane, NOW.plus_ms(1), None), Verdict::Send(lane[0]));
        assert_eq!(examine(&[], NOW, None), Verdict::Empty);
    }

    #[test]
    fn the_next_message_follows_the_end_of_the_first() {
        let mut lane = lane();
        lane[1].parked = true;
        let report = AttemptResult {
            cause: None,
            ..failure()
        };
        let change = changes_after_attempt(&lane, lane[0], None, report, 0);
        let states: Vec<_> = change
            .updates
            .iter()
            .map(|update| (update.after.number, update.after.state, update.after.parked))
            .collect();
        assert_eq!(
            states,
            [(1, State::Waiting, false), (0, State::Delivered, false)]
        );
    }

    #[test]
    fn a_message_without_its_body_fails_and_the_next_one_follows() {
        let mut lane = lane();
        lane[0].attempts = 2;
        lane[0].due_at = Some(NOW);
        lane[1].parked = true;
        let change = changes_without_body(&lane, lane[0], None);
        let after: Vec<_> = change.updates.iter().map(|update| update.after).collect();
        let next = Queued {
            parked: false,
            ..lane[1]
        };
        let failed = Queued {
            state: State::Failed,
            due_at: None,
            ..lane[0]
        };
        assert_eq!(after, [next, failed], "the attempts stay as counted");
        assert!(change.updates.iter().all(|update| update.report.is_none()));
        let delivered = Queued {
            state: State::Delivered,
            ..lane[0]
        };
        let change = changes_without_body(&lane[1..], delivered, None);
        assert_eq!(change, Change::default(), "the outcome stays");
    }

    #[test]
    fn a_removed_message_has_no_outcome() {
        let lane = lane();
        let change = changes_of_removed(lane[0], None);
        let states: Vec<_> = change.updates.iter().map(|u| (u.before, u.after)).collect();
        assert_eq!(states, [(lane[0], lane[0])]);
    }

    #[test]
    fn a_manual_attempt_of_a_failed_message_changes_only_its_count() {
        let failed = Queued {
            state: State::Failed,
            attempts: 6,
            ..message(0, MessageEvent::SessionStarted)
        };
        let change = changes_after_attempt(&lane()[1..], failed, None, failure(), 0);
        assert_eq!(
            change.updates[0].after,
            Queued {
                attempts: 7,
                ..failed
            }
        );
    }

    #[test]
    fn a_manual_attempt_of_a_waiting_message_counts_in_place() {
        let lane = lane();
        let change = changes_after_attempt(&lane, lane[1], None, failure(), 0);
        let after = change.updates[0].after;
        assert_eq!((after.attempts, after.parked), (1, true));
        assert_eq!(after.due_at, Some(NOW.plus_ms(60_005)));
    }

    /// Commits changes to a lane until none is left.
    fn commit_all(lane: &mut Vec<Queued>, now: TimestampMs, paused_at: Option<TimestampMs>) {
        while let Verdict::Commit(change) = examine(lane, now, paused_at) {
            for update in change.updates {
                let place = lane.iter().position(|m| m.id == update.before.id).unwrap();
                lane[place] = update.after;
            }
            lane.retain(Queued::is_waiting);
        }
    }

    #[test]
    fn a_paused_endpoint_holds_the_first_and_supersedes_older_insights() {
        let (mut lane, day_ms) = (lane(), 86_400_000);
        let paused = Some(NOW.plus_ms(-day_ms));
        commit_all(&mut lane, NOW, paused);
        let until = NOW.plus_ms(HELD_MS_MAX);
        assert_eq!(examine(&lane, NOW, paused), Verdict::Held(until));
        assert_eq!(lane[0].index(), Index::Held(until));
        let numbers: Vec<_> = lane.iter().map(|m| (m.number, m.parked)).collect();
        assert_eq!(numbers, [(0, false), (1, true), (3, true)]);
        // The endpoint is paused again later; the message has been held since then.
        let later = Some(NOW.plus_ms(day_ms));
        commit_all(&mut lane, NOW, later);
        assert_eq!(lane[0].due_at, Some(until.plus_ms(day_ms)));
        // The endpoint is resumed: the message is sent immediately.
        assert_eq!(examine(&lane, NOW, None), Verdict::Send(lane[0]));
    }

    #[test]
    fn messages_held_for_too_long_are_cancelled_even_if_resumed() {
        for still_paused in [true, false] {
            let mut lane = lane();
            // The last message was created three days after the others.
            let late = NOW.plus_ms(3 * 86_400_000);
            lane[3].id = MessageId::derived(late, lane[3].session_id, 3);
            lane.remove(2);
            commit_all(&mut lane, NOW, Some(NOW));
            let now = NOW.plus_ms(HELD_MS_MAX);
            let paused_at = still_paused.then_some(NOW);
            let Verdict::Commit(change) = examine(&lane, now, paused_at) else {
                panic!("two were held for too long");
            };
            let states: Vec<_> = change.updates.iter().map(|u| u.after.state).collect();
            assert_eq!(&states[..2], [State::Cancelled; 2]);
            commit_all(&mut lane, now, paused_at);
            assert_eq!(lane.len(), 1);
            assert_eq!(lane[0].number, 3);
        }
    }

    #[test]
    fn a_held_message_that_fails_waits_for_its_retry() {
        let mut lane = lane();
        commit_all(&mut lane, NOW, Some(NOW));
        let change = changes_after_attempt(&lane, lane[0], None, failure(), 0);
        let after = change.updates[0].after;
        assert_eq!((after.state, after.attempts), (State::Waiting, 1));
        assert_eq!(after.due_at, Some(NOW.plus_ms(60_005)));
    }
}
