//! A CQL server for the tests: the one named by `PORCHLIGHT_TEST_CQL`, or Apache Cassandra, started
//! here from the jars named by `pom.xml`. It is started once per test binary, on its own loopback
//! addresses, with a fresh data folder. It always ends with the test process: a separate shell
//! waits on a pipe whose other end only the test process has.
//!
//! | variable | meaning |
//! |---|---|
//! | `PORCHLIGHT_TEST_CQL` | `host:port` of a running ScyllaDB or Cassandra; several with commas |
//! | `PORCHLIGHT_TEST_CQL_REPLICATION` | the replication factor for keyspaces there; 1 |
//! | `PORCHLIGHT_TEST_CQL_NODES` | the number of Cassandra nodes to start if no server is named: 1 (the default) or 3 |
//! | `PORCHLIGHT_TEST_CQL_MEASURED` | if set, the nodes started here run as in operation: optimized code, 1.5 GB of heap, a periodic sync |
//! | `PORCHLIGHT_TEST_CQL_REQUIRED` | if set, an unavailable server fails the tests instead of skipping them |

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use scylla::client::session_builder::SessionBuilder;

use crate::cql_command::{Users, node_command};
use crate::cql_site::{Site, write_files};

/// The folder of the server, named by its version as in `pom.xml`.
const CASSANDRA_FOLDER: &str = "cassandra-5.0.6";
/// The start timeout. Generous, for a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum number of starts of a node that ends by itself: after these the cause is permanent.
const STARTS_MAX: u32 = 5;
/// A node that was started here. Dropping the value kills the node.
#[derive(Debug)]
pub struct Node {
    /// The address of the node as `host:port`.
    pub address: String,
    folder: PathBuf,
    keeper: Mutex<Child>,
}

/// Returns whether all threads of a process are stopped.
fn has_stopped(pid: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread that ended in the meantime has no state any more.
    let states =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    // The state follows the name, which is in parentheses.
    let is_stopped = |stat: String| {
        let state = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, Some(Some('T' | 'Z' | 'X')))
    };
    states.into_iter().all(is_stopped)
}

impl Node {
    /// Sends the node a signal, such as `-STOP`. After `-STOP` it returns when no thread of the
    /// node runs any more: the kernel stops them one after the other, and one that still runs may
    /// answer a request.
    pub fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
        while signal == "-STOP" && !has_stopped(&pid) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn command(&self, word: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        writeln!(keeper.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    /// Returns the process id of the running node.
    pub fn pid(&self) -> u32 {
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap();
        pid.trim().parse().unwrap()
    }

    /// Kills the node immediately; the data on its disk remains.
    pub fn kill(&self) {
        self.command("kill");
        while self.folder.join("pid").exists() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Starts a killed node, and waits until it accepts connections.
    pub fn start(&self) {
        self.command("start");
        self.wait().unwrap();
    }

    /// Returns whether the server has ended by itself. A zombie still has a process id, but no
    /// command line.
    fn has_ended(&self) -> bool {
        std::fs::read_to_string(self.folder.join("pid")).is_ok_and(|pid| {
            let process = Path::new("/proc").join(pid.trim());
            std::fs::read(process.join("cmdline")).map_or(true, |line| line.is_empty())
        })
    }

    /// Waits until the node accepts connections, which it does once it can serve them. At its start
    /// it gives the others two seconds to answer, and ends if they do not: on a busy machine it is
    /// started again.
    fn wait(&self) -> Result<(), String> {
        let (began, mut starts) = (Instant::now(), 1);
        while TcpStream::connect(&self.address).is_err() {
            let has_ended = self.has_ended();
            if has_ended && starts < STARTS_MAX {
                starts += 1;
                self.kill();
                self.command("start");
            } else if has_ended || began.elapsed() > START_TIMEOUT {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                let tail: Vec<_> = log.lines().rev().take(20).collect();
                return Err(format!("Cassandra did not start: {tail:#?}"));
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// A server that is to be started.
struct Plan<'a> {
    /// The folder of the jars.
    libraries: &'a Path,
    sites: &'a [Site],
    /// The start of the names of the nodes' folders, unique in this process.
    name: &'a str,
    /// Additional lines of `cassandra.yaml`.
    settings: &'a str,
    users: Users,
}

impl<'a> Plan<'a> {
    fn dedicated(libraries: &'a Path, sites: &'a [Site], name: &'a str, settings: &'a str) -> Self {
        Self {
            libraries,
            sites,
            name,
            settings,
            users: Users::Dedicated,
        }
    }
}

/// A running CQL server.
#[derive(Debug)]
pub struct CqlServer {
    /// The nodes of the server, each as `host:port`.
    pub nodes: Vec<String>,
    /// The replication factor for keyspaces.
    pub replication_factor: u32,
    /// The nodes that were started here.
    pub started: Vec<Node>,
}

impl CqlServer {
    /// Returns the server of this test binary. If none is available, prints the reason and returns
    /// `None`.
    pub fn get() -> Option<&'static Self> {
        static SERVER: OnceLock<Result<CqlServer, String>> = OnceLock::new();
        or_skip(SERVER.get_or_init(Self::find).as_ref())
    }

    /// Returns a keyspace name that no other run uses.
    pub fn fresh_keyspace() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("test_{}_{}_{number}", now.as_secs(), std::process::id())
    }

    /// Returns the node, if it is the only one and was started here.
    pub fn only_node(&self) -> Option<&Node> {
        match self.started.as_slice() {
            [node] => Some(node),
            _ => None,
        }
    }

    /// Starts a server with a dedicated single node and these additional settings. Returns `None`
    /// if no server can be started. It accepts connections before it authenticates clients.
    pub fn start_with_settings(settings: impl FnOnce(&str) -> String) -> Option<Self> {
        let libraries = or_skip(libraries())?;
        let (hosts, name) = next_hosts(1);
        let sites = [Site::at(&hosts[0])];
        let settings = settings(&hosts[0]);
        Some(Self::started(&Plan::dedicated(libraries, &sites, &name, &settings)).unwrap())
    }

    /// Starts a separate server with `count` nodes. Returns `None` if no server can be started.
    pub fn start_nodes(count: u32) -> Option<Self> {
        let libraries = or_skip(libraries())?;
        let (hosts, name) = next_hosts(count);
        let sites: Vec<_> = hosts.iter().map(|host| Site::at(host)).collect();
        let server = Self::started(&Plan::dedicated(libraries, &sites, &name, "")).unwrap();
        decide_once(&server.nodes, &copies(count)).unwrap();
        Some(server)
    }

    /// Starts a separate server with one node in each of these data centres. Returns `None` if no
    /// server can be started.
    ///
    /// The nodes reach each other through proxies: `start_proxy` gets the address that the others
    /// dial and the address at which the node listens, and forwards between them. Clients connect
    /// to the nodes directly.
    pub fn start_in_data_centers(
        names: &[&str],
        mut start_proxy: impl FnMut(SocketAddr, SocketAddr),
    ) -> Option<Self> {
        let libraries = or_skip(libraries())?;
        let (addresses, name) = next_hosts(u32::try_from(2 * names.len()).unwrap());
        let (hosts, dialled) = addresses.split_at(names.len());
        let places = names.iter().zip(hosts.iter().zip(dialled));
        let sites: Vec<_> = places
            .map(|(data_center, (host, dialled))| Site {
                host: host.clone(),
                dialled: dialled.clone(),
                data_center: (*data_center).to_owned(),
            })
            .collect();
        for site in &sites {
            let (dialled, listens) = site.addresses();
            start_proxy(dialled, listens);
        }
        let server = Self::started(&Plan::dedicated(libraries, &sites, &name, "")).unwrap();
        let replicas: Vec<_> = names.iter().map(|name| format!("'{name}': '1'")).collect();
        decide_once(&server.nodes, &replicas.join(", ")).unwrap();
        Some(Self {
            replication_factor: 1,
            ..server
        })
    }

    fn started(plan: &Plan<'_>) -> Result<Self, String> {
        let begin = |index| start(plan, index);
        // The first node starts alone, because the others contact it.
        let first = begin(0)?;
        first.wait()?;
        let others: Result<Vec<_>, _> = (1..plan.sites.len()).map(begin).collect();
        let mut started = vec![first];
        started.extend(others?);
        for node in &started {
            node.wait()?;
        }
        Ok(Self {
            nodes: started.iter().map(|node| node.address.clone()).collect(),
            replication_factor: u32::try_from(started.len()).unwrap_or(1),
            started,
        })
    }

    fn find() -> Result<Self, String> {
        if let Ok(nodes) = std::env::var("PORCHLIGHT_TEST_CQL") {
            let factor = std::env::var("PORCHLIGHT_TEST_CQL_REPLICATION");
            return Ok(Self {
                nodes: nodes.split(',').map(str::to_owned).collect(),
                replication_factor: factor.map_or(1, |factor| factor.parse().unwrap()),
                started: Vec::new(),
            });
        }
        let count = std::env::var("PORCHLIGHT_TEST_CQL_NODES");
        let count = count.map_or(1, |count| count.parse().unwrap());
        let libraries = libraries().map_err(Clone::clone)?;
        let network = network();
        let hosts = (1..=count).map(|n| format!("{network}.{n}"));
        let sites: Vec<_> = hosts.map(|host| Site::at(&host)).collect();
        let server = Self::started(&Plan {
            users: Users::Shared,
            ..Plan::dedicated(libraries, &sites, "", "")
        })?;
        decide_once(&server.nodes, &copies(count))?;
        Ok(server)
    }
}

/// Returns the found value. Without one, prints the reason, or fails the test if a server is
/// required.
fn or_skip<T>(found: Result<T, &String>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(reason) => {
            assert!(
                std::env::var_os("PORCHLIGHT_TEST_CQL_REQUIRED").is_none(),
                "the tests against a CQL server cannot run: {reason}"
            );
            eprintln!("skipped, because no CQL server is available: {reason}");
            None
        }
    }
}

/// Returns addresses that no other server of this process uses, and a name for them.
fn next_hosts(count: u32) -> (Vec<String>, String) {
    static NEXT: AtomicU32 = AtomicU32::new(9);
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    let network = network();
    let hosts = (first..first + count).map(|n| format!("{network}.{n}"));
    (hosts.collect(), format!("{first}-"))
}

/// Returns the first three bytes of this process's loopback addresses, so that parallel runs do not
/// collide: all of 127.0.0.0/8 is this machine.
fn network() -> String {
    let process = std::process::id();
    format!("127.{}.{}", 100 + (process >> 8) % 100, process & 0xff)
}

/// Returns the folder of the server's jars, and fetches them if they are missing.
fn libraries() -> Result<&'static Path, &'static String> {
    static LIBRARIES: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = LIBRARIES.get_or_init(fetched_libraries);
    found.as_ref().map(PathBuf::as_path)
}

fn fetched_libraries() -> Result<PathBuf, String> {
    let cache = crate::target::folder().join("tmp").join(CASSANDRA_FOLDER);
    let (libraries, fetched) = (cache.join("lib"), cache.join("fetched"));
    if std::env::var_os("PATH").is_none() || !answers("java") {
        return Err("there is no Java".to_owned());
    }
    if fetched.exists() {
        return Ok(libraries);
    }
    if !answers("mvn") {
        return Err("there is no Maven".to_owned());
    }
    let output = format!("-DoutputDirectory={}", libraries.display());
    let fetching = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../cql/pom.xml"))
        .args(["dependency:copy-dependencies", "-DincludeScope=runtime"])
        .arg(output)
        .output()
        .map_err(|error| error.to_string())?;
    if !fetching.status.success() {
        let output = String::from_utf8_lossy(&fetching.stdout);
        return Err(format!("Maven cannot fetch the server: {output}"));
    }
    std::fs::write(fetched, "").map_err(|error| error.to_string())?;
    Ok(libraries)
}

fn answers(program: &str) -> bool {
    let mut asking = Command::new(program);
    asking.arg("-version").stdout(Stdio::null());
    asking
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Starts the process of one node of a server, whose site has this index.
fn start(plan: &Plan<'_>, index: usize) -> Result<Node, String> {
    let sites = plan.sites;
    let name = format!("porchlight-cql-{}-{}{index}", std::process::id(), plan.name);
    let folder = std::env::temp_dir().join(name);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let is_measured = std::env::var_os("PORCHLIGHT_TEST_CQL_MEASURED").is_some();
    write_files(&folder, sites, index, is_measured, plan.settings).map_err(failed)?;
    let mut command = node_command(&folder, plan.libraries, plan.users, is_measured);
    let child = command.stdin(Stdio::piped()).spawn().map_err(failed)?;
    Ok(Node {
        address: format!("{}:9042", sites[index].host),
        folder,
        keeper: Mutex::new(child),
    })
}

/// Returns the replication of a keyspace that has this many copies in each data centre.
fn copies(count: u32) -> String {
    format!("'replication_factor': '{count}'")
}

/// Waits until the nodes have made a common decision in a keyspace with this replication: they
/// accept connections before they have met each other, and the first decision waits for tables and
/// connections that are only then created.
fn decide_once(nodes: &[String], replication: &str) -> Result<(), String> {
    let (nodes, keyspace) = (nodes.to_vec(), CqlServer::fresh_keyspace());
    let replication = replication.to_owned();
    let deciding = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(decide(&nodes, &keyspace, &replication))
    });
    deciding.join().map_err(|_panic| "panicked".to_owned())?
}

async fn decide(nodes: &[String], keyspace: &str, replication: &str) -> Result<(), String> {
    let statements = [
        format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', {replication}}}"
        ),
        format!("CREATE TABLE IF NOT EXISTS {keyspace}.met (id int PRIMARY KEY)"),
        format!("INSERT INTO {keyspace}.met (id) VALUES (1) IF NOT EXISTS"),
        format!("DROP KEYSPACE {keyspace}"),
    ];
    let began = Instant::now();
    loop {
        let decided = async {
            let session = SessionBuilder::new().known_nodes(nodes).build().await;
            let session = session.map_err(|error| error.to_string())?;
            for statement in &statements {
                let answer = session.query_unpaged(statement.as_str(), ()).await;
                answer.map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        match decided.await {
            Err(reason) if began.elapsed() > START_TIMEOUT => return Err(reason),
            Err(_not_yet) => tokio::time::sleep(Duration::from_millis(500)).await,
            decided => return decided,
        }
    }
}
