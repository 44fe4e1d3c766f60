//! Measures a large fleet: 100,000 sessions in progress on three nodes of the service and three of
//! the database, while one tenant receives 30 messages per second for half an hour.
//!
//! The measurement begins when each session has sent its first batch, which costs more than the
//! others.
//!
//! `PORCHLIGHT_TEST_CQL_MEASURED=1 PORCHLIGHT_CLUSTER_CQL_NODES=3
//! PORCHLIGHT_BIN=target/release/porchlight PORCHLIGHT_LOAD=target/release/porchlight-load cargo
//! test --test it cluster::fleet -- --ignored --nocapture`

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use serde_json::json;

use super::arrivals::{
    Arrivals, begin_sessions, insight_delays, lags, median_and_p99, processor_sec, receiver, take,
};
use super::nodes::{NODES, Nodes};
use crate::receiver::Authority;
use crate::server::{block_on, successful};

/// The default of `PORCHLIGHT_CLUSTER_SESSIONS`: the sessions in progress on all nodes together.
const SESSIONS: usize = 100_000;
/// The default of `PORCHLIGHT_CLUSTER_MINUTES`: the duration of the measurement.
const MINUTES: u64 = 30;
/// The default of `PORCHLIGHT_CLUSTER_PERIOD_SEC`: the time between two batches of a session.
const PERIOD_SEC: u64 = 400;
/// The number of sessions that are started and stopped per second. Each sends three messages.
const STARTS_PER_SEC: u32 = 10;
/// The number of lines in the table of results.
const WINDOWS: u32 = 6;
/// The time for the last messages to arrive.
const REST: Duration = Duration::from_secs(30);
/// The timeout of the starts of all sessions.
const STEP_TIMEOUT: Duration = Duration::from_secs(1_800);

/// Returns the number in an environment variable, or the usual one.
pub(super) fn number_of(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |number| number.parse().unwrap())
}

/// Returns the resident memory of a process in MiB.
fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<u64>().unwrap() / 1024
}

/// The counts of the database itself, by view and table.
type Counts = BTreeMap<(&'static str, String), i64>;

/// Reads the counts of statements of all nodes of the database.
async fn counts(cluster: &Nodes) -> Counts {
    const VIEWS: [&str; 4] = [
        "coordinator_read_latency",
        "coordinator_write_latency",
        "local_read_latency",
        "local_write_latency",
    ];
    let mut counts = Counts::new();
    for node in &cluster.database.nodes {
        let only = AllowListHostFilter::new([node.as_str()]).unwrap();
        let session = SessionBuilder::new()
            .known_node(node)
            .host_filter(Arc::new(only));
        let session = session.build().await.unwrap();
        for view in VIEWS {
            let query = format!("SELECT keyspace_name, table_name, count FROM system_views.{view}");
            let rows = session.query_unpaged(query, ()).await.unwrap();
            let rows = rows.into_rows_result().unwrap();
            for row in rows.rows::<(String, String, i64)>().unwrap() {
                let (keyspace, table, count) = row.unwrap();
                if keyspace == cluster.keyspace {
                    *counts.entry((view, table)).or_default() += count;
                }
            }
        }
    }
    counts
}

fn print_growth(before: &Counts, after: &Counts) {
    println!(
        "| table | reads at the coordinator | writes at the coordinator | local reads | local writes |"
    );
    println!("|---|---|---|---|---|");
    let tables: std::collections::BTreeSet<_> = after.keys().map(|(_, table)| table).collect();
    for table in tables {
        let grown = |view: &'static str| {
            let key = (view, table.clone());
            after.get(&key).unwrap_or(&0) - before.get(&key).unwrap_or(&0)
        };
        let numbers = [
            grown("coordinator_read_latency"),
            grown("coordinator_write_latency"),
            grown("local_read_latency"),
            grown("local_write_latency"),
        ];
        if numbers != [0; 4] {
            println!(
                "| {table} | {} | {} | {} | {} |",
                numbers[0], numbers[1], numbers[2], numbers[3]
            );
        }
    }
}

/// Sends batches of many sessions, a share of them to each node.
fn load(cluster: &Nodes, sessions: usize, period: Duration, rounds: u64) -> Vec<Child> {
    let binary = std::env::var_os("PORCHLIGHT_LOAD").unwrap();
    let nodes = (0..NODES).map(|number| {
        let server = cluster.server(number);
        let mut loading = Command::new(&binary);
        loading.args(["live", "--url", &server.api, "--connections", "6"]);
        loading.args(["--pid", &server.pid().to_string()]);
        loading.args(["--sessions", &(sessions / NODES).to_string()]);
        loading.args(["--period", &period.as_secs().to_string()]);
        loading.args(["--rounds", &rounds.to_string()]);
        let loading = loading.env("PORCHLIGHT_KEY", &cluster.key);
        loading.stdout(Stdio::piped()).spawn().unwrap()
    });
    nodes.collect()
}

/// The sums of metrics over the nodes, and the processor time of all processes.
struct Usage {
    batches: f64,
    statements: f64,
    rows: f64,
    listed: f64,
    ours_sec: f64,
    database_sec: f64,
}

impl Usage {
    async fn read(cluster: &Nodes) -> Self {
        let (ours, database) = processes(cluster);
        Self {
            batches: cluster.sum("porchlight_ingest_batches_total").await,
            statements: cluster.sum("porchlight_store_statements_total").await,
            rows: cluster.sum("porchlight_store_rows_read_total").await,
            listed: cluster.sum("porchlight_webhook_rows_listed_total").await,
            ours_sec: ours.iter().copied().map(processor_sec).sum(),
            database_sec: database.iter().copied().map(processor_sec).sum(),
        }
    }
}

/// Returns the process ids of the service's nodes and of the database's.
fn processes(cluster: &Nodes) -> (Vec<u32>, Vec<u32>) {
    let ours = (0..NODES).map(|number| cluster.server(number).pid());
    let database = cluster.database.started.iter();
    (ours.collect(), database.map(|node| node.pid()).collect())
}

/// Starts and stops sessions for one window, and prints a line of the table.
async fn window(cluster: &Nodes, arrivals: &Arrivals, number: u32, duration: Duration) {
    let before = Usage::read(cluster).await;
    let began = Instant::now();
    let mut sessions = begin_sessions(cluster.client(), STARTS_PER_SEC, duration).await;
    let started = sessions.len();
    let after = Usage::read(cluster).await;
    let arrived = take(arrivals);
    let (ours, database) = processes(cluster);
    let memory = |of: &[u32]| -> Vec<u64> { of.iter().copied().map(resident_mib).collect() };
    let sec = began.elapsed().as_secs_f64();
    println!(
        "| {number} | {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:?} | {:?} | {started} |",
        arrived.len(),
        median_and_p99(lags(&arrived)),
        median_and_p99(insight_delays(&arrived)),
        after.batches - before.batches,
        after.statements - before.statements,
        after.rows - before.rows,
        after.listed - before.listed,
        (after.ours_sec - before.ours_sec) / sec,
        (after.database_sec - before.database_sec) / sec,
        memory(&ours),
        memory(&database),
    );
    while let Some(done) = sessions.join_next().await {
        done.unwrap();
    }
}

#[test]
#[ignore = "it measures: on a quiet machine, with a release build"]
fn a_large_fleet_for_half_an_hour() {
    let sessions = number_of("PORCHLIGHT_CLUSTER_SESSIONS", SESSIONS as u64) as usize;
    let minutes = number_of("PORCHLIGHT_CLUSTER_MINUTES", MINUTES);
    let authority = Authority::new();
    let Some(cluster) = Nodes::start(&authority) else {
        return;
    };
    let duration = Duration::from_secs(minutes * 60);
    let period = Duration::from_secs(number_of("PORCHLIGHT_CLUSTER_PERIOD_SEC", PERIOD_SEC));
    let rounds = 2 + duration.as_secs().div_ceil(period.as_secs());
    let loads = load(&cluster, sessions, period, rounds);
    block_on(async {
        let began = Instant::now();
        let expected = sessions / NODES * NODES;
        while (cluster.sum("porchlight_sessions_live").await as usize) < expected {
            assert!(began.elapsed() < STEP_TIMEOUT, "the sessions do not start");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        println!(
            "{expected} sessions started in {:.0} s",
            began.elapsed().as_secs_f64()
        );
        tokio::time::sleep(period).await;
        let (receiver, arrivals) = receiver(&authority).await;
        let body = json!({ "url": receiver.local_url() }).to_string();
        let registered = cluster.client();
        let registered = registered.request("/v1/webhooks", Some(&body), None);
        assert_eq!(registered.await.0, 201);
        let before = counts(&cluster).await;
        println!(
            "| window | messages | lag, p50 and p99, ms | insight after the stop, p50 and p99, ms | batches | statements | rows read | outbox rows read | \
             our cores | cores of the database | our memory, MiB | memory of the database, MiB | unfinished requests |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
        for number in 1..=WINDOWS {
            window(&cluster, &arrivals, number, duration / WINDOWS).await;
        }
        tokio::time::sleep(REST).await;
        println!("{} messages arrived later", take(&arrivals).len());
        print_growth(&before, &counts(&cluster).await);
    });
    for load in loads {
        println!("{}", successful(load.wait_with_output().unwrap()));
    }
}
