//! TLS to the cluster: trusted authorities and the client certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The certificates of the connection. Every node's must name the address at which it is reached.
#[derive(Debug, Clone, Default)]
pub struct CqlTls {
    /// The PEM file of the authorities that may sign the nodes' certificates; `None`: the
    /// authorities that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// The PEM files of the client certificate and its key, if the cluster requires one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl CqlTls {
    /// Reads and parses the files, as a connection does.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection cannot use a file.
    pub fn check(&self) -> Result<(), TlsError> {
        context(self).map(drop)
    }
}

/// The reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or contains nothing of its kind.
    #[error("{0} cannot be used for TLS to the CQL cluster")]
    File(String, #[source] rustls::pki_types::pem::Error),
    /// No trusted certificate authority is available.
    #[error("no trusted certificate is configured for TLS to the CQL cluster")]
    NoRoots,
    /// The TLS library refuses the settings.
    #[error("TLS to the CQL cluster cannot be set up")]
    Tls(#[from] rustls::Error),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| TlsError::File(path.display().to_string(), error);
    CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)
}

/// Returns the client's TLS configuration. With a file of authorities, no others are trusted: a
/// database is not a public service.
pub(super) fn context(tls: &CqlTls) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    match &tls.ca_file {
        Some(file) => roots.add_parsable_certificates(certificates(file)?),
        None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    };
    if roots.is_empty() {
        return Err(TlsError::NoRoots);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match &tls.identity {
        Some((certificate, key)) => {
            let failed = |error| TlsError::File(key.display().to_string(), error);
            let key = PrivateKeyDer::from_pem_file(key).map_err(failed)?;
            builder.with_client_auth_cert(certificates(certificate)?, key)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}
