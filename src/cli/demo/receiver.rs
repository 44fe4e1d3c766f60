//! What a customer runs: a receiver of webhooks over TLS, here on loopback, with a certificate that is made at the start.
//! It checks each signature as a customer should and shows what came.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use porchlight_core::webhook::signature::service_signature;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A request that is larger is not one of ours.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages that came and were not asked for yet.
const KEPT_MAX: usize = 1_024;
/// A message on loopback that takes longer is not waited for.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);

/// Who signs the receivers' certificates. Its key never leaves the process.
pub(super) struct Authority {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

impl Authority {
    /// A new one; its certificate is written to `file`, for `webhook.extra_ca_file`.
    pub(super) fn new(file: &Path) -> anyhow::Result<Self> {
        let mut params = rcgen::CertificateParams::new(Vec::new())?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate()?)?;
        std::fs::write(file, issuer.pem())?;
        Ok(Self { issuer })
    }

    fn acceptor(&self) -> anyhow::Result<TlsAcceptor> {
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
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

/// A message that came, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) event: String,
    pub(super) session_id: String,
    sequence: String,
    attempt: String,
    is_signed: bool,
    pub(super) status: u16,
}

/// One customer's receiver. It lives as long as the runtime.
pub(super) struct Receiver {
    pub(super) url: String,
    /// Held by whoever writes lines that belong together.
    pub(super) turn: Arc<Mutex<()>>,
    secret: Arc<OnceLock<String>>,
    received: mpsc::Receiver<Received>,
    pub(super) tally: Arc<Tally>,
}

/// What a receiver has seen so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Requests.
    pub(super) received: AtomicU32,
    /// Those of them whose signature was good.
    pub(super) signed: AtomicU32,
    /// Those of them that were refused.
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
    /// Listens on loopback, for the customer of this name. The first `failing` messages are answered with 503.
    pub(super) async fn start(
        authority: &Authority,
        customer: &'static str,
        failing: usize,
    ) -> anyhow::Result<Self> {
        let acceptor = authority.acceptor()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/hook", listener.local_addr()?);
        let secret = Arc::<OnceLock<String>>::default();
        let (told, received) = mpsc::channel(KEPT_MAX);
        let turn = Arc::<Mutex<()>>::default();
        let (known, writing) = (Arc::clone(&secret), Arc::clone(&turn));
        let tally = Arc::<Tally>::default();
        let counting = Arc::clone(&tally);
        let left = Arc::new(tokio::sync::Semaphore::new(failing));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, left) = (acceptor.clone(), Arc::clone(&left));
                let (secret, told, turn) = (Arc::clone(&known), told.clone(), Arc::clone(&writing));
                let tally = Arc::clone(&counting);
                // A connection that breaks is the sender's to make anew.
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    while let Some(request) = Request::read(&mut stream).await? {
                        let status = match left.try_acquire() {
                            Ok(failure) => {
                                failure.forget();
                                503
                            }
                            Err(_) => 200,
                        };
                        let message = request.received(secret.get(), status);
                        tally.count(&message);
                        {
                            let _turn = turn.lock().await;
                            message.show(customer)?;
                        }
                        let _unasked = told.try_send(message);
                        answer(&mut stream, status).await?;
                    }
                    anyhow::Ok(())
                });
            }
        });
        Ok(Self {
            url,
            turn,
            secret,
            received,
            tally,
        })
    }

    /// The secret that registration gave.
    pub(super) fn trust(&self, secret: String) {
        // There is one registration.
        let _first = self.secret.set(secret);
    }

    /// Waits until the message about this event of this session has come, however it was answered.
    pub(super) async fn wait(&mut self, session_id: &str, event: &str) -> anyhow::Result<Received> {
        let waiting = async {
            while let Some(message) = self.received.recv().await {
                if message.session_id == session_id && message.event == event {
                    return Some(message);
                }
            }
            None
        };
        let message = tokio::time::timeout(ARRIVES_WITHIN, waiting).await;
        message
            .ok()
            .flatten()
            .with_context(|| format!("{event} of {session_id} did not arrive"))
    }
}

struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// The next request of a connection; none when it ends.
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

    fn received(&self, secret: Option<&String>, status: u16) -> Received {
        let signed = secret.map(|secret| service_signature(secret, &self.body));
        let given = self.header("x-service-signature").as_bytes();
        Received {
            event: self.header("x-service-event").to_owned(),
            session_id: self.header("x-service-delivery").to_owned(),
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
            "   ⇐ webhook of {customer}: {:15}  sequence {}  try {}  signature {}  answered {}",
            self.event,
            self.sequence,
            self.attempt,
            if self.is_signed { "good" } else { "BAD" },
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
