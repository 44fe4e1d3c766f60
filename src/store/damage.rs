//! Handling of unreadable rows: each affects only the object that it belongs to.

use porchlight_observe::Fact;
use porchlight_observe::store::StoreMetrics;
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::ids::SessionId;

/// Replaces an unreadable row of a session by `None`. Counts and logs it with the session's id.
pub(crate) fn readable<T>(
    read: StoreResult<Option<T>>,
    session_id: SessionId,
    what: &'static str,
) -> StoreResult<Option<T>> {
    match read {
        Err(error @ StoreError::Corrupt(_)) => {
            Fact::Unreadable {
                session_id,
                what,
                error: &error,
            }
            .record();
            Ok(None)
        }
        read => read,
    }
}

/// Replaces an unreadable row that belongs to no session by `None`. Counts and logs it.
pub(crate) fn skipped<T>(
    read: StoreResult<Option<T>>,
    what: &'static str,
) -> StoreResult<Option<T>> {
    match read {
        Err(StoreError::Corrupt(row)) => {
            report(what, &row);
            Ok(None)
        }
        read => read,
    }
}

/// Counts and logs a row that belongs to no session. `row` names it as the error does.
pub(crate) fn report(what: &'static str, row: &str) {
    StoreMetrics::get().unreadable.increment(1);
    tracing::error!(what, row, "stored data unreadable");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use porchlight_ports::{
        MessageBody, NewSession, Outbox, SessionFilter, Sessions, StoreError, StoredInsight,
    };
    use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId, ShardSet};
    use porchlight_schema::message::MessageEvent;
    use porchlight_schema::session::{
        Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
    };
    use porchlight_schema::time::TimestampMs;

    use crate::MemoryStore;
    use crate::engine::{KeyRange, Space};
    use crate::txn::{Read, Scan};

    const T0: TimestampMs = TimestampMs(1_763_636_100_000);

    fn tenant(number: u128) -> Tenant {
        Tenant {
            organization_id: OrganizationId::new(T0, number),
            env: Env::Production,
        }
    }

    fn message(event: MessageEvent) -> MessageBody {
        MessageBody {
            event,
            created_at: T0,
            body: "{}".into(),
        }
    }

    async fn start(store: &MemoryStore, number: u128) -> SessionId {
        let session_id = SessionId::new(T0, number);
        let address = Address {
            line1: "a".to_owned(),
            city: "b".to_owned(),
            country: "GB".to_owned(),
            point: Point { lat: 1.0, lng: 2.0 },
            unit: None,
            floor: None,
            accuracy_m: Address::ACCURACY_M_DEFAULT,
            storey_height_m: None,
            entrance: None,
            gates: Vec::new(),
        };
        let start = SessionStart {
            session_id,
            tenant: tenant(1),
            delivery_id: "d".to_owned(),
            external_rider_id: "r".to_owned(),
            session_type: porchlight_schema::session::SessionType::Delivery,
            address,
            device: None,
            started_at: T0,
            created_at: T0,
        };
        let new = NewSession {
            start,
            idempotency: None,
            message: message(MessageEvent::SessionStarted),
        };
        store.start(new).await.unwrap();
        session_id
    }

    /// Overwrites every row whose key begins so with bytes of no known format.
    async fn damage(store: &MemoryStore, prefix: Vec<u8>) -> usize {
        let damaged = store.committer().write(move |txn| {
            let rows = txn.rows(&Scan::keys(KeyRange::prefix(prefix), usize::MAX))?;
            let count = rows.len();
            for row in rows {
                txn.put(Space::State, row.key, vec![0xee; 8]);
            }
            Ok(count)
        });
        damaged.await.unwrap()
    }

    fn of_session(table: u8, session_id: SessionId) -> Vec<u8> {
        let mut key = vec![table];
        key.extend_from_slice(&session_id.to_bytes());
        key
    }

    async fn end(store: &MemoryStore, session_id: SessionId) {
        let end = SessionEnd {
            ended_at: T0,
            completed_at: T0,
            reason: EndReason::Stopped,
        };
        let message = message(MessageEvent::SessionStopped);
        store.end(session_id, end, None, message).await.unwrap();
    }

    #[tokio::test]
    async fn a_damaged_session_does_not_hide_others_in_lists() {
        for table in *b"sln" {
            let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
            let damaged = start(&store, 1).await;
            let good = start(&store, 2).await;
            damage(&store, of_session(table, damaged)).await;
            let live = store.live(ShardSet::ALL, None, 1).await.unwrap();
            let all = store.live(ShardSet::ALL, None, 9).await.unwrap();
            assert!(!live.is_empty(), "an empty page ends the list");
            assert!(all.iter().any(|row| row.start.session_id == good));
            let filter = SessionFilter::default();
            let page = store.list(tenant(1), &filter, 9, None).await.unwrap();
            assert!(page.rows.iter().any(|row| row.start.session_id == good));
        }
    }

    #[tokio::test]
    async fn a_sweep_removes_damaged_sessions_too() {
        for table in *b"secnmvpy" {
            let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
            let (damaged, good) = (start(&store, 1).await, start(&store, 2).await);
            end(&store, damaged).await;
            end(&store, good).await;
            damage(&store, of_session(table, damaged)).await;
            assert_eq!(
                store.sweep(T0.plus_ms(1), u64::MAX).await.unwrap(),
                2,
                "{table}"
            );
            assert!(store.find(good).await.unwrap().is_none());
            assert!(store.find(damaged).await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn a_damaged_webhook_does_not_affect_other_tenants() {
        let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
        for number in [1, 2] {
            let endpoint = porchlight_ports::Endpoint {
                enabled: true,
                id: EndpointId::new(T0, number),
                tenant: tenant(number),
                url: "https://example.com/".into(),
                created_at: T0,
                version: 0,
                secret: porchlight_ports::SealedSecret {
                    number: 1,
                    sealed: Vec::new(),
                },
                secret_made_at: T0,
                previous: None,
                paused_at: None,
                remembered: Vec::new(),
            };
            assert!(store.create_endpoint(endpoint).await.unwrap());
        }
        let key = crate::tables::endpoints::key(tenant(1));
        assert_eq!(damage(&store, key).await, 1);
        let left = store.endpoints().await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].tenant, tenant(2));
        let own = store.endpoint(tenant(1)).await;
        assert!(matches!(own, Err(StoreError::Corrupt(_))), "never absent");
    }

    #[tokio::test]
    async fn an_unreadable_insight_is_replaced() {
        use porchlight_ports::{Covered, Insights};
        use porchlight_schema::insight::InsightRecord;
        let store = MemoryStore::new(Arc::new(|_, _, _| {})).unwrap();
        let session_id = start(&store, 1).await;
        end(&store, session_id).await;
        let insight = |revision| StoredInsight {
            record: InsightRecord {
                revision,
                error_message: Some("no".to_owned()),
                score: None,
                pod: None,
                updated_at: T0,
            },
            covered: Covered::default(),
            dropped: porchlight_schema::insight::DroppedSamples::default(),
            known: Vec::new(),
        };
        let commit = async |revision| {
            let message = message(MessageEvent::InsightUpdated);
            let committed =
                store.commit_insight(session_id, insight(revision), message, Vec::new());
            committed.await.unwrap()
        };
        assert!(commit(1).await);
        assert!(commit(2).await);
        assert!(!commit(1).await);
        assert_eq!(damage(&store, of_session(b'v', session_id)).await, 1);
        assert!(store.insight(session_id).await.is_err());
        assert!(commit(1).await);
        assert_eq!(store.insight(session_id).await.unwrap(), Some(insight(1)));
    }
}
