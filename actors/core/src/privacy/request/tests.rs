//! Tests the steps of privacy requests, with a shell that is killed at any point.

use proptest::prelude::*;

use super::*;

fn request(request_type: RequestType) -> PrivacyRequest {
    let begin = Begin {
        request_id: "r1".into(),
        request_type,
        subject: Subject::ExternalRiderId("rider-7".into()),
        suppress: false,
        reason: Some("asked by rider-7".into()),
        body_hash: String::new(),
        salt: [1; 16],
        delay_ms: 3_000,
    };
    PrivacyRequest::new(begin, TimestampMs(1_000))
}

fn session(number: u128) -> SessionId {
    SessionId::new(TimestampMs(5), number)
}

/// Simulates a store in which a subject has the given sessions, and a shell that is killed
/// before it stores the outcomes of some steps.
fn run(mut left: Vec<SessionId>, kills: &[bool]) -> (PrivacyRequest, Vec<SessionId>) {
    let mut stored = request(RequestType::Erasure);
    let (mut now, mut kills) = (TimestampMs(1_000), kills.iter());
    for _ in 0..1_000 {
        let mut working = stored.clone();
        working.begin(now, None);
        let outcome = match working.step(now) {
            Step::Over => return (stored, left),
            Step::WaitUntil(at) => {
                now = at;
                continue;
            }
            Step::Perform(StoreStep::Mark(..)) => Outcome::Marked(now.plus_ms(5)),
            Step::Perform(StoreStep::Plan(..)) => {
                let page: Vec<_> = left.iter().take(2).copied().collect();
                let counts = Counts {
                    sessions: page.len() as u64,
                    ..Counts::default()
                };
                let key = |id: &SessionId| u64::from(id.to_bytes()[15]);
                let keys = page.iter().map(key).collect();
                Outcome::Planned(page, counts, keys)
            }
            Step::Perform(StoreStep::Erase(page)) => {
                left.retain(|id| !page.contains(id));
                Outcome::Done
            }
            Step::Perform(StoreStep::Recorders(..)) | Step::Perform(StoreStep::IdempotencyKeys) => {
                assert!(left.is_empty(), "sessions are erased first");
                Outcome::Removed(Counts::default())
            }
            Step::Perform(StoreStep::Purge) | Step::Perform(StoreStep::Unmark(..)) => Outcome::Done,
            Step::Perform(StoreStep::Withdraw(..)) => unreachable!("no session is held"),
            Step::Perform(StoreStep::Count(..)) => unreachable!("an erasure counts its pages"),
        };
        working.record(outcome, now);
        if !kills.next().copied().unwrap_or(false) {
            stored = working;
        }
    }
    panic!("the request does not end");
}

proptest! {
    #[test]
    fn an_erasure_ends_with_everything_gone_and_counted_once(
        sessions in 0_usize..9,
        kills in prop::collection::vec(any::<bool>(), 0..40),
    ) {
        let left = (0..sessions as u128).map(session).collect();
        let (ended, left) = run(left, &kills);
        prop_assert!(left.is_empty());
        prop_assert_eq!(ended.status, RequestStatus::Completed);
        prop_assert_eq!(ended.counts.sessions, sessions as u64);
        let keys = match sessions {
            0 => Vec::new(),
            1 => vec!["0".to_owned()],
            _ => vec![format!("0-{}", sessions - 1)],
        };
        prop_assert_eq!(ended.data_keys.ids(), keys);
    }
}

#[test]
fn a_completed_erasure_identifies_no_person() {
    let (ended, _) = run(vec![session(1)], &[]);
    let text = serde_json::to_string(&ended).unwrap();
    assert!(!text.contains("rider-7"), "{text}");
    let subject = Subject::ExternalRiderId("rider-7".into());
    assert!(matches!(&ended.subject, RecordedSubject::Hashed(hashed) if hashed.matches(&subject)));
}

#[test]
fn only_a_pending_request_is_cancelled() {
    let mut pending = request(RequestType::Erasure);
    pending.begin(TimestampMs(3_999), None);
    assert_eq!(pending.cancel(TimestampMs(3_999)), Ok(()));
    assert_eq!(pending.status, RequestStatus::Cancelled);
    assert_eq!(pending.step(TimestampMs(9_999)), Step::Over);
    let mut begun = request(RequestType::Erasure);
    begun.begin(TimestampMs(4_000), None);
    assert_eq!(begun.cancel(TimestampMs(4_000)), Err(NotPending));
    assert_eq!(begun.status, RequestStatus::InProgress);
}

#[test]
fn an_erasure_of_a_held_session_fails_and_erases_nothing() {
    let mut request = request(RequestType::Erasure);
    let now = TimestampMs(4_000);
    request.begin(now, None);
    request.record(Outcome::Held, now);
    assert_eq!(request.status, RequestStatus::Failed);
    assert_eq!(request.completed_at, None);
    assert_eq!(request.step(now), Step::Over);
}

#[test]
fn an_erasure_that_meets_held_sessions_removes_its_mark_and_fails() {
    let mut request = request(RequestType::Erasure);
    let now = TimestampMs(4_000);
    request.begin(now, None);
    request.record(Outcome::Marked(now), now);
    let page = Outcome::Planned(vec![session(1)], Counts::default(), Vec::new());
    request.record(page, now);
    assert_eq!(
        request.step(now),
        Step::Perform(StoreStep::Erase(vec![session(1)]))
    );
    request.record(Outcome::Done, now);
    request.record(Outcome::Held, now);
    let subject = Subject::ExternalRiderId("rider-7".into());
    assert_eq!(
        request.step(now),
        Step::Perform(StoreStep::Withdraw(subject, now))
    );
    assert!(!request.is_over());
    request.record(Outcome::Done, now);
    assert_eq!(request.status, RequestStatus::Failed);
    assert_eq!(request.completed_at, None);
    assert_eq!(request.step(now), Step::Over);
}

#[test]
fn a_restriction_begins_at_once_and_keeps_its_subject() {
    let mut request = request(RequestType::Restriction);
    let now = TimestampMs(1_000);
    request.begin(now, None);
    request.record(Outcome::Marked(now), now);
    request.record(Outcome::Counted(Counts::default(), None), now);
    request.record(Outcome::Done, now);
    assert_eq!(request.status, RequestStatus::Completed);
    assert!(matches!(request.subject, RecordedSubject::Clear(_)));
}

#[test]
fn a_request_covers_a_session_of_a_clock_that_was_ahead() {
    let now = TimestampMs(4_000);
    for (ahead_ms, logged_ms) in [(-5, 0), (10_000, 10_000), (3_600_000, 60_000)] {
        let mut request = request(RequestType::Erasure);
        request.begin(now, Some(now.plus_ms(ahead_ms)));
        assert_eq!(request.covers_until(), now.plus_ms(ahead_ms.max(0)));
        assert_eq!(request.logged_until(), now.plus_ms(logged_ms));
    }
}
