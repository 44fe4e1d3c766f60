//! Damages a block of a table on disk under a session that is recording, and tests that its insight
//! becomes `failed` while everything else works.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::opened::open_store;
use crate::server::{Folder, Server, block_on};

/// The number of batches of the damaged session, whose telemetry fills many blocks.
const BATCHES: u32 = 200;

/// Returns a batch that does not compress: its positions follow no pattern.
fn batch(seq: u32) -> Value {
    let fix = |place: u32| {
        let noise = f64::from((seq * 60 + place).wrapping_mul(2_654_435_761) >> 8) * 1e-11;
        json!({ "kind": "location", "t": seq * 60 + place, "lat": 1.0 + noise, "lng": 2.0 + noise, "accuracyM": 5 })
    };
    json!({ "seq": seq, "samples": (0..60).map(fix).collect::<Vec<_>>() })
}

async fn send(caller: &Caller, id: &str, seq: u32) {
    let sent = caller
        .post(&format!("/v1/sessions/{id}/telemetry"), &batch(seq))
        .await;
    assert_eq!(sent.status, 202, "{}", sent.body);
}

/// Stops a session and returns the final status of its insight.
async fn outcome(caller: &Caller, id: &str) -> Value {
    let stop = json!({ "sessionId": id });
    let stopped = caller.post("/v1/sessions/stop", &stop).await;
    assert_eq!(stopped.status, 200, "{}", stopped.body);
    let path = format!("/v1/sessions/{id}/insights");
    for _ in 0..1_200 {
        let insight = caller.get(&path).await;
        assert_eq!(insight.status, 200, "{}", insight.body);
        if insight.body["status"] != "processing" {
            return insight.body["status"].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the insight stays at processing");
}

/// Returns the largest table of a store. It holds the batches.
fn largest_table(folder: &Folder) -> PathBuf {
    let mut tables = Vec::new();
    for keyspace in fs::read_dir(folder.store().join("engine/keyspaces")).unwrap() {
        let tables_of = fs::read_dir(keyspace.unwrap().path().join("tables")).unwrap();
        tables.extend(tables_of.map(|entry| entry.unwrap().path()));
    }
    let len = |table: &PathBuf| fs::metadata(table).unwrap().len();
    tables.into_iter().max_by_key(len).unwrap()
}

/// Returns the number of event streams that the store ended, not their clients.
async fn failed_streams(server: &Server) -> f64 {
    let metrics = server.metrics().await.unwrap();
    let is_wanted = |line: &&str| {
        ["porchlight_streams_ended_total", "\"events\"", "\"failed\""]
            .iter()
            .all(|part| line.contains(part))
    };
    let line = metrics.lines().find(is_wanted).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn a_damaged_block_under_a_recording_session_fails_its_insight() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    let (damaged, other) = block_on(async {
        let damaged = caller.start("damaged").await;
        let other = caller.start("other").await;
        for seq in 0..BATCHES {
            send(&caller, &damaged, seq).await;
        }
        send(&caller, &other, 0).await;
        (damaged, other)
    });
    server.stop();
    let store = open_store(&folder.store()).unwrap();
    store.flush_tables().unwrap();
    store.committer().close();
    drop(store);
    let table = largest_table(&folder);
    let mut bytes = fs::read(&table).unwrap();
    // The first batches of the first session.
    let place = bytes.len() / 4;
    bytes[place] ^= 1;
    fs::write(&table, bytes).unwrap();

    let server = Server::start(&folder, &[]);
    let caller = Caller::with_key(&server, caller.key());
    block_on(async {
        send(&caller, &damaged, BATCHES).await;
        send(&caller, &other, 1).await;
        let path = format!("/v1/sessions/{damaged}/events");
        let stream = caller.begin(&path).await;
        assert_eq!(stream.status(), 200);
        assert_eq!(outcome(&caller, &damaged).await, "failed");
        drop(stream.bytes().await);
        assert_eq!(failed_streams(&server).await, 1.0);
        assert_eq!(outcome(&caller, &other).await, "ready");
        let young = caller.start("young").await;
        send(&caller, &young, 0).await;
        assert_eq!(outcome(&caller, &young).await, "ready");
    });
    server.stop();
}
