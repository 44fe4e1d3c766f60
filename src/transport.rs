//! The webhook transport: an HTTP client behind the address guard, on dedicated threads.
//!
//! One deadline covers an attempt from the DNS lookup to the last byte read. Redirects are not
//! followed, proxies from the environment are ignored, and at most 16 KiB of an answer are read.
//! Connections are reused, over HTTP/2 if the receiver supports it. Each was opened to a checked
//! address, and each attempt checks the name again. A request that fails because a reused
//! connection has ended is repeated once and immediately, as part of its attempt.

pub mod address;
mod cause;
mod certificate;
mod details;
pub mod guard;
mod permits;
pub mod resolver;
mod reuse;
mod tls;
pub mod url;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use metrics::Gauge;
use porchlight_core::webhook::{AttemptDetails, Cause};
use porchlight_observe::resolver::{PermitPoolKind, ResolverMetrics};
use porchlight_ports::{Answer, MayBegin, OutboundRequest, Transport, UrlRefused};
use porchlight_schema::limits::{
    ANSWER_HEADERS_MAX, ANSWER_KEPT_BYTES_MAX, ANSWER_READ_BYTES_MAX, ATTEMPT_MS_MAX,
    NODE_ATTEMPTS_IN_FLIGHT_MAX, PROBE_MS_MAX, TENANT_ATTEMPTS_IN_FLIGHT_MAX, TENANT_PROBES_MAX,
};
use porchlight_schema::session::Tenant;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

use address::Cidr;
use guard::{CONNECTING_TENANT, Guard, GuardedResolve, NameRefused, Resolver};
use permits::PermitPool;
use resolver::DnsResolver;
use reuse::Answered;
use url::{Host, Target};

pub use tls::TrustError;

/// The time after which idle connections are closed. It is shorter than the time after which common
/// receivers close them during a request (5 s).
const IDLE_MS_MAX: u64 = 4_000;
/// The HTTP/2 window per stream: the number of bytes of an answer that are read.
const HTTP2_STREAM_WINDOW_BYTES: u32 = ANSWER_READ_BYTES_MAX as u32;
/// The HTTP/2 window per connection.
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 256 * 1024;
/// The maximum size of an HTTP/2 head.
const HTTP2_HEAD_BYTES_MAX: u32 = 16 * 1024;
/// The interval of pings on a shared HTTP/2 connection with a waiting request, so that a dead
/// connection does not fail one attempt after another. An answer to a ping may take as long as an
/// answer to an attempt, so that no ping ends an attempt that could still succeed.
const HTTP2_PING_MS: u64 = 2_000;
/// The maximum number of concurrent probes per node.
const PROBES_MAX: usize = 128;
/// The maximum time that an attempt waits for a permit before it fails with cause `internal`.
const PERMIT_MS_MAX: u64 = 5_000;

/// The settings of a transport.
pub struct TransportSettings {
    /// The setting `webhook.allow_addresses`.
    pub allow_addresses: Vec<Cidr>,
    /// The setting `webhook.extra_ca_file`.
    pub extra_ca_file: Option<PathBuf>,
    /// The resolver of host names.
    pub resolver: Arc<dyn Resolver>,
    /// The number of threads.
    pub threads: usize,
}

impl std::fmt::Debug for TransportSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransportSettings")
            .field("allow_addresses", &self.allow_addresses)
            .field("extra_ca_file", &self.extra_ca_file)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            allow_addresses: Vec::new(),
            extra_ca_file: None,
            resolver: Arc::new(DnsResolver::default()),
            threads: 1,
        }
    }
}

/// The error of setting up the transport.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The trusted certificates cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Client(#[from] reqwest::Error),
    /// The threads cannot be started.
    #[error("the sending threads cannot be started")]
    Threads(#[from] std::io::Error),
}

/// Sends webhooks over HTTPS.
#[derive(Debug)]
pub struct HttpTransport {
    inner: Arc<Inner>,
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
}

#[derive(Debug)]
struct Inner {
    client: reqwest::Client,
    /// A client that opens a connection for each request.
    unpooled: reqwest::Client,
    answered: Answered,
    guard: Arc<Guard>,
    tls: Arc<rustls::ClientConfig>,
    permits: PermitPool,
    probes: PermitPool,
    ends: tls::CertificateEnds,
}

impl HttpTransport {
    /// Starts the threads and loads the trusted certificates.
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate file cannot be used, or if the system refuses.
    pub fn start(settings: TransportSettings) -> Result<Self, TransportError> {
        let ends = tls::CertificateEnds::default();
        let config = tls::client_config(settings.extra_ca_file.as_deref(), Arc::clone(&ends))?;
        let guard = Arc::new(Guard::new(
            settings.resolver,
            settings.allow_addresses.into(),
        ));
        let client = http_client(&config, &guard, TENANT_ATTEMPTS_IN_FLIGHT_MAX)?;
        let unpooled = http_client(&config, &guard, 0)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads.max(1))
            .thread_name("porchlight-send")
            .enable_all()
            .build()?;
        let inner = Arc::new(Inner {
            client,
            unpooled,
            answered: Answered::default(),
            guard,
            tls: Arc::new(config),
            permits: PermitPool::new(
                NODE_ATTEMPTS_IN_FLIGHT_MAX,
                TENANT_ATTEMPTS_IN_FLIGHT_MAX,
                ResolverMetrics::get().in_use(PermitPoolKind::Attempts),
            ),
            // A probe whose caller has gone keeps its permit until it ends.
            probes: PermitPool::new(PROBES_MAX, 2 * TENANT_PROBES_MAX, Gauge::noop()),
            ends,
        });
        Ok(Self {
            inner,
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
        })
    }
}

/// Creates a client that keeps at most this number of idle connections for each host.
fn http_client(
    tls: &rustls::ClientConfig,
    guard: &Arc<Guard>,
    idle_max: usize,
) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .dns_resolver(GuardedResolve(Arc::clone(guard)))
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .https_only(true)
        .referer(false)
        .tcp_nodelay(true)
        // A connection may outlive the attempt for which it was opened, if another one became free.
        .connect_timeout(Duration::from_millis(ATTEMPT_MS_MAX))
        .user_agent(concat!("Porchlight/", env!("CARGO_PKG_VERSION")))
        .pool_idle_timeout(Duration::from_millis(IDLE_MS_MAX))
        .pool_max_idle_per_host(idle_max)
        .http1_max_headers(ANSWER_HEADERS_MAX)
        .http2_initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .http2_max_header_list_size(HTTP2_HEAD_BYTES_MAX)
        .http2_keep_alive_interval(Duration::from_millis(HTTP2_PING_MS))
        .http2_keep_alive_timeout(Duration::from_millis(ATTEMPT_MS_MAX))
        .build()
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut();
        if let Some(runtime) = runtime.unwrap_or_else(PoisonError::into_inner).take() {
            // The transport may be dropped inside another runtime, where blocking would panic.
            runtime.shutdown_background();
        }
    }
}

/// Ends a task when its caller stops waiting, after which another node may send the same message.
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send_if(&self, request: OutboundRequest, may_begin: MayBegin) -> Answer {
        let inner = Arc::clone(&self.inner);
        let sending = async move { inner.send(request, may_begin).await };
        let sending = self.handle.spawn(sending);
        let _end = EndOnDrop(sending.abort_handle());
        sending
            .await
            .unwrap_or_else(|_| failure(0, Cause::Internal))
    }

    async fn probe(&self, tenant: Tenant, url: &str) -> Result<(), UrlRefused> {
        let (inner, url) = (Arc::clone(&self.inner), url.to_owned());
        let probing = self.handle.spawn(async move {
            let target = Target::parse(&url, inner.guard.allowed())?;
            let permit = inner.probes.try_acquire(Some(tenant));
            let _permit = permit.ok_or(UrlRefused::Unavailable)?;
            let deadline = Instant::now() + Duration::from_millis(PROBE_MS_MAX);
            // A host that does not answer in time is accepted; a name that does not resolve in time
            // is not.
            let addresses = timeout_at(deadline.into(), inner.addresses(tenant, &target));
            let addresses = addresses.await.map_err(|_| UrlRefused::Unavailable)?;
            let addresses = addresses.map_err(|refused| match refused {
                NameRefused::NoSuchName | NameRefused::NoAddress | NameRefused::NoAnswer => {
                    UrlRefused::Unresolved
                }
                NameRefused::Address => UrlRefused::Address,
                NameRefused::ResolverUnavailable | NameRefused::Busy => UrlRefused::Unavailable,
            })?;
            let handshake = timeout_at(deadline.into(), inner.handshake(&target, &addresses));
            handshake.await.unwrap_or(Ok(()))
        });
        probing.await.unwrap_or(Err(UrlRefused::Unavailable))
    }
}

fn failure(duration_ms: u32, cause: Cause) -> Answer {
    Answer {
        waited_ms: 0,
        duration_ms,
        status_code: None,
        cause: Some(cause),
        response: None,
        certificate_ends_at: None,
        details: AttemptDetails::default(),
    }
}

fn elapsed_ms(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX)
}

impl Inner {
    async fn send(&self, request: OutboundRequest, may_begin: MayBegin) -> Answer {
        let (requested, timeout) = (Instant::now(), Duration::from_millis(PERMIT_MS_MAX));
        let Some(_permit) = self.permits.acquire(Some(request.tenant), timeout).await else {
            ResolverMetrics::get().on_refused(PermitPoolKind::Attempts);
            return Answer {
                waited_ms: elapsed_ms(requested),
                ..failure(0, Cause::Internal)
            };
        };
        let waited_ms = elapsed_ms(requested);
        if !may_begin() {
            return Answer {
                waited_ms,
                ..failure(0, Cause::Internal)
            };
        }
        let begun = Instant::now();
        let deadline = begun + Duration::from_millis(ATTEMPT_MS_MAX);
        let mut details = AttemptDetails::default();
        let target = self.check_target(&request, &mut details);
        // A lookup has its own deadline: if it takes longer, it waited for a permit.
        let target = timeout_at(deadline.into(), target).await;
        let head = match target.unwrap_or(Err(Cause::Internal)) {
            Ok(target) => {
                let head = self.head(&request, target, &mut details);
                let head = timeout_at(deadline.into(), head).await;
                head.unwrap_or(Err(Cause::Timeout))
            }
            Err(cause) => Err(cause),
        };
        let duration_ms = elapsed_ms(begun);
        let (mut response, name) = match head {
            Ok(head) => head,
            Err(cause) => {
                return Answer {
                    waited_ms,
                    details,
                    ..failure(duration_ms, cause)
                };
            }
        };
        details.address = response.remote_addr().map(|address| address.ip());
        details.response_headers = details::kept_headers(response.headers());
        let status = response.status().as_u16();
        let kept = read_body(&mut response, deadline).await;
        let ends = name.and_then(|name| self.ends.get(&name).map(|ends| *ends));
        Answer {
            waited_ms,
            duration_ms,
            status_code: Some(status),
            cause: cause::of_status(status),
            response: Some(kept),
            certificate_ends_at: ends,
            details,
        }
    }

    /// Checks the URL and resolves and checks its host.
    async fn check_target(
        &self,
        request: &OutboundRequest,
        details: &mut AttemptDetails,
    ) -> Result<Target, Cause> {
        let target = Target::parse(&request.url, self.guard.allowed()).map_err(|refused| {
            match refused {
                UrlRefused::Address => Cause::BlockedAddress,
                // The URL was accepted when it was registered.
                _ => Cause::Internal,
            }
        })?;
        let addresses = self.addresses(request.tenant, &target).await;
        let addresses = addresses.map_err(|refused| {
            details.reason = Some(refused.to_string());
            cause::of_name(refused)
        })?;
        if let [address] = addresses[..] {
            details.address = Some(address);
        }
        Ok(target)
    }

    /// Sends the request and waits for the head of the answer. `details` receives the details known
    /// so far, even if the request fails or is abandoned.
    async fn head(
        &self,
        request: &OutboundRequest,
        target: Target,
        details: &mut AttemptDetails,
    ) -> Result<(reqwest::Response, Option<ServerName<'static>>), Cause> {
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 1);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &request.headers {
            let value = HeaderValue::from_str(value).map_err(|_| Cause::Internal)?;
            headers.insert(HeaderName::from_static(name), value);
        }
        let body = bytes::Bytes::from_owner(Body(Arc::clone(&request.body)));
        let send = |client: &reqwest::Client| {
            let request = client.post(target.url.clone()).headers(headers.clone());
            request.body(body.clone()).send()
        };
        let response = match CONNECTING_TENANT
            .scope(request.tenant, send(&self.client))
            .await
        {
            Ok(response) => {
                self.answered.insert(&response);
                Ok(response)
            }
            Err(error) if self.answered.has_lost(&error) => {
                CONNECTING_TENANT
                    .scope(request.tenant, send(&self.unpooled))
                    .await
            }
            Err(error) => Err(error),
        };
        let response = response.map_err(|error| {
            details.reason = details::reason(&error);
            cause::of_error(&error)
        })?;
        Ok((response, target.server_name()))
    }

    async fn addresses(
        &self,
        tenant: Tenant,
        target: &Target,
    ) -> Result<Arc<[std::net::IpAddr]>, NameRefused> {
        match &target.host {
            Host::Literal(address) => Ok(Arc::new([*address])),
            Host::Name(name) => self.guard.addresses(Some(tenant), name).await,
        }
    }

    /// Checks whether the host's certificate verifies, if the host presents one.
    async fn handshake(
        &self,
        target: &Target,
        addresses: &[std::net::IpAddr],
    ) -> Result<(), UrlRefused> {
        let name = target.server_name().ok_or(UrlRefused::Host)?;
        for &address in addresses {
            let Ok(stream) = TcpStream::connect((address, target.port)).await else {
                continue;
            };
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
            let Err(error) = connector.connect(name, stream).await else {
                return Ok(());
            };
            let tls = error.get_ref().and_then(|error| error.downcast_ref());
            return match tls {
                Some(rustls::Error::InvalidCertificate(error)) => {
                    Err(UrlRefused::Certificate(details::of_certificate(error)))
                }
                Some(rustls::Error::NoCertificatesPresented) => Err(UrlRefused::Certificate(None)),
                // The host may not support TLS at the moment.
                _ => Ok(()),
            };
        }
        Ok(())
    }
}

/// A shared body, which is not copied.
struct Body(Arc<str>);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Reads the allowed part of a body and returns its beginning; errors are ignored.
async fn read_body(response: &mut reqwest::Response, deadline: Instant) -> String {
    let (mut read, mut kept) = (0, Vec::new());
    while read < ANSWER_READ_BYTES_MAX {
        let chunk = timeout_at(deadline.into(), response.chunk()).await;
        let Ok(Ok(Some(chunk))) = chunk else { break };
        read += chunk.len();
        let room = ANSWER_KEPT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend(chunk.iter().take(room));
    }
    details::decode(&kept, read > kept.len())
}

/// Checks that an operator's file contains usable certificates.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if it contains no usable certificate.
pub fn check_trusted(file: &Path) -> Result<(), TransportError> {
    tls::certificates_of(file)?;
    Ok(())
}
