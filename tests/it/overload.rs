//! Tests a service under overload: it refuses with a retry time; its memory does not grow; accepted
//! batches are not shed; and it serves again as soon as there is room.

use std::io::Write;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use porchlight_schema::limits::{
    BATCH_SENT_BYTES_MAX, NODE_IN_FLIGHT_BYTES_MAX, SESSION_IN_FLIGHT_MAX,
};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::phone::{Client, delivery};
use crate::server::{Folder, Server, block_on, http};
use crate::shutdown::{in_flight_bytes, send_first_half, send_second_half};

/// The maximum memory growth of a server under all of this: workers' stacks and buffers, the
/// store's tables. Far less than the announced bytes.
const GAIN_KIB_MAX: u64 = 160 * 1024;
/// The maximum number of times that a request is repeated that the client did not send in time.
const REPEATED_MAX: u32 = 10;

fn client(server: &Server, key: &str) -> Client {
    Client::new(&Arc::new(RwLock::new(server.api.clone())), key)
}

async fn start(client: &Client, number: u64) -> String {
    let start = delivery(number).start.to_string();
    let (status, session) = client
        .request("/v1/sessions/start", Some(&start), None)
        .await;
    assert_eq!(status, 201, "{session}");
    session["sessionId"].as_str().unwrap().to_owned()
}

/// Returns whether the server did not get the request: on a busy machine, the client may be slower
/// than the server's deadline for the head. Then the server answers 408 or just closes the
/// connection.
fn is_unsent(sent: &reqwest::Result<reqwest::Response>) -> bool {
    match sent {
        Ok(answer) => answer.status() == 408,
        Err(error) => format!("{error:?}").contains("UnexpectedMessage"),
    }
}

/// Returns the status, `Retry-After`, and the problem's code.
async fn sent_once(
    server: &Server,
    key: &str,
    session_id: &str,
    body: String,
) -> (u16, Option<u64>, String) {
    let url = format!("{}/v1/sessions/{session_id}/telemetry", server.api);
    let send = || {
        let request = http().post(&url).header("Service-Key", key);
        let request = request.header("Content-Type", "application/json");
        request.body(body.clone()).send()
    };
    let mut sent = send().await;
    for _ in 0..REPEATED_MAX {
        if !is_unsent(&sent) {
            break;
        }
        sent = send().await;
    }
    let answer = sent.unwrap();
    let status = answer.status().as_u16();
    let after = answer.headers().get("Retry-After");
    let after_sec = after.map(|value| value.to_str().unwrap().parse().unwrap());
    let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
    (
        status,
        after_sec,
        body["code"].as_str().unwrap_or_default().to_owned(),
    )
}

fn batch(seq: u32) -> String {
    json!({ "seq": seq, "samples": [{ "t": seq, "kind": "pressure", "hPa": 1013.0 }] }).to_string()
}

#[test]
fn batches_in_flight_are_limited_per_session() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let key = server.key("secret");
    let client = client(&server, &key);
    let session_id = block_on(start(&client, 0));
    let slow: Vec<_> = (0..SESSION_IN_FLIGHT_MAX)
        .map(|seq| {
            (
                batch(seq),
                send_first_half(&server, &session_id, &key, &batch(seq)),
            )
        })
        .collect();
    block_on(async {
        // The batches are on their way to be admitted.
        let mut refused = (0, None, String::new());
        for _ in 0..1_000 {
            refused = sent_once(&server, &key, &session_id, batch(100)).await;
            if refused.0 != 202 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(refused, (429, Some(1), "session_busy".to_owned()));
    });
    for (body, stream) in slow {
        let answer = send_second_half(stream, &body);
        assert!(
            answer.starts_with("HTTP/1.1 202"),
            "admitted batches are accepted: {answer}"
        );
    }
    let (status, ..) = block_on(sent_once(&server, &key, &session_id, batch(101)));
    assert_eq!(status, 202, "the session has room for a batch again");
    server.stop();
}

#[test]
fn announced_bytes_that_never_arrive_use_no_capacity() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0")],
    );
    let key = server.key("secret");
    let client = client(&server, &key);
    let per_session = SESSION_IN_FLIGHT_MAX as usize;
    let announced = NODE_IN_FLIGHT_BYTES_MAX / BATCH_SENT_BYTES_MAX;
    let sessions: Vec<String> = block_on(async {
        let mut sessions = Vec::new();
        for number in 0..=announced / per_session {
            sessions.push(start(&client, number as u64 % 6).await);
        }
        sessions
    });
    let before_kib = server.resident_kib();
    let slow: Vec<_> = (0..announced)
        .map(|place| announce_half(&server, &sessions[place / per_session], &key))
        .collect();
    block_on(async {
        // Each stream has sent one byte, which is counted as it arrives.
        for _ in 0..1_000 {
            if in_flight_bytes(&server).await >= announced as u64 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(in_flight_bytes(&server).await, announced as u64);
        let last = sessions.last().unwrap();
        let accepted = sent_once(&server, &key, last, batch(0)).await;
        assert_eq!(accepted, (202, None, String::new()));
        let gained_kib = server.resident_kib().saturating_sub(before_kib);
        assert!(
            gained_kib < GAIN_KIB_MAX,
            "{gained_kib} KiB more for bytes that never arrived"
        );
        drop(slow);
        for _ in 0..3_000 {
            if in_flight_bytes(&server).await == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("bytes are still counted though all connections are closed");
    });
    server.stop();
}

/// Announces a body of the maximum size and sends its first byte.
fn announce_half(server: &Server, session_id: &str, key: &str) -> std::net::TcpStream {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST /v1/sessions/{session_id}/telemetry HTTP/1.1\r\nHost: porchlight\r\nService-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {BATCH_SENT_BYTES_MAX}\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn a_triple_load_is_refused_without_losing_accepted_batches() {
    const SESSIONS: usize = 4;
    const ROUNDS: u32 = 25;
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0")],
    );
    let key = server.key("secret");
    let client = client(&server, &key);
    let at_once = SESSION_IN_FLIGHT_MAX * 3;
    let (taken, refused, gained_kib) = block_on(async {
        let mut sessions = Vec::new();
        for number in 0..SESSIONS {
            sessions.push(start(&client, number as u64).await);
        }
        let before_kib = server.resident_kib();
        let (mut taken, mut refused) = (vec![0_u32; SESSIONS], 0);
        for round in 0..ROUNDS {
            let mut sending = Vec::new();
            for (place, session_id) in sessions.iter().enumerate() {
                for seq in round * at_once..(round + 1) * at_once {
                    let sent = sent_once(&server, &key, session_id, big_batch(seq));
                    sending.push(async move { (place, sent.await) });
                }
            }
            for (place, (status, after_sec, code)) in futures_util::future::join_all(sending).await
            {
                match status {
                    202 => taken[place] += 1,
                    429 | 503 => {
                        assert_eq!(after_sec, Some(1), "{code}");
                        refused += 1;
                    }
                    _ => panic!("{status} {code}"),
                }
            }
        }
        let gained_kib = server.resident_kib().saturating_sub(before_kib);
        for (place, session_id) in sessions.iter().enumerate() {
            let stop = json!({ "sessionId": session_id }).to_string();
            client.request("/v1/sessions/stop", Some(&stop), None).await;
            let insight = client.insight(session_id).await;
            assert_eq!(insight["status"], "ready");
            assert!(taken[place] > 0);
        }
        (taken.iter().sum::<u32>(), refused, gained_kib)
    });
    println!("{taken} batches taken, {refused} refused, {gained_kib} KiB gained");
    assert!(gained_kib < GAIN_KIB_MAX, "{gained_kib} KiB more");
    let text = block_on(server.metrics()).unwrap();
    let counted = format!("porchlight_ingest_batches_total{{outcome=\"new\"}} {taken}\n");
    assert!(
        text.contains(&counted),
        "each batch that was answered with 202 is counted once"
    );
    assert!(
        text.contains("porchlight_ingest_in_flight_bytes 0\n"),
        "nothing is in flight"
    );
    server.stop();
}

/// Returns `text` between `before` and `after`, as often as 8 MB can hold it, packed with gzip.
fn repeated(before: &str, text: &str, after: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(before.as_bytes()).unwrap();
    packed
        .write_all(text.repeat(8_000_000 / text.len()).as_bytes())
        .unwrap();
    packed.write_all(after.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[test]
fn small_bodies_that_unpack_to_many_values_take_little_memory() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    let session_id = block_on(caller.start("hostile"));
    let order = json!({"externalRiderId": "rider", "address": delivery(1).start["address"]});
    let recorder = block_on(caller.post("/v1/recorders", &order));
    let overland = recorder.body["pushUrls"]["overland"].as_str().unwrap();
    let push = &overland[overland.find("/r/").unwrap()..];
    let telemetry = format!("/v1/sessions/{session_id}/telemetry");
    let sample = r#"{"t":1,"kind":"pressure","hPa":1000,"x":["#;
    let before = server.peak_memory_kib();
    for (path, body, status) in [
        (
            telemetry.as_str(),
            repeated(r#"{"seq":0,"samples":["#, "{},", "{}]}"),
            413,
        ),
        (
            &telemetry,
            repeated(r#"{"seq":0,"samples":["#, r#"{"a":0},"#, "{}]}"),
            413,
        ),
        (
            &telemetry,
            repeated(
                &format!(r#"{{"seq":0,"samples":[{sample}"#),
                r#"{"a":0},"#,
                "{}]}]}",
            ),
            202,
        ),
        (
            push,
            // A key with an escape, which the fast reader leaves to the slow one.
            repeated(r#"{"\u006cocations":["#, r#"{"a":0},"#, "{}]}"),
            413,
        ),
    ] {
        let request = http()
            .post(format!("{}{path}", server.api))
            .header("Service-Key", caller.key())
            .header("Content-Type", "application/json")
            .header("Content-Encoding", "gzip")
            .body(body);
        let answer = block_on(async { request.send().await.unwrap() });
        assert_eq!(answer.status().as_u16(), status, "{path}");
    }
    let gain_kib = server.peak_memory_kib() - before;
    // The limit covers the unpacked bodies, once in pieces and once whole.
    assert!(gain_kib < GAIN_KIB_MAX, "{gain_kib} KiB");
    server.stop();
}

fn big_batch(seq: u32) -> String {
    let fix = |n: u32| json!({ "t": 60 * seq + n, "kind": "location", "lat": 52.5, "lng": 13.4, "accuracyM": 8.0 });
    json!({ "seq": seq, "samples": (0..60).map(fix).collect::<Vec<_>>() }).to_string()
}
