//! The rows of a CQL keyspace as written by a release: saved as JSON, and loaded into a keyspace.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use porchlight_store::cql::{CqlOptions, CqlStore, Role};
use porchlight_world::SystemClock;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use serde_json::Value;

use super::contents::{contents, learned_keys};
use super::{RELEASES, assert_same, expected, fixture};
use crate::cql_server::CqlServer;
use crate::server::block_on;

/// Tables that contain only data of a running process.
const LEFT_OUT: [&str; 1] = ["schema_lock"];
/// The table that migrations need before the first of them.
const BOOTSTRAP: &str = "schema_migrations (number int PRIMARY KEY, hash blob)";

/// The rows of each table, in the format of `SELECT JSON`.
pub(crate) type Rows = BTreeMap<String, Vec<Value>>;

/// Opens a session on the test server, without a keyspace.
pub(crate) async fn connect() -> Session {
    let nodes = &CqlServer::get().unwrap().nodes;
    SessionBuilder::new()
        .known_nodes(nodes)
        .build()
        .await
        .unwrap()
}

/// Opens a keyspace without taking part in its service, and brings its tables up to date.
pub(super) async fn open(keyspace: String) -> Arc<CqlStore> {
    let server = CqlServer::get().unwrap();
    let options = CqlOptions {
        nodes: server.nodes.clone(),
        keyspace,
        replication_factor: server.replication_factor,
        datacenter: None,
        user: None,
        tls: None,
        ingest_within: Duration::from_secs(20),
        retention: Duration::from_secs(90 * 86_400),
        session_max: Duration::from_secs(12 * 3_600),
        agreement: porchlight_store::cql::Agreement::default(),
    };
    CqlStore::open(options, Role::LoneCommand, Arc::new(SystemClock))
        .await
        .unwrap()
}

async fn texts(session: &Session, query: String) -> Vec<String> {
    let rows = session.query_iter(query, ()).await.unwrap();
    let rows = rows.rows_stream::<(String,)>().unwrap();
    rows.map_ok(|(text,)| text).try_collect().await.unwrap()
}

/// Returns all rows of a keyspace.
pub(crate) async fn read(keyspace: &str) -> Rows {
    let session = connect().await;
    let query =
        format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    let mut all = Rows::new();
    for table in texts(&session, query).await {
        if !LEFT_OUT.contains(&table.as_str()) {
            let rows = texts(&session, format!("SELECT JSON * FROM {keyspace}.{table}")).await;
            let rows = rows.iter().map(|row| serde_json::from_str(row).unwrap());
            all.insert(table, rows.collect());
        }
    }
    all
}

/// Writes the rows of a keyspace, their tables, and the contents that the store reads from them.
pub(super) async fn write(into: &Path, keyspace: &str) {
    let rows = read(keyspace).await;
    let learned: Vec<_> = rows["learned"]
        .iter()
        .map(|row| {
            row["key"]
                .as_str()
                .unwrap()
                .trim_start_matches("0x")
                .to_owned()
        })
        .collect();
    let store = open(keyspace.to_owned()).await;
    let found = contents(&*store, &learned).await;
    store.close().await;
    let rows = serde_json::to_string_pretty(&rows).unwrap();
    std::fs::write(into.join("cql.json"), rows + "\n").unwrap();
    let found = serde_json::to_string_pretty(&found).unwrap();
    std::fs::write(into.join("cql-contents.json"), found + "\n").unwrap();
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/cql");
    for file in std::fs::read_dir(migrations).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), into.join(file.file_name())).unwrap();
    }
}

/// Creates a keyspace with the tables of a release, and loads its rows.
async fn load(release: &str, keyspace: &str) {
    let session = connect().await;
    let factor = CqlServer::get().unwrap().replication_factor;
    let run = async |text: String| session.query_unpaged(text, ()).await.unwrap();
    run(format!(
        "CREATE KEYSPACE {keyspace} WITH replication = \
         {{'class': 'NetworkTopologyStrategy', 'replication_factor': '{factor}'}}"
    ))
    .await;
    session.use_keyspace(keyspace, false).await.unwrap();
    run(format!("CREATE TABLE {BOOTSTRAP}")).await;
    let mut migrations: Vec<_> = std::fs::read_dir(fixture(release))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "cql"))
        .collect();
    migrations.sort();
    for migration in migrations {
        let text = std::fs::read_to_string(migration).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"));
        let text = lines.collect::<Vec<_>>().join("\n");
        for statement in text
            .split(";\n")
            .filter(|statement| !statement.trim().is_empty())
        {
            run(statement.to_owned()).await;
        }
    }
    session.await_schema_agreement().await.unwrap();
    let rows: Rows = serde_json::from_value(expected(release, "cql.json")).unwrap();
    insert(&session, &rows).await;
}

/// Inserts rows into the tables of the session's keyspace.
async fn insert(session: &Session, rows: &Rows) {
    for (table, rows) in rows {
        let insert = format!("INSERT INTO {table} JSON ?");
        for row in rows {
            session
                .query_unpaged(insert.as_str(), (row.to_string(),))
                .await
                .unwrap();
        }
    }
}

/// Creates a keyspace with the present tables, and restores rows of another one in it.
pub(crate) async fn restore(keyspace: &str, rows: &Rows) {
    open(keyspace.to_owned()).await.close().await;
    let session = connect().await;
    session.use_keyspace(keyspace, false).await.unwrap();
    insert(&session, rows).await;
}

#[test]
fn the_keyspace_of_every_release_reads_the_same() {
    if CqlServer::get().is_none() {
        return;
    }
    for release in RELEASES {
        let keyspace = CqlServer::fresh_keyspace();
        let expected = expected(release, "cql-contents.json");
        let found = block_on(async {
            load(release, &keyspace).await;
            let store = open(keyspace).await;
            let found = contents(&*store, &learned_keys(&expected)).await;
            store.close().await;
            found
        });
        assert_same(release, "cql.json", &found, &expected);
    }
}
