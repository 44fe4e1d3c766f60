//! Measures a stream of sessions: each is started, stopped and scored, and sends three messages,
//! without telemetry; first on the embedded store, for a third of the time, and then on one node of
//! Cassandra.
//!
//! `PORCHLIGHT_BIN=target/release/porchlight cargo test --test it cluster::stream -- --ignored
//! --nocapture`

use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::json;

use super::arrivals::{
    Arrivals, begin_sessions, insight_delays, lags, median_and_p99, processor_sec, receiver, take,
};
use super::fleet::number_of;
use crate::cql_process::{borrowed, variables_of};
use crate::cql_server::CqlServer;
use crate::phone::Client;
use crate::receiver::Authority;
use crate::server::{Folder, Server, block_on};

/// The default of `PORCHLIGHT_CLUSTER_STARTS`.
const STARTS_PER_SEC: u64 = 20;
/// The default of `PORCHLIGHT_CLUSTER_MINUTES`.
const MINUTES: u64 = 9;
/// The duration of one line of the table of results.
const WINDOW: Duration = Duration::from_secs(90);
/// The time for the last messages to arrive.
const REST: Duration = Duration::from_secs(15);

/// Processor time and statements so far.
struct Usage {
    ours_sec: f64,
    database_sec: f64,
    statements: f64,
    lightweight: f64,
    rows: f64,
}

impl Usage {
    async fn read(server: &Server, database: Option<u32>) -> Self {
        let total = async |name: &str| server.metric(name).await.unwrap_or(0.0);
        Self {
            ours_sec: processor_sec(server.pid()),
            database_sec: database.map_or(0.0, processor_sec),
            statements: total("porchlight_store_statements_total").await,
            lightweight: total("porchlight_store_lightweight_total").await,
            rows: total("porchlight_store_rows_read_total").await,
        }
    }
}

/// Measures one window, and prints a line of the table.
async fn window(
    server: &Server,
    database: Option<u32>,
    client: &Client,
    arrivals: &Arrivals,
    per_sec: u32,
) {
    let before = Usage::read(server, database).await;
    let mut sessions = begin_sessions(client.clone(), per_sec, WINDOW).await;
    let after = Usage::read(server, database).await;
    let (arrived, unfinished) = (take(arrivals), sessions.len());
    let count = f64::from(per_sec) * WINDOW.as_secs_f64();
    println!(
        "| {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {unfinished} |",
        arrived.len(),
        median_and_p99(lags(&arrived)),
        median_and_p99(insight_delays(&arrived)),
        (after.ours_sec - before.ours_sec) * 1_000.0 / count,
        (after.database_sec - before.database_sec) * 1_000.0 / count,
        (after.statements - before.statements) / count,
        (after.lightweight - before.lightweight) / count,
        (after.rows - before.rows) / count,
    );
    while let Some(done) = sessions.join_next().await {
        done.unwrap();
    }
}

/// Measures a server with these variables.
fn measure(
    name: &str,
    authority: &Authority,
    mut variables: Vec<(&'static str, String)>,
    database: Option<u32>,
    minutes: u64,
) {
    let per_sec = number_of("PORCHLIGHT_CLUSTER_STARTS", STARTS_PER_SEC);
    let per_sec = u32::try_from(per_sec).unwrap();
    let trusted = authority.file.to_str().unwrap().to_owned();
    variables.push(("PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE", trusted));
    let local = "127.0.0.0/8,::1/128".to_owned();
    variables.push(("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", local));
    let folder = Folder::new();
    let server = Server::start(&folder, &borrowed(&variables));
    let place = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&place, &server.key("secret"));
    block_on(async {
        let (receiver, arrivals) = receiver(authority).await;
        let body = json!({ "url": receiver.local_url() }).to_string();
        let registered = client.request("/v1/webhooks", Some(&body), None);
        assert_eq!(registered.await.0, 201);
        println!("{name}, {per_sec} sessions per second, a line for each {WINDOW:?}");
        println!(
            "| messages | lag, p50 and p99, ms | insight after the stop, p50 and p99, ms | our processor time for a session, ms | \
             of the database, ms | statements | lightweight transactions | rows read | unfinished requests |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        for _ in 0..(minutes * 60).div_ceil(WINDOW.as_secs()) {
            window(&server, database, &client, &arrivals, per_sec).await;
        }
        tokio::time::sleep(REST).await;
        println!("{} messages arrived later", take(&arrivals).len());
    });
    server.stop();
}

#[test]
#[ignore = "it measures: on a quiet machine, with a release build"]
fn measure_sessions_without_telemetry_on_both_stores() {
    let authority = Authority::new();
    let unlimited = vec![("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0".to_owned())];
    let minutes = number_of("PORCHLIGHT_CLUSTER_MINUTES", MINUTES);
    measure("embedded", &authority, unlimited, None, minutes.div_ceil(3));
    let Some(database) = CqlServer::start_nodes(1) else {
        return;
    };
    let folder = Folder::new();
    let variables = variables_of(&database, folder.path());
    let pid = database.started[0].pid();
    measure("Cassandra", &authority, variables, Some(pid), minutes);
}
