//! Tests the whole path: a message committed with its cause, the actor, the transport, the outcome
//! in the store.

use std::time::Duration;

use porchlight_core::webhook::signature::{secret_text, service_signature};
use porchlight_core::webhook::{Cause, State};
use porchlight_observe::quarantine;
use porchlight_ports::{
    Clock, DeliveryFilter, DeliveryStatus, Outbox, PreviousSecret, RetryOutcome, RetryRefusal,
    SecretSeal,
};
use porchlight_schema::ids::SessionId;
use porchlight_store::engine::Space;
use porchlight_store::tables::{messages, outbox};

use crate::receiver::{OK, Receiver};
use crate::world::{BAD, World};

pub(crate) fn header<'r>(request: &'r str, name: &str) -> Option<&'r str> {
    request.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(test);
}

use DeliveryStatus::{Cancelled, Delivered, Failed, Pending, Retrying, Superseded};

#[test]
fn messages_arrive_signed_and_in_order() {
    run(async {
        let world = World::new();
        let receiver = Receiver::answering(&world.authority, vec![OK.to_owned()]).await;
        let before = world.start_session().await;
        assert!(
            world.rows().await.is_empty(),
            "without an endpoint nothing is queued"
        );
        world.endpoint(&receiver.url()).await;
        let session_id = world.start_session().await;
        world.stop_session(session_id).await;
        world.score(session_id, 1).await;
        world
            .until("all delivered", &[Delivered, Delivered, Delivered])
            .await;
        let requests = receiver.requests.lock().unwrap().clone();
        assert_eq!(requests.len(), 3);
        for (place, (request, event)) in requests
            .iter()
            .zip(["session.started", "session.stopped", "insight.updated"])
            .enumerate()
        {
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            let signature = service_signature(&secret_text(&[1; 32]), body.as_bytes());
            assert_eq!(
                header(request, "x-service-signature"),
                Some(signature.as_str())
            );
            assert_eq!(header(request, "x-service-event"), Some(event));
            assert_eq!(
                header(request, "x-service-delivery"),
                Some(session_id.to_string().as_str())
            );
            assert_eq!(
                header(request, "x-service-sequence"),
                Some(place.to_string().as_str())
            );
            assert_eq!(header(request, "x-service-attempt"), Some("1"));
            let id = world.rows().await[place].queued.id.to_string();
            assert_eq!(header(request, "x-service-delivery-id"), Some(id.as_str()));
            assert_eq!(header(request, "webhook-id"), Some(id.as_str()));
            assert_eq!(header(request, "x-service-signature-previous"), None);
        }
        assert_ne!(before, session_id);
        let endpoint = world.store.endpoint(world.tenant).await.unwrap().unwrap();
        assert!(world.webhooks.certificate_ends_at(&endpoint).is_some());
        assert!(world.webhooks.drain(Duration::from_secs(60)).await);
    });
}

#[test]
fn a_failure_blocks_its_lane_and_old_insights_are_superseded() {
    run(async {
        let mut world = World::new();
        let receiver =
            Receiver::answering(&world.authority, vec![BAD.to_owned(), OK.to_owned()]).await;
        world.endpoint(&receiver.url()).await;
        let session_id = world.start_session().await;
        world.until("the first attempt failed", &[Retrying]).await;
        world.stop_session(session_id).await;
        world.score(session_id, 1).await;
        world.score(session_id, 2).await;
        world
            .until(
                "those behind it wait",
                &[Retrying, Pending, Superseded, Pending],
            )
            .await;
        assert_eq!(receiver.seen(), 1);
        world.restart();
        // Half of the delay, because the clock also runs by itself.
        world.advance_clock(30_000);
        world
            .until(
                "still waiting after a restart",
                &[Retrying, Pending, Superseded, Pending],
            )
            .await;
        assert_eq!(receiver.seen(), 1);
        world.advance_clock(40_000);
        world
            .until(
                "the retry leads on",
                &[Delivered, Delivered, Superseded, Delivered],
            )
            .await;
        let attempts: Vec<_> = receiver
            .requests
            .lock()
            .unwrap()
            .iter()
            .map(|request| header(request, "x-service-attempt").unwrap().to_owned())
            .collect();
        assert_eq!(attempts, ["1", "2", "1", "1"]);
        let first = world.rows().await[0].queued.id;
        let detail = world
            .store
            .delivery(world.tenant, first)
            .await
            .unwrap()
            .unwrap();
        let log: Vec<_> = detail
            .attempts
            .iter()
            .map(|(number, report)| (*number, report.status_code))
            .collect();
        assert_eq!(log, [(1, Some(500)), (2, Some(200))]);
    });
}

#[test]
fn after_six_attempts_a_message_is_failed_and_retryable() {
    run(async {
        let world = World::new();
        let mut answers = vec![BAD.to_owned(); 7];
        answers.extend([OK.to_owned(), BAD.to_owned()]);
        let receiver = Receiver::answering(&world.authority, answers).await;
        world.endpoint(&receiver.url()).await;
        world.start_session().await;
        for wait_ms in [0, 66_000, 330_000, 1_980_000, 7_920_000, 95_040_000] {
            let made = world.rows().await[0].queued.attempts;
            world.advance_clock(wait_ms);
            // The receiver sees an attempt before its result is stored, from which the next due
            // time is computed.
            for _ in 0..3_000 {
                world.webhooks.wake(world.tenant);
                tokio::time::sleep(Duration::from_millis(20)).await;
                if world.rows().await[0].queued.attempts > made {
                    break;
                }
            }
        }
        world.until("failed permanently", &[Failed]).await;
        assert_eq!(receiver.seen(), 6);
        let id = world.rows().await[0].queued.id;
        let failed = DeliveryFilter {
            status: Some(Failed),
            ..DeliveryFilter::default()
        };
        let webhooks = world.webhooks.of(world.tenant);
        let asked = webhooks.count_retryable(&failed).await.unwrap();
        assert_eq!((asked.count, asked.is_truncated), (1, false));
        assert_eq!(receiver.seen(), 6, "a dry run makes no attempt");
        for (attempts, status) in [(7, Failed), (8, Delivered), (9, Delivered)] {
            let asked = world
                .store
                .request_retry(world.tenant, id, world.clock.now())
                .await
                .unwrap();
            assert_eq!(asked, RetryOutcome::Requested);
            for _ in 0..3_000 {
                world.webhooks.wake(world.tenant);
                tokio::time::sleep(Duration::from_millis(20)).await;
                if world.rows().await[0].queued.attempts == attempts {
                    break;
                }
            }
            assert_eq!(world.statuses().await, [status]);
            assert_eq!(receiver.seen() as u32, attempts);
        }
        let detail = world.store.delivery(world.tenant, id).await;
        let detail = detail.unwrap().unwrap();
        assert_eq!(
            (detail.row.cause, detail.row.status_code),
            (None, Some(200))
        );
        let (_, last) = detail.attempts.last().unwrap();
        assert_eq!(last.status_code, Some(500), "the last attempt failed");
        let page = world
            .store
            .deliveries(world.tenant, &failed, 10, None)
            .await
            .unwrap();
        assert!(
            page.rows.is_empty(),
            "a message delivered by a manual retry is not listed as failed"
        );
    });
}

#[test]
fn a_bulk_retry_of_superseded_deliveries_reads_none() {
    run(async {
        let world = World::new();
        world.store.close().await;
        let webhooks = world.webhooks.of(world.tenant);
        let count = async |status| {
            let filter = DeliveryFilter {
                status: Some(status),
                ..DeliveryFilter::default()
            };
            webhooks.count_retryable(&filter).await
        };
        assert!(count(Failed).await.is_err(), "the store is closed");
        let superseded = count(Superseded).await.unwrap();
        assert_eq!((superseded.count, superseded.is_truncated), (0, false));
    });
}

/// Damages the stored body of a session's first message, or removes it as a quarantine does.
async fn lose_body(world: &World, session_id: SessionId, is_removed: bool) {
    let key = messages::key(session_id, 0);
    let losing = world.store.committer().write(move |txn| {
        match is_removed {
            true => txn.delete(Space::State, key),
            false => txn.put(Space::State, key, vec![0; 40]),
        }
        Ok(())
    });
    losing.await.unwrap();
}

#[test]
fn a_message_without_its_body_fails_and_holds_up_no_other() {
    run(async {
        for is_removed in [false, true] {
            let mut world = World::new();
            let receiver = Receiver::answering(&world.authority, vec![OK.to_owned()]).await;
            let mut endpoint = world.endpoint(&receiver.url()).await;
            world.enable(&mut endpoint, false).await;
            let (lost, other) = (world.start_session().await, world.start_session().await);
            world.stop_session(lost).await;
            lose_body(&world, lost, is_removed).await;
            world.restart();
            world.enable(&mut endpoint, true).await;
            let mut wanted = vec![(lost, Failed), (lost, Delivered), (other, Delivered)];
            wanted.sort_by_key(|(session_id, _)| *session_id);
            let wanted: Vec<_> = wanted.into_iter().map(|(_, status)| status).collect();
            world.until("all but one are sent", &wanted).await;
            assert_eq!(receiver.seen(), 2);
            let rows = world.rows().await;
            let failed = rows.iter().find(|row| row.queued.state == State::Failed);
            let failed = failed.unwrap();
            assert_eq!((failed.queued.session_id, failed.queued.number), (lost, 0));
            assert_eq!(
                (failed.queued.attempts, failed.cause),
                (0, Some(Cause::Internal))
            );
            let (id, webhooks) = (failed.queued.id, world.webhooks.of(world.tenant));
            let shown = webhooks.delivery(id).await.unwrap().unwrap();
            assert_eq!((shown.status, shown.body), (Failed, None));
            let retried = webhooks.retry(id).await.unwrap();
            assert_eq!(retried, RetryOutcome::Refused(RetryRefusal::BodyLost));
            assert!(world.webhooks.drain(Duration::from_secs(60)).await);
        }
    });
}

/// Removes a session's first message as retention does after its lane was read.
async fn remove_message(world: &World, session_id: SessionId) {
    let rows = world.rows().await;
    let row = rows.iter().find(|row| row.queued.session_id == session_id);
    let (id, tenant) = (row.unwrap().queued.id, world.tenant);
    let removing = world.store.committer().write(move |txn| {
        for key in [
            messages::key(session_id, 0),
            messages::id_key(id),
            outbox::delivery_key(tenant, id),
        ] {
            txn.delete(Space::State, key);
        }
        Ok(())
    });
    removing.await.unwrap();
}

#[test]
fn a_message_that_retention_removes_before_its_attempt_is_not_reported_as_damaged() {
    run(async {
        let mut world = World::new();
        let receiver = Receiver::answering(&world.authority, vec![OK.to_owned()]).await;
        let mut endpoint = world.endpoint(&receiver.url()).await;
        world.enable(&mut endpoint, false).await;
        let (removed, other) = (world.start_session().await, world.start_session().await);
        remove_message(&world, removed).await;
        world.restart();
        world.enable(&mut endpoint, true).await;
        world.until("the other is sent", &[Delivered]).await;
        assert_eq!(world.rows().await[0].queued.session_id, other);
        for _ in 0..2_400 {
            let lane = world.store.lane(world.tenant, endpoint.id, removed, None);
            if lane.await.unwrap().waiting.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let lane = world.store.lane(world.tenant, endpoint.id, removed, None);
        assert!(lane.await.unwrap().waiting.is_empty());
        assert_eq!(receiver.seen(), 1);
        let reported = quarantine::damaged();
        assert!(reported.iter().all(|row| row.session_id != removed));
        assert!(world.webhooks.drain(Duration::from_secs(60)).await);
    });
}

#[test]
fn a_changed_url_and_secret_apply_to_waiting_messages() {
    run(async {
        let world = World::new();
        let old = Receiver::answering(&world.authority, vec![BAD.to_owned()]).await;
        let new = Receiver::answering(&world.authority, vec![OK.to_owned()]).await;
        let mut endpoint = world.endpoint(&old.url()).await;
        world.start_session().await;
        world.until("the first attempt failed", &[Retrying]).await;

        endpoint.version += 1;
        endpoint.url = new.url().into();
        let expires_at = world.clock.now().plus_ms(86_400_000);
        endpoint.previous = Some(PreviousSecret {
            secret: endpoint.secret.clone(),
            expires_at,
        });
        endpoint.secret = world
            .vault
            .seal(world.tenant, endpoint.id, 2, &secret_text(&[2; 32]))
            .unwrap();
        assert!(
            world
                .store
                .replace_endpoint(endpoint.clone())
                .await
                .unwrap()
        );
        assert!(
            !world.store.replace_endpoint(endpoint).await.unwrap(),
            "a change of an old version is refused"
        );
        world.webhooks.endpoint_changed(world.tenant);
        world.advance_clock(70_000);
        world.until("delivered to the new URL", &[Delivered]).await;
        let request = new.requests.lock().unwrap()[0].clone();
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        for (name, key) in [
            ("x-service-signature", 2),
            ("x-service-signature-previous", 1),
        ] {
            let signature = service_signature(&secret_text(&[key; 32]), body.as_bytes());
            assert_eq!(header(&request, name), Some(signature.as_str()));
        }
        assert_eq!(
            header(&request, "webhook-signature")
                .unwrap()
                .split(' ')
                .count(),
            2
        );
    });
}

#[test]
fn a_paused_endpoint_holds_its_messages() {
    run(async {
        let world = World::new();
        let receiver =
            Receiver::answering(&world.authority, vec![BAD.to_owned(), OK.to_owned()]).await;
        let mut endpoint = world.endpoint(&receiver.url()).await;
        world.start_session().await;
        world.until("the first attempt failed", &[Retrying]).await;
        world.enable(&mut endpoint, false).await;
        world.start_session().await;
        world.advance_clock(100_000);
        for _ in 0..10 {
            world.webhooks.wake(world.tenant);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(
            (world.statuses().await, receiver.seen()),
            (vec![Retrying, Pending], 1),
            "new and pending messages are held"
        );
        world.enable(&mut endpoint, true).await;
        world
            .until("delivery continues", &[Delivered, Delivered])
            .await;
    });
}

/// An actor that has been idle for long is about to stop, and must not drop the new message by
/// stopping.
#[test]
fn a_long_paused_endpoint_resumes_immediately() {
    run(async {
        let world = World::new();
        let receiver =
            Receiver::answering(&world.authority, vec![BAD.to_owned(), OK.to_owned()]).await;
        let mut endpoint = world.endpoint(&receiver.url()).await;
        world.start_session().await;
        world.until("the first attempt failed", &[Retrying]).await;
        for (enabled, after_ms) in [(false, 0), (true, 100_000)] {
            world.advance_clock(after_ms);
            world.enable(&mut endpoint, enabled).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        for _ in 0..1_000 {
            if world.statuses().await == [Delivered] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nothing was reconciled: {:?}", world.statuses().await);
    });
}

#[test]
fn messages_for_a_deleted_endpoint_are_cancelled() {
    run(async {
        let world = World::new();
        let receiver = Receiver::answering(&world.authority, vec![OK.to_owned()]).await;
        let mut endpoint = world.endpoint(&receiver.url()).await;
        world.start_session().await;
        world.until("the first is delivered", &[Delivered]).await;
        endpoint.version += 1;
        endpoint.url = "https://127.0.0.1:1/".into();
        assert!(world.store.replace_endpoint(endpoint).await.unwrap());
        world.webhooks.endpoint_changed(world.tenant);
        world.start_session().await;
        world
            .until("the other cannot be reached", &[Delivered, Retrying])
            .await;
        assert!(world.store.delete_endpoint(world.tenant).await.unwrap());
        world.webhooks.endpoint_changed(world.tenant);
        assert_eq!(world.statuses().await, [Delivered, Cancelled]);
        let id = world.rows().await[1].queued.id;
        assert_eq!(
            world
                .store
                .request_retry(world.tenant, id, world.clock.now())
                .await
                .unwrap(),
            RetryOutcome::Refused(RetryRefusal::WebhookDeleted)
        );
        assert_eq!(world.store.sweep_outboxes().await.unwrap(), 1);
        world.endpoint(&receiver.url()).await;
        assert_eq!(
            world.statuses().await,
            [Delivered, Cancelled],
            "a new endpoint does not inherit messages of the old one"
        );
    });
}
