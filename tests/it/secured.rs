//! Tests a CQL cluster that authenticates its clients: certificates on both sides, a password, and
//! only the documented rights.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use porchlight_world as world;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::cql_server::CqlServer;
use crate::phone::Client;
use crate::server::{Folder, Server, block_on, porchlight};

/// The timeout of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

fn random() -> String {
    let mut bytes = [0; 16];
    world::fill_random(&mut bytes);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// A certificate issuer, and its certificate file.
struct Issuer {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Issuer {
    fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let file = folder.join(format!("{name}.pem"));
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// Creates a certificate for this name or address, and its key; also both in one file, as the
    /// server requires.
    fn sign(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let write = |ending: &str, text: String| {
            let file = folder.join(format!("{name}.{ending}"));
            std::fs::write(&file, text).unwrap();
            file
        };
        (
            write("crt", certificate.clone()),
            write("key", key.serialize_pem()),
            write("both", key.serialize_pem() + &certificate),
        )
    }
}

/// Returns the settings of a node that presents this certificate, and requires one of the same
/// issuer and a password.
fn settings(both: &Path, ca_file: &Path) -> String {
    format!(
        "authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
role_manager: CassandraRoleManager
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
  keystore: {}
  truststore: {}
",
        both.display(),
        ca_file.display()
    )
}

/// Connects as the server's own first user, once it exists.
async fn as_first_user(node: &str, ca_file: &Path, identity: (&Path, &Path)) -> Session {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(ca_file).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_file(identity.0).unwrap()],
            PrivateKeyDer::from_pem_file(identity.1).unwrap(),
        );
    let tls = Arc::new(tls.unwrap());
    let began = Instant::now();
    loop {
        let building = SessionBuilder::new()
            .known_node(node)
            .user("cassandra", "cassandra")
            .tls_context(Some(Arc::clone(&tls)));
        match building.build().await {
            Ok(session) => return session,
            Err(error) => assert!(began.elapsed() < STEP_TIMEOUT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the error of a `serve` that cannot start.
pub(crate) fn refused(folder: &Folder, variables: &[(&str, &str)]) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = porchlight()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--ops-listen", "127.0.0.1:0", "--data"])
        .arg(folder.store())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert_eq!(status.code(), Some(1));
    let output = [stdout, stderr].concat();
    String::from_utf8(output).unwrap()
}

/// Opens a proxy to the node under another address.
async fn start_proxy(node: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let node = node.clone();
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(node).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
            });
        }
    });
    address
}

#[test]
#[expect(clippy::too_many_lines, reason = "the steps of one scenario, in order")]
fn a_secured_cluster_works_and_refuses_other_clients() {
    let folder = Folder::new();
    let place = folder.path();
    let (ours, others) = (Issuer::new(place, "ours"), Issuer::new(place, "others"));
    let (certificate, key, _) = ours.sign(place, "porchlight");
    let (mut host, mut shown) = (String::new(), PathBuf::new());
    let node = CqlServer::start_with_settings(|at| {
        shown = ours.sign(place, at).2;
        at.clone_into(&mut host);
        settings(&shown, &ours.file)
    });
    let Some(_node) = node else { return };
    let address = format!("{host}:9042");
    let password = random();
    let password_file = place.join("password");
    std::fs::write(&password_file, format!("{password}\n")).unwrap();
    block_on(async {
        let first = as_first_user(&address, &ours.file, (&certificate, &key)).await;
        for statement in [
            format!("CREATE ROLE porchlight WITH PASSWORD = '{password}' AND LOGIN = true"),
            "CREATE KEYSPACE porchlight WITH replication = \
             {'class': 'NetworkTopologyStrategy', 'replication_factor': '1'}"
                .to_owned(),
            "GRANT CREATE ON KEYSPACE porchlight TO porchlight".to_owned(),
            "GRANT ALTER ON KEYSPACE porchlight TO porchlight".to_owned(),
            "GRANT SELECT ON KEYSPACE porchlight TO porchlight".to_owned(),
            "GRANT MODIFY ON KEYSPACE porchlight TO porchlight".to_owned(),
        ] {
            first.query_unpaged(statement, ()).await.unwrap();
        }
    });
    let seal = place.join("seal");
    std::fs::write(&seal, "5e".repeat(32)).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let good = [
        ("PORCHLIGHT__STORE__KIND", "cql".to_owned()),
        ("PORCHLIGHT__STORE__CQL__NODES", address.clone()),
        ("PORCHLIGHT__STORE__CQL__REPLICATION_FACTOR", "1".to_owned()),
        ("PORCHLIGHT__STORE__CQL__INGEST_TIMEOUT", "2s".to_owned()),
        ("PORCHLIGHT__STORE__CQL__USER", "porchlight".to_owned()),
        (
            "PORCHLIGHT__STORE__CQL__PASSWORD_FILE",
            text(&password_file),
        ),
        ("PORCHLIGHT__STORE__CQL__TLS", "true".to_owned()),
        ("PORCHLIGHT__STORE__CQL__CA_FILE", text(&ours.file)),
        (
            "PORCHLIGHT__STORE__CQL__CERTIFICATE_FILE",
            text(&certificate),
        ),
        ("PORCHLIGHT__STORE__CQL__KEY_FILE", text(&key)),
        ("PORCHLIGHT__SECRETS__KEY_FILES", text(&seal)),
    ];
    let with = |name: &str, value: &str| -> Vec<(&str, String)> {
        let change = |(key, old): &(&'static str, String)| {
            let is_meant = key.ends_with(name);
            (
                *key,
                if is_meant {
                    value.to_owned()
                } else {
                    old.clone()
                },
            )
        };
        good.iter().map(change).collect()
    };

    let wrong = random();
    let wrong_file = place.join("wrong");
    std::fs::write(&wrong_file, &wrong).unwrap();
    let proxying = tokio::runtime::Runtime::new().unwrap();
    let elsewhere = proxying.block_on(start_proxy(address));
    for (name, value, expected) in [
        (
            "PASSWORD_FILE",
            text(&wrong_file),
            "Provided username porchlight and/or password are incorrect",
        ),
        (
            "CA_FILE",
            text(&others.file),
            "invalid peer certificate: UnknownIssuer",
        ),
        (
            "CQL__NODES",
            elsewhere,
            "invalid peer certificate: certificate not valid for name \"127.0.0.1\"",
        ),
    ] {
        let variables = with(name, &value);
        let variables: Vec<_> = variables.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let output = refused(&folder, &variables);
        println!("{name}: {output}");
        assert!(output.contains(expected), "{name}: {output}");
        assert!(
            output.contains("the CQL cluster cannot be reached"),
            "{output}"
        );
        for secret in [&password, &wrong] {
            assert!(
                !output.contains(secret.as_str()),
                "{name}: a password is in the output"
            );
        }
    }

    let variables: Vec<_> = good.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let server = Server::start(&folder, &variables);
    let url = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    block_on(async {
        let sent = client.send(0, Duration::ZERO).await;
        assert_eq!(client.insight(&sent.session_id).await["status"], "ready");
    });
    server.stop();
}
