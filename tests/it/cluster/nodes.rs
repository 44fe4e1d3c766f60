//! The nodes of a cluster: processes, each behind a proxy, on their own database.

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use scylla::client::session_builder::SessionBuilder;

use super::wires::Wires;
use crate::cql_process::variables_of;
use crate::cql_server::CqlServer;
use crate::free_address::free_address;
use crate::phone::{Client, ServerUrl};
use crate::receiver::Authority;
use crate::server::{Folder, Server, block_on};

/// The number of nodes.
pub(super) const NODES: usize = 3;
/// The number of shards of a cluster: `SHARDS` of `porchlight_schema::limits`.
pub(super) const SHARDS: usize = 256;
/// The timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(180);
/// The time without a move after which no shard moves any more: a node that has joined receives its
/// shards after 4 s.
const REST_TIME: Duration = Duration::from_secs(8);

/// A node, running or not.
struct Node {
    folder: Folder,
    url: ServerUrl,
    variables: Vec<(&'static str, String)>,
    server: Option<Server>,
}

/// A cluster, which ends with its database when this is dropped.
pub(super) struct Nodes {
    nodes: Vec<Node>,
    pub(super) wires: Arc<Wires>,
    pub(super) database: CqlServer,
    pub(super) keyspace: String,
    pub(super) key: String,
    _wiring: tokio::runtime::Runtime,
    _folder: Folder,
}

fn secret_file(folder: &Path) -> String {
    let file = folder.join("cluster-secret");
    std::fs::write(&file, "c1".repeat(32)).unwrap();
    file.to_str().unwrap().to_owned()
}

impl Nodes {
    /// Starts all nodes on a new keyspace, and waits until all shards are owned. Returns `None` if
    /// there is no database.
    pub(super) fn start(authority: &Authority) -> Option<Self> {
        let count = std::env::var("PORCHLIGHT_CLUSTER_CQL_NODES");
        let database = CqlServer::start_nodes(count.map_or(1, |count| count.parse().unwrap()))?;
        let folder = Folder::new();
        let wiring = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let wires = Wires::new(NODES);
        let base = variables_of(&database, folder.path());
        let keyspace = base[2].1.clone();
        let secret = secret_file(folder.path());
        // Nodes are restarted after the caller has dropped the authority.
        let trusted = folder.path().join("trusted.pem");
        std::fs::copy(&authority.file, &trusted).unwrap();
        let nodes = (0..NODES).map(|number| {
            let listens = free_address();
            let before = Arc::clone(&wires).start_proxy(number, listens);
            let advertise = wiring.block_on(before);
            let mut variables = base.clone();
            variables.extend([
                ("PORCHLIGHT__CLUSTER__ADVERTISE", advertise),
                ("PORCHLIGHT__CLUSTER__LISTEN", listens.to_string()),
                ("PORCHLIGHT__CLUSTER__SECRET_FILE", secret.clone()),
                (
                    "PORCHLIGHT__SERVER__PUBLIC_URL",
                    "https://api.example.com".to_owned(),
                ),
                (
                    "PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES",
                    "127.0.0.0/8,::1/128".to_owned(),
                ),
                (
                    "PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE",
                    trusted.to_str().unwrap().to_owned(),
                ),
            ]);
            Node {
                folder: Folder::new(),
                url: Arc::new(RwLock::new("http://127.0.0.1:1".to_owned())),
                variables,
                server: None,
            }
        });
        let mut cluster = Self {
            nodes: nodes.collect(),
            wires,
            database,
            keyspace,
            key: String::new(),
            _wiring: wiring,
            _folder: folder,
        };
        for number in 0..NODES {
            cluster.start_node(number);
        }
        cluster.key = cluster.server(0).key("secret");
        cluster.wait_until_settled();
        Some(cluster)
    }

    pub(super) fn server(&self, number: usize) -> &Server {
        self.nodes[number].server.as_ref().unwrap()
    }

    /// Starts a node that is not running.
    pub(super) fn start_node(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let variables = node.variables.iter();
        let variables: Vec<_> = variables
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let server = Server::start(&node.folder, &variables);
        self.wires.set_process(number, Some(server.pid()));
        server.api.clone_into(&mut node.url.write().unwrap());
        node.server = Some(server);
    }

    /// Kills a node with `kill -9`.
    pub(super) fn kill(&mut self, number: usize) {
        self.nodes[number].server.take().unwrap().kill();
        self.wires.set_process(number, None);
    }

    /// Sends SIGTERM to a node, and waits for its end.
    pub(super) fn stop(&mut self, number: usize) {
        self.nodes[number].server.take().unwrap().stop();
        self.wires.set_process(number, None);
    }

    /// Returns a client that calls any node, and the next node if that one does not answer.
    pub(super) fn client(&self) -> Client {
        let urls: Vec<_> = self
            .nodes
            .iter()
            .map(|node| Arc::clone(&node.url))
            .collect();
        Client::with_nodes(&urls, &self.key)
    }

    /// Returns a client that uses one node only.
    pub(super) fn client_of(&self, number: usize) -> Client {
        Client::new(&self.nodes[number].url, &self.key)
    }

    /// Returns the sum of a metric over the running nodes.
    pub(super) async fn sum(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for server in self.nodes.iter().filter_map(|node| node.server.as_ref()) {
            sum += server.metric(metric).await.unwrap_or(0.0);
        }
        sum
    }

    /// Waits until each shard has one owner.
    pub(super) fn wait_until_settled(&self) {
        let began = Instant::now();
        block_on(async {
            loop {
                let owned = self.sum("porchlight_cluster_shards_owned").await;
                if owned as usize == SHARDS {
                    return;
                }
                assert!(
                    began.elapsed() < STEP_TIMEOUT,
                    "{owned} of {SHARDS} shards are owned"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Waits until each shard has one owner and no shard has moved for [`REST_TIME`].
    pub(super) fn wait_until_at_rest(&self) {
        let began = Instant::now();
        let (mut last, mut since) = (Vec::new(), Instant::now());
        while since.elapsed() < REST_TIME {
            self.wait_until_settled();
            let now = block_on(self.generations());
            if now != last {
                (last, since) = (now, Instant::now());
            }
            assert!(began.elapsed() < STEP_TIMEOUT, "shards move");
            std::thread::park_timeout(Duration::from_millis(500));
        }
    }

    /// Waits until a node is ready: it is a member and has received its shards.
    pub(super) fn wait_until_ready(&self, number: usize) {
        let began = Instant::now();
        let url = format!("{}/readyz", self.server(number).ops);
        block_on(async {
            let client = crate::server::http();
            loop {
                let answer = client.get(&url).send().await.unwrap();
                if answer.status() == 200 {
                    return;
                }
                let report = answer.text().await.unwrap();
                assert!(began.elapsed() < STEP_TIMEOUT, "{report}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Returns the number of claims of each shard.
    pub(super) async fn generations(&self) -> Vec<i64> {
        let nodes = &self.database.nodes;
        let session = SessionBuilder::new().known_nodes(nodes).build().await;
        let query = format!(
            "SELECT shard, generation FROM {}.shard_owner",
            self.keyspace
        );
        let rows = session.unwrap().query_unpaged(query, ()).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        let mut generations = vec![0; SHARDS];
        for row in rows.rows::<(i16, i64)>().unwrap() {
            let (shard, generation) = row.unwrap();
            generations[usize::try_from(shard).unwrap()] = generation;
        }
        generations
    }
}
