//! Tests event streams of the real process: across a `kill -9`, and during a shutdown.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixed::assert_stream_message;
use crate::phone::{Client, delivery};
use crate::server::{Folder, Server, block_on};

/// The silence that marks the end of the available messages of a half-sent session.
const QUIET: Duration = Duration::from_secs(3);
/// The silence that marks a failure: the server closes a completed stream.
const LOST: Duration = Duration::from_secs(120);

/// Returns raw messages with their numbers, until a silence of `quiet` after the first or the end.
async fn messages(
    server: &Server,
    key: &str,
    id: &str,
    after: usize,
    quiet: Duration,
) -> Vec<String> {
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut answer = request
        .get(format!("{}/v1/sessions/{id}/events", server.api))
        .header("Service-Key", key)
        .header("Last-Event-ID", after)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let mut text = String::new();
    let mut silence = LOST;
    while let Ok(Ok(Some(chunk))) = tokio::time::timeout(silence, answer.chunk()).await {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        if text.contains("id: ") {
            silence = quiet;
        }
    }
    let blocks = text.split_terminator("\n\n");
    blocks
        .filter(|block| block.starts_with("id: "))
        .map(ToOwned::to_owned)
        .collect()
}

async fn send(client: &Client, path: &str, bodies: &[String]) {
    for body in bodies {
        let (status, answer) = client.request(path, Some(body), None).await;
        assert_eq!(status, 202, "{answer}");
    }
}

#[test]
fn a_stream_resumes_after_a_crash() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let place = Arc::new(RwLock::new(server.api.clone()));
    let key = server.key("secret");
    let client = Client::new(&place, &key);
    let delivery = delivery(1);
    let bodies: Vec<_> = delivery
        .batches(15.0)
        .map(|batch| batch.json().unwrap())
        .collect();
    let (begin, rest) = bodies.split_at(bodies.len() / 2);

    let start = delivery.start.to_string();
    let (status, session) = block_on(client.request("/v1/sessions/start", Some(&start), None));
    assert_eq!(status, 201, "{session}");
    let id = session["sessionId"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}/telemetry");
    let mut received = block_on(async {
        send(&client, &path, begin).await;
        messages(&server, &key, id, 0, QUIET).await
    });
    assert!(!received.is_empty(), "half a delivery has events");
    server.kill();

    let server = Server::start(&folder, &[]);
    place.write().unwrap().clone_from(&server.api);
    let stop = json!({ "sessionId": id }).to_string();
    block_on(async {
        let after = received.len();
        let sending = async {
            send(&client, &path, rest).await;
            let (status, _) = client.request("/v1/sessions/stop", Some(&stop), None).await;
            assert_eq!(status, 200);
        };
        let (more, ()) = tokio::join!(messages(&server, &key, id, after, LOST), sending);
        received.extend(more);
        let all = messages(&server, &key, id, 0, LOST).await;
        assert_eq!(received, all);
        let ids: Vec<_> = (1..=all.len()).map(|id| format!("id: {id}\n")).collect();
        assert!(
            all.iter()
                .zip(&ids)
                .all(|(message, id)| message.starts_with(id))
        );
        let data = |message: &str| -> Value {
            let (head, data) = message.split_once("data: ").unwrap();
            let (_, event) = head.split_once("event: ").unwrap();
            assert_stream_message(event.trim(), data);
            serde_json::from_str(data).unwrap()
        };
        let [.., insight, end] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!(data(insight)["status"], "ready");
        assert_eq!(data(end)["status"], "completed");
    });
    server.stop();
}

#[test]
fn a_stopping_server_does_not_wait_for_event_streams() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let place = Arc::new(RwLock::new(server.api.clone()));
    let key = server.key("secret");
    let client = Client::new(&place, &key);
    let start = delivery(0).start.to_string();
    block_on(async {
        let (_, session) = client
            .request("/v1/sessions/start", Some(&start), None)
            .await;
        let id = session["sessionId"].as_str().unwrap();
        let request = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}/v1/sessions/{id}/events", server.api);
        let mut answer = request
            .get(url)
            .header("Service-Key", &key)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        server.terminate();
        // The stream ends properly, without a broken connection.
        assert_eq!(answer.chunk().await.unwrap(), None);
    });
    assert!(server.ended(Duration::from_secs(20)).success());
}
