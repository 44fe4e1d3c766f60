//! The public listener: the API and the console on one address.

use std::sync::Arc;

use actix_web::web::{Data, ServiceConfig};
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_api::Drawings;
use porchlight_console::Console;
use porchlight_http::client_address::TrustedProxies;
use porchlight_http::links::SignedLinks;
use porchlight_http::serve::{Served, listen};
use porchlight_http::{Settings, State};
use porchlight_keys::Tokens;
use porchlight_keys::keyring::SecretKeys;
use porchlight_map::StreetMap;
use porchlight_ports::Keys;

use crate::config::Config;

/// The parts of the process that the public listener uses.
pub(crate) struct ListenerParts<'a> {
    /// The settings of the listener.
    pub(crate) config: &'a Config,
    /// The number of processors.
    pub(crate) cores: usize,
    /// The service behind the API and the console.
    pub(crate) service: Service,
    /// The stored keys of the API.
    pub(crate) keys: Arc<dyn Keys>,
    /// The webhooks of the process.
    pub(crate) webhooks: Webhooks,
    /// The keys that sign tokens and links.
    pub(crate) secrets: &'a SecretKeys,
    /// The street map, if one is configured.
    pub(crate) map: Option<Arc<StreetMap>>,
}

/// Serves the API and the console at `server.listen` and returns the shared state.
///
/// # Errors
///
/// Returns an error if the address cannot be bound.
pub(crate) fn serve(parts: ListenerParts<'_>) -> anyhow::Result<(Served, Data<State>)> {
    let ListenerParts {
        config,
        cores,
        service,
        keys,
        webhooks,
        secrets,
        map,
    } = parts;
    let workers = match config.server.workers {
        0 => cores,
        workers => workers,
    };
    let settings = Settings {
        rate_limit_per_second: config.server.rate_limit_per_second,
        ..Settings::default()
    };
    let state = State::new(service, keys, Tokens::of(secrets), settings)
        .with_webhooks(webhooks)
        .with_links(SignedLinks::of(secrets, &config.server.public_url))
        .with_cors(config.server.origins()?);
    let proxies = config.server.proxies()?;
    let proxies =
        TrustedProxies::new(move |address| proxies.iter().any(|proxy| proxy.contains(address)));
    let console = Console::new(secrets)
        .with_trusted_proxies(proxies.clone())
        .with_map(map.clone());
    let (state, console) = (Data::new(state), Data::new(console));
    porchlight_http::observe::install();
    actix_rt::spawn(porchlight_http::run_cleanup(state.clone()));
    actix_rt::spawn(porchlight_console::run_cleanup(
        console.clone(),
        state.clone(),
    ));
    let api = porchlight_api::routes(Data::new(Drawings::new(map)));
    let console = porchlight_console::routes(console);
    let routes = move |config: &mut ServiceConfig| {
        api(config);
        console(config);
        // The audit log names the client and not the proxy.
        config.app_data(proxies.clone());
    };
    let served = listen(state.clone(), config.server.listen, workers, routes)?;
    Ok((served, state))
}
