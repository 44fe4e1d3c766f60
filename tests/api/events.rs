//! Tests a session in progress over server-sent events.

use std::collections::BTreeMap;
use std::time::Duration;

use porchlight_http::Settings;
use porchlight_keys::ListedKey;
use porchlight_ports::Clock;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::fixed::assert_stream_message;
use crate::server::{Server, Started, config, insights, telemetry};

pub(crate) fn events(id: &str) -> String {
    format!("/v1/sessions/{id}/events")
}

/// Returns a batch with ten seconds of a ride that stops every second minute and temporarily loses
/// its satellites.
fn batch(seq: u32) -> Value {
    let sample = |n: u32| {
        let t = seq * 10 + n;
        let (minute, second) = (t / 60, t % 60);
        let ridden = minute.div_ceil(2) * 60 + if minute % 2 == 0 { second } else { 0 };
        let accuracy = if (second / 20) == 1 && minute % 3 == 1 {
            400
        } else {
            5
        };
        json!({ "kind": "location", "t": t, "lat": 51.38 + f64::from(ridden) * 1e-4, "lng": -2.36, "accuracyM": accuracy })
    };
    json!({ "seq": seq, "samples": (0..10).map(sample).collect::<Vec<_>>() })
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    id: u32,
    pub(crate) event: String,
    data: Value,
}

/// Parses the data of a message and asserts that it has the shape fixed by the contract.
fn stream_data(event: &str, data: &str) -> Value {
    assert_stream_message(event, data);
    serde_json::from_str(data).unwrap()
}

/// A connection to the stream.
pub(crate) struct Client {
    answer: reqwest::Response,
    received: String,
}

impl Client {
    fn stream_request(server: &Server, key: &str, id: &str) -> reqwest::RequestBuilder {
        let request = server.request(Method::GET, &events(id));
        request
            .header("Service-Key", key)
            .header("Accept", "text/event-stream")
    }

    async fn open_stream(server: &Server, id: &str, after: Option<u32>) -> reqwest::Response {
        let mut request = Self::stream_request(server, &server.keys.secret, id);
        if let Some(after) = after {
            request = request.header("Last-Event-ID", after);
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn connect(server: &Server, id: &str, after: Option<u32>) -> Self {
        let answer = Self::open_stream(server, id, after).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        let received = String::new();
        Self { answer, received }
    }

    /// Watches a session from its beginning with this key.
    pub(crate) async fn connect_with(server: &Server, key: &str, id: &str) -> Self {
        let answer = Self::stream_request(server, key, id).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let received = String::new();
        Self { answer, received }
    }

    /// Returns the next message, `Some(None)` for a comment, or `None` at the end.
    async fn block(&mut self) -> Option<Option<Message>> {
        loop {
            if let Some((block, rest)) = self.received.split_once("\n\n") {
                let read = Self::read(block);
                self.received = rest.to_owned();
                return Some(read);
            }
            let chunk = self.answer.chunk().await.unwrap()?;
            self.received.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    fn read(block: &str) -> Option<Message> {
        let mut fields = BTreeMap::new();
        for line in block.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            assert!(fields.insert(name, value).is_none(), "{block}");
        }
        Some(Message {
            id: fields.get("id")?.parse().unwrap(),
            event: fields["event"].to_owned(),
            data: stream_data(fields["event"], fields["data"]),
        })
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.block().await? {
                return Some(message);
            }
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }
}

pub(crate) async fn send(server: &Server, session: &Started, seqs: impl IntoIterator<Item = u32>) {
    for seq in seqs {
        let answer = server
            .post(&telemetry(&session.id), &session.token, &batch(seq))
            .await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
}

pub(crate) async fn stop(server: &Server, session: &Started) {
    let body = json!({ "sessionId": session.id });
    let answer = server
        .post("/v1/sessions/stop", &session.token, &body)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Reconnects for each message.
pub(crate) async fn one_by_one(server: &Server, id: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    loop {
        let after = messages.last().map(|message| message.id);
        let answer = Client::open_stream(server, id, after).await;
        if answer.status() == 204 {
            return messages;
        }
        let received = String::new();
        let mut client = Client { answer, received };
        messages.push(client.next().await.unwrap());
    }
}

#[actix::test]
async fn a_reconnecting_client_sees_the_same_as_a_connected_one() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let staying = Client::connect(&server, &session.id, None).await;
    let sending = async {
        // Out of order, with a duplicate, and with a gap that is filled late.
        send(&server, &session, [0, 1, 3, 2, 2, 4, 5, 6]).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        send(&server, &session, [8, 9, 7, 10, 11, 12, 13, 16, 17, 18]).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        send(&server, &session, [14, 15].into_iter().chain(19..24)).await;
        stop(&server, &session).await;
    };
    let (stayed, came_again, ()) =
        futures_util::future::join3(staying.rest(), one_by_one(&server, &session.id), sending)
            .await;
    assert_eq!(stayed, came_again);
    let ids: Vec<_> = stayed.iter().map(|message| message.id).collect();
    let count = u32::try_from(stayed.len()).unwrap();
    assert_eq!(ids, (1..=count).collect::<Vec<_>>());
    let names: Vec<_> = stayed
        .iter()
        .map(|message| message.event.as_str())
        .collect();
    let (events, last) = names.split_at(stayed.len() - 2);
    assert!(
        events.len() > 8 && events.iter().all(|name| *name == "event"),
        "{names:?}"
    );
    assert_eq!(last, ["insight", "end"]);
    let insight = server.wait_until_ready(&session.id).await;
    let [.., of_insight, of_end] = &stayed[..] else {
        panic!()
    };
    assert_eq!(of_insight.data, insight.json);
    assert_eq!(
        (&of_end.data["sessionId"], &of_end.data["status"]),
        (&json!(session.id), &json!("completed"))
    );
    // Each event is sent when it opens and when it closes, and together they are the insight's.
    let mut last_of = BTreeMap::new();
    for message in stayed.iter().filter(|message| message.event == "event") {
        let mut event = message.data.clone();
        let id = event.as_object_mut().unwrap().remove("eventId").unwrap();
        let before = last_of.insert(id.to_string(), event.clone());
        if let Some(before) = before {
            assert_eq!(
                (&before["tEnd"], &before["type"]),
                (&Value::Null, &event["type"])
            );
            assert_eq!(before["tStart"], event["tStart"]);
            assert!(event["tEnd"].is_number(), "{event}");
        }
    }
    let mut events: Vec<_> = last_of
        .into_values()
        .map(|event| event.to_string())
        .collect();
    let mut expected: Vec<_> = insight.json["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    events.sort_unstable();
    expected.sort_unstable();
    assert_eq!(events, expected);
    // Afterwards the stream is the same from any position.
    for after in 0..count {
        let rest = Client::connect(&server, &session.id, Some(after))
            .await
            .rest()
            .await;
        assert_eq!(rest, stayed[after as usize..], "{after}");
    }
    assert_eq!(
        Client::open_stream(&server, &session.id, Some(count + 1))
            .await
            .status(),
        204
    );
    server.stop().await;
}

/// Returns the events of a stream as they are after its last message.
fn events_of(messages: &[Message]) -> Vec<Value> {
    let mut last = BTreeMap::new();
    for message in messages.iter().filter(|message| message.event == "event") {
        let mut event = message.data.clone();
        let id = event.as_object_mut().unwrap().remove("eventId").unwrap();
        last.insert(id.to_string(), event);
    }
    let mut events: Vec<Value> = last.into_values().collect();
    let position = |event: &Value| (event["tStart"].to_string(), event["type"].to_string());
    events.sort_by_key(position);
    events
}

/// The session skips a gap, and late batches fill it. A client that stays connected gets the events
/// as they were detected, and a new client gets those of the insight.
#[actix::test]
async fn late_data_changes_the_events_of_new_clients_only() {
    let server = Server::start().await;
    let session = server.start_session().await;
    send(&server, &session, (0..12).chain(14..24)).await;
    let live = server
        .get(&insights(&session.id), &server.keys.secret)
        .await;
    assert!(live.json["events"].as_array().unwrap().len() > 2);
    send(&server, &session, [12, 13]).await;
    stop(&server, &session).await;
    let read = async |after| {
        Client::connect(&server, &session.id, after)
            .await
            .rest()
            .await
    };
    let known = read(Some(1)).await;
    server.wait_until_ready(&session.id).await;
    send(&server, &session, 24..36).await;
    // The ride lasts until 350 s; the late batches are scored in several steps.
    let insight = loop {
        let insight = server.wait_until_ready(&session.id).await.json;
        let events = insight["events"].as_array().unwrap().iter();
        let ends = events.filter_map(|event| event["tEnd"].as_f64());
        if ends.fold(0.0, f64::max) > 350.0 {
            break insight;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let again = read(Some(1)).await;
    let changed = known.iter().zip(&again).filter(|(one, other)| {
        (&one.event, &one.data) != (&other.event, &other.data) || one.event == "insight"
    });
    assert!(changed.map(|(one, _)| &one.event).eq(["insight"]));
    let new = read(None).await;
    let mut expected = insight["events"].as_array().unwrap().clone();
    expected.sort_by_key(|event| (event["tStart"].to_string(), event["type"].to_string()));
    assert_eq!(events_of(&new), expected);
    assert_ne!(events_of(&again), expected);
    // Both streams end with the same numbers, so that either client gets 204 when it reconnects.
    let ends = |messages: &[Message]| {
        messages
            .iter()
            .rev()
            .take(2)
            .map(|one| one.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ends(&new), ends(&again));
    assert!(new.is_sorted_by(|one, next| one.id < next.id));
    // The number of a message contains the version of the timeline that its client has.
    for (place, message) in new.iter().enumerate().take(new.len() - 1) {
        let rest = read(Some(message.id)).await;
        assert_eq!(rest, new[place + 1..], "{}", message.id);
    }
    server.stop().await;
}

#[actix::test]
async fn the_stream_needs_a_secret_key_and_a_matching_accept_header() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let path = events(&session.id);
    server
        .get(&path, &server.keys.client)
        .await
        .assert_problem(403, "secret_key_required");
    server
        .get(&path, &session.token)
        .await
        .assert_problem(403, "secret_key_required");
    server
        .get(&path, &server.keys.other)
        .await
        .assert_problem(404, "session_not_found");
    server
        .get(&path, &server.keys.live)
        .await
        .assert_problem(404, "session_not_found");
    server
        .get(&events("ses_1"), &server.keys.secret)
        .await
        .assert_problem(404, "session_not_found");
    Answer::of(server.request(Method::GET, &path))
        .await
        .assert_problem(401, "credential_missing");
    server
        .post(&path, &server.keys.secret, &json!({}))
        .await
        .assert_problem(405, "method_not_allowed");
    let request_accepting = |accept: &str| {
        let request = server
            .request(Method::GET, &path)
            .header("Service-Key", &server.keys.secret);
        request.header("Accept", accept)
    };
    Answer::of(request_accepting("application/json"))
        .await
        .assert_problem(406, "not_acceptable");
    let head = Answer::of(
        server
            .request(Method::HEAD, &path)
            .header("Service-Key", &server.keys.secret),
    )
    .await;
    assert_eq!(
        (head.status, head.header("content-type"), head.text.as_str()),
        (200, "text/event-stream", "")
    );
    assert!(!head.headers.contains_key("content-length"));
    // The service ignores an id that is not a number of its messages.
    let answer = request_accepting("text/*")
        .header("Last-Event-ID", "yesterday")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    server.stop().await;
}

#[actix::test]
async fn a_quiet_stream_sends_comments_and_ends_with_its_node() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let mut client = Client::connect(&server, &session.id, None).await;
    assert_eq!(client.block().await, Some(None));
    let other = Client::connect(&server, &session.id, None).await;
    server.service.drain().await;
    assert_eq!((client.rest().await, other.rest().await), (vec![], vec![]));
    let answer = server.get(&events(&session.id), &server.keys.secret).await;
    answer.assert_problem(503, "draining");
    server.stop().await;
}

#[actix::test]
async fn revoking_a_key_ends_its_streams() {
    let server = Server::with(Settings {
        key_remembered: Duration::from_millis(1),
        ..config()
    })
    .await;
    let session = server.start_session().await;
    let client = Client::connect(&server, &session.id, None).await;
    let keys = server.key_admin.list().await.unwrap();
    let is_ours =
        |key: &&ListedKey| key.kind == "secret" && server.keys.secret.ends_with(&key.last4);
    let id = &keys.iter().find(is_ours).unwrap().id;
    server
        .key_admin
        .revoke(id, server.clock.now())
        .await
        .unwrap();
    assert_eq!(client.rest().await, []);
    server.stop().await;
}
