//! Tests the service on a database in two data centres. The service refuses a replication with
//! which answers could be wrong, and a cut link between the data centres loses nothing in the one
//! that it names.
//!
//! Each data centre has one node of Cassandra and one replica of each row. Proxies carry the
//! connections between the two nodes, and are cut. The service still reaches both: if it sent a
//! statement to the other data centre, that one would confirm it, and the named one would lack it.
//!
//! Run by `PORCHLIGHT_TEST_NODES=1 cargo test --workspace --test it cluster::data_centers::`, as
//! `.ci/run` does, and skipped otherwise.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use porchlight_store::cql::{CqlStore, Refusal};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use serde_json::Value;

use super::wires::Link;
use crate::cql::{check_journal_in, missing, open_as_command};
use crate::cql_process::{borrowed, node, variables_of};
use crate::cql_server::CqlServer;
use crate::crash::{assert_reference_insights, insights};
use crate::nodes::{are_requested, server_url, wait_until_settled};
use crate::phone::{Client, OpenDelivery, Sent};
use crate::secured::refused;
use crate::server::{Folder, Server, block_on};

/// The data centre that the service names.
const NAMED: &str = "dc1";
/// The data centre that is cut off.
const OTHER: &str = "dc2";
/// The replication of a keyspace with a replica in each data centre.
const REPLICATION_IN_BOTH: &str = "{'class': 'NetworkTopologyStrategy', 'dc1': '1', 'dc2': '1'}";
/// The number of deliveries in each stage of the cut.
const PHONES: u64 = 6;
/// The timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(180);
/// The time for which the test watches the other data centre catch up.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a statement that needs both data centres.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);

/// A database in two data centres, and the link between them. Dropping the value ends the database.
struct DataCenters {
    database: CqlServer,
    link: Link,
    _wiring: tokio::runtime::Runtime,
}

impl DataCenters {
    /// Starts the database. Returns `None` if the tests of several nodes are not requested, or if
    /// no database can be started.
    fn start() -> Option<Self> {
        if !are_requested() {
            return None;
        }
        let wiring = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let link = Link::new();
        let database = CqlServer::start_in_data_centers(&[NAMED, OTHER], |dialled, listens| {
            wiring.block_on(link.start_proxy(dialled, listens));
        })?;
        Some(Self {
            database,
            link,
            _wiring: wiring,
        })
    }

    /// Connects to the named data centre.
    async fn session(&self) -> Session {
        SessionBuilder::new()
            .known_node(&self.database.nodes[0])
            .prefer_datacenter(NAMED.to_owned())
            .build()
            .await
            .unwrap()
    }

    /// Creates a keyspace with this replication. Returns the variables of a process that stores in
    /// it and names this data centre.
    fn variables(
        &self,
        folder: &Path,
        replication: &str,
        named: Option<&str>,
    ) -> Vec<(&'static str, String)> {
        let mut variables = variables_of(&self.database, folder);
        let keyspace = &variables[2].1;
        let statement = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}");
        block_on(async {
            let created = self.session().await.query_unpaged(statement, ()).await;
            created.unwrap();
        });
        let named = named.map(|name| ("PORCHLIGHT__STORE__CQL__DATACENTER", name.to_owned()));
        variables.extend(named);
        variables
    }

    /// Waits until the named data centre has noticed the cut: it refuses a statement that needs the
    /// other one, instead of waiting for an answer.
    async fn wait_until_noticed(&self, keyspace: &str) {
        let session = self.session().await;
        let query = format!("SELECT number FROM {keyspace}.schema_migrations");
        let mut statement = Statement::new(query);
        statement.set_consistency(Consistency::All);
        statement.set_request_timeout(Some(STATEMENT_TIMEOUT));
        let began = Instant::now();
        loop {
            let answer = session.query_unpaged(statement.clone(), ()).await;
            if let Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::Unavailable { .. },
                _,
            ))) = &answer
            {
                return;
            }
            assert!(
                began.elapsed() < STEP_TIMEOUT,
                "not noticed: {:?}",
                answer.err()
            );
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
}

/// Starts a delivery, and sends the first half of its batches.
async fn begin(client: &Client, number: u64) -> OpenDelivery {
    let mut open = client.begin(number).await;
    let half = open.batches.len() / 2;
    client.send_next(&mut open, half, Duration::ZERO).await;
    open
}

/// Sends the other batches of a delivery, and stops its session.
async fn finish(client: &Client, mut open: OpenDelivery) -> Sent {
    client
        .send_next(&mut open, usize::MAX, Duration::ZERO)
        .await;
    client.finish(open).await
}

/// Sends the deliveries of these numbers at the same time.
async fn send(client: &Client, numbers: Range<u64>) -> Vec<Sent> {
    join_all(numbers.map(|number| client.send(number, Duration::ZERO))).await
}

fn batches(sent: &[Sent]) -> usize {
    sent.iter().map(|sent| sent.acknowledged.len()).sum()
}

/// Prints the number of batches that the other data centre lacks once it has caught up, or after a
/// while. The service promises nothing about that data centre: the database's hints and repairs
/// complete it.
async fn report_catch_up(there: &CqlStore, sent: &[Sent]) {
    let began = Instant::now();
    loop {
        let lacking = missing(there, sent).await.len();
        let passed = began.elapsed();
        if lacking == 0 || passed > CATCH_UP_TIMEOUT {
            let all = batches(sent);
            println!(
                "{passed:.0?} after the link was joined, {OTHER} lacks {lacking} of {all} batches"
            );
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Sends deliveries before, during and after a cut of the link. Returns all insights. Asserts that
/// every acknowledged batch is in the named data centre, and that nothing crosses the cut link.
async fn send_across_a_cut(
    data_centers: &DataCenters,
    keyspace: &str,
    client: &Client,
) -> BTreeMap<u64, Value> {
    let database = &data_centers.database;
    let named = open_as_command(database, keyspace, Some(NAMED)).await;
    let other = open_as_command(database, keyspace, Some(OTHER)).await;
    let open = join_all((0..PHONES).map(|number| begin(client, number))).await;

    data_centers.link.cut().await;
    let mut during = send(client, PHONES..2 * PHONES).await;
    data_centers.wait_until_noticed(keyspace).await;
    during.extend(send(client, 2 * PHONES..3 * PHONES).await);
    let finishing = open.into_iter().map(|open| finish(client, open));
    let mut sent = join_all(finishing).await;
    // Nothing of these sessions was sent before the cut.
    assert_eq!(missing(&other, &during).await.len(), batches(&during));
    sent.extend(during);
    check_journal_in(&named, &sent).await;
    let found_during = insights(client, &sent).await;

    data_centers.link.restore();
    sent.extend(send(client, 3 * PHONES..4 * PHONES).await);
    let found = insights(client, &sent).await;
    for (number, insight) in &found_during {
        assert_eq!(&found[number], insight, "the insight of delivery {number}");
    }
    report_catch_up(&other, &sent).await;
    check_journal_in(&named, &sent).await;
    found
}

#[test]
fn a_database_in_two_data_centers_without_a_named_replica_is_refused() {
    let Some(data_centers) = DataCenters::start() else {
        return;
    };
    let folder = Folder::new();
    let both = || format!("{NAMED}, {OTHER}");
    let in_named = "{'class': 'NetworkTopologyStrategy', 'dc1': '1'}";
    let on_the_ring = "{'class': 'SimpleStrategy', 'replication_factor': '2'}";
    let no_replicas = |named: &str, present: String| Refusal::NoReplicas {
        named: named.to_owned(),
        present,
    };
    for (replication, named, refusal) in [
        (REPLICATION_IN_BOTH, None, Refusal::NoneNamed(both())),
        (REPLICATION_IN_BOTH, Some("dc3"), no_replicas("dc3", both())),
        (in_named, Some(OTHER), no_replicas(OTHER, NAMED.to_owned())),
        (on_the_ring, None, Refusal::SimpleStrategy(both())),
        (on_the_ring, Some(NAMED), Refusal::SimpleStrategy(both())),
    ] {
        let variables = data_centers.variables(folder.path(), replication, named);
        let output = refused(&folder, &borrowed(&variables));
        assert!(output.contains(&refusal.to_string()), "{output}");
    }
}

#[test]
fn a_cut_between_data_centers_loses_nothing_in_the_named_one() {
    let Some(data_centers) = DataCenters::start() else {
        return;
    };
    let folders = [Folder::new(), Folder::new()];
    let shared = data_centers.variables(folders[0].path(), REPLICATION_IN_BOTH, Some(NAMED));
    let [of_first, of_second] =
        [&folders[0], &folders[1]].map(|folder| node(&shared, folder.path()));
    let first = Server::start(&folders[0], &borrowed(&of_first));
    let key = first.key("secret");
    let second = Server::start(&folders[1], &borrowed(&of_second));
    block_on(wait_until_settled(&[&first, &second]));
    let client = Client::with_nodes(&[server_url(&first), server_url(&second)], &key);
    let found = block_on(send_across_a_cut(&data_centers, &shared[2].1, &client));
    for server in [first, second] {
        server.stop();
    }
    // Stops the database, so that the one node has the machine for itself.
    drop(data_centers);
    assert_eq!(found.len() as u64, 4 * PHONES);
    assert_reference_insights(&found);
}
