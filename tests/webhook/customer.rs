//! Tests pausing a webhook, repeating a request, ending an overlap, and inspecting a failed
//! attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use porchlight_core::webhook::signature::service_signature;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::flow::header;
use crate::receiver::{Authority, OK, Receiver};
use crate::server::Folder;
use crate::service::{Customer, customer, registered, serve};

/// Returns the deliveries of all sessions by session, in order of sequence.
async fn deliveries(customer: &Customer) -> BTreeMap<String, Vec<Value>> {
    let page = customer.get("/v1/webhooks/deliveries?limit=200").await.1;
    let mut by_session = BTreeMap::<String, Vec<Value>>::new();
    for row in page["data"].as_array().unwrap() {
        let session_id = row["sessionId"].as_str().unwrap().to_owned();
        by_session.entry(session_id).or_default().push(row.clone());
    }
    for rows in by_session.values_mut() {
        rows.sort_by_key(|row| row["sequence"].as_u64());
    }
    by_session
}

/// The events of a delivered session, in the order in which they are sent.
const EVENTS: [&str; 3] = ["session.started", "session.stopped", "insight.updated"];

/// Asserts that these deliveries of one session are held, and that each waits for the previous one.
fn assert_held(rows: &[Value]) {
    let events = rows.iter().map(|row| row["event"].as_str().unwrap());
    assert_eq!(events.collect::<Vec<_>>(), EVENTS);
    for (place, row) in rows.iter().enumerate() {
        assert_eq!(row["status"], "pending", "{row}");
        assert_eq!(row["heldSince"], row["createdAt"], "{row}");
        assert_eq!(row["nextAttemptAt"], Value::Null);
        let before = place.checked_sub(1).map(|before| &rows[before]["id"]);
        assert_eq!(
            row["waitsFor"]["deliveryId"],
            *before.unwrap_or(&Value::Null)
        );
    }
}

/// Asserts that the cursor of a list is refused by another list.
async fn assert_cursors_are_of_one_list(customer: &Customer) {
    let (lists, mut cursors) = (["/v1/webhooks/deliveries", "/v1/sessions"], Vec::new());
    for list in lists {
        let page = customer.get(&format!("{list}?limit=1")).await.1;
        cursors.push(page["nextCursor"].as_str().unwrap().to_owned());
    }
    for (list, (own, other)) in lists.iter().zip([(0, 1), (1, 0)]) {
        let next = |cursor: usize| format!("{list}?limit=1&cursor={}", cursors[cursor]);
        assert_eq!(customer.get(&next(own)).await.0, 200);
        let refused = customer.get(&next(other)).await;
        assert_eq!(
            (refused.0, &refused.1["code"]),
            (422, &json!("invalid_parameter"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_during_a_pause_are_held_and_sent_in_order() {
    let (_folder, server, customer, receiver) = registered(&[OK]).await;
    let pause =
        |enabled: bool| customer.call("PUT", "/v1/webhooks", Some(json!({"enabled": enabled})));
    assert_eq!(pause(false).await.0, 200);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session_id = customer.start().await.unwrap();
        assert!(customer.stop(&session_id).await);
        sessions.push(session_id);
    }
    let mut held = BTreeMap::new();
    for _ in 0..2_400 {
        held = deliveries(&customer).await;
        if held.values().map(Vec::len).sum::<usize>() == 9 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    held.values().for_each(|rows| assert_held(rows));
    assert_cursors_are_of_one_list(&customer).await;
    // The message of an older insight is superseded during the pause, too.
    let pod = json!({"type": "photo", "url": "https://example.com/p.jpg"});
    let path = format!("/v1/sessions/{}/pod", sessions[0]);
    assert_eq!(customer.post(&path, pod).await.0, 200);
    customer
        .row(
            &format!(
                "/v1/webhooks/deliveries?sessionId={}&status=superseded",
                sessions[0]
            ),
            "superseded",
        )
        .await;
    assert_eq!(receiver.seen(), 0, "nothing is sent during a pause");
    assert_eq!(pause(true).await.0, 200);
    for _ in 0..2_400 {
        if receiver.seen() >= 9 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let requests = receiver.requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 9);
    for session_id in &sessions {
        let ours = requests
            .iter()
            .filter(|request| header(request, "x-service-delivery") == Some(session_id));
        let events: Vec<_> = ours
            .map(|request| header(request, "x-service-event").unwrap())
            .collect();
        assert_eq!(events, EVENTS);
    }
    let rows = deliveries(&customer).await;
    let mut rows = rows.values().flatten();
    assert!(rows.all(|row| row["heldSince"].is_null() && row["waitsFor"].is_null()));
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_retry_is_sent_during_a_pause() {
    let (_folder, server, customer, receiver) = registered(&[OK]).await;
    let pause = json!({"enabled": false});
    customer.call("PUT", "/v1/webhooks", Some(pause)).await;
    let session_id = customer.start().await.unwrap();
    let rows = format!("/v1/webhooks/deliveries?sessionId={session_id}");
    let held = customer.row(&rows, "pending").await;
    let path = format!(
        "/v1/webhooks/deliveries/{}/retry",
        held["id"].as_str().unwrap()
    );
    let refused = customer
        .call("POST", &path, Some(json!({"count": 1})))
        .await;
    assert_eq!(
        (refused.0, &refused.1["code"]),
        (422, &json!("invalid_body"))
    );
    for sent in 1..=2 {
        assert_eq!(customer.call("POST", &path, None).await.0, 202);
        let row = customer.row(&rows, "delivered").await;
        for _ in 0..2_400 {
            if receiver.seen() >= sent {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert_eq!(receiver.seen(), sent, "{row}");
    }
    // The next message of the session is held as before.
    assert!(customer.stop(&session_id).await);
    customer.row(&rows, "pending").await;
    assert_eq!(receiver.seen(), 2);
    server.stop();
}

/// A proxy may send an empty body as chunks, without a length and without a media type.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_body_in_chunks_is_empty() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let url = json!({"url": receiver.local_url()});
    assert_eq!(
        customer.call("POST", "/v1/webhooks", Some(url)).await.0,
        201
    );
    let address = customer.api.trim_start_matches("http://").to_owned();
    for (chunks, status) in [("", "200"), ("2\r\n{}\r\n", "415")] {
        let request = format!(
            "POST /v1/webhooks/rotate HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunks}0\r\n\r\n",
            customer.key
        );
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{chunks:?}: {answer}");
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_create_or_rotate_returns_the_same_secret() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let repeated = |path: &'static str, key: &'static str, body: Value| {
        let request = customer.http.post(format!("{}{path}", customer.api));
        let request = request
            .bearer_auth(&customer.key)
            .header("idempotency-key", key);
        let request = request
            .header("content-type", "application/json")
            .body(body.to_string());
        async move {
            let answer = request.send().await.unwrap();
            let status = answer.status().as_u16();
            let text = answer.text().await.unwrap();
            (status, serde_json::from_str::<Value>(&text).unwrap())
        }
    };
    let (create, rotate) = ("/v1/webhooks", "/v1/webhooks/rotate");
    let url = json!({"url": receiver.local_url()});
    // An error is not stored under the key.
    let refused = repeated(create, "k", json!({"url": "https://10.0.0.1/"})).await;
    assert_eq!(refused.0, 422);
    let made = repeated(create, "k", url.clone()).await;
    assert_eq!(made.0, 201);
    assert_eq!(repeated(create, "k", url.clone()).await, made);
    let other = repeated(create, "k", json!({"url": "https://localhost:1/"})).await;
    assert_eq!(
        (other.0, &other.1["code"]),
        (422, &json!("idempotency_key_reused"))
    );
    assert_eq!(repeated(create, "other", url.clone()).await.0, 409);

    let rotated = repeated(rotate, "k", json!({})).await;
    assert_eq!(rotated.0, 200, "the key of another path is another key");
    assert_ne!(rotated.1["secret"], made.1["secret"]);
    assert_eq!(repeated(rotate, "k", json!({})).await, rotated);
    assert_eq!(
        repeated(rotate, "l", json!({})).await.0,
        409,
        "an overlap runs"
    );
    assert_eq!(repeated(create, "k", url.clone()).await, made, "as it was");
    let end = || customer.call("DELETE", "/v1/webhooks/previous-secret", None);
    assert_eq!(end().await, (204, Value::Null));
    let (status, problem) = end().await;
    assert_eq!(
        (status, &problem["code"]),
        (404, &json!("previous_secret_not_found"))
    );
    assert_eq!(repeated(rotate, "k", json!({})).await, rotated, "as it was");
    customer.send_test_event(None).await;
    let request = receiver.requests.lock().unwrap()[0].clone();
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let signature = service_signature(rotated.1["secret"].as_str().unwrap(), body.as_bytes());
    assert_eq!(
        header(&request, "x-service-signature"),
        Some(signature.as_str())
    );
    assert_eq!(header(&request, "x-service-signature-previous"), None);

    assert_eq!(customer.call("DELETE", "/v1/webhooks", None).await.0, 204);
    let again = repeated(create, "k", url).await;
    assert_eq!(again.0, 201, "the key was removed with the webhook");
    assert_ne!(again.1["secret"], made.1["secret"]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_records_its_failure_target_and_response() {
    let moved = "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n";
    let (_folder, server, customer, _receiver) = registered(&[moved]).await;
    customer.start().await.unwrap();
    let list = "/v1/webhooks/deliveries";
    let row = customer.row(list, "retrying").await;
    let one = format!("{list}/{}", row["id"].as_str().unwrap());
    let attempt = customer.get(&one).await.1["attemptLog"][0].clone();
    assert_eq!(attempt["cause"], "redirect");
    assert_eq!(attempt["responseHeaders"]["location"], "/elsewhere");
    assert_eq!(attempt["responseHeaders"]["set-cookie"], Value::Null);
    let sent = &attempt["requestHeaders"];
    assert_eq!(sent["x-service-attempt"], "1");
    assert_eq!(sent["x-service-delivery-id"], row["id"]);
    assert_eq!(sent["webhook-id"], row["id"]);
    assert!(!sent.to_string().contains("signature"), "{sent}");
    let address = attempt["address"].as_str().unwrap();
    assert!(["127.0.0.1", "::1"].contains(&address), "{attempt}");
    assert_eq!(attempt["reason"], Value::Null);

    // Nothing listens on this port.
    let closed = json!({"url": "https://127.0.0.1:1/"});
    customer.call("PUT", "/v1/webhooks", Some(closed)).await;
    let retry = format!("{one}/retry");
    assert_eq!(customer.call("POST", &retry, None).await.0, 202);
    for _ in 0..2_400 {
        let log = customer.get(&one).await.1["attemptLog"].clone();
        if let Some(attempt) = log.get(1) {
            assert_eq!(
                (&attempt["cause"], &attempt["address"]),
                (&json!("connect"), &json!("127.0.0.1"))
            );
            assert_eq!(attempt["reason"], "connection refused");
            assert_eq!(attempt["responseHeaders"], Value::Null);
            server.stop();
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the message was not retried");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_body_is_accepted_with_any_media_type() {
    let (_folder, server, customer, _receiver) = registered(&[OK]).await;
    for (path, status) in [
        ("/v1/webhooks/rotate", 200),
        ("/v1/webhooks/test", 200),
        ("/v1/webhooks/deliveries/retry", 202),
    ] {
        let send = async |body: &'static str| {
            let request = customer.http.post(format!("{}{path}", customer.api));
            let request = request
                .bearer_auth(&customer.key)
                .header("content-type", "application/x-www-form-urlencoded");
            request.body(body).send().await.unwrap().status().as_u16()
        };
        // `curl -d ''` sends this body.
        assert_eq!(send("").await, status, "{path}");
        assert_eq!(send("event=1").await, 415, "{path}");
    }
    server.stop();
}

/// The number of URL checks and test events that an organization may have in progress.
const PROBES: usize = 4;

/// The timeout of the connections of all checks. Generous, for a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts as many requests as an organization may have that check a URL, and waits until each
/// check is connected to the host of the URL. Returns the requests, and the connections to keep.
async fn occupy(
    customer: &Customer,
    method: &'static str,
    body: &Value,
    host: &TcpListener,
) -> (JoinSet<(u16, Value)>, Vec<TcpStream>) {
    let mut occupied = JoinSet::new();
    for _ in 0..PROBES {
        let (customer, body) = (customer.clone(), body.clone());
        occupied.spawn(async move { customer.call(method, "/v1/webhooks", Some(body)).await });
    }
    let mut connections = Vec::new();
    while connections.len() < PROBES {
        let accepted = tokio::time::timeout(CONNECT_TIMEOUT, host.accept()).await;
        connections.push(accepted.unwrap().unwrap().0);
    }
    (occupied, connections)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_during_too_many_url_checks_is_a_conflict() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    // A host that accepts connections and sends nothing; each check takes five seconds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let body = json!({"url": format!("https://127.0.0.1:{port}/")});
    let (mut creating, connections) = occupy(&customer, "POST", &body, &silent).await;
    let answer = customer
        .http
        .post(format!("{}/v1/webhooks", customer.api))
        .bearer_auth(&customer.key)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status().as_u16(), 409);
    assert_eq!(answer.headers()["retry-after"], "1");
    let problem: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(problem["code"], "conflict");
    let mut created = Vec::new();
    while let Some(answer) = creating.join_next().await {
        let (status, body) = answer.unwrap();
        created.push((status, body["code"].as_str().map(str::to_owned)));
    }
    created.sort();
    let exists = (409, Some("webhook_exists".to_owned()));
    assert_eq!(created[0], (201, None));
    assert!(
        created[1..].iter().all(|answer| *answer == exists),
        "{created:?}"
    );

    drop(connections);
    let (mut changing, _connections) = occupy(&customer, "PUT", &body, &silent).await;
    for (method, path, expected) in [
        ("POST", "/v1/webhooks", (409, "webhook_exists")),
        ("PUT", "/v1/webhooks", (409, "conflict")),
        ("POST", "/v1/webhooks/test", (429, "tenant_requests")),
    ] {
        let body = (path == "/v1/webhooks").then(|| body.clone());
        let (status, problem) = customer.call(method, path, body).await;
        assert_eq!(
            (status, problem["code"].as_str().unwrap()),
            expected,
            "{method}"
        );
    }
    while let Some(answer) = changing.join_next().await {
        assert_eq!(answer.unwrap().0, 200);
    }
    server.stop();
}
