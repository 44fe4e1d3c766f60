//! A webhook receiver on this machine, for the demo and for `porchlight receive`. It serves HTTPS
//! with a certificate that it creates at start, verifies every signature as a customer should, and
//! prints each message.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use porchlight_core::webhook::signature::service_signature;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The maximum request size in bytes; the receiver closes a connection whose request is larger.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum number of received messages that wait for [`Receiver::wait`]; later ones are counted
/// but not kept.
const KEPT_MAX: usize = 1_024;
/// The maximum time for which [`Receiver::wait`] waits for a message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The certificate authority of the receivers. Its key never leaves the process.
pub(super) struct Authority {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Authority {
    /// Creates an authority and writes its certificate to `file`, for `webhook.extra_ca_file`.
    pub(super) fn new(file: &Path) -> anyhow::Result<Self> {
        let mut params = rcgen::CertificateParams::new(Vec::new())?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate()?)?;
        std::fs::write(file, issuer.pem())?;
        Ok(Self { issuer })
    }

    /// Returns the TLS settings of a receiver at this address. Its certificate names the address.
    fn acceptor(&self, at: IpAddr) -> anyhow::Result<TlsAcceptor> {
        if at.is_unspecified() {
            bail!(
                "cannot listen on {at}: name one address of this machine, because the certificate contains it"
            );
        }
        let params = rcgen::CertificateParams::new(vec![at.to_string()])?;
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(Arc::new(config).into())
    }
}

/// A received message and the status that the receiver answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) event: String,
    pub(super) session_id: String,
    pub(super) body: String,
    sequence: String,
    attempt: String,
    is_signed: bool,
    pub(super) status: u16,
}

/// The address and the behaviour of a receiver.
pub(super) struct ReceiverSettings {
    /// The customer's name in the printed lines.
    pub(super) customer: String,
    /// The address to listen on; port 0 picks a free one.
    pub(super) listen: SocketAddr,
    /// The number of first requests that the receiver answers with 503.
    pub(super) failures: usize,
    /// The signing secret, known at start or read from a file.
    pub(super) secret: Secret,
    /// Whether each body is printed below its line.
    pub(super) prints_bodies: bool,
}

/// The signing secret of a webhook.
#[derive(Clone)]
pub(super) enum Secret {
    /// A secret that is set once, after the webhook was registered.
    Later(Arc<OnceLock<String>>),
    /// A file that is read for each message, so that it may be written after the receiver started.
    File(PathBuf),
}

impl Secret {
    fn read(&self) -> Option<String> {
        match self {
            Self::Later(secret) => secret.get().cloned(),
            Self::File(file) => Some(std::fs::read_to_string(file).ok()?.trim().to_owned()),
        }
    }
}

/// One customer's receiver. It runs until the runtime ends.
pub(super) struct Receiver {
    pub(super) url: String,
    /// The lock that keeps related lines together.
    pub(super) output_lock: Arc<Mutex<()>>,
    secret: Secret,
    received: mpsc::Receiver<Received>,
    pub(super) tally: Arc<Tally>,
}

/// Counts of the requests that a receiver has answered.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The number of all requests.
    pub(super) received: AtomicU32,
    /// The number of requests with a valid signature.
    pub(super) signed: AtomicU32,
    /// The number of requests that the receiver refused.
    pub(super) refused: AtomicU32,
}

impl Tally {
    fn count(&self, message: &Received) {
        self.received.fetch_add(1, Relaxed);
        self.signed.fetch_add(u32::from(message.is_signed), Relaxed);
        self.refused
            .fetch_add(u32::from(message.status != 200), Relaxed);
    }
}

impl Receiver {
    /// Starts a receiver whose certificate `authority` signs.
    pub(super) async fn start(
        authority: &Authority,
        settings: ReceiverSettings,
    ) -> anyhow::Result<Self> {
        let acceptor = authority.acceptor(settings.listen.ip())?;
        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("cannot listen on {}", settings.listen))?;
        let url = format!("https://{}/hook", listener.local_addr()?);
        let (sender, received) = mpsc::channel(KEPT_MAX);
        let state = Arc::new(ReceiverState {
            customer: settings.customer,
            secret: settings.secret.clone(),
            prints_bodies: settings.prints_bodies,
            failures_left: Semaphore::new(settings.failures),
            output_lock: Arc::default(),
            tally: Arc::default(),
            received: sender,
        });
        let (output_lock, tally) = (Arc::clone(&state.output_lock), Arc::clone(&state.tally));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
                // The sender opens another connection when this one breaks.
                tokio::spawn(async move { state.serve(acceptor.accept(stream).await?).await });
            }
        });
        Ok(Self {
            url,
            output_lock,
            secret: settings.secret,
            received,
            tally,
        })
    }

    /// Sets the secret that the registration of the webhook returned.
    pub(super) fn set_secret(&self, secret: String) {
        if let Secret::Later(known) = &self.secret {
            // A receiver is registered once.
            let _first = known.set(secret);
        }
    }

    /// Returns the next message of any kind, or `None` once the receiver has ended.
    pub(super) async fn next(&mut self) -> Option<Received> {
        self.received.recv().await
    }

    /// Waits for the message about this event of this session, regardless of the status that the
    /// receiver answered.
    pub(super) async fn wait(&mut self, session_id: &str, event: &str) -> anyhow::Result<Received> {
        let waiting = async {
            while let Some(message) = self.received.recv().await {
                if message.session_id == session_id && message.event == event {
                    return Some(message);
                }
            }
            None
        };
        let message = tokio::time::timeout(MESSAGE_TIMEOUT, waiting).await;
        message
            .ok()
            .flatten()
            .with_context(|| format!("{event} of {session_id} did not arrive"))
    }
}

/// The state that the connections of one receiver share.
struct ReceiverState {
    customer: String,
    secret: Secret,
    prints_bodies: bool,
    failures_left: Semaphore,
    output_lock: Arc<Mutex<()>>,
    tally: Arc<Tally>,
    received: mpsc::Sender<Received>,
}

impl ReceiverState {
    async fn serve(&self, mut stream: TlsStream<TcpStream>) -> anyhow::Result<()> {
        while let Some(request) = Request::read(&mut stream).await? {
            let status = match self.failures_left.try_acquire() {
                Ok(failure) => {
                    failure.forget();
                    503
                }
                Err(_) => 200,
            };
            let message = request.received(self.secret.read().as_deref(), status);
            self.tally.count(&message);
            {
                let _guard = self.output_lock.lock().await;
                message.show(&self.customer)?;
                if self.prints_bodies {
                    say!("{}", message.body)?;
                }
            }
            answer(&mut stream, status).await?;
            // A full channel drops the message: no task waits for it.
            let _unread = self.received.try_send(message);
        }
        Ok(())
    }
}

struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection. Returns `None` when the connection ends.
    async fn read(stream: &mut TlsStream<TcpStream>) -> anyhow::Result<Option<Self>> {
        let mut bytes = Vec::new();
        while bytes.len() < REQUEST_BYTES_MAX {
            if let Some(request) = Self::parse(&bytes) {
                return Ok(Some(request));
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                break;
            }
        }
        Ok(None)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, rest) = bytes.split_at_checked(end)?;
        let mut request = Self {
            head: String::from_utf8_lossy(head).into_owned(),
            body: Vec::new(),
        };
        let length = request.header("content-length").parse().ok()?;
        request.body = rest.get(4..)?.get(..length)?.to_vec();
        Some(request)
    }

    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let line = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        line.map_or("", |(_, value)| value)
    }

    fn received(&self, secret: Option<&str>, status: u16) -> Received {
        let signed = secret.map(|secret| service_signature(secret, &self.body));
        let given = self.header("x-service-signature").as_bytes();
        Received {
            event: self.header("x-service-event").to_owned(),
            session_id: self.header("x-service-delivery").to_owned(),
            body: String::from_utf8_lossy(&self.body).into_owned(),
            sequence: self.header("x-service-sequence").to_owned(),
            attempt: self.header("x-service-attempt").to_owned(),
            is_signed: signed.is_some_and(|signed| signed.as_bytes().ct_eq(given).into()),
            status,
        }
    }
}

impl Received {
    fn show(&self, customer: &str) -> anyhow::Result<()> {
        say!(
            "   ⇐ webhook of {customer}: {:15}  sequence {}  attempt {}  signature {}  answered {}",
            self.event,
            self.sequence,
            self.attempt,
            if self.is_signed { "valid" } else { "INVALID" },
            self.status,
        )
    }
}

async fn answer(stream: &mut TlsStream<TcpStream>, status: u16) -> std::io::Result<()> {
    let reason = if status == 200 {
        "OK"
    } else {
        "Service Unavailable"
    };
    let answer = format!("HTTP/1.1 {status} {reason}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn start(authority: &Authority, listen: &str) -> anyhow::Result<Receiver> {
        let settings = ReceiverSettings {
            customer: "test".to_owned(),
            listen: listen.parse()?,
            failures: 0,
            secret: Secret::Later(Arc::default()),
            prints_bodies: false,
        };
        Receiver::start(authority, settings).await
    }

    #[tokio::test]
    async fn the_certificate_names_the_address_of_the_receiver() {
        let name = format!("porchlight-receiver-{}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        let authority = Authority::new(&file).unwrap();
        let pem = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let trusted = reqwest::Certificate::from_pem(&pem).unwrap();
        let client = reqwest::Client::builder()
            .add_root_certificate(trusted)
            .no_proxy();
        let client = client.build().unwrap();
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let receiver = match start(&authority, listen).await {
                Ok(receiver) => receiver,
                // A machine may have no IPv6.
                Err(error) => {
                    assert_eq!(listen, "[::1]:0", "{error:#}");
                    continue;
                }
            };
            let answer = client.post(&receiver.url).body("{}").send().await;
            assert_eq!(answer.unwrap().status(), 200, "{}", receiver.url);
        }
        for listen in ["0.0.0.0:0", "[::]:0"] {
            let error = start(&authority, listen).await.err().unwrap().to_string();
            assert!(error.contains("name one address"), "{error}");
        }
    }
}
