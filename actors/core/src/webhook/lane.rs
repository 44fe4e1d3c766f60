//! One lane: what its messages that wait come to.

use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::{Change, HandRequest, Queued, Report, State, Update, schedule};

/// What to do with a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing waits.
    Empty,
    /// First this must be committed.
    Tidy(Change),
    /// Its first message is due.
    Send(Queued),
    /// Its first message is due later.
    Wait(TimestampMs),
}

/// Looks at a lane's messages that wait, in order of number.
///
/// An `insight.updated` that waits is superseded by a newer one. What waits behind a message that is due later is
/// parked, so that the store's list of what is to be looked at holds only what can be acted on.
pub(super) fn examine(waiting: &[Queued], now: TimestampMs) -> Verdict {
    let newest_insight = newest_insight(waiting);
    let mut change = Change::default();
    let mut head: Option<Queued> = None;
    for message in waiting {
        let mut after = *message;
        let is_insight = message.event == MessageEvent::InsightUpdated;
        if is_insight && newest_insight.is_some_and(|newest| message.number < newest) {
            after.state = State::Superseded;
        } else {
            match head {
                None => {
                    after.parked = false;
                    head = Some(after);
                }
                Some(head) => after.parked |= head.due_at.is_some_and(|due_at| due_at > now),
            }
        }
        push(&mut change, *message, after, None);
    }
    match head {
        _ if !change.updates.is_empty() => Verdict::Tidy(change),
        None => Verdict::Empty,
        Some(head) => match head.due_at {
            Some(due_at) if due_at > now => Verdict::Wait(due_at),
            _ => Verdict::Send(head),
        },
    }
}

fn newest_insight(waiting: &[Queued]) -> Option<u32> {
    waiting
        .iter()
        .filter(|message| message.event == MessageEvent::InsightUpdated)
        .map(|message| message.number)
        .max()
}

fn push(change: &mut Change, before: Queued, after: Queued, report: Option<Report>) {
    if before != after || report.is_some() {
        change.updates.push(Update {
            before,
            after,
            report,
        });
    }
}

/// What the end of a try changes: the message itself and, when it leaves the lane, the one that it led to.
///
/// `waiting` is the lane as it was when the try was begun. The report's cause is not [`super::Cause::Internal`].
pub(super) fn conclude(
    waiting: &[Queued],
    tried: Queued,
    hand: Option<HandRequest>,
    report: Report,
    chance: u64,
) -> Change {
    let mut after = tried;
    after.attempts = tried.attempts.saturating_add(1);
    if report.cause.is_none() {
        after.state = State::Delivered;
        after.due_at = None;
    } else if tried.state == State::Waiting {
        after.due_at = schedule::next_due(after.attempts, report.ended_at(), chance);
        if after.due_at.is_none() {
            after.state = State::Failed;
        }
    }
    let is_head = waiting.first().is_some_and(|head| head.id == tried.id);
    // Only a lane's first message is listed by its due time: a later one, tried by hand, waits for those before it.
    after.parked = after.state == State::Waiting && !is_head;
    let mut change = Change {
        updates: Vec::with_capacity(1),
        hand_done: hand,
    };
    if is_head
        && after.state != State::Waiting
        && let Some(next) = waiting.get(1)
    {
        let unparked = Queued {
            parked: false,
            ..*next
        };
        push(&mut change, *next, unparked, None);
    }
    push(&mut change, tried, after, Some(report));
    change
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::{MessageId, SessionId};

    use super::super::Cause;
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

    fn failure() -> Report {
        Report {
            at: NOW,
            duration_ms: 5,
            status_code: Some(500),
            cause: Some(Cause::Status),
            response: None,
        }
    }

    #[test]
    fn only_an_older_insight_is_superseded() {
        let Verdict::Tidy(change) = examine(&lane(), NOW) else {
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
    fn the_first_is_sent_and_the_rest_is_parked_while_it_waits_for_a_retry() {
        let mut lane = lane();
        lane.remove(2);
        assert_eq!(examine(&lane, NOW), Verdict::Send(lane[0]));
        lane[0].due_at = Some(NOW.plus_ms(1));
        let Verdict::Tidy(change) = examine(&lane, NOW) else {
            panic!("there is something to park");
        };
        assert!(change.updates.iter().all(|update| update.after.parked));
        assert_eq!(change.updates.len(), 2);
        for update in change.updates {
            let place = lane.iter().position(|m| m.id == update.before.id).unwrap();
            lane[place] = update.after;
        }
        assert_eq!(examine(&lane, NOW), Verdict::Wait(NOW.plus_ms(1)));
        assert_eq!(examine(&lane, NOW.plus_ms(1)), Verdict::Send(lane[0]));
        assert_eq!(examine(&[], NOW), Verdict::Empty);
    }

    #[test]
    fn the_end_of_the_first_leads_to_the_next() {
        let mut lane = lane();
        lane[1].parked = true;
        let report = Report {
            cause: None,
            ..failure()
        };
        let change = conclude(&lane, lane[0], None, report, 0);
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
    fn a_try_by_hand_of_one_that_failed_changes_only_its_count() {
        let failed = Queued {
            state: State::Failed,
            attempts: 6,
            ..message(0, MessageEvent::SessionStarted)
        };
        let change = conclude(&lane()[1..], failed, None, failure(), 0);
        assert_eq!(
            change.updates[0].after,
            Queued {
                attempts: 7,
                ..failed
            }
        );
    }

    #[test]
    fn a_try_by_hand_of_one_that_waits_counts_and_leaves_it_where_it_waits() {
        let lane = lane();
        let change = conclude(&lane, lane[1], None, failure(), 0);
        let after = change.updates[0].after;
        assert_eq!((after.attempts, after.parked), (1, true));
        assert_eq!(after.due_at, Some(NOW.plus_ms(60_005)));
    }
}
