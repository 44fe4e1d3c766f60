//! Tests several nodes of the real binary on a real CQL server: each takes the shards that the
//! others lose or release. They and their databases occupy the machine for minutes: run by
//! `PORCHLIGHT_TEST_NODES=1 cargo test --workspace --test it nodes::`, as `.ci/run` does, and
//! skipped otherwise.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cql_process::{borrowed, node, variables};
use crate::crash::{assert_reference_insights, reference_insights};
use crate::free_address::free_address;
use crate::phone::{Client, Sent, ServerUrl};
use crate::server::{Folder, Server, block_on, http};

/// The number of deliveries in progress when a node is killed or stopped.
const PHONES: u64 = 6;
/// The number of deliveries through two nodes: each belongs to the node that receives it with a
/// chance of one half, and some must belong to the other.
const DELIVERIES_THROUGH_TWO: u64 = 16;
/// The pause between two batches of a phone.
const PAUSE: Duration = Duration::from_millis(120);
/// The timeout of a move of shards. Generous, for a busy machine.
const MOVE_TIMEOUT: Duration = Duration::from_secs(180);

/// Returns whether the tests of several nodes are requested. Prints the variable that requests them
/// if not.
pub(crate) fn are_requested() -> bool {
    let are_requested = std::env::var_os("PORCHLIGHT_TEST_NODES").is_some();
    if !are_requested {
        println!("left out: PORCHLIGHT_TEST_NODES asks for the tests of several nodes");
    }
    are_requested
}

/// Returns the variables that the nodes of a test share, with a dedicated keyspace. Returns `None`
/// if these tests are not requested, or if there is no server.
fn shared(folder: &Path) -> Option<Vec<(&'static str, String)>> {
    if are_requested() {
        variables(folder)
    } else {
        None
    }
}

/// The variables of each of two nodes.
type NodeVariables = [Vec<(&'static str, String)>; 2];

/// Returns the folders of two nodes, and their variables, or `None` if `shared` returns `None`.
fn two_nodes() -> Option<([Folder; 2], NodeVariables)> {
    let folders = [Folder::new(), Folder::new()];
    let shared = shared(folders[0].path())?;
    let of_nodes = [&folders[0], &folders[1]].map(|folder| node(&shared, folder.path()));
    Some((folders, of_nodes))
}

/// Waits until each of these nodes has shards and together they have all. Returns the number of
/// shards of each.
pub(crate) async fn wait_until_settled(servers: &[&Server]) -> Vec<f64> {
    let began = Instant::now();
    loop {
        let mut owned = Vec::new();
        for server in servers {
            let shards = server.metric("porchlight_cluster_shards_owned").await;
            owned.push(shards.unwrap_or_default());
        }
        let all: f64 = owned.iter().sum();
        if all == 256.0 && owned.iter().all(|&shards| shards > 0.0) {
            return owned;
        }
        assert!(began.elapsed() < MOVE_TIMEOUT, "shards: {owned:?}");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Starts a thread that sends one delivery for each of `phones` phones, alternating between the two
/// urls.
fn load(
    urls: [&ServerUrl; 2],
    key: &str,
    next: &Arc<AtomicU64>,
    phones: u64,
) -> std::thread::JoinHandle<Vec<Sent>> {
    let clients = urls.map(|url| Client::new(url, key));
    let next = Arc::clone(next);
    std::thread::spawn(move || {
        block_on(async {
            let sending = (0..phones).map(|phone| {
                let client = &clients[phone as usize % 2];
                let number = next.fetch_add(1, Ordering::Relaxed);
                client.send(number, PAUSE)
            });
            futures_util::future::join_all(sending).await
        })
    })
}

/// Returns the place of a running server.
pub(crate) fn server_url(server: &Server) -> ServerUrl {
    Arc::new(RwLock::new(server.api.clone()))
}

/// Asserts that new connections to a node that leaves learn that it is not ready, and get answers.
async fn answers_new_connections_while_not_ready(node: &Server, key: &str) {
    let status = async |url: String| {
        let response = http().get(url).header("Service-Key", key).send().await;
        response.unwrap().status().as_u16()
    };
    while status(format!("{}/readyz", node.ops)).await == 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(status(format!("{}/readyz", node.ops)).await, 503);
    assert_eq!(status(format!("{}/v1/sessions", node.api)).await, 200);
}

#[test]
fn nodes_take_over_the_work_of_a_killed_or_stopped_node() {
    let Some((folders, [of_first, mut of_second])) = two_nodes() else {
        return;
    };
    of_second.push(("PORCHLIGHT__SERVER__DRAIN_GRACE", "5s".to_owned()));
    let first = Server::start(&folders[0], &borrowed(&of_first));
    let key = first.key("secret");
    let second = Server::start(&folders[1], &borrowed(&of_second));
    block_on(wait_until_settled(&[&first, &second]));
    let (to_first, to_second) = (server_url(&first), server_url(&second));
    let next = Arc::default();

    // The first node is killed: the second takes all its shards.
    let sending = load([&to_first, &to_second], &key, &next, PHONES);
    std::thread::park_timeout(Duration::from_millis(1_500));
    first.kill();
    second.api.clone_into(&mut to_first.write().unwrap());
    let mut sent = sending.join().unwrap();
    block_on(wait_until_settled(&[&second]));

    // The first node is back and takes its share. Then the second leaves as planned, and releases
    // its shards.
    let first = Server::start(&folders[0], &borrowed(&of_first));
    block_on(wait_until_settled(&[&first, &second]));
    first.api.clone_into(&mut to_first.write().unwrap());
    let sending = load([&to_first, &to_second], &key, &next, PHONES);
    std::thread::park_timeout(Duration::from_millis(1_500));
    second.terminate();
    first.api.clone_into(&mut to_second.write().unwrap());
    let began = Instant::now();
    block_on(answers_new_connections_while_not_ready(&second, &key));
    assert!(second.ended(Duration::from_secs(60)).success());
    block_on(wait_until_settled(&[&first]));
    println!(
        "a node left, and all was taken up, in {:?}",
        began.elapsed()
    );
    sent.extend(sending.join().unwrap());

    let client = Client::new(&to_first, &key);
    let mut found = BTreeMap::new();
    for session in &sent {
        let insight = block_on(client.insight(&session.session_id));
        found.insert(session.number, insight);
    }
    first.stop();
    assert_eq!(found.len(), sent.len());
    assert_reference_insights(&found);
}

#[test]
fn a_suspended_node_loses_its_shards_and_rejoins() {
    let Some((folders, [of_first, of_second])) = two_nodes() else {
        return;
    };
    let first = Server::start(&folders[0], &borrowed(&of_first));
    let second = Server::start(&folders[1], &borrowed(&of_second));
    let before = block_on(wait_until_settled(&[&first, &second]));
    let key = first.key("secret");
    let to_second = server_url(&second);
    // Some of the deliveries belong to the stopped node's shards.
    let sending = load([&to_second, &to_second], &key, &Arc::default(), PHONES);
    std::thread::park_timeout(Duration::from_millis(1_000));
    first.signal("-STOP");
    let began = Instant::now();
    block_on(wait_until_settled(&[&second]));
    println!("{} shards taken over in {:?}", before[0], began.elapsed());
    let sent = sending.join().unwrap();
    let client = Client::new(&to_second, &key);
    block_on(async {
        for session in &sent {
            assert_eq!(client.insight(&session.session_id).await["status"], "ready");
        }
    });
    first.signal("-CONT");
    block_on(wait_until_settled(&[&first, &second]));
    let lost = "porchlight_cluster_shard_moves_total{move=\"lost\"}";
    assert_eq!(block_on(first.metric(lost)), Some(before[0]));
    first.stop();
    second.stop();
}

#[test]
fn a_single_process_and_nodes_do_not_serve_together() {
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let Some(shared) = shared(folders[0].path()) else {
        return;
    };
    let of_node = node(&shared, folders[0].path());
    let first = Server::start(&folders[0], &borrowed(&of_node));
    block_on(wait_until_settled(&[&first]));
    let alone = Server::start(&folders[1], &borrowed(&shared));
    let status = first.ended(Duration::from_secs(60));
    assert_eq!(status.code(), Some(71), "a single node has started");
    let again = Server::start(&folders[2], &borrowed(&of_node));
    let status = alone.ended(Duration::from_secs(90));
    assert_eq!(status.code(), Some(71), "a node has come");
    block_on(wait_until_settled(&[&again]));
    again.stop();
}

/// Returns the sum of a metric's series that have this label.
async fn labelled(server: &Server, name: &str, label: &str) -> f64 {
    let text = server.metrics().await.unwrap();
    let begin = format!("{name}{{");
    let series = text
        .lines()
        .filter(|line| line.starts_with(&begin) && line.contains(label));
    series
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

/// Returns the body of a session's insight at one node, and its `ETag`.
async fn insight_bytes(server: &Server, key: &str, session_id: &str) -> (Vec<u8>, String) {
    let url = format!("{}/v1/sessions/{session_id}/insights", server.api);
    let answer = http().get(url).header("Service-Key", key).send().await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 200);
    let etag = answer.headers()["ETag"].to_str().unwrap().to_owned();
    (answer.bytes().await.unwrap().to_vec(), etag)
}

/// Asserts that two nodes answer with the same insight, byte for byte, under the same `ETag`.
/// Returns the insight.
async fn insight_at_both(nodes: [&Server; 2], key: &str, session_id: &str) -> Value {
    let [one, other] = nodes.map(|node| insight_bytes(node, key, session_id));
    let (one, other) = (one.await, other.await);
    assert_eq!(one, other, "the insight of {session_id} at two nodes");
    let insight: Value = serde_json::from_slice(&one.0).unwrap();
    let link = insight["pathImageUrl"].as_str().unwrap();
    assert!(link.starts_with("https://api.example.com/v1/"), "{link}");
    insight
}

/// Repeats the last batch of a completed session under the next number, and waits until an insight
/// includes it.
async fn add_late_batch(client: &Client, nodes: [&Server; 2], key: &str, session: &Sent) {
    let session_id = &session.session_id;
    let before = insight_at_both(nodes, key, session_id).await;
    let (seq, body) = session.acknowledged.iter().max().unwrap();
    let mut late: Value = serde_json::from_str(body).unwrap();
    late["seq"] = (seq + 1).into();
    let path = format!("/v1/sessions/{session_id}/telemetry");
    let sent = client.request(&path, Some(&late.to_string()), None).await;
    assert_eq!(sent.0, 202, "{}", sent.1);
    let began = Instant::now();
    loop {
        let (body, _) = insight_bytes(nodes[0], key, session_id).await;
        let insight: Value = serde_json::from_slice(&body).unwrap();
        if insight["updatedAt"] != before["updatedAt"] && insight["status"] == "ready" {
            break;
        }
        assert!(
            began.elapsed() < MOVE_TIMEOUT,
            "the session was not scored again"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    insight_at_both(nodes, key, session_id).await;
}

/// Sends deliveries through two nodes in turn. Checks that all insights are as from one process and
/// the same at both nodes, and returns the numbers of forwarded batches and of failed forwards.
fn send_through_two_nodes(can_talk: bool) -> Option<(f64, f64)> {
    let (folders, mut of_nodes) = two_nodes()?;
    if !can_talk {
        for variables in &mut of_nodes {
            // The node's advertised name has no listener.
            let listen = free_address().to_string();
            variables.push(("PORCHLIGHT__CLUSTER__LISTEN", listen));
        }
    }
    let first = Server::start(&folders[0], &borrowed(&of_nodes[0]));
    let key = first.key("secret");
    let second = Server::start(&folders[1], &borrowed(&of_nodes[1]));
    block_on(wait_until_settled(&[&first, &second]));
    let urls = [server_url(&first), server_url(&second)];
    let sending = load(
        [&urls[0], &urls[1]],
        &key,
        &Arc::default(),
        DELIVERIES_THROUGH_TWO,
    );
    let sent = sending.join().unwrap();
    let client = Client::new(&urls[0], &key);
    let expected = reference_insights(sent.len() as u64);
    for session in &sent {
        let insight = block_on(client.insight(&session.session_id));
        let expected = &expected[&session.number];
        assert_eq!(
            insight.to_string(),
            expected.to_string(),
            "the insight of delivery {}",
            session.number
        );
        block_on(insight_at_both(
            [&first, &second],
            &key,
            &session.session_id,
        ));
    }
    let late = add_late_batch(&client, [&first, &second], &key, &sent[0]);
    block_on(late);
    let name = "porchlight_peer_hand_overs_total";
    let (mut taken, mut failed) = (0.0, 0.0);
    for server in [&first, &second] {
        taken += block_on(labelled(server, name, "outcome=\"taken\""));
        failed += block_on(labelled(server, name, "outcome=\"failed\""));
    }
    for server in [first, second] {
        server.stop();
    }
    Some((taken, failed))
}

#[test]
fn connected_nodes_forward_batches_to_the_owner() {
    let Some((taken, failed)) = send_through_two_nodes(true) else {
        return;
    };
    println!("{taken} batches were forwarded, {failed} were not");
    assert!(taken > 0.0);
}

#[test]
fn nodes_without_a_connection_read_batches_from_the_database() {
    let Some((taken, failed)) = send_through_two_nodes(false) else {
        return;
    };
    println!("{taken} batches were forwarded, {failed} were not");
    assert!(taken == 0.0 && failed > 0.0);
}
