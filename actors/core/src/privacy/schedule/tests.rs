//! Tests which requests begin: shares and turns of tenants, the order of one subject's requests,
//! and requests that wait or fail.

use std::collections::BTreeMap;

use porchlight_schema::ids::OrganizationId;
use porchlight_schema::privacy::{Counts, Subject};
use porchlight_schema::session::Env;
use proptest::prelude::*;

use super::super::{Begin, Outcome};
use super::*;

const NOW: TimestampMs = TimestampMs(1_000_000);

fn tenant(number: u8) -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(TimestampMs(1), u128::from(number)),
        env: Env::Production,
    }
}

fn key(of: u8, id: u8) -> OpenKey {
    OpenKey {
        tenant: tenant(of),
        id_hash: [id; 32],
    }
}

fn request(request_type: RequestType, subject: u8, received_at: TimestampMs) -> PrivacyRequest {
    let begin = Begin {
        request_id: "r".into(),
        request_type,
        subject: Subject::ExternalRiderId(format!("rider-{subject}")),
        suppress: false,
        reason: None,
        body_hash: String::new(),
        salt: [1; 16],
        delay_ms: 0,
    };
    PrivacyRequest::new(begin, received_at)
}

/// Returns a restriction or release that has changed its mark.
fn marked(before: &PrivacyRequest) -> PrivacyRequest {
    let mut after = before.clone();
    after.begin(NOW, None);
    after.record(Outcome::Marked(NOW), NOW);
    after
}

/// Returns a schedule after a scan that has found these requests.
fn scanned(requests: &[(OpenKey, PrivacyRequest)]) -> Schedule {
    let mut schedule = Schedule::default();
    scan(&mut schedule, requests);
    schedule
}

fn scan(schedule: &mut Schedule, requests: &[(OpenKey, PrivacyRequest)]) {
    schedule.begin_scan();
    for (key, request) in requests {
        if schedule.must_read(key, 0) {
            schedule.learn(*key, request);
        }
    }
    schedule.complete_scan(&requests.iter().map(|(key, _)| *key).collect());
}

fn erasures(of: u8, ids: std::ops::Range<u8>) -> Vec<(OpenKey, PrivacyRequest)> {
    let erasure = |id| (key(of, id), request(RequestType::Erasure, id, NOW));
    ids.map(erasure).collect()
}

fn begun(schedule: &mut Schedule) -> Vec<OpenKey> {
    std::iter::from_fn(|| schedule.begin(NOW, 0)).collect()
}

#[test]
fn tenants_take_turns_and_each_has_a_share() {
    let mut open = erasures(1, 0..100);
    open.extend(erasures(2, 0..3));
    let mut schedule = scanned(&open);
    let first = [key(1, 0), key(2, 0), key(1, 1), key(2, 1)];
    assert_eq!(begun(&mut schedule), first);
    for ended in first {
        schedule.end(&ended);
    }
    assert_eq!(
        begun(&mut schedule),
        [key(1, 2), key(2, 2), key(1, 3)],
        "one tenant does not take all permits"
    );
}

#[test]
fn a_request_that_waits_holds_no_permit() {
    let mut open = erasures(1, 0..100);
    let mut pending = request(RequestType::Erasure, 200, NOW);
    pending.due_at = NOW.plus_ms(1);
    open.push((key(1, 200), pending));
    let mut schedule = scanned(&open);
    let later = NOW.plus_ms(10_000);
    for id in 0..100 {
        assert_eq!(schedule.begin(NOW, 0), Some(key(1, id)));
        schedule.wait(&key(1, id), Some(later));
    }
    assert_eq!(schedule.begin(NOW, 0), None);
    assert_eq!(schedule.next_ms(NOW, 0), Some(1));
    assert_eq!(schedule.begin(NOW.plus_ms(1), 0), Some(key(1, 200)));
    assert_eq!(schedule.begin(later, 0), Some(key(1, 0)));
    // The clock was set back: the request that is performed waits for it, without a permit.
    schedule.wait(&key(1, 0), Some(later));
    assert_eq!(schedule.begin(NOW, 0), Some(key(1, 1)));
}

#[test]
fn a_restriction_does_not_wait_for_erasures() {
    let mut open = erasures(1, 0..9);
    open.extend(erasures(2, 0..9));
    let mut schedule = scanned(&open);
    assert_eq!(begun(&mut schedule).len(), PRIVACY_REQUESTS_AT_ONCE_MAX);
    let restriction = request(RequestType::Restriction, 50, NOW);
    open.push((key(1, 50), restriction.clone()));
    open.push((key(1, 51), request(RequestType::Release, 51, NOW)));
    scan(&mut schedule, &open);
    assert_eq!(begun(&mut schedule), [key(1, 50)]);
    assert!(schedule.on_progress(&key(1, 50), &restriction));
    // The request counts its sessions with a permit of the other kind.
    assert!(!schedule.on_progress(&key(1, 50), &marked(&restriction)));
    schedule.wait(&key(1, 50), None);
    assert_eq!(begun(&mut schedule), [key(1, 51)]);
}

#[test]
fn the_requests_of_a_subject_change_its_mark_in_order_of_receipt() {
    let restriction = request(RequestType::Restriction, 1, NOW);
    let release = request(RequestType::Release, 1, NOW.plus_ms(1));
    // The order of the hashes is the opposite one.
    let open = [(key(1, 9), restriction.clone()), (key(1, 2), release)];
    for fails in [false, true] {
        let mut schedule = scanned(&open);
        let now = NOW.plus_ms(5);
        assert_eq!(schedule.begin(now, 0), Some(key(1, 9)));
        assert_eq!(schedule.begin(now, 0), None);
        if fails {
            schedule.fail(&key(1, 9), 0);
            assert_eq!(schedule.begin(now, 999), None);
            assert_eq!(schedule.next_ms(now, 999), Some(1));
            assert_eq!(schedule.begin(now, 1_000), Some(key(1, 9)));
        }
        schedule.on_progress(&key(1, 9), &marked(&restriction));
        assert_eq!(schedule.begin(now, 1_000), None, "the tenant's share");
        schedule.wait(&key(1, 9), None);
        assert_eq!(schedule.begin(now, 1_000), Some(key(1, 2)));
        assert_eq!(schedule.begin(now, 1_000), Some(key(1, 9)));
        schedule.end(&key(1, 9));
        schedule.end(&key(1, 2));
        assert_eq!(schedule.begin(now, 90_000), None);
        assert_eq!(schedule.open().count(), 0);
    }
}

#[test]
fn a_suppressing_erasure_is_ordered_and_another_one_is_not() {
    for (suppress, expected) in [(true, None), (false, Some(key(1, 9)))] {
        let mut erasure = request(RequestType::Erasure, 1, NOW);
        erasure.suppress = suppress;
        let release = request(RequestType::Release, 1, NOW.plus_ms(-1));
        let mut schedule = scanned(&[(key(1, 9), erasure), (key(1, 2), release)]);
        assert_eq!(schedule.begin(NOW, 0), Some(key(1, 2)));
        assert_eq!(schedule.begin(NOW, 0), expected);
    }
}

#[test]
fn a_request_that_fails_holds_no_permit_and_is_retried() {
    let mut schedule = scanned(&erasures(1, 0..3));
    assert_eq!(begun(&mut schedule), [key(1, 0), key(1, 1)]);
    let mut uptime_ms = 0;
    schedule.fail(&key(1, 0), uptime_ms);
    assert_eq!(schedule.begin(NOW, uptime_ms), Some(key(1, 2)));
    schedule.end(&key(1, 2));
    for pause_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        assert_eq!(schedule.begin(NOW, uptime_ms + pause_ms - 1), None);
        uptime_ms += pause_ms;
        assert_eq!(schedule.begin(NOW, uptime_ms), Some(key(1, 0)));
        schedule.fail(&key(1, 0), uptime_ms);
    }
}

#[test]
fn a_request_that_ends_during_a_scan_is_not_read_again() {
    let open = erasures(1, 0..1);
    let mut schedule = scanned(&open);
    assert_eq!(begun(&mut schedule), [key(1, 0)]);
    schedule.begin_scan();
    // The scan lists the entry, and then the request ends.
    schedule.end(&key(1, 0));
    assert!(!schedule.must_read(&key(1, 0), 0));
    schedule.learn(key(1, 0), &open[0].1);
    schedule.complete_scan(&BTreeSet::from([key(1, 0)]));
    assert_eq!(schedule.begin(NOW, 0), None);
    // After another node has given the tenant back, the request is open again.
    scan(&mut schedule, &open);
    assert_eq!(schedule.begin(NOW, 0), Some(key(1, 0)));
}

#[test]
fn a_request_begins_after_the_scan_that_found_it() {
    let mut schedule = Schedule::default();
    schedule.begin_scan();
    schedule.learn(key(1, 1), &request(RequestType::Release, 1, NOW));
    assert_eq!(schedule.begin(NOW, 0), None);
    schedule.complete_scan(&BTreeSet::from([key(1, 1)]));
    assert_eq!(schedule.begin(NOW, 0), Some(key(1, 1)));
}

#[test]
fn a_request_that_is_no_longer_listed_is_removed() {
    let restriction = (key(1, 1), request(RequestType::Restriction, 1, NOW));
    let mut release = request(RequestType::Release, 1, NOW.plus_ms(1));
    release.due_at = NOW.plus_ms(1);
    let open = [restriction, (key(1, 2), release)];
    let mut schedule = scanned(&open);
    assert_eq!(schedule.open().count(), 2);
    scan(&mut schedule, &open[1..]);
    assert_eq!(schedule.open().count(), 1);
    assert_eq!(schedule.begin(NOW, 0), None, "it is not due yet");
    assert_eq!(schedule.begin(NOW.plus_ms(1), 0), Some(key(1, 2)));
}

#[test]
fn an_entry_without_a_request_is_removed_after_a_day() {
    let mut schedule = Schedule::default();
    let (absent, mut reads, mut uptime_ms) = (key(1, 1), 0, 0);
    loop {
        schedule.begin_scan();
        if schedule.must_read(&absent, uptime_ms) {
            reads += 1;
            if schedule.on_absent(absent, uptime_ms) {
                break;
            }
        }
        schedule.complete_scan(&BTreeSet::from([absent]));
        uptime_ms += 500;
    }
    assert!(uptime_ms >= PRIVACY_ABSENT_MS_MAX);
    assert!(reads < 2_000, "{reads}");
    schedule.complete_scan(&BTreeSet::new());
    // A damaged request stays.
    for uptime_ms in [0, PRIVACY_ABSENT_MS_MAX] {
        schedule.on_damaged(absent, uptime_ms);
        assert!(!schedule.must_read(&absent, uptime_ms));
    }
    assert!(!schedule.on_absent(absent, PRIVACY_ABSENT_MS_MAX));
}

#[derive(Debug, Clone)]
enum Input {
    Submit(u8, u8),
    Scan,
    Begin,
    Mark(u8),
    Wait(u8),
    Fail(u8),
    End(u8),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        4 => (0..30_u8, 0..4_u8).prop_map(|(id, kind)| Input::Submit(id, kind)),
        2 => Just(Input::Scan),
        4 => Just(Input::Begin),
        2 => (0..30_u8).prop_map(Input::Mark),
        1 => (0..30_u8).prop_map(Input::Wait),
        1 => (0..30_u8).prop_map(Input::Fail),
        1 => (0..30_u8).prop_map(Input::End),
    ]
}

/// Simulates the shell and its store.
#[derive(Default)]
struct Shell {
    schedule: Schedule,
    open: BTreeMap<OpenKey, PrivacyRequest>,
    running: BTreeSet<OpenKey>,
    now: i64,
}

impl Shell {
    /// Returns the key of the request with this number. There are three tenants.
    fn key(id: u8) -> OpenKey {
        key(id % 3, id)
    }

    fn now(&self) -> TimestampMs {
        NOW.plus_ms(self.now)
    }

    fn submit(&mut self, id: u8, kind: u8) {
        let request_type = RequestType::ALL[usize::from(kind)].1;
        let mut new = request(request_type, id % 2, self.now());
        new.suppress = request_type == RequestType::Erasure && id.is_multiple_of(5);
        self.open.entry(Self::key(id)).or_insert(new);
    }

    fn scan(&mut self) {
        let open: Vec<_> = self.open.clone().into_iter().collect();
        scan(&mut self.schedule, &open);
    }

    /// Lets requests begin, and checks each.
    fn begin(&mut self) -> Option<OpenKey> {
        let begun = self.schedule.begin(self.now(), self.now)?;
        assert!(self.running.insert(begun), "it does not run already");
        let request = &self.open[&begun];
        assert!(
            request
                .waits_until()
                .is_none_or(|until| until <= self.now())
        );
        if let Some(subject) = request.subject_to_mark() {
            let same = self.open.iter().filter(|(key, other)| {
                key.tenant == begun.tenant && other.subject_to_mark() == Some(subject)
            });
            let is_first = |(key, other): (&OpenKey, &PrivacyRequest)| {
                *key == begun
                    || !self.running.contains(key)
                        && (other.due_at, other.received_at, *key)
                            >= (request.due_at, request.received_at, begun)
            };
            // A request that was submitted after the last scan may have become due before.
            let is_known = |key: &OpenKey| self.schedule.state(key).is_some();
            for one in same.filter(|(key, _)| is_known(key)) {
                assert!(is_first(one), "{one:?} before {begun:?}");
            }
        }
        let usual = |key: &&OpenKey| {
            matches!(
                self.schedule.state(key),
                Some(State::Running(PermitKind::Usual))
            )
        };
        assert!(self.running.iter().filter(usual).count() <= PRIVACY_REQUESTS_AT_ONCE_MAX);
        for number in 0..3 {
            let of_tenant = self
                .running
                .iter()
                .filter(|key| key.tenant == tenant(number));
            let most = TENANT_PRIVACY_REQUESTS_AT_ONCE_MAX + 1;
            assert!(of_tenant.count() <= most);
        }
        Some(begun)
    }

    /// Changes the mark of a request that runs, and reports it.
    fn mark(&mut self, key: OpenKey) {
        let Some(request) = self
            .open
            .get_mut(&key)
            .filter(|_| self.running.contains(&key))
        else {
            return;
        };
        request.begin(NOW.plus_ms(self.now), None);
        if request.subject_to_mark().is_some() {
            request.record(Outcome::Marked(NOW.plus_ms(self.now + 50)), NOW);
        }
        if !self.schedule.on_progress(&key, request) {
            self.running.remove(&key);
            self.schedule.wait(&key, None);
        }
    }

    fn end(&mut self, key: OpenKey) {
        if self.running.remove(&key) {
            self.schedule.end(&key);
            self.open.remove(&key);
        }
    }

    fn apply(&mut self, input: Input) {
        self.now += 7;
        match input {
            Input::Submit(id, kind) => self.submit(id, kind),
            Input::Scan => self.scan(),
            Input::Begin => {
                self.begin();
            }
            Input::Mark(id) => self.mark(Self::key(id)),
            Input::Wait(id) if self.running.remove(&Self::key(id)) => {
                let until = self.open[&Self::key(id)].waits_until();
                self.schedule.wait(&Self::key(id), until);
            }
            Input::Fail(id) if self.running.remove(&Self::key(id)) => {
                self.schedule.fail(&Self::key(id), self.now);
            }
            Input::Wait(_) | Input::Fail(_) => {}
            Input::End(id) => self.end(Self::key(id)),
        }
    }
}

proptest! {
    /// Whatever happens, the bounds and the order hold, and each request begins in the end.
    #[test]
    fn every_request_begins_in_order_and_within_its_share(
        inputs in prop::collection::vec(input(), 0..200),
    ) {
        let mut shell = Shell::default();
        for input in inputs {
            shell.apply(input);
        }
        for _ in 0..1_000 {
            shell.now += 30_000;
            shell.scan();
            for key in shell.running.clone() {
                shell.mark(key);
                shell.end(key);
            }
            while shell.begin().is_some() {}
        }
        prop_assert!(shell.open.is_empty(), "{:?}", shell.open.keys());
        prop_assert!(shell.schedule.known.is_empty());
        prop_assert!(shell.schedule.by_subject.is_empty());
        prop_assert!(shell.schedule.waiting.is_empty() && shell.schedule.paused.is_empty());
        prop_assert!(shell.schedule.immediate.is_empty() && shell.schedule.usual.is_empty());
    }
}

#[test]
fn a_settling_erasure_waits_and_a_purging_one_does_not() {
    let mut erasure = request(RequestType::Erasure, 1, NOW);
    assert_eq!(erasure.waits_until(), Some(NOW));
    erasure.begin(NOW, None);
    assert_eq!(erasure.waits_until(), None);
    erasure.record(Outcome::Marked(NOW.plus_ms(50)), NOW);
    assert_eq!(erasure.waits_until(), Some(NOW.plus_ms(50)));
    erasure.record(
        Outcome::Planned(Vec::new(), Counts::default(), Vec::new()),
        NOW,
    );
    assert_eq!(erasure.waits_until(), None);
}
