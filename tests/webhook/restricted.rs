//! Restricted sessions: nothing is sent about them until they are released.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::flow::header;
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};
use crate::server::Folder;
use crate::service::{Customer, customer, registered, serve};
use crate::world::BAD;

async fn perform(customer: &Customer, id: &str, request_type: &str, session_id: &str) {
    let subject = json!({ "sessionId": session_id });
    let body = json!({ "requestId": id, "type": request_type, "subject": subject });
    let (status, answer) = customer.post("/v1/privacy/requests", body).await;
    assert_eq!(status, 202, "{answer}");
    let path = format!("/v1/privacy/requests/{id}");
    for _ in 0..2_400 {
        if customer.get(&path).await.1["status"] == "completed" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{}", customer.get(&path).await.1);
}

fn sessions(receiver: &Receiver) -> Vec<String> {
    let requests = receiver.requests.lock().unwrap();
    let sessions = requests
        .iter()
        .map(|request| header(request, "x-service-delivery").unwrap().to_owned());
    sessions.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_about_a_restricted_session_until_it_is_released() {
    let (_folder, server, customer, receiver) = registered(&[OK]).await;
    let pause =
        |enabled: bool| customer.call("PUT", "/v1/webhooks", Some(json!({ "enabled": enabled })));
    assert_eq!(pause(false).await.0, 200);
    let frozen = customer.start().await.unwrap();
    let list = "/v1/webhooks/deliveries";
    let row = customer.row(list, "pending").await;
    let delivery = format!("{list}/{}", row["id"].as_str().unwrap());
    perform(&customer, "r1", "restriction", &frozen).await;

    assert_eq!(pause(true).await.0, 200);
    let other = customer.start().await.unwrap();
    customer.row(list, "delivered").await;
    assert_eq!(sessions(&receiver), std::slice::from_ref(&other));
    let (_, page) = customer.get(list).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(customer.get(&delivery).await.0, 404);
    let (status, problem) = customer.post(&format!("{delivery}/retry"), json!({})).await;
    assert_eq!((status, &problem["code"]), (409, &json!("restricted")));

    perform(&customer, "r2", "release", &frozen).await;
    let only = format!("{list}?sessionId={frozen}");
    let row = customer.row(&only, "delivered").await;
    assert_eq!(row["attempts"], json!(1));
    assert_eq!(sessions(&receiver), [other, frozen]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_keeps_attempts_in_flight() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    let (answer_now, may_answer) = tokio::sync::watch::channel(false);
    let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, log| {
        let mut may_answer = may_answer.clone();
        async move {
            while let Some(request) = read_request(&mut stream).await {
                log.lock().unwrap().push(request);
                may_answer.wait_for(|may| *may).await.unwrap();
                stream.write_all(BAD.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let url = receiver.local_url();
    customer.post("/v1/webhooks", json!({ "url": url })).await;
    let sent = customer.start().await.unwrap();
    for _ in 0..2_400 {
        if receiver.seen() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    perform(&customer, "r", "release", &sent).await;
    // Once the receiver has a message that was queued after the release, the outbox has handled the
    // release.
    let other = customer.start().await.unwrap();
    for _ in 0..2_400 {
        if receiver.seen() >= 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(sessions(&receiver), [sent.clone(), other]);
    answer_now.send(true).unwrap();
    let row = customer
        .row(
            &format!("/v1/webhooks/deliveries?sessionId={sent}"),
            "retrying",
        )
        .await;
    assert_eq!(
        (&row["attempts"], &row["statusCode"]),
        (&json!(1), &json!(500))
    );
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_an_erased_session_are_removed() {
    let (_folder, server, customer, _receiver) = registered(&[OK]).await;
    let erased = customer.start().await.unwrap();
    let list = "/v1/webhooks/deliveries";
    let row = customer.row(list, "delivered").await;
    let delivery = format!("{list}/{}", row["id"].as_str().unwrap());
    assert_eq!(customer.get(&delivery).await.0, 200);
    perform(&customer, "e1", "erasure", &erased).await;
    assert_eq!(customer.get(&delivery).await.0, 404);
    assert_eq!(customer.get(list).await.1["data"], Value::Array(Vec::new()));
    let retried = customer.post(&format!("{delivery}/retry"), json!({})).await;
    assert_eq!(retried.0, 404);
    // The lane of an erased session holds up nothing.
    let next = customer.start().await.unwrap();
    customer
        .row(&format!("{list}?sessionId={next}"), "delivered")
        .await;
    server.stop();
}

/// Waits until the only delivery of this list has this number of attempts.
async fn wait_for_attempts(customer: &Customer, list: &str, attempts: u64) {
    for _ in 0..2_400 {
        if customer.get(list).await.1["data"][0]["attempts"] == json!(attempts) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{}", customer.get(list).await.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_by_filter_leaves_out_restricted_sessions() {
    let (_folder, server, customer, _receiver) = registered(&[BAD]).await;
    let list = "/v1/webhooks/deliveries";
    let [mut frozen, mut other] = [String::new(), String::new()];
    for session_id in [&mut frozen, &mut other] {
        *session_id = customer.start().await.unwrap();
        let only = format!("{list}?sessionId={session_id}");
        customer.row(&only, "retrying").await;
    }
    let [of_frozen, of_other] = [&frozen, &other].map(|id| format!("{list}?sessionId={id}"));
    let retry = async |dry_run: bool| {
        let body = json!({ "status": "retrying", "dryRun": dry_run });
        let (status, answer) = customer.post(&format!("{list}/retry"), body).await;
        assert_eq!(status, 202, "{answer}");
        answer
    };
    let both = json!({ "count": 2, "truncated": false });
    let one = json!({ "count": 1, "truncated": false });
    assert_eq!(retry(true).await, both);
    perform(&customer, "r1", "restriction", &frozen).await;
    assert_eq!(retry(true).await, one);
    assert_eq!(retry(false).await, one);
    wait_for_attempts(&customer, &of_other, 2).await;

    // A retry that was requested for the restricted session would be made before this one.
    perform(&customer, "r2", "release", &frozen).await;
    let row = customer.row(&of_other, "retrying").await;
    let delivery = format!("{list}/{}", row["id"].as_str().unwrap());
    let again = customer.post(&format!("{delivery}/retry"), json!({})).await;
    assert_eq!(again.0, 202);
    wait_for_attempts(&customer, &of_other, 3).await;
    wait_for_attempts(&customer, &of_frozen, 1).await;
    assert_eq!(retry(true).await, both);
    server.stop();
}
