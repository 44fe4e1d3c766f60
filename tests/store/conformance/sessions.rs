//! Rules for sessions that every store follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use porchlight_ports::{Idempotency, NewSession, PodRow, SessionFilter, SessionRow, StartOutcome};
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::limits::IDEMPOTENCY_MS;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{EndReason, Env, Pod, PodType, SessionEnd, SessionStatus, Tenant};

use crate::fixtures::{Subject, T0, end_at, message, new_session, start, tenant};

pub async fn a_repeated_start_returns_the_same_session(subject: &dyn Subject) {
    let (store, start) = (subject.store(), start(tenant(), T0));
    let id = start.session_id;
    assert_eq!(store.find(id).await.unwrap(), None);
    assert_eq!(
        store.start(new_session(&start)).await.unwrap(),
        StartOutcome::Created
    );
    let again = store.start(new_session(&start)).await.unwrap();
    assert_eq!(again, StartOutcome::Repeated(Box::new(start.clone())));
    let row = SessionRow { start, end: None };
    assert_eq!(store.find(id).await.unwrap(), Some(row));
}

fn keyed(tenant: Tenant, key: &str, body: u8, after_ms: i64) -> NewSession {
    NewSession {
        idempotency: Some(Idempotency {
            key: key.to_owned(),
            body_hash: [body; 32],
        }),
        ..new_session(&start(tenant, T0.plus_ms(after_ms)))
    }
}

pub async fn idempotency_keys_are_kept_for_a_day(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let first = keyed(tenant, "key", 1, 0);
    assert_eq!(
        store.start(first.clone()).await.unwrap(),
        StartOutcome::Created
    );
    let before = async |key: &str, body: u8, after_ms: i64| {
        let keyed = keyed(tenant, key, body, after_ms);
        let (idempotency, now) = (keyed.idempotency.unwrap(), keyed.start.created_at);
        let before = store.find_earlier_start(tenant, idempotency, now).await;
        before.unwrap()
    };
    assert_eq!(before("other", 1, 0).await, None);
    assert_eq!(before("key", 1, IDEMPOTENCY_MS).await, None);
    for after_ms in [0, 1, IDEMPOTENCY_MS - 1] {
        let made = StartOutcome::Repeated(Box::new(first.start.clone()));
        assert_eq!(before("key", 1, after_ms).await, Some(made));
        let reused = before("key", 2, after_ms).await;
        assert_eq!(reused, Some(StartOutcome::KeyReused));
        let again = keyed(tenant, "key", 1, after_ms);
        let id = again.start.session_id;
        let outcome = store.start(again).await.unwrap();
        assert_eq!(
            outcome,
            StartOutcome::Repeated(Box::new(first.start.clone()))
        );
        assert_eq!(store.find(id).await.unwrap(), None);
        let other = store
            .start(keyed(tenant, "key", 2, after_ms))
            .await
            .unwrap();
        assert_eq!(other, StartOutcome::KeyReused);
    }
    let next_day = keyed(tenant, "key", 2, IDEMPOTENCY_MS);
    assert_eq!(
        store.start(next_day.clone()).await.unwrap(),
        StartOutcome::Created
    );
    let again = store
        .start(keyed(tenant, "key", 2, IDEMPOTENCY_MS + 5))
        .await
        .unwrap();
    assert_eq!(again, StartOutcome::Repeated(Box::new(next_day.start)));
    let old = store
        .start(keyed(tenant, "key", 1, IDEMPOTENCY_MS + 5))
        .await
        .unwrap();
    assert_eq!(old, StartOutcome::KeyReused);
}

pub async fn idempotency_keys_are_per_tenant(subject: &dyn Subject) {
    let (store, live) = (subject.store(), tenant());
    let sandbox = Tenant {
        env: Env::Sandbox,
        ..live
    };
    for tenant in [live, sandbox, tenant()] {
        let outcome = store.start(keyed(tenant, "key", 1, 0)).await.unwrap();
        assert_eq!(outcome, StartOutcome::Created);
    }
    let other_key = store.start(keyed(live, "kez", 1, 0)).await.unwrap();
    assert_eq!(other_key, StartOutcome::Created);
}

pub async fn concurrent_starts_under_one_key_make_one_session(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, new) = (Arc::clone(&store), keyed(tenant, "key", 1, n));
            tokio::spawn(async move {
                let id = new.start.session_id;
                match store.start(new).await.unwrap() {
                    StartOutcome::Created => id,
                    StartOutcome::Repeated(start) => start.session_id,
                    StartOutcome::KeyReused => panic!("the body was the same"),
                }
            })
        })
        .collect();
    let mut ids = BTreeSet::new();
    for task in tasks {
        ids.insert(task.await.unwrap());
    }
    assert_eq!(ids.len(), 1);
    let all = store
        .list(tenant, &SessionFilter::default(), 10, None)
        .await
        .unwrap();
    assert_eq!(all.rows.len(), 1);
}

fn pod(url: &str, after_ms: i64) -> PodRow {
    PodRow {
        pod: Pod {
            pod_type: PodType::Photo,
            url: url.to_owned(),
        },
        received_at: T0.plus_ms(after_ms),
    }
}

pub async fn the_first_end_counts(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    let (first, second) = (end_at(T0.plus_ms(10)), end_at(T0.plus_ms(20)));
    let stopped = || message(MessageEvent::SessionStopped);
    assert_eq!(store.end(id, first, None, stopped()).await.unwrap(), None);
    store.start(new_session(&start)).await.unwrap();
    let proof = pod("https://a", 9);
    let outcome = store
        .end(id, first, Some(proof.clone()), stopped())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((outcome.end, outcome.is_first), (first, true));
    let later = store
        .end(id, second, Some(pod("https://b", 11)), stopped())
        .await;
    let later = later.unwrap().unwrap();
    assert_eq!((later.end, later.is_first), (first, false));
    let row = store.find(id).await.unwrap().unwrap();
    assert_eq!(row.end, Some(first));
    assert_eq!(store.pod(id).await.unwrap(), Some(proof));
    let events: Vec<_> = store
        .messages(id)
        .await
        .unwrap()
        .iter()
        .map(|m| m.event)
        .collect();
    assert_eq!(
        events,
        [MessageEvent::SessionStarted, MessageEvent::SessionStopped]
    );
}

pub async fn one_of_several_concurrent_ends_is_first(subject: &dyn Subject) {
    let (store, start) = (subject.store(), start(tenant(), T0));
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    let tasks: Vec<_> = (1..=8)
        .map(|n| {
            let (store, end) = (Arc::clone(&store), end_at(T0.plus_ms(n)));
            tokio::spawn(async move {
                let body = message(MessageEvent::SessionStopped);
                (end, store.end(id, end, None, body).await.unwrap().unwrap())
            })
        })
        .collect();
    let mut firsts = Vec::new();
    let mut ends = Vec::new();
    for task in tasks {
        let (asked, outcome) = task.await.unwrap();
        ends.push(outcome.end);
        if outcome.is_first {
            assert_eq!(outcome.end, asked);
            firsts.push(asked);
        }
    }
    assert_eq!(firsts.len(), 1);
    assert!(ends.iter().all(|end| *end == firsts[0]));
}

pub async fn the_first_stop_after_a_timeout_counts(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    let timeout = SessionEnd {
        reason: EndReason::Idle,
        ..end_at(T0.plus_ms(10))
    };
    let stop = |at_ms: i64| SessionEnd {
        ended_at: T0.plus_ms(at_ms),
        completed_at: timeout.completed_at,
        reason: EndReason::StoppedAfterTimeout {
            stopped_at: T0.plus_ms(at_ms + 100),
        },
    };
    let stopped_at = async |end: SessionEnd| {
        let proof = pod("https://a", end.ended_at.since_ms(T0));
        let stopped = store.stop_after_timeout(id, end, Some(proof));
        stopped.await.unwrap()
    };
    assert_eq!(stopped_at(stop(1)).await, None);
    store.start(new_session(&start)).await.unwrap();
    assert_eq!(
        stopped_at(stop(1)).await,
        None,
        "a live session has no end to replace"
    );
    assert_eq!(store.pod(id).await.unwrap(), None);
    let body = message(MessageEvent::SessionStopped);
    store.end(id, timeout, None, body).await.unwrap().unwrap();
    let first = stopped_at(stop(5)).await.unwrap();
    assert_eq!((first.end, first.is_first), (stop(5), true));
    assert_eq!(store.pod(id).await.unwrap(), Some(pod("https://a", 5)));
    for end in [stop(7), stop(5)] {
        let later = stopped_at(end).await.unwrap();
        assert_eq!((later.end, later.is_first), (stop(5), false));
    }
    assert_eq!(store.pod(id).await.unwrap(), Some(pod("https://a", 5)));
    let row = store.find(id).await.unwrap().unwrap();
    assert_eq!(row.end, Some(stop(5)));
    let to_score = store.to_score(ShardSet::ALL, None, 10_000).await.unwrap();
    assert!(to_score.contains(&id), "an insight is due");
    let messages = store.messages(id).await.unwrap();
    assert_eq!(messages.len(), 2, "nothing is queued by the stop");
    // A timely stop by the app is not replaced.
    let other = self::start(tenant, T0);
    let id = other.session_id;
    store.start(new_session(&other)).await.unwrap();
    let in_time = end_at(T0.plus_ms(3));
    let body = message(MessageEvent::SessionStopped);
    store.end(id, in_time, None, body).await.unwrap().unwrap();
    let kept = store.stop_after_timeout(id, stop(9), Some(pod("https://b", 9)));
    let kept = kept.await.unwrap().unwrap();
    assert_eq!(store.pod(id).await.unwrap(), None);
    assert_eq!((kept.end, kept.is_first), (in_time, false));
}

pub async fn a_pod_is_replaced_and_not_repeated(subject: &dyn Subject) {
    let (store, start) = (subject.store(), start(tenant(), T0));
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    assert_eq!(store.pod(id).await.unwrap(), None);
    assert!(store.attach_pod(id, pod("https://a", 1)).await.unwrap());
    assert!(!store.attach_pod(id, pod("https://a", 2)).await.unwrap());
    assert_eq!(store.pod(id).await.unwrap(), Some(pod("https://a", 1)));
    assert!(store.attach_pod(id, pod("https://b", 3)).await.unwrap());
    assert_eq!(store.pod(id).await.unwrap(), Some(pod("https://b", 3)));
    // A clock that was set back, or another node's clock, drops no PoD: it counts as a millisecond
    // later.
    assert!(store.attach_pod(id, pod("https://c", 2)).await.unwrap());
    assert_eq!(store.pod(id).await.unwrap(), Some(pod("https://c", 4)));
    let end = end_at(T0.plus_ms(5));
    let body = message(MessageEvent::SessionStopped);
    let with_pod = store.end(id, end, Some(pod("https://d", 1)), body);
    assert!(with_pod.await.unwrap().unwrap().is_first);
    assert_eq!(store.pod(id).await.unwrap(), Some(pod("https://d", 5)));
}

async fn pages(
    subject: &dyn Subject,
    tenant: Tenant,
    filter: &SessionFilter,
    limit: u32,
) -> Vec<SessionId> {
    let (store, mut ids, mut after) = (subject.store(), Vec::new(), None);
    loop {
        let page = store.list(tenant, filter, limit, after).await.unwrap();
        assert!(page.rows.len() <= limit as usize);
        ids.extend(page.rows.iter().map(|row| row.start.session_id));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

pub async fn lists_are_newest_first_filtered_and_paged(subject: &dyn Subject) {
    let (store, tenant, other) = (subject.store(), tenant(), tenant());
    let mut made = Vec::new();
    for n in 0..20_i64 {
        // Three sessions share each millisecond; the order of creation is not the order of time.
        let mut start = start(tenant, T0.plus_ms((n * 7 % 20) / 3));
        start.delivery_id = format!("d{}", n % 3);
        start.external_rider_id = format!("r{}", n % 4);
        store.start(new_session(&start)).await.unwrap();
        if n % 5 == 0 {
            let body = message(MessageEvent::SessionStopped);
            store
                .end(start.session_id, end_at(T0.plus_ms(99)), None, body)
                .await
                .unwrap();
        }
        made.push((start, n % 5 == 0));
    }
    store.start(new_session(&start(other, T0))).await.unwrap();
    made.sort_by_key(|(start, _)| std::cmp::Reverse((start.created_at, start.session_id)));
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        SessionFilter::default(),
        SessionFilter {
            status: Some(SessionStatus::Completed),
            ..Default::default()
        },
        SessionFilter {
            status: Some(SessionStatus::Recording),
            ..Default::default()
        },
        SessionFilter {
            delivery_id: text("d1"),
            ..Default::default()
        },
        SessionFilter {
            external_rider_id: text("r2"),
            ..Default::default()
        },
        SessionFilter {
            delivery_id: text("d0"),
            external_rider_id: text("r1"),
            status: Some(SessionStatus::Recording),
            from: Some(T0.plus_ms(1)),
            to: Some(T0.plus_ms(6)),
        },
        SessionFilter {
            delivery_id: text("none"),
            ..Default::default()
        },
    ];
    for filter in &filters {
        let expected: Vec<_> = made
            .iter()
            .filter(|(start, ended)| {
                let status = if *ended {
                    SessionStatus::Completed
                } else {
                    SessionStatus::Recording
                };
                filter.status.is_none_or(|wanted| wanted == status)
                    && filter
                        .delivery_id
                        .as_ref()
                        .is_none_or(|id| *id == start.delivery_id)
                    && filter
                        .external_rider_id
                        .as_ref()
                        .is_none_or(|id| *id == start.external_rider_id)
                    && filter.from.is_none_or(|from| start.created_at >= from)
                    && filter.to.is_none_or(|to| start.created_at < to)
            })
            .map(|(start, _)| start.session_id)
            .collect();
        for limit in [1, 3, 7, 20, 200] {
            assert_eq!(
                pages(subject, tenant, filter, limit).await,
                expected,
                "{filter:?}"
            );
        }
    }
}

pub async fn lists_end_at_times(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let starts: Vec<_> = (0..4).map(|n| start(tenant, T0.plus_ms(n))).collect();
    for start in &starts {
        store.start(new_session(start)).await.unwrap();
    }
    let filter = SessionFilter {
        from: Some(T0.plus_ms(1)),
        to: Some(T0.plus_ms(3)),
        ..Default::default()
    };
    let ids: Vec<_> = [2, 1].map(|n: usize| starts[n].session_id).to_vec();
    assert_eq!(pages(subject, tenant, &filter, 10).await, ids);
    let last = store.list(tenant, &filter, 2, None).await.unwrap();
    assert_eq!(last.next, None, "a page that is just full is the last one");
}

pub async fn live_sessions_are_found(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let far = T0.plus_ms(40 * 86_400_000);
    // Few sessions have ended between the first live ones, and many between the last two.
    let live_numbers = [0, 2, 5, 23];
    let starts: Vec<_> = (0..24).map(|n| start(tenant, far.plus_ms(n))).collect();
    for start in &starts {
        store.start(new_session(start)).await.unwrap();
    }
    for (n, start) in starts.iter().enumerate() {
        if !live_numbers.contains(&n) {
            let end = end_at(far.plus_ms(300 - n as i64));
            let body = message(MessageEvent::SessionStopped);
            store.end(start.session_id, end, None, body).await.unwrap();
        }
    }
    let mut live = Vec::new();
    let mut after = None;
    loop {
        let rows = store.live(ShardSet::ALL, after, 2).await.unwrap();
        let Some(last) = rows.last() else { break };
        after = Some(last.start.session_id);
        assert!(rows.iter().all(|row| row.end.is_none()));
        live.extend(rows.into_iter().map(|row| row.start.session_id));
    }
    assert!(live.is_sorted());
    live.retain(|id| starts.iter().any(|start| start.session_id == *id));
    assert_eq!(live, live_numbers.map(|n| starts[n].session_id));
    // Each session is found in its shard and in no other.
    for id in live {
        let shards = ShardSet::from_iter([id.shard()]);
        let rows = store.live(shards, None, 1_000).await.unwrap();
        let found: Vec<_> = rows.iter().map(|row| row.start.session_id).collect();
        assert!(found.contains(&id) && found.iter().all(|found| found.shard() == id.shard()));
    }
}

pub async fn messages_are_numbered_without_gaps(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    let new = new_session(&start);
    let body = new.message.body.clone();
    store.start(new).await.unwrap();
    store.start(new_session(&start)).await.unwrap();
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    let messages = store.messages(id).await.unwrap();
    assert_eq!(
        messages.iter().map(|m| m.number).collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(messages[0].body, body);
    assert_eq!((messages[0].tenant, messages[0].session_id), (tenant, id));
    assert_eq!(messages[0].id, MessageId::derived(T0, id, 0));
    for message in messages {
        assert_eq!(store.message(message.id).await.unwrap(), Some(message));
    }
    assert_eq!(
        store.message(MessageId::derived(T0, id, 2)).await.unwrap(),
        None
    );
}

pub async fn messages_without_a_webhook_are_dropped(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    store
        .end(id, end_at(T0), None, message(MessageEvent::SessionStopped))
        .await
        .unwrap();
    assert_eq!(
        store.messages(id).await.unwrap(),
        [],
        "no webhook is registered"
    );
}

pub async fn messages_of_a_paused_webhook_are_kept(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    subject.put_endpoint(tenant, false).await;
    store
        .end(id, end_at(T0), None, message(MessageEvent::SessionStopped))
        .await
        .unwrap();
    assert_eq!(store.messages(id).await.unwrap().len(), 1);
}
