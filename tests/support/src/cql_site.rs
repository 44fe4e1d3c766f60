//! The addresses of a node of Cassandra, and its configuration files.

use std::net::SocketAddr;
use std::path::Path;

/// The port at which nodes talk to each other.
const STORAGE_PORT: u16 = 7000;
/// The data centre of all nodes of a server that has only one.
const ONLY_DATA_CENTER: &str = "datacenter1";
const LOGGING: &str = r#"<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %F:%L %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>"#;

/// The addresses of a node that is to be started, and its data centre.
pub(crate) struct Site {
    /// The address at which the node listens.
    pub(crate) host: String,
    /// The address at which the other nodes dial it.
    pub(crate) dialled: String,
    pub(crate) data_center: String,
}

impl Site {
    /// Returns the site of a node that others dial where it listens.
    pub(crate) fn at(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            dialled: host.to_owned(),
            data_center: ONLY_DATA_CENTER.to_owned(),
        }
    }

    /// Returns the address at which the other nodes dial this one, and the one at which it listens.
    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        let at = |host: &str| SocketAddr::new(host.parse().unwrap(), STORAGE_PORT);
        (at(&self.dialled), at(&self.host))
    }
}

/// The settings of a small node for tests, which loses nothing that it has acknowledged.
const SMALL: &str = "commitlog_sync: batch
commitlog_segment_size: 8MiB
commitlog_total_space: 128MiB
memtable_heap_space: 64MiB
memtable_offheap_space: 64MiB
file_cache_size: 32MiB
prepared_statements_cache_size: 64MiB
";
/// The settings of a node for measurements.
const AS_IN_OPERATION: &str = "commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_segment_size: 32MiB
commitlog_total_space: 1024MiB
memtable_heap_space: 384MiB
memtable_offheap_space: 128MiB
file_cache_size: 128MiB
";

/// Writes the configuration files of a node into its folder, with additional settings.
pub(crate) fn write_files(
    folder: &Path,
    sites: &[Site],
    index: usize,
    is_measured: bool,
    more: &str,
) -> std::io::Result<()> {
    let size = if is_measured { AS_IN_OPERATION } else { SMALL };
    let settings = settings(folder, sites, index) + size + more;
    std::fs::write(folder.join("cassandra.yaml"), settings)?;
    let rack = format!("dc={}\nrack=rack1\n", sites[index].data_center);
    std::fs::write(folder.join("cassandra-rackdc.properties"), rack)?;
    std::fs::write(folder.join("logback.xml"), LOGGING)
}

/// Returns the settings of one node. Tokens are fixed and there is no bootstrap, because a joining
/// node makes its neighbours unavailable for some time.
fn settings(folder: &Path, sites: &[Site], index: usize) -> String {
    let token = i128::from(i64::MIN) + index as i128 * ((1_i128 << 64) / sites.len() as i128);
    let (node, dialled) = (&sites[index].host, &sites[index].dialled);
    let (seed, folder) = (&sites[0].dialled, folder.display());
    format!(
        "cluster_name: porchlight-tests
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
initial_token: {token}
auto_bootstrap: false
endpoint_snitch: GossipingPropertyFileSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{{seeds: \"{seed}:{STORAGE_PORT}\"}}]
listen_address: {node}
broadcast_address: {dialled}
rpc_address: {node}
storage_port: {STORAGE_PORT}
native_transport_port: 9042
start_native_transport: true
read_request_timeout: 20s
range_request_timeout: 20s
write_request_timeout: 20s
cas_contention_timeout: 20s
request_timeout: 20s
concurrent_compactors: 1
auto_snapshot: false
data_file_directories: [\"{folder}/data\"]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/saved_caches
hints_directory: {folder}/hints
cdc_raw_directory: {folder}/cdc_raw
"
    )
}
