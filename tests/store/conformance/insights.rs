//! Rules for snapshots and insights that every store follows.

use std::sync::Arc;

use porchlight_ports::{Covered, PodRow, SessionOutcome, Snapshot, Store, StoredInsight};
use porchlight_schema::ids::{KeyId, SessionId, ShardSet};
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::review::{Review, ReviewState};
use porchlight_schema::session::{Pod, PodType};

use crate::fixtures::{
    Subject, T0, batch, end_at, fresh, message, new_session, session_id, start, tenant,
};

pub async fn the_highest_snapshot_wins(subject: &dyn Subject) {
    let (store, id) = (subject.store(), session_id(T0));
    let snapshot = |generation, next_seq, state: &[u8]| Snapshot {
        generation,
        next_seq,
        state: state.to_vec(),
    };
    assert_eq!(store.newest_snapshot(id).await.unwrap(), None);
    for (written, newest) in [
        (snapshot(1, 5, b"a"), snapshot(1, 5, b"a")),
        (snapshot(1, 4, b"b"), snapshot(1, 5, b"a")),
        (snapshot(2, 1, b"c"), snapshot(2, 1, b"c")),
        (snapshot(1, 90, b"d"), snapshot(2, 1, b"c")),
        (snapshot(2, 300, b"e"), snapshot(2, 300, b"e")),
    ] {
        store.put_snapshot(id, written).await.unwrap();
        assert_eq!(store.newest_snapshot(id).await.unwrap(), Some(newest));
    }
}

pub(crate) fn insight(revision: u32, error: &str) -> StoredInsight {
    StoredInsight {
        record: InsightRecord {
            revision,
            score: None,
            error_message: Some(error.to_owned()),
            pod: None,
            updated_at: T0.plus_ms(i64::from(revision)),
        },
        covered: Covered {
            batches: revision,
            pod_received_at: Some(T0),
            late_stop_at: None,
        },
        known: vec![1, 2, 3],
        dropped: DroppedSamples::default(),
    }
}

pub async fn a_review_is_kept_beside_each_insight(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let (session, other) = (start(tenant, T0), start(tenant, T0));
    let id = session.session_id;
    let review = |state, note: Option<&str>| Review {
        state,
        note: note.map(str::to_owned),
        by: Some("Ada".to_owned()),
        reviewed_at: T0.plus_ms(5),
        key_id: KeyId::new(T0, 1),
    };
    let first = review(ReviewState::Reviewed, None);
    assert!(
        !store.put_review(id, first.clone()).await.unwrap(),
        "a review needs a session"
    );
    store.start(new_session(&session)).await.unwrap();
    store.start(new_session(&other)).await.unwrap();
    assert_eq!(store.review(id).await.unwrap(), None);
    assert!(store.put_review(id, first.clone()).await.unwrap());
    assert_eq!(store.review(id).await.unwrap(), Some(first));
    let second = review(ReviewState::Overturned, Some("the entrance is in the yard"));
    assert!(store.put_review(id, second.clone()).await.unwrap());
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    for revision in 1..3 {
        let body = message(MessageEvent::InsightUpdated);
        let insight = insight(revision, "");
        assert!(
            store
                .commit_insight(id, insight, body, vec![])
                .await
                .unwrap()
        );
        assert_eq!(store.review(id).await.unwrap(), Some(second.clone()));
    }
    assert_eq!(store.review(other.session_id).await.unwrap(), None);
    let failed = SessionOutcome {
        codes: Vec::new(),
        summary: None,
    };
    let outcomes = store.outcomes(vec![other.session_id, id]).await;
    assert_eq!(outcomes.unwrap(), [None, Some(failed)]);
}

/// Returns the sessions among these that need scoring.
async fn to_score(store: &dyn Store, of: &[SessionId]) -> Vec<SessionId> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.to_score(ShardSet::ALL, after, 1).await.unwrap();
        let Some(&last) = page.last() else { break };
        after = Some(last);
        found.extend(page);
    }
    assert!(found.is_sorted());
    found.retain(|id| of.contains(id));
    found
}

pub async fn an_insight_that_may_be_behind_is_found(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    let (lives, ended) = (start(tenant, T0), start(tenant, T0));
    let (id, ids) = (ended.session_id, [lives.session_id, ended.session_id]);
    for start in [&lives, &ended] {
        store.start(new_session(start)).await.unwrap();
        store
            .append(start.session_id, 0, batch(0), T0)
            .await
            .unwrap();
    }
    let pod = PodRow {
        pod: Pod {
            pod_type: PodType::Note,
            url: "https://pod.example/1".to_owned(),
        },
        received_at: T0,
    };
    store
        .attach_pod(lives.session_id, pod.clone())
        .await
        .unwrap();
    assert_eq!(to_score(&*store, &ids).await, [], "both are live");
    let stopped = message(MessageEvent::SessionStopped);
    store.end(id, end_at(T0), None, stopped).await.unwrap();
    assert_eq!(to_score(&*store, &ids).await, [id], "no insight yet");

    let mut revision = 0;
    let mut commit = async |batches, pod_received_at| {
        revision += 1;
        let covered = Covered {
            batches,
            pod_received_at,
            late_stop_at: None,
        };
        let insight = StoredInsight {
            covered,
            ..insight(revision, "")
        };
        let body = message(MessageEvent::InsightUpdated);
        assert!(
            store
                .commit_insight(id, insight, body, vec![])
                .await
                .unwrap()
        );
    };
    commit(1, None).await;
    assert_eq!(to_score(&*store, &ids).await, []);
    store.append(id, 0, batch(0), T0).await.unwrap();
    assert_eq!(
        to_score(&*store, &ids).await,
        [],
        "a repeat changes nothing"
    );
    store.append(id, 2, batch(2), T0).await.unwrap();
    assert_eq!(to_score(&*store, &ids).await, [id], "a late batch");
    commit(1, None).await;
    assert_eq!(
        to_score(&*store, &ids).await,
        [id],
        "an insight that does not cover it"
    );
    commit(2, None).await;
    assert_eq!(to_score(&*store, &ids).await, []);
    store.attach_pod(id, pod).await.unwrap();
    assert_eq!(to_score(&*store, &ids).await, [id], "a PoD");
    commit(2, Some(T0)).await;
    assert_eq!(to_score(&*store, &ids).await, []);
}

pub async fn revisions_follow_each_other(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    let mut place = [0; 32];
    place[..8].copy_from_slice(&fresh().to_be_bytes());
    let body = || message(MessageEvent::InsightUpdated);
    let commit = |insight, learned| store.commit_insight(id, insight, body(), learned);

    assert!(!commit(insight(1, "no session"), vec![]).await.unwrap());
    store.start(new_session(&start)).await.unwrap();
    assert_eq!(store.insight(id).await.unwrap(), None);
    assert!(
        !commit(insight(2, "too early"), vec![(place, b"no".to_vec())])
            .await
            .unwrap()
    );
    assert_eq!(store.recall(place).await.unwrap(), None);
    assert!(
        commit(insight(1, "one"), vec![(place, b"yes".to_vec())])
            .await
            .unwrap()
    );
    assert!(
        !commit(insight(1, "again"), vec![(place, b"no".to_vec())])
            .await
            .unwrap()
    );
    assert_eq!(store.insight(id).await.unwrap(), Some(insight(1, "one")));
    assert!(commit(insight(2, "two"), vec![]).await.unwrap());
    assert!(!commit(insight(4, "four"), vec![]).await.unwrap());
    assert_eq!(store.insight(id).await.unwrap(), Some(insight(2, "two")));
    assert_eq!(store.recall(place).await.unwrap(), Some(b"yes".to_vec()));
    let mut nowhere = place;
    nowhere[31] ^= 1;
    let found = store.recall_all(vec![nowhere, place]).await.unwrap();
    assert_eq!(found, [(place, b"yes".to_vec())].into());
    assert!(store.recall_all(Vec::new()).await.unwrap().is_empty());
    let events: Vec<_> = store
        .messages(id)
        .await
        .unwrap()
        .into_iter()
        .map(|message| (message.number, message.event))
        .collect();
    assert_eq!(
        events,
        [
            (0, MessageEvent::SessionStarted),
            (1, MessageEvent::InsightUpdated),
            (2, MessageEvent::InsightUpdated)
        ]
    );
}

pub async fn one_of_several_concurrent_revisions_is_committed(subject: &dyn Subject) {
    let (store, tenant) = (subject.store(), tenant());
    subject.put_endpoint(tenant, true).await;
    let start = start(tenant, T0);
    let id = start.session_id;
    store.start(new_session(&start)).await.unwrap();
    for revision in 1..=3 {
        let tasks: Vec<_> = (0..6)
            .map(|writer| {
                let store = Arc::clone(&store);
                let insight = insight(revision, &writer.to_string());
                tokio::spawn(async move {
                    let body = message(MessageEvent::InsightUpdated);
                    let mut key = [0; 32];
                    key[0] = writer;
                    store
                        .commit_insight(id, insight, body, vec![(key, vec![writer])])
                        .await
                        .unwrap()
                })
            })
            .collect();
        let mut committed = Vec::new();
        for (writer, task) in tasks.into_iter().enumerate() {
            if task.await.unwrap() {
                committed.push(writer.to_string());
            }
        }
        assert_eq!(committed.len(), 1);
        let stored = store.insight(id).await.unwrap().unwrap().record;
        assert_eq!(
            (stored.revision, stored.error_message),
            (revision, committed.pop())
        );
    }
    assert_eq!(store.messages(id).await.unwrap().len(), 4);
}
