//! Rules for outboxes and webhook messages that every store follows.

use std::sync::Arc;

use porchlight_core::webhook::{
    AttemptDetails, AttemptResult, Cause, Change, ManualRetry, Queued, State, Update,
};
use porchlight_ports::{
    DeliveryFilter, DeliveryStatus, Endpoint, MessageBody, Outbox, RetryOutcome, SealedSecret,
};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, ShardSet};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use crate::fixtures::{Subject, T0, end_at, fresh, message, new_session, start, tenant};

fn endpoint(tenant: Tenant) -> Endpoint {
    Endpoint {
        enabled: true,
        id: EndpointId::new(T0, u128::from(fresh())),
        tenant,
        url: "https://receiver.example/".into(),
        created_at: T0,
        version: 1,
        secret: SealedSecret {
            number: 1,
            sealed: vec![1],
        },
        secret_made_at: T0,
        previous: None,
        paused_at: None,
        remembered: Vec::new(),
    }
}

pub(crate) fn report(cause: Option<Cause>) -> AttemptResult {
    AttemptResult {
        at: T0.plus_ms(5),
        duration_ms: 7,
        status_code: Some(if cause.is_some() { 500 } else { 200 }),
        cause,
        response: None,
        details: AttemptDetails {
            reason: Some("why".to_owned()),
            address: Some([192, 0, 2, 1].into()),
            response_headers: vec![("via".to_owned(), "one".to_owned())],
        },
    }
}

pub(crate) fn one(before: Queued, after: Queued, report: Option<AttemptResult>) -> Change {
    Change {
        updates: vec![Update {
            before,
            after,
            report,
        }],
        manual_done: None,
    }
}

fn failed_once(before: Queued, due_at: TimestampMs) -> Queued {
    Queued {
        attempts: before.attempts + 1,
        due_at: Some(due_at),
        ..before
    }
}

fn delivered(before: Queued) -> Queued {
    Queued {
        attempts: before.attempts + 1,
        due_at: None,
        state: State::Delivered,
        ..before
    }
}

/// A tenant with an endpoint, and sessions whose starts are queued for it.
struct Queue {
    outbox: Arc<dyn Outbox>,
    tenant: Tenant,
    endpoint_id: EndpointId,
    sessions: Vec<SessionId>,
}

impl Queue {
    async fn of(subject: &dyn Subject, sessions: i64) -> Self {
        let (outbox, store, tenant) = (subject.outbox(), subject.store(), tenant());
        let endpoint = endpoint(tenant);
        assert!(outbox.create_endpoint(endpoint.clone()).await.unwrap());
        let mut ids = Vec::new();
        for n in 0..sessions {
            let start = start(tenant, T0.plus_ms(n));
            let mut new = new_session(&start);
            new.message.created_at = T0.plus_ms(n);
            store.start(new).await.unwrap();
            ids.push(start.session_id);
        }
        Self {
            outbox,
            tenant,
            endpoint_id: endpoint.id,
            sessions: ids,
        }
    }

    fn first_of(&self, place: usize) -> MessageId {
        MessageId::derived(T0.plus_ms(place as i64), self.sessions[place], 0)
    }

    fn firsts_of(&self, places: &[usize]) -> Vec<MessageId> {
        places.iter().map(|&place| self.first_of(place)).collect()
    }

    async fn waiting(&self, place: usize) -> Vec<Queued> {
        let lane = self
            .outbox
            .lane(self.tenant, self.endpoint_id, self.sessions[place], None);
        lane.await.unwrap().waiting
    }

    async fn commit(&self, place: usize, change: Change) -> Vec<Queued> {
        let session_id = self.sessions[place];
        self.outbox
            .commit(self.tenant, self.endpoint_id, session_id, change)
            .await
            .unwrap()
    }

    async fn ready(&self, limit: usize) -> Vec<SessionId> {
        let beginning = TimestampMs(i64::MIN);
        let listing = self.outbox.listing(
            self.tenant,
            self.endpoint_id,
            Some((beginning, limit)),
            None,
            None,
            0,
        );
        let ready = listing.await.unwrap().ready.unwrap();
        assert!(ready.is_sorted());
        ready
            .into_iter()
            .map(|(_, session_id)| session_id)
            .collect()
    }

    async fn due(&self, until: TimestampMs) -> Vec<(TimestampMs, SessionId)> {
        let listing = self.outbox.listing(
            self.tenant,
            self.endpoint_id,
            None,
            Some((until, 10)),
            None,
            0,
        );
        listing.await.unwrap().due.unwrap()
    }

    async fn status(&self, id: MessageId) -> DeliveryStatus {
        let detail = self.outbox.delivery(self.tenant, id).await.unwrap();
        detail.unwrap().status
    }

    async fn has_work(&self, until: TimestampMs) -> Option<TimestampMs> {
        let work = self.outbox.work(ShardSet::ALL, until).await.unwrap();
        let ours = work.into_iter().find(|work| work.tenant == self.tenant);
        ours.map(|work| work.due_at)
    }
}

pub async fn an_endpoint_is_created_changed_and_removed_once(subject: &dyn Subject) {
    let (outbox, tenant) = (subject.outbox(), tenant());
    let first = endpoint(tenant);
    assert_eq!(outbox.endpoint(tenant).await.unwrap(), None);
    assert!(outbox.create_endpoint(first.clone()).await.unwrap());
    assert!(!outbox.create_endpoint(endpoint(tenant)).await.unwrap());
    let second = Endpoint {
        enabled: false,
        version: 2,
        ..first.clone()
    };
    assert!(outbox.replace_endpoint(second.clone()).await.unwrap());
    assert!(!outbox.replace_endpoint(second.clone()).await.unwrap());
    let of_another = Endpoint {
        id: EndpointId::new(T0, u128::from(fresh())),
        version: 3,
        ..first
    };
    assert!(!outbox.replace_endpoint(of_another).await.unwrap());
    assert_eq!(outbox.endpoint(tenant).await.unwrap(), Some(second.clone()));
    assert!(outbox.endpoints().await.unwrap().contains(&second));
    assert!(outbox.delete_endpoint(tenant).await.unwrap());
    assert!(!outbox.delete_endpoint(tenant).await.unwrap());
    assert_eq!(outbox.endpoint(tenant).await.unwrap(), None);
    assert!(outbox.create_endpoint(endpoint(tenant)).await.unwrap());
}

pub async fn waiting_messages_are_listed_until_they_are_done(subject: &dyn Subject) {
    let queue = Queue::of(subject, 3).await;
    assert_eq!(queue.ready(10).await, queue.sessions);
    assert_eq!(queue.ready(2).await, queue.sessions[..2]);
    assert_eq!(queue.has_work(T0).await, Some(TimestampMs(0)));
    let listing = queue
        .outbox
        .listing(
            queue.tenant,
            queue.endpoint_id,
            Some((T0.plus_ms(2), 9)),
            None,
            None,
            0,
        )
        .await;
    let ready = listing.unwrap().ready.unwrap();
    assert_eq!(ready, [(queue.first_of(2), queue.sessions[2])]);

    let due_at = T0.plus_ms(60_000);
    let head = queue.waiting(0).await[0];
    assert_eq!(head.id, queue.first_of(0));
    let failed = failed_once(head, due_at);
    let change = one(head, failed, Some(report(Some(Cause::Status))));
    assert_eq!(queue.commit(0, change.clone()).await, [failed]);
    assert_eq!(queue.commit(0, change).await, [failed], "again");
    assert_eq!(queue.ready(10).await, queue.sessions[1..]);
    assert_eq!(queue.due(due_at).await, []);
    let due = [(due_at, queue.sessions[0])];
    assert_eq!(queue.due(due_at.plus_ms(1)).await, due);
    assert_eq!(queue.status(head.id).await, DeliveryStatus::Retrying);

    let change = one(failed, delivered(failed), Some(report(None)));
    assert_eq!(queue.commit(0, change.clone()).await, []);
    assert_eq!(queue.commit(0, change).await, []);
    assert_eq!(queue.due(due_at.plus_ms(1)).await, []);
    for place in [1, 2] {
        let head = queue.waiting(place).await[0];
        let change = one(head, delivered(head), Some(report(None)));
        assert_eq!(queue.commit(place, change).await, []);
    }
    assert_eq!(queue.ready(10).await, []);
    assert_eq!(queue.has_work(T0.plus_ms(1_000_000)).await, None);
    let detail = queue.outbox.delivery(queue.tenant, head.id).await;
    let detail = detail.unwrap().unwrap();
    assert_eq!(detail.status, DeliveryStatus::Delivered);
    assert_eq!(detail.row.delivered_at, Some(T0.plus_ms(12)));
    let attempts: Vec<u32> = detail.attempts.iter().map(|(number, _)| *number).collect();
    assert_eq!(attempts, [1, 2]);
    assert_eq!(detail.attempts[0].1.cause, Some(Cause::Status));
}

pub async fn a_lane_is_in_order_and_parked_messages_are_not_listed(subject: &dyn Subject) {
    let (queue, store) = (Queue::of(subject, 1).await, subject.store());
    let session_id = queue.sessions[0];
    let stopped = MessageBody {
        created_at: T0.plus_ms(50),
        ..message(MessageEvent::SessionStopped)
    };
    let body = stopped.body.clone();
    store
        .end(session_id, end_at(T0), None, stopped)
        .await
        .unwrap();
    let waiting = queue.waiting(0).await;
    let numbers: Vec<u32> = waiting.iter().map(|queued| queued.number).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(queue.outbox.body(session_id, 1).await.unwrap(), Some(body));
    assert_eq!(queue.outbox.body(session_id, 2).await.unwrap(), None);

    let parked = Queued {
        parked: true,
        ..waiting[1]
    };
    let failed = failed_once(waiting[0], T0.plus_ms(60_000));
    let change = Change {
        updates: vec![
            one(waiting[0], failed, Some(report(Some(Cause::Timeout)))).updates[0].clone(),
            one(waiting[1], parked, None).updates[0].clone(),
        ],
        manual_done: None,
    };
    assert_eq!(queue.commit(0, change).await, [failed, parked]);
    assert_eq!(queue.ready(10).await, []);
    // The row has changed since it was read: the update is not applied.
    let stale = one(waiting[1], delivered(waiting[1]), Some(report(None)));
    assert_eq!(queue.commit(0, stale).await, [failed, parked]);

    let change = Change {
        updates: vec![
            one(parked, waiting[1], None).updates[0].clone(),
            one(failed, delivered(failed), Some(report(None))).updates[0].clone(),
        ],
        manual_done: None,
    };
    assert_eq!(queue.commit(0, change).await, [waiting[1]]);
    assert_eq!(queue.ready(10).await, [session_id], "next message");
    assert_eq!(queue.waiting(0).await, [waiting[1]]);
}

pub async fn manual_retries_are_requested_and_completed(subject: &dyn Subject) {
    let queue = Queue::of(subject, 2).await;
    let (outbox, tenant) = (&queue.outbox, queue.tenant);
    let (id, other) = (queue.first_of(0), queue.first_of(1));
    let failed = Queued {
        attempts: 6,
        state: State::Failed,
        ..queue.waiting(0).await[0]
    };
    let change = one(
        queue.waiting(0).await[0],
        failed,
        Some(report(Some(Cause::Connect))),
    );
    queue.commit(0, change).await;
    let unknown = MessageId::new(T0, u128::from(fresh()));
    let ask = |id, at| outbox.request_retry(tenant, id, at);
    assert_eq!(ask(unknown, T0).await.unwrap(), RetryOutcome::Unknown);
    assert_eq!(
        ask(id, T0.plus_ms(70)).await.unwrap(),
        RetryOutcome::Requested
    );
    let request = ManualRetry {
        requested_at: T0.plus_ms(70),
        id,
        session_id: queue.sessions[0],
        again: false,
    };
    let requested_retries = async || {
        let listing = outbox
            .listing(queue.tenant, queue.endpoint_id, None, None, None, 10)
            .await;
        listing.unwrap().manual
    };
    assert_eq!(requested_retries().await, [request]);
    // The customer's request counts while the webhook is paused, too.
    for enabled in [false, true] {
        let stored = outbox.endpoint(tenant).await.unwrap().unwrap();
        let changed = Endpoint {
            enabled,
            version: stored.version + 1,
            ..stored
        };
        assert!(outbox.replace_endpoint(changed).await.unwrap());
        assert_eq!(queue.has_work(T0).await, Some(TimestampMs(0)), "{enabled}");
    }
    let session_id = queue.sessions[0];
    let lane = outbox.lane(tenant, queue.endpoint_id, session_id, Some(request));
    assert_eq!(lane.await.unwrap().manual, Some(failed));
    let mut change = one(failed, delivered(failed), Some(report(None)));
    change.manual_done = Some(request);
    assert_eq!(queue.commit(0, change).await, []);
    assert_eq!(requested_retries().await, []);
    let lane = outbox.lane(tenant, queue.endpoint_id, session_id, Some(request));
    assert_eq!(lane.await.unwrap().manual, None, "no open retry");
    assert_eq!(queue.status(id).await, DeliveryStatus::Delivered);

    assert!(outbox.delete_endpoint(tenant).await.unwrap());
    assert!(ask(other, T0).await.unwrap().is_refused());
    assert_eq!(queue.status(other).await, DeliveryStatus::Cancelled);
}

/// Returns a queue of seven sessions; the first messages of the sessions 1 and 4 have failed.
async fn partly_failed(subject: &dyn Subject) -> Queue {
    let queue = Queue::of(subject, 7).await;
    for place in [1, 4] {
        let head = queue.waiting(place).await[0];
        let after = Queued {
            attempts: 6,
            state: State::Failed,
            ..head
        };
        let change = one(head, after, Some(report(Some(Cause::Tls))));
        queue.commit(place, change).await;
    }
    queue
}

fn of_status(status: DeliveryStatus) -> DeliveryFilter {
    DeliveryFilter {
        status: Some(status),
        ..DeliveryFilter::default()
    }
}

pub async fn deliveries_are_listed_newest_first_by_status(subject: &dyn Subject) {
    let queue = partly_failed(subject).await;
    let (outbox, tenant) = (&queue.outbox, queue.tenant);
    let pages = async |filter: &DeliveryFilter, limit: u32| {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let page = outbox.deliveries(tenant, filter, limit, after).await;
            let page = page.unwrap();
            assert!(page.rows.len() <= limit as usize);
            ids.extend(page.rows.iter().map(|row| row.queued.id));
            after = page.next;
            if after.is_none() {
                return ids;
            }
        }
    };
    let all = DeliveryFilter::default();
    let failed = of_status(DeliveryStatus::Failed);
    let of_session = DeliveryFilter {
        session_id: Some(queue.sessions[2]),
        ..all.clone()
    };
    let of_time = DeliveryFilter {
        from: Some(T0.plus_ms(1)),
        to: Some(T0.plus_ms(6)),
        ..of_status(DeliveryStatus::Pending)
    };
    for limit in [1, 2, 3, 7, 50] {
        for (filter, places) in [
            (&all, &[6, 5, 4, 3, 2, 1, 0][..]),
            (&failed, &[4, 1]),
            (&of_session, &[2]),
            (&of_time, &[5, 3, 2]),
        ] {
            assert_eq!(pages(filter, limit).await, queue.firsts_of(places));
        }
    }
}

pub async fn deliveries_to_retry_are_listed_oldest_first_and_requested(subject: &dyn Subject) {
    let queue = partly_failed(subject).await;
    let (outbox, tenant) = (&queue.outbox, queue.tenant);
    let all = DeliveryFilter::default();
    let failed = of_status(DeliveryStatus::Failed);
    let of_session = DeliveryFilter {
        session_id: Some(queue.sessions[2]),
        ..all.clone()
    };
    let of_time = DeliveryFilter {
        from: Some(T0.plus_ms(1)),
        to: Some(T0.plus_ms(6)),
        ..of_status(DeliveryStatus::Pending)
    };
    let behind = |place| Some(queue.first_of(place));
    for (filter, limit, after, places) in [
        (&failed, 10, None, &[1, 4][..]),
        (&failed, 1, None, &[1]),
        (&failed, 10, behind(0), &[1, 4]),
        (&failed, 10, behind(1), &[4]),
        (&failed, 10, behind(4), &[]),
        (&all, 3, behind(1), &[2, 3, 4]),
        (&all, 10, behind(4), &[5, 6]),
        (&of_session, 10, None, &[2]),
        (&of_session, 10, behind(2), &[]),
        (&of_time, 2, behind(1), &[2, 3]),
        (&of_time, 10, behind(3), &[5]),
    ] {
        let rows = outbox.retryable(tenant, filter, limit, after).await;
        let ids: Vec<_> = rows.unwrap().iter().map(|row| row.queued.id).collect();
        assert_eq!(ids, queue.firsts_of(places));
    }
    let requested_retries = async || {
        let listing = outbox.listing(tenant, queue.endpoint_id, None, None, None, 10);
        let mut ids: Vec<_> = listing
            .await
            .unwrap()
            .manual
            .iter()
            .map(|request| request.id)
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(
        requested_retries().await,
        [],
        "a read of deliveries requests no retry"
    );
    let chosen = outbox.retryable(tenant, &failed, 10, None).await.unwrap();
    let count = outbox.request_retries(tenant, chosen, T0.plus_ms(80)).await;
    assert_eq!(count.unwrap(), 2);
    assert_eq!(requested_retries().await, queue.firsts_of(&[1, 4]));
}

pub async fn an_outbox_reports_its_depth(subject: &dyn Subject) {
    let queue = Queue::of(subject, 4).await;
    let head = queue.waiting(0).await[0];
    let change = one(
        head,
        failed_once(head, T0.plus_ms(60_000)),
        Some(report(Some(Cause::Dns))),
    );
    queue.commit(0, change).await;
    let head = queue.waiting(1).await[0];
    let failed = Queued {
        attempts: 6,
        state: State::Failed,
        ..head
    };
    let change = one(head, failed, Some(report(Some(Cause::Dns))));
    queue.commit(1, change).await;
    let depth = queue.outbox.depth(T0).await.unwrap();
    // Other checks may work on the same store at the same time.
    assert!(depth.pending >= 2 && depth.retrying >= 1 && depth.failed >= 1);
}
