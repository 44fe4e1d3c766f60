//! The operators' listener: metrics, health, and the operators' API, through which the command line
//! uses the store of a running server. It must never be public and listens on loopback by default.
//!
//! | method, path | answer |
//! |---|---|
//! | GET `/` | the operators' page; its style sheet is `/page.css` |
//! | GET `/metrics` | the metrics, as text |
//! | GET `/healthz` | 200 while the process runs, without further checks |
//! | GET `/readyz` | 200 or 503, and the result of each check |
//! | POST `/admin/keys` | [`porchlight_keys::CreateKeyRequest`] → 201 [`porchlight_keys::CreatedKey`] |
//! | GET `/admin/keys` | 200 `{data: [`[`porchlight_keys::ListedKey`]`]}` |
//! | POST `/admin/keys/{id}/revoke` | 200 [`porchlight_keys::ListedKey`] |
//! | POST `/admin/backup` | `{folder}` → 200 `{rows, bytes}` |
//! | POST `/admin/audit/verify` | 200 `{data: [`[`porchlight_actors::audit::ChainReport`]`]}` |
//! | POST `/admin/store/check` | `{quarantine}` → 200 [`porchlight_store::CheckReport`] |
//! | POST `/admin/secrets/rewrap` | 200 [`porchlight_keys::secrets::Rewrapped`] |
//!
//! Paths under `/admin` require `Authorization: Bearer TOKEN` with the token that the server writes
//! next to its store at each start, readable by its owner only ([`token`]): users who can read the
//! store may administer it.

pub mod client;
pub mod token;

mod admin;
mod health;
mod host;
mod page;
mod scrape;

use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{App, HttpResponse, HttpServer};
use anyhow::Context;
use metrics_exporter_prometheus::PrometheusHandle;
use porchlight_actors::service::Service;
use porchlight_http::middleware::plain_edge;
use porchlight_http::problem::Problem;
use porchlight_http::route::{at, get};
use porchlight_http::serve::STOP_TIMEOUT_SEC;
use porchlight_keys::KeyAdmin;
use porchlight_keys::keyring::SecretKeys;
use porchlight_keys::secrets::SecretVault;
use porchlight_observe::runtime::RuntimeMetrics;
use porchlight_ports::{Keys, Outbox};
use porchlight_schema::ids::KeyId;
use porchlight_store::EmbeddedStore;

use crate::cluster::OwnershipView;
use crate::config::Config;
use crate::open_store::OpenStore;
use crate::retention::RetentionStatus;
use token::TokenFile;

/// A callback that runs after a key was revoked on this node, to evict it from caches.
pub type OnRevoked = Arc<dyn Fn(KeyId) + Send + Sync>;

/// The state of the operators' listener.
pub struct OpsState {
    service: Service,
    key_admin: KeyAdmin,
    store: Option<Arc<EmbeddedStore>>,
    metrics: PrometheusHandle,
    process: metrics_process::Collector,
    token: TokenFile,
    on_revoked: OnRevoked,
    sealing: Option<Sealing>,
    config: Option<page::ConfigView>,
    health: NodeHealth,
    backup_files: &'static [&'static str],
}

/// The sources of the health checks in addition to the service.
#[derive(Debug, Clone, Default)]
pub struct NodeHealth {
    /// This node's view of the other nodes, if the process is part of a cluster.
    pub view: Option<Arc<OwnershipView>>,
    /// The status of the deletion of old sessions.
    pub retention: Arc<RetentionStatus>,
}

/// The vault and the store of customers' secrets.
struct Sealing {
    vault: SecretVault,
    outbox: Arc<dyn Outbox>,
}

impl std::fmt::Debug for OpsState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpsState").finish_non_exhaustive()
    }
}

impl OpsState {
    /// Creates the state; `store` is `None` if there is nothing to back up.
    #[must_use]
    pub fn new(
        service: Service,
        keys: Arc<dyn Keys>,
        store: Option<Arc<EmbeddedStore>>,
        metrics: PrometheusHandle,
        token: TokenFile,
    ) -> Self {
        let process = metrics_process::Collector::default();
        process.describe();
        let key_admin = KeyAdmin::new(keys);
        Self {
            service,
            key_admin,
            store,
            metrics,
            process,
            token,
            on_revoked: Arc::new(|_| {}),
            sealing: None,
            config: None,
            health: NodeHealth::default(),
            backup_files: &[],
        }
    }

    /// Shows this configuration on the operators' page.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration cannot be written as TOML.
    pub fn with_config(mut self, config: &Config) -> anyhow::Result<Self> {
        self.config = Some(page::ConfigView::of(config)?);
        Ok(self)
    }

    /// Allows operators to seal the secrets in `outbox` again.
    #[must_use]
    pub fn with_sealing(mut self, vault: SecretVault, outbox: Arc<dyn Outbox>) -> Self {
        self.sealing = Some(Sealing { vault, outbox });
        self
    }

    /// Adds sources for the health checks.
    #[must_use]
    pub fn with_health(mut self, health: NodeHealth) -> Self {
        self.health = health;
        self
    }

    /// Sets the files next to the store that a backup copies.
    #[must_use]
    pub fn with_backup_files(mut self, files: &'static [&'static str]) -> Self {
        self.backup_files = files;
        self
    }

    /// Adds a callback for revocations.
    #[must_use]
    pub fn on_revoked(mut self, on_revoked: OnRevoked) -> Self {
        self.on_revoked = on_revoked;
        self
    }
}

/// The parts of the process that operators see or change.
pub struct OpsParts<'a> {
    /// The settings, which the operators' page shows.
    pub config: &'a Config,
    /// The service, whose state the health checks report.
    pub service: Service,
    /// The store, which operators back up and check.
    pub store: &'a OpenStore,
    /// The metrics of the process.
    pub metrics: PrometheusHandle,
    /// The keys under which customers' secrets are sealed.
    pub secrets: &'a SecretKeys,
    /// The callback that runs after a key was revoked.
    pub on_revoked: OnRevoked,
    /// Further sources of the health checks.
    pub health: NodeHealth,
}

/// Serves operators at `server.ops_listen` and writes the token next to the store. Returns the
/// address and the handle that stops the listener.
///
/// # Errors
///
/// Returns an error if the address cannot be bound, or if the token cannot be written.
pub fn serve(parts: OpsParts<'_>) -> anyhow::Result<(SocketAddr, ServerHandle)> {
    let OpsParts {
        config,
        service,
        store,
        metrics,
        secrets,
        on_revoked,
        health,
    } = parts;
    let listener = std::net::TcpListener::bind(config.server.ops_listen).with_context(|| {
        format!(
            "server.ops_listen: {} cannot be bound",
            config.server.ops_listen
        )
    })?;
    let address = listener.local_addr()?;
    if TokenFile::is_left_over(&config.store.path) {
        RuntimeMetrics::get().unclean_start.set(1.0);
        tracing::warn!("the previous process ended without draining");
    }
    let token = TokenFile::write(&config.store.path, address)?;
    let embedded = store.embedded().map(Arc::clone);
    let state = OpsState::new(service, store.keys(), embedded, metrics, token)
        .on_revoked(on_revoked)
        .with_health(health)
        .with_backup_files(config.backup_files())
        .with_sealing(SecretVault::new(secrets), store.outbox())
        .with_config(config)?;
    let state = Data::new(state);
    let hosts = Data::new(host::HostNames(config.server.ops_hosts.clone()));
    let server = HttpServer::new(move || {
        App::new()
            .wrap(from_fn(host::check))
            .wrap(from_fn(plain_edge))
            .app_data(hosts.clone())
            .configure(configure(state.clone()))
    })
    .workers(1)
    .shutdown_timeout(STOP_TIMEOUT_SEC)
    .disable_signals()
    .listen(listener)?
    .run();
    let handle = server.handle();
    actix_rt::spawn(server);
    Ok((address, handle))
}

/// Returns the operators' routes; other paths answer 404.
pub fn configure(state: Data<OpsState>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        config
            .app_data(state)
            .service(at("/", "GET, HEAD").route(get().to(page::page)))
            .service(at("/page.css", "GET, HEAD").route(get().to(page::style)))
            .service(at("/metrics", "GET, HEAD").route(get().to(health::metrics)))
            .service(at("/healthz", "GET, HEAD").route(get().to(health::alive)))
            .service(at("/readyz", "GET, HEAD").route(get().to(health::ready)))
            .service(
                at("/admin/keys", "GET, HEAD, POST")
                    .route(get().to(admin::list_keys))
                    .route(web::post().to(admin::create_key)),
            )
            .service(at("/admin/keys/{id}/revoke", "POST").route(web::post().to(admin::revoke_key)))
            .service(at("/admin/audit/verify", "POST").route(web::post().to(admin::verify_audit)))
            .service(at("/admin/backup", "POST").route(web::post().to(admin::backup)))
            .service(at("/admin/store/check", "POST").route(web::post().to(admin::check_store)))
            .service(at("/admin/secrets/rewrap", "POST").route(web::post().to(admin::rewrap)))
            .default_service(web::to(|| async {
                Err::<HttpResponse, _>(Problem::not_found())
            }));
    }
}
