//! Tests the turns, groups and pauses of the queue of audit lines.

use porchlight_schema::ids::OrganizationId;
use porchlight_schema::session::Env;
use porchlight_schema::time::TimestampMs;
use proptest::prelude::*;

use super::*;

fn tenant(number: usize) -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(TimestampMs(0), number as u128),
        env: Env::Production,
    }
}

/// Returns a queue with this many lines of each tenant, in turn.
fn queue_of(counts: &[usize]) -> LineQueue<usize> {
    let mut queue = LineQueue::default();
    for (number, &count) in counts.iter().enumerate() {
        for line in 0..count {
            queue.push(tenant(number), line, 0);
        }
    }
    queue
}

#[test]
fn a_tenant_with_many_lines_delays_no_other() {
    let mut queue = queue_of(&[1_000, 1, 1]);
    let begun: Vec<_> = std::iter::from_fn(|| queue.begin(AUDIT_GATHER_MS)).collect();
    let begun: Vec<_> = begun
        .iter()
        .map(|(who, lines)| (*who, lines.len()))
        .collect();
    let expected = [
        (tenant(0), AUDIT_GROUP_LINES_MAX),
        (tenant(1), 1),
        (tenant(2), 1),
    ];
    assert_eq!(begun, expected);
    // The first tenant's next group waits for its own commit only.
    queue.push(tenant(3), 0, AUDIT_GATHER_MS);
    queue.complete(tenant(0));
    let (next, _) = queue.begin(2 * AUDIT_GATHER_MS).unwrap();
    let (after, _) = queue.begin(2 * AUDIT_GATHER_MS).unwrap();
    assert_eq!((next, after), (tenant(3), tenant(0)));
}

#[test]
fn a_tenant_whose_commits_fail_pauses_alone() {
    let mut queue = queue_of(&[1, 0]);
    let now = AUDIT_GATHER_MS;
    let (failing, lines) = queue.begin(now).unwrap();
    queue.fail(failing, lines, now);
    queue.push(tenant(1), 7, now);
    assert_eq!(queue.begin(now), None);
    assert_eq!(queue.begins_at_ms(), Some(now + AUDIT_RETRY_FIRST_MS));
    let retried = queue.begin(now + AUDIT_RETRY_FIRST_MS);
    assert_eq!(retried, Some((tenant(0), vec![0])));
    queue.fail(tenant(0), vec![0], now);
    let other = queue.begin(now + AUDIT_GATHER_MS);
    assert_eq!(other, Some((tenant(1), vec![7])));
    let retried = queue.begin(now + AUDIT_GATHER_MS);
    assert_eq!(retried, Some((tenant(0), vec![0])), "twice the pause");
}

#[test]
fn lines_are_gathered_until_a_group_is_full_or_somebody_waits() {
    let mut queue = queue_of(&[AUDIT_GROUP_LINES_MAX, 2, 2]);
    assert_eq!(queue.begin(1).unwrap().0, tenant(0));
    assert_eq!(queue.begin(1), None);
    let flush = queue.flush(Some(tenant(2)));
    assert_eq!(queue.begin(1).unwrap().0, tenant(2));
    assert_eq!(queue.is_flushed(flush), None);
    queue.complete(tenant(2));
    assert_eq!(queue.is_flushed(flush), Some(true));
    let all = queue.flush(None);
    assert_eq!(queue.begin(1).unwrap().0, tenant(1));
    queue.complete(tenant(0));
    assert_eq!(queue.is_flushed(all), None);
    queue.complete(tenant(1));
    assert_eq!(queue.is_flushed(all), Some(true));
    assert!(queue.is_empty());
}

#[test]
fn a_flush_does_not_wait_for_lines_set_aside() {
    let mut queue = queue_of(&[1, 1]);
    let flush = queue.flush(None);
    let (tenant_aside, lines) = queue.begin(0).unwrap();
    queue.set_aside(tenant_aside, lines, 0);
    assert_eq!(queue.is_flushed(flush), None);
    assert_eq!(queue.begin(0).unwrap().0, tenant(1));
    queue.complete(tenant(1));
    assert_eq!(queue.is_flushed(flush), Some(false));
    assert_eq!(queue.begins_at_ms(), Some(AUDIT_SET_ASIDE_RETRY_MS));
    let repaired = queue.begin(AUDIT_SET_ASIDE_RETRY_MS).unwrap();
    assert_eq!(repaired, (tenant(0), vec![0]));
    queue.complete(tenant(0));
    assert_eq!(queue.is_flushed(flush), Some(true));
}

proptest! {
    /// Whatever fails, the lines of each tenant are committed once and in order, within the bounds.
    #[test]
    fn lines_are_committed_once_and_in_order(
        pushes in prop::collection::vec(0_usize..12, 1..600),
        fates in prop::collection::vec(0_u8..4, 1..50),
    ) {
        let mut queue = LineQueue::default();
        let (mut committed, mut running) = (vec![Vec::new(); 12], Vec::new());
        let (mut now_ms, mut pushes, mut fates) = (0, pushes.into_iter().enumerate(), fates.into_iter());
        let mut left = pushes.len();
        while left > 0 {
            for (line, number) in pushes.by_ref().take(40) {
                queue.push(tenant(number), (number, line), now_ms);
            }
            while let Some(begun) = queue.begin(now_ms) {
                prop_assert!(!begun.1.is_empty() && begun.1.len() <= AUDIT_GROUP_LINES_MAX);
                running.push(begun);
            }
            prop_assert!(running.len() <= AUDIT_COMMITS_AT_ONCE_MAX);
            if running.is_empty() {
                now_ms = queue.begins_at_ms().unwrap_or(now_ms);
                continue;
            }
            let (owner, lines): (Tenant, Vec<(usize, usize)>) = running.remove(0);
            match fates.next() {
                Some(1) => queue.fail(owner, lines, now_ms),
                Some(2) => queue.set_aside(owner, lines, now_ms),
                _ => {
                    left -= lines.len();
                    lines.iter().for_each(|(number, line)| committed[*number].push(*line));
                    queue.complete(owner);
                }
            }
        }
        prop_assert!(queue.is_empty() && queue.begin(u64::MAX).is_none());
        prop_assert!(committed.iter().all(|lines| lines.is_sorted()));
        prop_assert_eq!(queue.begins_at_ms(), None);
    }
}
