//! Measures the cost of a CQL cluster: processor time of the service per batch, relative to an
//! embedded store, and lightweight transactions per second.
//!
//! `PORCHLIGHT_BIN=target/release/porchlight PORCHLIGHT_LOAD=target/release/porchlight-load cargo
//! test --test it cluster::cost -- --ignored --nocapture --test-threads=1`

use std::process::Command;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::json;

use super::nodes::{NODES, Nodes};
use crate::cql_process::{borrowed, variables};
use crate::phone::Client;
use crate::receiver::Authority;
use crate::server::{Folder, Server, binary, block_on, successful};

/// The duration of the count.
const COUNTED: Duration = Duration::from_secs(30);
/// The time without a further transaction after which a server has finished its work.
const QUIET: Duration = Duration::from_secs(12);
/// The number of sessions started per second.
const STARTS_PER_SEC: u32 = 100;

#[test]
#[ignore = "it measures: on a quiet machine, with a release build"]
fn processor_time_of_a_batch_over_the_embedded_store() {
    let folder = Folder::new();
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    let load = std::env::var_os("PORCHLIGHT_LOAD").unwrap();
    let mut measuring = Command::new(load);
    measuring.args(["ratio", "--rounds", "5", "--batches", "8000"]);
    measuring.args(["--connections", "32", "--sessions", "128", "--server"]);
    measuring.arg(binary());
    for (name, value) in variables {
        // Neither side of the comparison has a rate limit.
        if !name.contains("RATE_LIMIT") {
            measuring.arg("--set").arg(format!("{name}={value}"));
        }
    }
    println!("{}", successful(measuring.output().unwrap()));
}

/// Returns the lightweight transactions of a server so far.
async fn lightweight(server: &Server) -> f64 {
    let total = server.metric("porchlight_store_lightweight_total").await;
    total.unwrap()
}

/// Waits until the number of lightweight transactions no longer grows, and returns it: a stop
/// causes an insight, and a busy machine runs the transactions one after the other.
async fn settled(server: &Server) -> f64 {
    let mut counted = lightweight(server).await;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = lightweight(server).await;
        if now <= counted {
            return now;
        }
        counted = now;
    }
}

#[test]
#[ignore = "it measures: on a quiet machine, with a release build"]
fn lightweight_transactions_at_rest_and_under_load() {
    let folder = Folder::new();
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    let server = Server::start(&folder, &borrowed(&variables));
    let place = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&place, &server.key("secret"));
    block_on(async {
        let before = lightweight(&server).await;
        tokio::time::sleep(COUNTED).await;
        let rest = (lightweight(&server).await - before) / COUNTED.as_secs_f64();
        println!("at rest: {rest:.2} lightweight transactions a second");
        for (name, with_key, stopped) in [
            ("started", false, false),
            ("started with an Idempotency-Key", true, false),
            ("started and stopped", false, true),
        ] {
            let before = lightweight(&server).await;
            let (began, mut ticks) = (
                Instant::now(),
                tokio::time::interval(Duration::from_secs(1) / STARTS_PER_SEC),
            );
            let mut sessions = Vec::new();
            while began.elapsed() < COUNTED {
                ticks.tick().await;
                let (client, number) = (client.clone(), sessions.len());
                let key = with_key.then(|| format!("{name} {number}"));
                sessions.push(tokio::spawn(session(client, key, stopped)));
            }
            let count = sessions.len();
            for session in sessions {
                session.await.unwrap();
            }
            let counted = settled(&server).await - before;
            let (each, per_sec) = (counted / count as f64, count as f64 / COUNTED.as_secs_f64());
            println!("{per_sec:.0} sessions a second {name}: {each:.3} for each");
        }
    });
    server.stop();
}

#[test]
#[ignore = "it measures: on a quiet machine, with a release build"]
fn measure_lightweight_transactions_of_nodes_at_rest() {
    let Some(cluster) = Nodes::start(&Authority::new()) else {
        return;
    };
    let metric = "porchlight_store_lightweight_total";
    block_on(async {
        let before = cluster.sum(metric).await;
        tokio::time::sleep(COUNTED).await;
        let rest = (cluster.sum(metric).await - before) / COUNTED.as_secs_f64();
        println!("{NODES} nodes at rest: {rest:.2} lightweight transactions a second");
    });
}

pub(crate) async fn session(client: Client, key: Option<String>, stopped: bool) {
    let start = json!({"deliveryId": "d", "externalRiderId": "r",
        "address": {"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0}});
    let (status, session) = client
        .request(
            "/v1/sessions/start",
            Some(&start.to_string()),
            key.as_deref(),
        )
        .await;
    assert_eq!(status, 201, "{session}");
    if stopped {
        let stop = json!({"sessionId": session["sessionId"]}).to_string();
        let answer = client.request("/v1/sessions/stop", Some(&stop), None);
        assert_eq!(answer.await.0, 200);
    }
}
