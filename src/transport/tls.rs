//! Trust: the system's certificates and the operator's, and what the receivers' certificates say of their end.

use std::path::Path;
use std::sync::Arc;

use dashmap::DashMap;
use porchlight_schema::time::TimestampMs;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::certificate;

/// Hosts whose certificate's end is remembered.
const HOSTS_MAX: usize = 65_536;

/// The trust could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file of certificates can't be read.
    #[error("cannot read certificates from {path}")]
    File {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A file of certificates holds none that can be used.
    #[error("no usable certificate in {0}")]
    Empty(String),
    /// Neither the system nor the operator names a certificate to trust.
    #[error("the system has no trusted certificates, and webhook.extra_ca_file names none")]
    NoRoots,
    /// The TLS library refuses.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The TLS library refuses the roots.
    #[error("the trusted certificates cannot be used")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// When the chain of a host ends, as last seen.
pub(super) type CertificateEnds = Arc<DashMap<String, TimestampMs>>;

/// Verifies as usual, and keeps when the chain ends.
#[derive(Debug)]
struct Watching {
    inner: Arc<WebPkiServerVerifier>,
    ends: CertificateEnds,
}

impl ServerCertVerifier for Watching {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        let chain = std::iter::once(end_entity).chain(intermediates);
        let ends = chain
            .filter_map(|certificate| certificate::ends_at(certificate))
            .min();
        if let Some(ends) = ends {
            if self.ends.len() >= HOSTS_MAX {
                self.ends.clear();
            }
            self.ends.insert(server_name.to_str().into_owned(), ends);
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The certificates of a file of the operator's.
pub(super) fn certificates_of(path: &Path) -> Result<RootCertStore, TrustError> {
    let shown = path.display().to_string();
    let file_error = |source| TrustError::File {
        path: shown.clone(),
        source,
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path).map_err(file_error)?;
    let certificates: Result<Vec<_>, _> = certificates.collect();
    match roots.add_parsable_certificates(certificates.map_err(file_error)?) {
        (0, _) => Err(TrustError::Empty(shown)),
        _ => Ok(roots),
    }
}

/// The client's side of TLS: the system's trusted certificates and those of `extra_ca_file`, HTTP/2 before HTTP/1.1.
pub(super) fn client_config(
    extra_ca_file: Option<&Path>,
    ends: CertificateEnds,
) -> Result<ClientConfig, TrustError> {
    let mut roots = match extra_ca_file {
        Some(path) => certificates_of(path)?,
        None => RootCertStore::empty(),
    };
    // A certificate of the system's that can't be used is no reason not to start: the others may do.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TrustError::NoRoots);
    }
    // The provider that the HTTP client brings; there is no other in the program.
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Watching { inner, ends }))
        .with_no_client_auth();
    // A connection that goes on with the keys of one before it is shown no certificate: one that has ended meanwhile, or was
    // replaced by one that does not verify, would be taken for good for as long as the receiver's tickets hold.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
