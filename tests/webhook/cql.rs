//! Tests webhooks of the real process on a real CQL server, with a kill in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::cql_process::{borrowed, node, variables};
use crate::flow::header;
use crate::receiver::{Authority, OK, Receiver};
use crate::server::Folder;
use crate::service::{Customer, customer, serve_with};
use crate::world::BAD;

/// The number of sessions started before the kill, and again after it.
const SESSIONS: usize = 10;

/// Repeats a request until it is acknowledged: the database of a busy machine does not answer each
/// in time.
async fn acknowledged<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..1_200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the server acknowledges nothing");
}

/// Starts a session, which may leave others that were started and not acknowledged.
async fn start(customer: &Customer) -> String {
    acknowledged(async || customer.start().await).await
}

async fn sessions(customer: &Customer) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        let id = start(customer).await;
        acknowledged(async || customer.stop(&id).await.then_some(())).await;
        ids.push(id);
    }
    ids
}

/// Returns the number of messages that arrived. A message that the kill cut off arrives twice.
fn arrived(receiver: &Receiver) -> usize {
    let requests = receiver.requests.lock().unwrap();
    let ids = requests
        .iter()
        .map(|request| header(request, "x-service-delivery-id"));
    ids.collect::<BTreeSet<_>>().len()
}

/// Waits until no message is pending and `messages` messages have been sent.
async fn until_sent(customer: &Customer, receiver: &Receiver, messages: usize) {
    for _ in 0..1_200 {
        let pending = customer
            .get("/v1/webhooks/deliveries?status=pending")
            .await
            .1;
        if pending["data"] == json!([]) && arrived(receiver) >= messages {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asserts that each session's three messages arrived in order, and that duplicates had the same
/// id.
fn check_order(receiver: &Receiver, ids: &[String]) {
    let mut of_sessions: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
    for request in receiver.requests.lock().unwrap().iter() {
        let head = |name: &str| header(request, name).unwrap().to_owned();
        let number = head("x-service-sequence").parse().unwrap();
        let seen = of_sessions.entry(head("x-service-delivery")).or_default();
        seen.push((number, head("x-service-delivery-id")));
    }
    for id in ids {
        let mut seen = of_sessions[id].clone();
        assert!(seen.is_sorted(), "out of order: {seen:?}");
        // A message cut off by the kill is sent again under its id.
        seen.dedup();
        let numbers: Vec<u32> = seen.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_on_cql_sends_in_order_and_resumes_after_a_kill() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let Some(variables) = tokio::task::block_in_place(|| variables(folder.path())) else {
        return;
    };
    let server = serve_with(&folder, &authority, &borrowed(&variables));
    let mut customer = customer(&server);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let url = receiver.local_url();
    let registered = customer.post("/v1/webhooks", json!({"url": url})).await;
    assert_eq!(registered.0, 201, "{}", registered.1);
    let mut ids = sessions(&customer).await;
    server.kill();
    let server = serve_with(&folder, &authority, &borrowed(&variables));
    customer.api.clone_from(&server.api);
    ids.extend(sessions(&customer).await);
    until_sent(&customer, &receiver, 3 * ids.len()).await;
    check_order(&receiver, &ids);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_on_cql_keeps_failed_messages_for_manual_attempts() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let Some(variables) = tokio::task::block_in_place(|| variables(folder.path())) else {
        return;
    };
    let server = serve_with(&folder, &authority, &borrowed(&variables));
    let mut customer = customer(&server);
    let answers = vec![BAD.to_owned(), OK.to_owned()];
    let receiver = Receiver::answering(&authority, answers).await;
    let url = receiver.local_url();
    customer.post("/v1/webhooks", json!({"url": url})).await;
    start(&customer).await;
    let list = "/v1/webhooks/deliveries";
    let row = customer.row(list, "retrying").await;
    server.kill();
    let server = serve_with(&folder, &authority, &borrowed(&variables));
    customer.api.clone_from(&server.api);
    let row = {
        let again = customer.row(list, "retrying").await;
        assert_eq!(again, row, "the row of the delivery is unchanged");
        again
    };
    let path = format!("{list}/{}", row["id"].as_str().unwrap());
    let answer = customer.call("POST", &format!("{path}/retry"), None).await;
    assert_eq!(answer.0, 202, "{}", answer.1);
    customer.row(list, "delivered").await;
    let detail = customer.get(&path).await.1;
    let attempts = detail["attemptLog"].as_array().unwrap();
    let codes: Vec<_> = attempts
        .iter()
        .map(|attempt| &attempt["statusCode"])
        .collect();
    assert_eq!(codes, [&json!(500), &json!(200)]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_takes_over_the_webhooks_of_a_killed_node() {
    let (folder, second_folder, authority) = (Folder::new(), Folder::new(), Authority::new());
    let Some(shared) = tokio::task::block_in_place(|| variables(folder.path())) else {
        return;
    };
    let of_first = node(&shared, folder.path());
    let of_second = node(&shared, second_folder.path());
    let first = serve_with(&folder, &authority, &borrowed(&of_first));
    let mut customer = customer(&first);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let url = receiver.local_url();
    let registered = customer.post("/v1/webhooks", json!({"url": url})).await;
    assert_eq!(registered.0, 201, "{}", registered.1);
    let mut ids = sessions(&customer).await;
    // The second node joins while the first one sends, and gets some of the shards: perhaps this
    // customer's.
    let second = serve_with(&second_folder, &authority, &borrowed(&of_second));
    ids.extend(sessions(&customer).await);
    customer.api.clone_from(&second.api);
    ids.extend(sessions(&customer).await);
    first.kill();
    ids.extend(sessions(&customer).await);
    until_sent(&customer, &receiver, 3 * ids.len()).await;
    check_order(&receiver, &ids);
    second.stop();
}
