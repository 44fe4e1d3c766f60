//! Tests the real process on a real CQL server: killed, replaced by another one, and with a server
//! that does not answer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use porchlight_ports::Journal;
use porchlight_schema::sample::json::decode_batch;
use porchlight_store::cql::{CqlOptions, CqlStore, Role};
use porchlight_world::SystemClock;
use serde_json::json;

use crate::cluster::cost::session;
use crate::cql_process::{borrowed, variables, variables_of};
use crate::cql_server::CqlServer;
use crate::crash::{assert_reference_insights, insights, reference_insights, run_with_crashes};
use crate::phone::{Client, Sent};
use crate::released::cql_rows::connect;
use crate::server::{Folder, Server, block_on, porchlight, successful};

const CRASHES: u64 = 3;
/// The time after its start by which a single process knows its own sessions, with a margin.
const SESSIONS_KNOWN_AFTER: Duration = Duration::from_secs(25);
/// The time for which the statements that a process repeats without any request are counted.
const REST: Duration = Duration::from_secs(5);
/// The number of sessions without telemetry and without webhooks whose statements are counted.
const SESSIONS: u32 = 50;

/// Opens the store of a keyspace as a command does, while other processes serve from it. Uses only
/// `datacenter` if given.
pub(crate) async fn open_as_command(
    server: &CqlServer,
    keyspace: &str,
    datacenter: Option<&str>,
) -> Arc<CqlStore> {
    let options = CqlOptions {
        nodes: server.nodes.clone(),
        keyspace: keyspace.to_owned(),
        replication_factor: server.replication_factor,
        datacenter: datacenter.map(str::to_owned),
        user: None,
        tls: None,
        ingest_within: Duration::from_secs(20),
        retention: Duration::from_secs(86_400),
        session_max: Duration::from_secs(86_400),
        agreement: porchlight_store::cql::Agreement::default(),
    };
    let opened = CqlStore::open(options, Role::Command, Arc::new(SystemClock)).await;
    opened.unwrap()
}

/// Returns the acknowledged batches that are not in the journal, each as a session's id and a
/// number. Asserts that those in the journal have their acknowledged body.
pub(crate) async fn missing(store: &CqlStore, sent: &[Sent]) -> Vec<(String, u32)> {
    let mut missing = Vec::new();
    for session in sent {
        let id = session.session_id.parse().unwrap();
        let journal = Journal::read(store, id, 0, 100_000).await.unwrap();
        let journal: BTreeMap<u32, _> = journal
            .into_iter()
            .map(|entry| (entry.seq, entry.batch))
            .collect();
        for (seq, body) in &session.acknowledged {
            let batch = decode_batch(body.as_bytes()).unwrap().batch;
            match journal.get(seq) {
                Some(there) => assert_eq!(there.as_bytes(), batch.as_bytes(), "batch {seq}"),
                None => missing.push((session.session_id.clone(), *seq)),
            }
        }
    }
    missing
}

/// Asserts that every acknowledged batch is in the journal, with its acknowledged body, as read
/// through this store.
pub(crate) async fn check_journal_in(store: &CqlStore, sent: &[Sent]) {
    let missing = missing(store, sent).await;
    assert!(missing.is_empty(), "acknowledged and missing: {missing:?}");
}

/// Asserts that every acknowledged batch is in the journal, with its acknowledged body.
pub(crate) async fn check_journal(server: &CqlServer, keyspace: &str, sent: &[Sent]) {
    let store = open_as_command(server, keyspace, None).await;
    check_journal_in(&store, sent).await;
}

#[test]
fn a_killed_server_on_cql_loses_nothing_and_changes_nothing() {
    let folder = Folder::new();
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    let (sent, found) = run_with_crashes(&folder, &borrowed(&variables), CRASHES);
    let server = CqlServer::get().unwrap();
    block_on(check_journal(server, &variables[2].1, &sent));
    assert_eq!(found.len(), sent.len());
    assert_reference_insights(&found);
}

#[test]
fn a_single_process_reads_little_and_computes_the_same_insights() {
    let folder = Folder::new();
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    let server = Server::start(&folder, &borrowed(&variables));
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    let found = block_on(async {
        tokio::time::sleep(SESSIONS_KNOWN_AFTER).await;
        let statements = async || {
            let total = server.metric("porchlight_store_statements_total").await;
            total.unwrap()
        };
        let (began, before) = (Instant::now(), statements().await);
        tokio::time::sleep(REST).await;
        let repeated_per_sec = (statements().await - before) / began.elapsed().as_secs_f64();
        let (began, before) = (Instant::now(), statements().await);
        for _ in 0..SESSIONS {
            session(client.clone(), None, true).await;
        }
        while server
            .metric("porchlight_scoring_waiting_sessions")
            .await
            .unwrap()
            > 0.0
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // On a busy machine the sessions take long, and the process repeats more meanwhile.
        let repeated = repeated_per_sec * began.elapsed().as_secs_f64();
        let each = (statements().await - before - repeated) / f64::from(SESSIONS);
        assert!(each < 15.0, "{each} statements for a session");
        let sent = [
            client.send(0, Duration::ZERO).await,
            client.send(1, Duration::ZERO).await,
        ];
        insights(&client, &sent).await
    });
    server.stop();
    assert_reference_insights(&found);
}

#[test]
fn the_newer_process_on_a_keyspace_serves_and_commands_work() {
    let (first_folder, folder) = (Folder::new(), Folder::new());
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    let first = Server::start(&first_folder, &borrowed(&variables));
    let key = first.key("secret");
    let second = Server::start(&folder, &borrowed(&variables));
    let status = first.ended(Duration::from_secs(60));
    assert_eq!(
        status.code(),
        Some(71),
        "a newer process has replaced this one"
    );

    let url = Arc::new(RwLock::new(second.api.clone()));
    let client = Client::new(&url, &key);
    block_on(async {
        let sent = client.send(0, Duration::ZERO).await;
        let insight = client.insight(&sent.session_id).await;
        assert_eq!(insight["status"], "ready");
    });
    second.stop();
    // No process serves: the commands connect to the cluster themselves.
    let command = |arguments: &[&str]| {
        let output = porchlight()
            .args(arguments)
            .envs(borrowed(&variables))
            .env("PORCHLIGHT__STORE__PATH", folder.store())
            .output()
            .unwrap();
        successful(output)
    };
    let listed = command(&["keys", "list", "--json"]);
    assert_eq!(listed.lines().count(), 1);
    let listed: serde_json::Value = serde_json::from_str(listed.trim()).unwrap();
    command(&["keys", "revoke", listed["id"].as_str().unwrap()]);
    let third = Server::start(&folder, &borrowed(&variables));
    *url.write().unwrap() = third.api.clone();
    let answer = block_on(client.attempt("/v1/sessions", None, None)).unwrap();
    assert_eq!(answer.0, 401, "the key was revoked");
    third.stop();
}

#[test]
fn a_restarted_node_has_all_acknowledged_data() {
    let folder = Folder::new();
    let Some(database) = CqlServer::start_nodes(1) else {
        return;
    };
    let (node, variables) = (&database.started[0], variables_of(&database, folder.path()));
    let server = Server::start(&folder, &borrowed(&variables));
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    let found = block_on(async {
        let mut open = client.begin(0).await;
        let half = open.batches.len() / 2;
        client.send_next(&mut open, half, Duration::ZERO).await;
        node.kill();
        let path = format!("/v1/sessions/{}/telemetry", open.sent.session_id);
        let next = open.batches[0].1.clone();
        let (status, problem) = client.attempt(&path, Some(&next), None).await.unwrap();
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (503, &json!("store_unavailable"))
        );
        node.start();
        client
            .send_next(&mut open, usize::MAX, Duration::ZERO)
            .await;
        let sent = client.finish(open).await;
        client.insight(&sent.session_id).await
    });
    assert_eq!(found.to_string(), reference_insights(1)[&0].to_string());
    server.stop();
}

#[test]
fn a_process_that_waits_for_a_migration_stops_at_once() {
    let folder = Folder::new();
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    Server::start(&folder, &borrowed(&variables)).stop();
    let is_keyspace = |(name, _): &&(&str, String)| name.ends_with("KEYSPACE");
    let (_, keyspace) = variables.iter().find(is_keyspace).unwrap();
    // Another process holds the lock, and has not yet applied the last migration.
    block_on(async {
        let session = connect().await;
        for statement in [
            format!("DELETE FROM {keyspace}.schema_migrations WHERE number = 8"),
            format!("INSERT INTO {keyspace}.schema_lock (name, holder) VALUES ('schema', 0x01)"),
        ] {
            session.query_unpaged(statement, ()).await.unwrap();
        }
    });
    let mut child = porchlight()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--ops-listen", "127.0.0.1:0", "--data"])
        .arg(folder.store())
        .envs(borrowed(&variables))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_waiting = lines.any(|line| line.unwrap().contains("waiting for another process"));
    assert!(is_waiting, "the process ended: {:?}", child.try_wait());
    let terminated = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(terminated.unwrap().success());
    let has_stopped = lines.any(|line| line.unwrap().contains("before its start was complete"));
    assert!(has_stopped, "the process was not killed");
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_unresponsive_cluster_refuses_requests_and_loses_nothing() {
    let folder = Folder::new();
    let Some(mut variables) = variables(folder.path()) else {
        return;
    };
    let Some(node) = CqlServer::get().and_then(|server| server.only_node()) else {
        // A cluster that is managed by others is not stopped.
        return;
    };
    for (name, value) in &mut variables {
        if name.ends_with("INGEST_TIMEOUT") {
            "1s".clone_into(value);
        }
    }
    let server = Server::start(&folder, &borrowed(&variables));
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    let start = json!({"deliveryId": "d", "externalRiderId": "r",
        "address": {"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0}});
    let batch = json!({"seq": 0, "samples": [{"kind": "steps", "t": 1.0, "count": 3}]}).to_string();
    block_on(async {
        let (_, session) = client
            .request("/v1/sessions/start", Some(&start.to_string()), None)
            .await;
        let path = format!(
            "/v1/sessions/{}/telemetry",
            session["sessionId"].as_str().unwrap()
        );
        node.signal("-STOP");
        let refused = client.attempt(&path, Some(&batch), None).await;
        node.signal("-CONT");
        let (status, problem) = refused.unwrap();
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (503, &json!("store_unavailable"))
        );
        let (status, answer) = client.request(&path, Some(&batch), None).await;
        assert_eq!((status.as_u16(), &answer["ackSeq"]), (202, &json!(0)));
    });
    server.stop();
}
