//! A receiver that a test controls: it has a certificate of the test's authority, and its behaviour
//! is a function.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fixed::assert_webhook_request;

/// The name in the receivers' certificates.
pub const HOST: &str = "receiver.example";
/// An answer that acknowledges a request.
pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The certificate that a receiver presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// A valid certificate for [`HOST`] and `localhost`.
    Good,
    /// A certificate that has expired.
    Expired,
    /// A certificate that no authority signed.
    SelfSigned,
    /// A self-signed certificate of an authority, as `openssl req -x509` makes it.
    SelfSignedAuthority,
    /// A certificate for another host.
    OtherHost,
}

/// The certificate authority of a test, which the transport trusts.
pub struct Authority {
    certificate: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
    /// The certificate of the authority, in PEM.
    pub file: PathBuf,
}

impl Drop for Authority {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.file));
    }
}

impl Authority {
    /// Creates an authority and writes its certificate.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("porchlight-ca-{}-{number}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, certificate.pem()).unwrap();
        Self { certificate, file }
    }

    /// Creates an acceptor of connections for [`HOST`] that offers these protocols.
    pub fn offering(&self, protocols: &[&str]) -> TlsAcceptor {
        let mut config = self.config(Shown::Good);
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        Arc::new(config).into()
    }

    fn acceptor(&self, shown: Shown) -> TlsAcceptor {
        Arc::new(self.config(shown)).into()
    }

    fn config(&self, shown: Shown) -> ServerConfig {
        let hosts = match shown {
            Shown::OtherHost => ["other.example", "another.example"],
            _ => [HOST, "localhost"],
        };
        let mut params = rcgen::CertificateParams::new(hosts.map(str::to_owned).to_vec()).unwrap();
        if shown == Shown::Expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2020, 2, 1);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        if shown == Shown::SelfSignedAuthority {
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, HOST);
        let certificate = match shown {
            Shown::SelfSigned | Shown::SelfSignedAuthority => params.self_signed(&key).unwrap(),
            _ => params.signed_by(&key, &self.certificate).unwrap(),
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

/// A connection to a receiver.
pub type Stream = TlsStream<TcpStream>;
type ConnectionTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A receiver that runs as long as the test's runtime.
pub struct Receiver {
    /// The address on loopback.
    pub address: SocketAddr,
    /// The number of connections accepted so far.
    pub connections: Arc<AtomicUsize>,
    /// The requests received so far, each with head and body.
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    /// Starts a receiver that passes each connection to `behave` after its TLS handshake.
    pub async fn start<F, D>(authority: &Authority, shown: Shown, behave: F) -> Self
    where
        F: Fn(Stream, Arc<Mutex<Vec<String>>>) -> D + Send + Sync + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let acceptor = authority.acceptor(shown);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::default(), Arc::<Mutex<Vec<String>>>::default());
        let (count, log): (Arc<AtomicUsize>, _) = (Arc::clone(&connections), Arc::clone(&requests));
        let behave =
            Arc::new(move |stream, log| -> ConnectionTask { Box::pin(behave(stream, log)) });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, behave, log) =
                    (acceptor.clone(), Arc::clone(&behave), Arc::clone(&log));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        behave(stream, log).await;
                    }
                });
            }
        });
        Self {
            address,
            connections,
            requests,
        }
    }

    /// Starts a receiver that answers each request of a connection with the next of these answers,
    /// and repeats the last one forever.
    pub async fn answering(authority: &Authority, answers: Vec<String>) -> Self {
        let next = Arc::new(AtomicUsize::new(0));
        Self::start(authority, Shown::Good, move |mut stream, log| {
            let (next, answers) = (Arc::clone(&next), answers.clone());
            async move {
                while let Some(request) = read_request(&mut stream).await {
                    log.lock().unwrap().push(request);
                    let index = next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
                    if stream.write_all(answers[index].as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Returns the URL under [`HOST`].
    pub fn url(&self) -> String {
        format!("https://{HOST}:{}/hook", self.address.port())
    }

    /// Returns the URL under a name that every system resolves.
    pub fn local_url(&self) -> String {
        format!("https://localhost:{}/hook", self.address.port())
    }

    /// Returns the number of requests received so far.
    pub fn seen(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

impl Drop for Receiver {
    /// Checks every request that a test receives against the shapes fixed by the contract.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for request in self.requests.lock().unwrap().iter() {
                assert_webhook_request(request);
            }
        }
    }
}

/// Reads one request with its body. Returns `None` when the connection ends.
pub async fn read_request(stream: &mut Stream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_lowercase()
                    .strip_prefix("content-length: ")
                    .map(|n| n.parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text.into_owned());
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend(&buffer[..read]),
        }
    }
}
