//! Tests `porchlight migrate` as an operator runs it: killed, restarted, verified, and served from
//! afterwards.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use scylla::client::session_builder::SessionBuilder;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::cql_process::{borrowed, variables};
use crate::cql_server::CqlServer;
use crate::crash::reference_insights;
use crate::phone::{Client, OpenDelivery};
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};
use crate::server::{Folder, Server, block_on, porchlight, successful};

/// The number of complete deliveries whose webhooks have arrived.
const DELIVERED: u64 = 3;
/// The number of complete deliveries, including those whose webhooks have not arrived.
const WHOLE: u64 = 5;
/// The number of sessions of one batch, which make the command long enough to interrupt.
const SHORT: usize = 150;
/// The timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(240);

/// A customer's view of its sessions, its insights and its webhooks' deliveries.
struct Seen {
    sessions: BTreeMap<String, Value>,
    insights: BTreeMap<String, Value>,
    deliveries: BTreeMap<String, Value>,
}

async fn listed(client: &Client, path: &str) -> BTreeMap<String, Value> {
    let (mut rows, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = format!("{path}?limit=200{cursor}");
        let (status, page) = client.request(&page, None, None).await;
        assert_eq!(status, 200, "{page}");
        for row in page["data"].as_array().unwrap() {
            let id = row.get("sessionId").filter(|_| path.ends_with("sessions"));
            let id = id.unwrap_or(&row["id"]).as_str().unwrap();
            rows.insert(id.to_owned(), row.clone());
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

async fn read_all(client: &Client) -> Seen {
    let sessions = listed(client, "/v1/sessions").await;
    let mut insights = BTreeMap::new();
    for id in sessions.keys() {
        let path = format!("/v1/sessions/{id}/insights");
        let mut insight = client.request(&path, None, None).await.1;
        // The URL contains the host of the request.
        insight["pathImageUrl"].take();
        if insight["status"] == "processing" {
            // Until a session is scored, `updatedAt` is the time at which its process last received
            // new data.
            insight["updatedAt"].take();
        }
        insights.insert(id.clone(), insight);
    }
    Seen {
        sessions,
        insights,
        deliveries: listed(client, "/v1/webhooks/deliveries").await,
    }
}

/// Starts a receiver that accepts messages, or refuses them while the flag is set.
async fn receiver(authority: &Authority) -> (Receiver, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::new(false));
    let is_refusing = Arc::clone(&refuses);
    let behave = move |mut stream, log: Arc<std::sync::Mutex<Vec<String>>>| {
        let is_refusing = Arc::clone(&is_refusing);
        async move {
            while let Some(request) = read_request(&mut stream).await {
                let answer = if is_refusing.load(Ordering::SeqCst) {
                    "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
                } else {
                    log.lock().unwrap().push(request);
                    OK
                };
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    };
    (
        Receiver::start(authority, Shown::Good, behave).await,
        refuses,
    )
}

/// Waits until `count` webhooks have this status.
async fn wait_for_deliveries(client: &Client, status: &str, count: usize) {
    let began = Instant::now();
    loop {
        let rows = listed(client, "/v1/webhooks/deliveries").await;
        let rows: Vec<_> = rows.values().map(|row| row["status"].clone()).collect();
        let found = rows.iter().filter(|&found| found == status).count();
        if found == count {
            return;
        }
        assert!(
            began.elapsed() < STEP_TIMEOUT,
            "{found} of {count} {status}: {rows:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Fills the store of an embedded server. Returns a session that is half sent.
async fn fill(client: &Client, url: &str, refuses: &AtomicBool) -> OpenDelivery {
    let body = json!({ "url": url }).to_string();
    let registered = client.request("/v1/webhooks", Some(&body), None);
    assert_eq!(registered.await.0, 201);
    for number in 0..DELIVERED {
        let sent = client.send(number, Duration::ZERO).await;
        client.insight(&sent.session_id).await;
    }
    wait_for_deliveries(client, "delivered", 3 * DELIVERED as usize).await;
    refuses.store(true, Ordering::SeqCst);
    for number in DELIVERED..WHOLE {
        let sent = client.send(number, Duration::ZERO).await;
        client.insight(&sent.session_id).await;
    }
    let start = json!({"deliveryId": "d", "externalRiderId": "r",
        "address": {"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0}});
    let (start, batch) = (start.to_string(), json!({"seq": 0, "samples": []}));
    let batch = batch.to_string();
    for _ in 0..SHORT {
        let started = client.request("/v1/sessions/start", Some(&start), None);
        let id = started.await.1["sessionId"].as_str().unwrap().to_owned();
        let path = format!("/v1/sessions/{id}/telemetry");
        let answer = client.request(&path, Some(&batch), None).await;
        assert_eq!(answer.0, 202);
    }
    let mut half = client.begin(WHOLE).await;
    let count = half.batches.len() / 2;
    client.send_next(&mut half, count, Duration::ZERO).await;
    half
}

/// Starts the migration command.
fn spawn_migration(variables: &[(&'static str, String)], from: &Folder, beside: &Folder) -> Child {
    porchlight()
        .args(["migrate", "--json", "--from"])
        .arg(from.store())
        .envs(borrowed(variables))
        .env("PORCHLIGHT__STORE__PATH", beside.store())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the number of sessions in the keyspace, which may not exist yet.
async fn imported_sessions(keyspace: &str) -> usize {
    let nodes = &CqlServer::get().unwrap().nodes;
    let session = SessionBuilder::new().known_nodes(nodes).build().await;
    let query = format!("SELECT session FROM {keyspace}.sessions");
    match session.unwrap().query_unpaged(query, ()).await {
        Ok(rows) => rows.into_rows_result().unwrap().rows_num(),
        Err(_not_yet) => 0,
    }
}

/// Kills the command once the keyspace has `at` sessions. Returns the number of its sessions then.
fn kill_at(mut command: Child, keyspace: &str, at: usize) -> usize {
    let began = Instant::now();
    while block_on(imported_sessions(keyspace)) < at {
        if command.try_wait().unwrap().is_some() {
            let output = command.wait_with_output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            panic!("it ended too early, {}: {error}", output.status);
        }
        assert!(
            began.elapsed() < STEP_TIMEOUT,
            "the migration does not begin"
        );
    }
    command.kill().unwrap();
    command.wait().unwrap();
    block_on(imported_sessions(keyspace))
}

/// Checks the webhooks after the move: the refused messages are sent, and each session's arrive
/// once and in order.
fn check_webhooks(received: &[String], deliveries: &BTreeMap<String, Value>) {
    let header = |request: &str, name: &str| {
        let line = request.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        });
        line.unwrap()
    };
    let mut of_sessions = BTreeMap::<String, Vec<u64>>::new();
    for request in received {
        let number: u64 = header(request, "x-service-sequence").parse().unwrap();
        let session_id = header(request, "x-service-delivery");
        let row = &deliveries[&header(request, "x-service-delivery-id")];
        assert_eq!(
            (&row["sessionId"], &row["sequence"]),
            (&json!(session_id), &json!(number))
        );
        of_sessions.entry(session_id).or_default().push(number);
    }
    for (id, numbers) in of_sessions {
        let all: Vec<u64> = (0..numbers.len() as u64).collect();
        assert_eq!(numbers, all, "messages of {id}");
    }
    assert_eq!(received.len(), deliveries.len());
}

#[test]
#[expect(clippy::too_many_lines, reason = "the steps of one scenario, in order")]
fn a_killed_migration_to_the_cluster_resumes_and_completes() {
    let (old_folder, folder) = (Folder::new(), Folder::new());
    let Some(mut variables) = variables(folder.path()) else {
        return;
    };
    let authority = Authority::new();
    let webhook = [
        (
            "PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES",
            "127.0.0.0/8,::1/128".to_owned(),
        ),
        (
            "PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE",
            authority.file.to_str().unwrap().to_owned(),
        ),
        ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0".to_owned()),
    ];
    let listening = tokio::runtime::Runtime::new().unwrap();
    let (receiver, refuses) = listening.block_on(receiver(&authority));
    let old = Server::start(&old_folder, &borrowed(&webhook));
    let (key, client_key, revoked) = (old.key("secret"), old.key("client"), old.key("secret"));
    let place = Arc::new(RwLock::new(old.api.clone()));
    let client = Client::new(&place, &key);
    let (mut half, before) = block_on(async {
        let half = fill(&client, &receiver.local_url(), &refuses).await;
        // One attempt of each lane has failed: those of the two complete sessions, of the short
        // ones, and of the half one.
        let lanes = (WHOLE - DELIVERED) as usize + SHORT + 1;
        wait_for_deliveries(&client, "retrying", lanes).await;
        (half, read_all(&client).await)
    });
    let command = |arguments: &[&str]| {
        let output = porchlight()
            .args(arguments)
            .env("PORCHLIGHT__STORE__PATH", old_folder.store())
            .output()
            .unwrap();
        successful(output)
    };
    let keys = command(&["keys", "list", "--json"]);
    let ends = &revoked[revoked.len() - 4..];
    let keys = keys
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = keys
        .into_iter()
        .find(|row| row["last4"] == ends && row["kind"] == "secret")
        .unwrap();
    command(&["keys", "revoke", row["id"].as_str().unwrap()]);
    old.stop();

    // The old key still opens secrets that it sealed.
    let (_, files) = variables
        .iter_mut()
        .find(|(name, _)| name.ends_with("KEY_FILES"))
        .unwrap();
    *files = format!("{files},{}/secret.key", old_folder.store().display());
    let keyspace = variables[2].1.clone();
    let all = before.sessions.len();
    for at in [all / 4, all / 2] {
        let imported = kill_at(
            spawn_migration(&variables, &old_folder, &folder),
            &keyspace,
            at,
        );
        assert!(imported < all, "the migration was killed too late");
    }
    let output = spawn_migration(&variables, &old_folder, &folder).wait_with_output();
    let done: Value = serde_json::from_str(&successful(output.unwrap())).unwrap();
    let (now, earlier) = (&done["sessions"], &done["wereThere"]);
    let (now, earlier) = (now.as_u64().unwrap(), earlier.as_u64().unwrap());
    assert_eq!(now + earlier, all as u64);
    assert!(now > 0 && earlier >= all as u64 / 2, "{done}");
    assert_eq!(done["messages"], json!(before.deliveries.len()));
    let output = spawn_migration(&variables, &old_folder, &folder).wait_with_output();
    let again: Value = serde_json::from_str(&successful(output.unwrap())).unwrap();
    assert_eq!(
        (&again["sessions"], &again["batches"]),
        (&json!(0), &done["batches"])
    );

    variables.extend(webhook);
    let server = Server::start(&folder, &borrowed(&variables));
    server.api.clone_into(&mut place.write().unwrap());
    block_on(async {
        let mut after = read_all(&client).await;
        // A retry may have run meanwhile, and failed again: the messages behind it wait longer.
        for (id, row) in &mut after.deliveries {
            let before = &before.deliveries[id];
            if row["status"] == "retrying" {
                row.clone_from(before);
            } else if row["waitsFor"].is_object() {
                row["waitsFor"]["nextAttemptAt"] = before["waitsFor"]["nextAttemptAt"].clone();
            }
        }
        for (after, before) in [
            (&after.sessions, &before.sessions),
            (&after.insights, &before.insights),
            (&after.deliveries, &before.deliveries),
        ] {
            assert_eq!(after.len(), before.len());
            for (id, before) in before {
                assert_eq!(&after[id], before);
            }
        }
        let status = async |key: &str| {
            let client = Client::new(&place, key);
            client.request("/v1/sessions", None, None).await.0
        };
        assert_eq!(
            (status(&client_key).await, status(&revoked).await),
            (StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED)
        );

        refuses.store(false, Ordering::SeqCst);
        let body = json!({"status": "retrying"}).to_string();
        let response = client.request("/v1/webhooks/deliveries/retry", Some(&body), None);
        assert_eq!(response.await.0, 202);
        client
            .send_next(&mut half, usize::MAX, Duration::ZERO)
            .await;
        let sent = client.finish(half).await;
        let found = client.insight(&sent.session_id).await;
        let expected = tokio::task::spawn_blocking(|| reference_insights(WHOLE + 1));
        let expected = expected.await.unwrap();
        assert_eq!(found.to_string(), expected[&WHOLE].to_string());
        let all = before.deliveries.len() + 2;
        wait_for_deliveries(&client, "delivered", all).await;
        let deliveries = listed(&client, "/v1/webhooks/deliveries").await;
        check_webhooks(&receiver.requests.lock().unwrap(), &deliveries);
    });
    server.stop();
}
