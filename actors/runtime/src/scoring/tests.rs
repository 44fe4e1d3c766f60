//! A session for the tests of scoring, and the tests of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use actix_rt::{Arbiter, System};
use porchlight_ports::{Clock, Insights, MessageBody, NewSession, Sessions};
use porchlight_schema::ids::{OrganizationId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{
    Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
};
use porchlight_schema::time::TimestampMs;
use porchlight_store::MemoryStore;
use tokio::sync::mpsc::channel;

use super::ScoringPool;

/// The time of the session.
pub(super) const T0: TimestampMs = TimestampMs(1_763_636_100_000);

/// Returns the start of the session.
pub(super) fn start() -> SessionStart {
    SessionStart::delivery(
        SessionId::new(T0, 1),
        Tenant {
            organization_id: OrganizationId::new(T0, 1),
            env: Env::Sandbox,
        },
        Address::at(Point { lat: 0.0, lng: 0.0 }),
        T0,
    )
}

/// A clock that stands still.
pub(super) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> TimestampMs {
        T0
    }

    fn uptime_ms(&self) -> i64 {
        0
    }
}

fn message(event: MessageEvent) -> MessageBody {
    MessageBody {
        event,
        created_at: T0,
        body: "{}".into(),
    }
}

/// Starts the session in a store, and returns its id.
pub(super) async fn started(store: &MemoryStore) -> SessionId {
    let start = start();
    let session_id = start.session_id;
    let new = NewSession {
        start,
        idempotency: None,
        message: message(MessageEvent::SessionStarted),
    };
    store.start(new).await.unwrap();
    session_id
}

/// Ends the session.
pub(super) async fn end(store: &MemoryStore, session_id: SessionId) {
    let end = SessionEnd {
        ended_at: T0,
        completed_at: T0,
        reason: EndReason::Stopped,
    };
    let stopped = message(MessageEvent::SessionStopped);
    store.end(session_id, end, None, stopped).await.unwrap();
}

/// A panic in any part of a score is a lasting failure: the insight says that it failed, instead of
/// being attempted again and again.
#[test]
fn a_session_whose_score_panics_gets_a_failed_insight() {
    const ATTEMPTS_MAX: u32 = 100;
    System::new().block_on(async {
        tokio::time::pause();
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let session_id = started(&store).await;
        end(&store, session_id).await;
        let pool = ScoringPool::start(
            &[Arbiter::current()],
            Arc::<MemoryStore>::clone(&store),
            Arc::new(FixedClock),
            Arc::new(|_, _| {}),
        );
        let (ended, mut end_of_attempts) = channel(2);
        let scored = ended.clone();
        let on_scored = move |_| {
            let _sent = scored.try_send(());
        };
        pool.connect(on_scored, |_| true, Box::new(|_| Box::pin(async { None })));
        let attempts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&attempts);
        pool.leave_erased(move |_| {
            if counted.fetch_add(1, Ordering::Relaxed) > ATTEMPTS_MAX {
                let _sent = ended.try_send(());
            }
            panic!("a part of the score panics");
        });
        pool.request(session_id, Some(start().tenant));
        end_of_attempts.recv().await.unwrap();
        assert_eq!(attempts.load(Ordering::Relaxed), 50);
        let insight = store.insight(session_id).await.unwrap().unwrap();
        assert!(insight.record.error_message.is_some());
        assert_eq!(pool.waiting(), 0);
    });
}
