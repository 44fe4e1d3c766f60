//! Tests the binary from a customer's side: configuration, deliveries, and the effect of a kill on
//! promised messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use porchlight_core::webhook::signature::service_signature;
use porchlight_schema::limits::ENDPOINT_IN_FLIGHT_MAX;
use serde_json::{Value, json};

use crate::examples::{assert_documented, split};
use crate::fixed::assert_answer;
use crate::flow::header;
use crate::receiver::{Authority, OK, Receiver};
use crate::server::{Folder, Server, http};
use crate::world::BAD;

/// A customer with a key.
#[derive(Clone)]
pub(crate) struct Customer {
    pub(crate) api: String,
    pub(crate) key: String,
    pub(crate) http: reqwest::Client,
}

impl Customer {
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = self
            .http
            .request(method.parse().unwrap(), format!("{}{path}", self.api))
            .bearer_auth(&self.key);
        let request = match body {
            Some(body) => request
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => request,
        };
        let Ok(answer) = request.send().await else {
            return (0, Value::Null);
        };
        let status = answer.status().as_u16();
        let Ok(text) = answer.text().await else {
            return (status, Value::Null);
        };
        assert_answer(method, path, status, &text);
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, Some(body)).await
    }

    /// Starts a session. Returns its id if the start was acknowledged.
    pub(crate) async fn start(&self) -> Option<String> {
        let address = json!({"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0});
        let body = json!({"deliveryId": "d", "externalRiderId": "r", "address": address});
        let (status, session) = self.post("/v1/sessions/start", body).await;
        (status == 201).then(|| session["sessionId"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn stop(&self, session_id: &str) -> bool {
        let body = json!({"sessionId": session_id});
        self.post("/v1/sessions/stop", body).await.0 == 200
    }

    /// Sends the test event, and again if the receiver does not answer in time on a busy machine.
    pub(crate) async fn send_test_event(&self, body: Option<Value>) -> (u16, Value) {
        let mut tested = (0, Value::Null);
        for _ in 0..10 {
            tested = self.call("POST", "/v1/webhooks/test", body.clone()).await;
            if tested.1["error"] != "timeout" {
                break;
            }
        }
        tested
    }

    /// Returns the only row of the list, once it has this status.
    pub(crate) async fn row(&self, path: &str, status: &str) -> Value {
        let mut page = Value::Null;
        for _ in 0..2_400 {
            page = self.get(path).await.1;
            if page["data"][0]["status"] == status {
                return page["data"][0].clone();
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("never {status}: {page}");
    }
}

pub(crate) fn serve(folder: &Folder, authority: &Authority) -> Server {
    serve_with(folder, authority, &[])
}

/// Starts a server with these additional variables.
pub(crate) fn serve_with(folder: &Folder, authority: &Authority, more: &[(&str, &str)]) -> Server {
    let file = authority.file.to_str().unwrap();
    let variables = [
        (
            "PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES",
            "127.0.0.0/8,::1/128",
        ),
        ("PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE", file),
        ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0"),
    ];
    Server::start(folder, &[&variables, more].concat())
}

pub(crate) fn customer(server: &Server) -> Customer {
    Customer {
        api: server.api.clone(),
        key: server.key("secret"),
        http: http(),
    }
}

/// Starts a server that stores its data in the folder, and a receiver that gives these answers in
/// turn, and registers the receiver as the customer's webhook.
pub(crate) async fn registered(answers: &[&str]) -> (Folder, Server, Customer, Receiver) {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    let answers = answers.iter().map(|&answer| answer.to_owned()).collect();
    let receiver = Receiver::answering(&authority, answers).await;
    let body = json!({"url": receiver.local_url()});
    let registering = customer.call("POST", "/v1/webhooks", Some(body));
    assert_eq!(registering.await.0, 201);
    (folder, server, customer, receiver)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_created_shown_changed_and_removed() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    for (method, path) in [
        ("GET", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("POST", "/rotate"),
        ("POST", "/test"),
    ] {
        let path = format!("/v1/webhooks{path}");
        let (status, problem) = customer.call(method, &path, None).await;
        assert_eq!(
            (status, &problem["code"]),
            (404, &json!("webhook_not_found")),
            "{method} {path}"
        );
    }
    for url in [
        json!("http://localhost/"),
        json!("https://10.0.0.1/"),
        json!("https://user@localhost/"),
        json!("https://localhost./"),
        json!("https://nowhere.invalid/"),
        json!(5),
        Value::Null,
    ] {
        let (status, problem) = customer.post("/v1/webhooks", json!({"url": url})).await;
        assert_eq!(
            (status, &problem["errors"][0]["pointer"]),
            (422, &json!("/url")),
            "{url}"
        );
    }
    let url = receiver.local_url();
    let (status, made) = customer.post("/v1/webhooks", json!({"url": url})).await;
    assert_eq!(
        (status, &made["url"], &made["enabled"]),
        (201, &json!(url), &json!(true))
    );
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 50);
    assert_eq!(
        customer.post("/v1/webhooks", json!({"url": url})).await.0,
        409
    );
    let (status, mut shown) = customer.get("/v1/webhooks").await;
    assert_eq!((status, &shown["secret"]), (200, &Value::Null));
    shown["secret"] = made["secret"].clone();
    assert_eq!(shown, made);
    let (status, changed) = customer
        .call("PUT", "/v1/webhooks", Some(json!({"enabled": false})))
        .await;
    assert_eq!((status, &changed["enabled"]), (200, &json!(false)));
    let remove = || customer.call("DELETE", "/v1/webhooks", None);
    assert_eq!(remove().await, (204, Value::Null));
    assert_eq!(customer.get("/v1/webhooks").await.0, 404);
    // Answers show the scheme in lower case, however it was sent.
    let capital = json!({"url": url.replacen("https", "HTTPS", 1)});
    let (status, made) = customer.post("/v1/webhooks", capital.clone()).await;
    assert_eq!((status, &made["url"]), (201, &json!(url)));
    let (status, changed) = customer.call("PUT", "/v1/webhooks", Some(capital)).await;
    assert_eq!((status, &changed["url"]), (200, &json!(url)));
    assert_eq!(remove().await.0, 204);
    assert_eq!(
        receiver.seen(),
        0,
        "neither a probe nor a change sends anything"
    );
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_event_is_signed_with_every_live_secret_and_not_listed() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let url = receiver.local_url();
    let (_, made) = customer.post("/v1/webhooks", json!({"url": url})).await;
    let (status, rotated) = customer
        .post("/v1/webhooks/rotate", json!({"overlapSec": 600}))
        .await;
    assert_eq!(status, 200);
    assert!(rotated["previousSecretExpiresAt"].is_string());
    assert_eq!(
        customer.call("POST", "/v1/webhooks/rotate", None).await.0,
        409
    );
    assert_eq!(
        customer
            .post("/v1/webhooks/rotate", json!({"overlapSec": 604_801}))
            .await
            .0,
        422
    );

    let (status, tested) = customer.send_test_event(None).await;
    assert_eq!(
        (status, &tested["statusCode"], &tested["error"]),
        (200, &json!(200), &Value::Null)
    );
    let request = receiver.requests.lock().unwrap().last().unwrap().clone();
    // A receiver that validates against the document accepts the test event too.
    let (headers, body) = split(&request);
    assert_documented(&headers, &body);
    let envelope: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&envelope["event"], &envelope["test"]),
        (&json!("insight.updated"), &json!(true))
    );
    assert_eq!(header(&request, "x-service-delivery"), Some("ses_test"));
    assert_eq!(
        header(&request, "x-service-delivery-id"),
        tested["deliveryId"].as_str()
    );
    for (name, secret) in [
        ("x-service-signature", &rotated),
        ("x-service-signature-previous", &made),
    ] {
        let signature = service_signature(secret["secret"].as_str().unwrap(), body.as_bytes());
        assert_eq!(header(&request, name), Some(signature.as_str()));
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlap_can_be_ended_and_test_events_are_not_listed() {
    let (_folder, server, customer, receiver) = registered(&[OK]).await;
    assert_eq!(
        customer.call("POST", "/v1/webhooks/rotate", None).await.0,
        200
    );

    let (status, rotated) = customer
        .post("/v1/webhooks/rotate", json!({"overlapSec": 0}))
        .await;
    assert_eq!(
        (status, &rotated["previousSecretExpiresAt"]),
        (200, &Value::Null)
    );
    assert!(
        rotated
            .as_object()
            .unwrap()
            .contains_key("previousSecretExpiresAt")
    );
    let event = json!({"event": "session.stopped"});
    assert_eq!(customer.send_test_event(Some(event)).await.0, 200);
    let request = receiver.requests.lock().unwrap()[0].clone();
    assert_eq!(header(&request, "x-service-event"), Some("session.stopped"));
    assert_eq!(header(&request, "x-service-signature-previous"), None);
    assert_eq!(
        customer.get("/v1/webhooks/deliveries").await.1["data"],
        json!([])
    );
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_shown_and_retried() {
    let (_folder, server, customer, receiver) = registered(&[BAD, OK]).await;
    let session_id = customer.start().await.unwrap();
    let list = "/v1/webhooks/deliveries";
    let row = customer.row(list, "retrying").await;
    assert_eq!(row["sessionId"], json!(session_id));
    assert_eq!(
        (&row["cause"], &row["statusCode"], &row["attempts"]),
        (&json!("status"), &json!(500), &json!(1))
    );
    assert!(row["nextAttemptAt"].is_string());

    let retry = format!("{list}/retry");
    let (status, answer) = customer
        .post(&retry, json!({"dryRun": true, "status": "retrying"}))
        .await;
    assert_eq!(
        (status, answer),
        (202, json!({"count": 1, "truncated": false}))
    );
    assert_eq!(
        customer.post(&retry, json!({})).await.1["count"],
        json!(0),
        "no delivery has failed permanently"
    );
    let one = format!("{list}/{}", row["id"].as_str().unwrap());
    let (status, answer) = customer.call("POST", &format!("{one}/retry"), None).await;
    assert_eq!((status, answer), (202, json!({"count": 1})));
    customer
        .row(
            &format!("{list}?sessionId={session_id}&event=session.started"),
            "delivered",
        )
        .await;
    let (_, detail) = customer.get(&one).await;
    let log = detail["attemptLog"].as_array().unwrap();
    let numbers: Vec<_> = log
        .iter()
        .map(|attempt| (&attempt["attempt"], &attempt["statusCode"]))
        .collect();
    assert_eq!(
        numbers,
        [(&json!(1), &json!(500)), (&json!(2), &json!(200))]
    );
    let request = receiver.requests.lock().unwrap()[0].clone();
    assert_eq!(
        detail["payload"],
        json!(request.split_once("\r\n\r\n").unwrap().1)
    );
    assert_eq!(detail["url"], json!(receiver.local_url()));

    assert_eq!(customer.get(&format!("{list}/dlv_nothing")).await.0, 404);
    let (status, problem) = customer
        .get(&format!("{list}?status=no&limit=0&sessionId=1&from=x"))
        .await;
    assert_eq!(
        (status, problem["errors"].as_array().unwrap().len()),
        (422, 4)
    );
    server.stop();
}

/// Starts and stops sessions until `enough` is set. Returns the number of acknowledged messages of
/// each session.
async fn load(
    customer: Customer,
    enough: Arc<AtomicBool>,
    api: Arc<std::sync::RwLock<String>>,
) -> BTreeMap<String, usize> {
    let mut acknowledged = BTreeMap::new();
    while !enough.load(Ordering::Relaxed) {
        let api = api.read().unwrap().clone();
        let customer = Customer {
            api,
            ..customer.clone()
        };
        let Some(session_id) = customer.start().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        // The stop causes its own message, and that of the insight that follows.
        let messages = if customer.stop(&session_id).await {
            3
        } else {
            1
        };
        acknowledged.insert(session_id, messages);
    }
    acknowledged
}

/// `PORCHLIGHT_CRASHES=50` kills more often than the default of 4 times.
#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_and_keep_the_order() {
    let crashes = std::env::var("PORCHLIGHT_CRASHES").map_or(4, |text| text.parse().unwrap());
    let (folder, authority) = (Folder::new(), Authority::new());
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let mut server = serve(&folder, &authority);
    let customer = customer(&server);
    customer
        .post("/v1/webhooks", json!({"url": receiver.local_url()}))
        .await;
    let enough = Arc::new(AtomicBool::new(false));
    let api = Arc::new(std::sync::RwLock::new(server.api.clone()));
    let loads: Vec<_> = (0..4)
        .map(|_| {
            tokio::spawn(load(
                customer.clone(),
                Arc::clone(&enough),
                Arc::clone(&api),
            ))
        })
        .collect();
    let mut back_after = Vec::new();
    let mut repeats_max = 0;
    for crash in 0..crashes {
        tokio::time::sleep(Duration::from_millis(300 + 137 * (crash % 7))).await;
        // Attempts that take longer than usual while others wait, as on a machine that stalls, hold
        // slow permits in addition to the quick ones.
        let in_flight = server.metric("porchlight_webhook_in_flight").await;
        repeats_max += (in_flight.unwrap() as usize).max(ENDPOINT_IN_FLIGHT_MAX);
        server.kill();
        // The contents of the socket buffers are still read.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (before, begun) = (receiver.seen(), Instant::now());
        server = tokio::task::block_in_place(|| serve(&folder, &authority));
        let ready_ms = begun.elapsed().as_millis();
        server.api.clone_into(&mut api.write().unwrap());
        while receiver.seen() == before {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        back_after.push((ready_ms, begun.elapsed().as_millis()));
    }
    enough.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::new();
    for load in loads {
        acknowledged.extend(load.await.unwrap());
    }
    let missing = |seen: &BTreeMap<String, Vec<u32>>| {
        let arrived = |id: &String| {
            let numbers = seen.get(id).into_iter().flatten();
            numbers.collect::<BTreeSet<_>>().len()
        };
        acknowledged
            .iter()
            .filter(|(id, count)| arrived(id) < **count)
            .count()
    };
    let mut seen = arrivals(&receiver);
    for _ in 0..600 {
        if missing(&seen) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen = arrivals(&receiver);
    }
    assert_eq!(missing(&seen), 0, "lost of {}", acknowledged.len());
    let repeats = repeats_in_order(&seen);
    println!(
        "{crashes} kills, {} sessions, {repeats} messages twice",
        acknowledged.len()
    );
    println!("ready and first message, in ms after the start of the process: {back_after:?}");
    assert!(repeats <= repeats_max, "{repeats} came twice");
    server.stop();
}

/// Returns the number of repeated messages, and asserts that none was skipped.
fn repeats_in_order(seen: &BTreeMap<String, Vec<u32>>) -> usize {
    let mut repeats = 0;
    for (session_id, numbers) in seen {
        let mut next = 0;
        for number in numbers {
            // A message may arrive twice if it was in flight when the server was killed.
            assert!(*number <= next, "{session_id}: {numbers:?}");
            repeats += usize::from(*number < next);
            next = next.max(*number + 1);
        }
    }
    repeats
}

/// Returns the sequence numbers of each session in order of arrival.
fn arrivals(receiver: &Receiver) -> BTreeMap<String, Vec<u32>> {
    let mut seen = BTreeMap::<String, Vec<u32>>::new();
    for request in receiver.requests.lock().unwrap().iter() {
        let session_id = header(request, "x-service-delivery").unwrap();
        let number = header(request, "x-service-sequence").unwrap();
        let numbers = seen.entry(session_id.to_owned()).or_default();
        numbers.push(number.parse().unwrap());
    }
    seen
}
