//! Manages trusted certificates, and records the expiry of receivers' certificates.

use std::path::Path;
use std::sync::Arc;

use dashmap::DashMap;
use porchlight_schema::time::TimestampMs;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
};

use super::certificate;

/// The maximum number of hosts whose certificate expiry is cached.
const HOSTS_MAX: usize = 65_536;

/// The error of setting up the trusted certificates.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A certificate file cannot be read.
    #[error("the certificates in {path} cannot be read")]
    File {
        /// The path of the file.
        path: String,
        /// The reason why the file cannot be read.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate file contains no usable certificate.
    #[error("no usable certificate in {0}")]
    Empty(String),
    /// Neither the system nor the operator trusts any certificate.
    #[error("the system has no trusted certificates, and webhook.extra_ca_file names none")]
    NoRoots,
    /// The TLS library refuses the settings.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The TLS library refuses the certificates.
    #[error("the trusted certificates cannot be used")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// The last seen expiry of each host's chain.
pub(super) type CertificateEnds = Arc<DashMap<ServerName<'static>, TimestampMs>>;

/// The reason why a certificate without a trusted issuer does not verify.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is self-signed")]
pub(super) struct SelfSigned;

/// Replaces an error about the issuer, or one that names no common reason, if the certificate is
/// self-signed. `openssl req -x509` makes a certificate authority, for which the error is that it
/// is no server's certificate.
fn name_self_signed(error: rustls::Error, certificate: &CertificateDer<'_>) -> rustls::Error {
    match error {
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::Other(_),
        ) if certificate::is_self_signed(certificate) => {
            CertificateError::Other(OtherError(Arc::new(SelfSigned))).into()
        }
        error => error,
    }
}

/// Verifies certificates as usual and records the expiry of their chain.
#[derive(Debug)]
struct ExpiryRecorder {
    inner: Arc<WebPkiServerVerifier>,
    ends: CertificateEnds,
}

impl ServerCertVerifier for ExpiryRecorder {
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
        );
        let verified = verified.map_err(|error| name_self_signed(error, end_entity))?;
        let chain = std::iter::once(end_entity).chain(intermediates);
        let ends = chain
            .filter_map(|certificate| certificate::ends_at(certificate))
            .min();
        if let Some(ends) = ends {
            if self.ends.len() >= HOSTS_MAX {
                self.ends.clear();
            }
            self.ends.insert(server_name.to_owned(), ends);
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

/// Returns the certificates of an operator's file.
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

/// Returns the TLS client configuration: the system's certificates and the certificates of
/// `extra_ca_file`, HTTP/2 before HTTP/1.1.
pub(super) fn client_config(
    extra_ca_file: Option<&Path>,
    ends: CertificateEnds,
) -> Result<ClientConfig, TrustError> {
    let mut roots = match extra_ca_file {
        Some(path) => certificates_of(path)?,
        None => RootCertStore::empty(),
    };
    // An unusable system certificate is ignored; the others may suffice.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TrustError::NoRoots);
    }
    // The cryptography provider of the HTTP client; the program has no other.
    let provider: Arc<CryptoProvider> = Arc::new(aws_lc_rs::default_provider());
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ExpiryRecorder { inner, ends }))
        .with_no_client_auth();
    // A resumed connection shows no certificate: an expired certificate, or a certificate replaced
    // by an invalid one, would be accepted as long as the receiver's tickets are valid.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
