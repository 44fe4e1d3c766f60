//! The DNS resolver: asynchronous, with its own deadline and a small cache.
//!
//! A lookup ends after [`LOOK_UP_MS_MAX`] at the latest, and holds no thread. If it ends without a
//! definite answer, [`ResolverHealth`] decides whether the name or our own resolver is at fault.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{Hosts, TokioResolver};
use porchlight_core::webhook::resolver_health::{AtFault, Canary, ResolverHealth};
use porchlight_observe::resolver::{LookUpOutcome, ResolverMetrics};
use porchlight_schema::limits::{
    LOOK_UP_CANARY_MS_MAX, LOOK_UP_MS_MAX, NAMES_CACHED_MAX, NODE_LOOK_UPS_MAX,
};
use tokio::time::timeout;

use super::guard::{NameRefused, Resolver};
use super::permits::Holder;

/// The maximum number of queries in flight: each lookup asks for IPv4 and for IPv6 addresses.
const QUERIES_MAX: usize = 2 * NODE_LOOK_UPS_MAX;
/// The time that a server has to answer a query before the query is sent again. Two rounds fit into
/// the deadline of a lookup, with time to spare for the work between them.
const QUERY_MS_MAX: u64 = LOOK_UP_MS_MAX * 7 / 15;
/// The number of servers that are queried at the same time: as many as `resolv.conf` may name.
const CONCURRENT_SERVERS: usize = 3;
/// The maximum time for which an address is cached, regardless of its time to live.
const CACHED_MS_MAX: u64 = 300_000;
/// The interval at which the system's files are checked for changes.
const FILE_CHECK_MS: u64 = 5_000;
/// The time within which a name must have had an address to count as recently resolved.
const RECENT_PERIOD: Duration = Duration::from_secs(3_600);
/// The time for which the result of a canary is used.
const CANARY_FRESH_MS: u64 = 1_000;
/// The files of the system's configuration.
const SYSTEM_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// The server that is queried if `/etc/resolv.conf` names no server, as the C library does.
const LOCAL_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Resolves names by DNS, after `/etc/hosts`.
pub struct DnsResolver {
    /// The fixed servers. If `None`, the system's configuration is used.
    servers: Option<Vec<SocketAddr>>,
    client: Mutex<Client>,
    cache: Mutex<HashMap<String, Cached>>,
    health: Mutex<ResolverHealth<Holder>>,
    canary: tokio::sync::Mutex<Option<(Instant, Canary)>>,
    begun: Instant,
}

struct Client {
    resolver: Result<TokioResolver, NetError>,
    hosts: Hosts,
    files: [Option<SystemTime>; SYSTEM_FILES.len()],
    checked_at: Instant,
}

struct Cached {
    addresses: Vec<IpAddr>,
    until: Instant,
}

/// The error of a lookup that ended without a definite answer.
struct Inconclusive;

impl std::fmt::Debug for DnsResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DnsResolver")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl Default for DnsResolver {
    fn default() -> Self {
        Self::new(None)
    }
}

impl DnsResolver {
    /// Creates a resolver that queries these servers instead of the servers in `/etc/resolv.conf`.
    /// For tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_servers(servers: Vec<SocketAddr>) -> Self {
        Self::new(Some(servers))
    }

    fn new(servers: Option<Vec<SocketAddr>>) -> Self {
        let files = SYSTEM_FILES.map(modified_at);
        Self {
            client: Mutex::new(Client {
                resolver: build(servers.as_deref()),
                hosts: Hosts::from_system().unwrap_or_default(),
                files,
                checked_at: Instant::now(),
            }),
            servers,
            cache: Mutex::default(),
            health: Mutex::default(),
            canary: tokio::sync::Mutex::new(None),
            begun: Instant::now(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Reads the system's files again if one of them has changed.
    fn client(&self) -> MutexGuard<'_, Client> {
        let mut client = lock(&self.client);
        if client.checked_at.elapsed() >= Duration::from_millis(FILE_CHECK_MS) {
            client.checked_at = Instant::now();
            let files = SYSTEM_FILES.map(modified_at);
            if files != client.files {
                client.files = files;
                client.resolver = build(self.servers.as_deref());
                client.hosts = Hosts::from_system().unwrap_or_default();
                lock(&self.cache).clear();
            }
        }
        client
    }

    /// Answers without a server: from `/etc/hosts`, and for names that have a fixed meaning
    /// (RFC 6761).
    fn answer_locally(&self, name: &str) -> Option<Result<Vec<IpAddr>, NameRefused>> {
        let absolute = Name::from_str(name).ok()?;
        let client = self.client();
        let of_type = |kind| {
            let query = Query::query(absolute.clone(), kind);
            client.hosts.lookup_static_host(&query)
        };
        let found = [RecordType::A, RecordType::AAAA]
            .into_iter()
            .filter_map(of_type);
        let found: Vec<_> = found
            .flat_map(|lookup| {
                let addresses = lookup.answers().iter();
                addresses
                    .filter_map(|record| record.data.ip_addr())
                    .collect::<Vec<_>>()
            })
            .collect();
        if !found.is_empty() {
            return Some(Ok(found));
        }
        match name.rsplit('.').next() {
            Some("localhost") => Some(Ok(vec![
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(Ipv6Addr::LOCALHOST),
            ])),
            Some("invalid" | "onion") => Some(Err(NameRefused::NoSuchName)),
            _ => None,
        }
    }

    fn cached(&self, name: &str) -> Option<Vec<IpAddr>> {
        let cache = lock(&self.cache);
        let cached = cache.get(name)?;
        (Instant::now() < cached.until).then(|| cached.addresses.clone())
    }

    /// Returns whether the name had an address within the last hour.
    fn resolved_recently(&self, name: &str) -> bool {
        let cache = lock(&self.cache);
        let cached = cache.get(name);
        cached.is_some_and(|cached| cached.until.elapsed() < RECENT_PERIOD)
    }

    fn cache_addresses(&self, name: &str, addresses: &[IpAddr], until: Instant) {
        let now = Instant::now();
        let until = until.min(now + Duration::from_millis(CACHED_MS_MAX));
        let mut cache = lock(&self.cache);
        if cache.len() >= NAMES_CACHED_MAX && !cache.contains_key(name) {
            cache.retain(|_, cached| now < cached.until);
            // Any entry can be evicted: each is only a shortcut to the same answer.
            let any = cache.keys().next().cloned();
            if let Some(any) = any.filter(|_| cache.len() >= NAMES_CACHED_MAX) {
                cache.remove(&any);
            }
        }
        let addresses = addresses.to_vec();
        cache.insert(name.to_owned(), Cached { addresses, until });
    }

    /// Queries the servers for the addresses of a name.
    async fn query(&self, name: &str) -> Result<Result<Vec<IpAddr>, NameRefused>, Inconclusive> {
        let client = self.client().resolver.clone().map_err(|_| Inconclusive)?;
        let Ok(mut absolute) = Name::from_str(name) else {
            return Ok(Err(NameRefused::NoSuchName));
        };
        let relative = absolute.clone();
        absolute.set_fqdn(true);
        let mut answer = client.lookup_ip(absolute).await;
        // Only names without a dot are searched for in the domains of `resolv.conf`.
        if !name.contains('.') && answer.is_err() {
            answer = client.lookup_ip(relative).await;
        }
        match answer {
            Ok(found) => {
                let addresses: Vec<_> = found.iter().collect();
                self.cache_addresses(name, &addresses, found.valid_until());
                match addresses.is_empty() {
                    true => Ok(Err(NameRefused::NoAddress)),
                    false => Ok(Ok(addresses)),
                }
            }
            Err(error) if error.is_nx_domain() => Ok(Err(NameRefused::NoSuchName)),
            Err(error) if error.is_no_records_found() => Ok(Err(NameRefused::NoAddress)),
            Err(_) => Err(Inconclusive),
        }
    }

    /// Queries the resolver for the name servers of the root, for which it does not need the
    /// customer's servers. Concurrent calls share the result.
    async fn canary(&self) -> Canary {
        let mut last = self.canary.lock().await;
        let fresh = Duration::from_millis(CANARY_FRESH_MS);
        if let Some((at, canary)) = *last
            && at.elapsed() < fresh
        {
            return canary;
        }
        let client = self.client().resolver.clone();
        let canary = match client {
            Ok(client) => {
                let lookup = client.lookup(Name::root(), RecordType::NS);
                match timeout(Duration::from_millis(LOOK_UP_CANARY_MS_MAX), lookup).await {
                    Ok(Ok(_)) => Canary::Answered,
                    Ok(Err(NetError::Dns(error))) if !is_server_failure(&error) => Canary::Answered,
                    Ok(Err(_)) | Err(_) => Canary::Failed,
                }
            }
            Err(_) => Canary::Failed,
        };
        *last = Some((Instant::now(), canary));
        canary
    }

    /// Decides whether the name or the resolver caused a lookup without a definite answer.
    async fn classify_failure(&self, holder: Holder, name: &str, begun_ms: u64) -> NameRefused {
        let known = lock(&self.health).has_answered_since(begun_ms);
        let canary = match known {
            true => None,
            false => Some(self.canary().await),
        };
        let recently = self.resolved_recently(name);
        let (was_away, at_fault) = {
            let mut health = lock(&self.health);
            let was_away = health.is_away();
            let at_fault = health.on_failure(holder, recently, begun_ms, self.now_ms(), canary);
            (was_away, at_fault)
        };
        let metrics = ResolverMetrics::get();
        match at_fault {
            AtFault::Resolver => {
                if !was_away {
                    tracing::warn!(
                        "the DNS resolver of this machine does not answer; webhook attempts are retried and not counted"
                    );
                }
                metrics.set_away(true);
                NameRefused::ResolverUnavailable
            }
            AtFault::Name => {
                self.on_available(was_away);
                NameRefused::NoAnswer
            }
        }
    }

    fn on_available(&self, was_away: bool) {
        if was_away {
            tracing::info!("the DNS resolver of this machine answers again");
        }
        ResolverMetrics::get().set_away(false);
    }
}

#[async_trait]
impl Resolver for DnsResolver {
    async fn look_up(&self, holder: Holder, name: &str) -> Result<Vec<IpAddr>, NameRefused> {
        if let Some(answer) = self.answer_locally(name) {
            return answer;
        }
        let metrics = ResolverMetrics::get();
        if let Some(addresses) = self.cached(name) {
            metrics.on_cached();
            return Ok(addresses);
        }
        let (begun, begun_ms) = (Instant::now(), self.now_ms());
        let lookup = timeout(Duration::from_millis(LOOK_UP_MS_MAX), self.query(name));
        let answer = match lookup.await {
            Ok(Ok(answer)) => {
                let now_ms = self.now_ms();
                let was_away = lock(&self.health).on_answer(now_ms);
                self.on_available(was_away);
                answer
            }
            Ok(Err(Inconclusive)) | Err(_) => {
                Err(self.classify_failure(holder, name, begun_ms).await)
            }
        };
        let outcome = match &answer {
            Ok(_) => LookUpOutcome::Found,
            Err(NameRefused::NoSuchName) => LookUpOutcome::NoSuchName,
            Err(NameRefused::NoAddress) => LookUpOutcome::NoAddress,
            Err(NameRefused::ResolverUnavailable) => LookUpOutcome::ResolverAway,
            Err(_) => LookUpOutcome::NoAnswer,
        };
        metrics.on_look_up(outcome, begun.elapsed());
        answer
    }
}

/// Returns whether the server answered that it could not resolve the name.
fn is_server_failure(error: &DnsError) -> bool {
    matches!(error, DnsError::ResponseCode(ResponseCode::ServFail))
}

fn modified_at(file: &str) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}

fn build(servers: Option<&[SocketAddr]>) -> Result<TokioResolver, NetError> {
    let (config, system) = match servers {
        None => read_system_conf().unwrap_or_else(|_| (config_of(&[]), ResolverOpts::default())),
        Some(servers) => (config_of(servers), ResolverOpts::default()),
    };
    let config = match config.name_servers().is_empty() {
        true => config_of(&[SocketAddr::new(LOCAL_SERVER, 53)]),
        false => config,
    };
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let options = builder.options_mut();
    *options = system;
    options.timeout = Duration::from_millis(QUERY_MS_MAX);
    options.attempts = 1;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // The cache of this module must know whether an answer came from a server.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.num_concurrent_reqs = CONCURRENT_SERVERS;
    options.max_active_requests = QUERIES_MAX;
    builder.build()
}

/// Returns the configuration of these servers.
fn config_of(servers: &[SocketAddr]) -> ResolverConfig {
    let servers = servers.iter().map(|server| {
        let mut config = NameServerConfig::udp_and_tcp(server.ip());
        for connection in &mut config.connections {
            connection.port = server.port();
        }
        config
    });
    ResolverConfig::from_parts(None, Vec::new(), servers.collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
