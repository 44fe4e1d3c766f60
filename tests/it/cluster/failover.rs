//! Measures the time from the loss of a node until its sessions run again.
//!
//! `PORCHLIGHT_BIN=target/release/porchlight cargo test --release --test it cluster::failover --
//! --ignored --nocapture`

use std::time::{Duration, Instant};

use serde_json::json;

use super::nodes::{Nodes, SHARDS};
use crate::phone::Client;
use crate::receiver::Authority;
use crate::server::block_on;

/// The default of `PORCHLIGHT_CLUSTER_SESSIONS`: the sessions in progress on all nodes together.
/// The lost node has about a third of them.
const SESSIONS: usize = 6_000;
/// The number of sessions started at the same time.
const AT_ONCE: usize = 32;
/// The number of batches of each session.
const BATCHES: u32 = 3;
/// The timeout of each step, longer than any failover.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

async fn begin(client: Client) {
    let start = json!({"deliveryId": "d", "externalRiderId": "r",
        "address": {"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0}});
    let start = start.to_string();
    let started = client.request("/v1/sessions/start", Some(&start), None);
    let (status, session) = started.await;
    assert_eq!(status, 201, "{session}");
    let id = session["sessionId"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}/telemetry");
    for seq in 0..BATCHES {
        let samples: Vec<_> = (0..60)
            .map(|second| {
                let t = f64::from(seq * 60 + second);
                json!({"kind": "location", "t": t, "lat": 1.0 + t * 1e-5, "lng": 2.0, "accuracyM": 5.0})
            })
            .collect();
        let batch = json!({"seq": seq, "samples": samples}).to_string();
        let answer = client.request(&path, Some(&batch), None).await;
        assert_eq!(answer.0, 202, "{}", answer.1);
    }
}

async fn fill(client: &Client, sessions: usize) {
    let starting: Vec<_> = (0..sessions).map(|_| begin(client.clone())).collect();
    let starting = futures_util::stream::iter(starting);
    let mut starting = futures_util::StreamExt::buffer_unordered(starting, AT_ONCE);
    while futures_util::StreamExt::next(&mut starting).await.is_some() {}
}

#[test]
#[ignore = "it measures: on a quiet machine, with a release build"]
fn the_sessions_of_a_lost_node_run_again() {
    let Some(mut cluster) = Nodes::start(&Authority::new()) else {
        return;
    };
    let sessions = std::env::var("PORCHLIGHT_CLUSTER_SESSIONS");
    let sessions = sessions.map_or(SESSIONS, |sessions| sessions.parse().unwrap());
    let client = cluster.client();
    block_on(fill(&client, sessions));
    let live = "porchlight_sessions_live";
    assert_eq!(block_on(cluster.sum(live)) as usize, sessions);
    cluster.kill(0);
    let lost = Instant::now();
    let left = block_on(async {
        let left = [
            cluster.sum("porchlight_cluster_shards_owned").await,
            cluster.sum(live).await,
        ];
        let (mut first, mut claimed) = (None, None);
        loop {
            let owned = cluster.sum("porchlight_cluster_shards_owned").await;
            if owned > left[0] {
                first.get_or_insert(lost.elapsed());
            }
            if owned as usize == SHARDS {
                claimed.get_or_insert(lost.elapsed());
            }
            if cluster.sum(live).await as usize == sessions && claimed.is_some() {
                break;
            }
            assert!(
                lost.elapsed() < STEP_TIMEOUT,
                "the sessions of the lost node do not run"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (all, first) = (lost.elapsed().as_secs_f64(), first.unwrap().as_secs_f64());
        println!(
            "lost {} of {SHARDS} shards and {} of {sessions} sessions; the first shard was claimed after {first:.1} s, \
             the last after {:.1} s, all sessions ran after {all:.1} s: {first:.1} s of detection, {:.1} s of restoring",
            SHARDS - left[0] as usize,
            sessions - left[1] as usize,
            claimed.unwrap().as_secs_f64(),
            all - first,
        );
        left
    });
    assert!((left[1] as usize) < sessions, "the node had none");
}
