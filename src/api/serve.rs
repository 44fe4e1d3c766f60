//! The public listener.

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use anyhow::Context;
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;

use super::path_image::PathImages;
use super::{ApiConfig, ApiState, configure, edge, keep_tidy, observe};
use crate::config::Config;
use crate::console::Console;
use crate::keys::SessionTokens;
use crate::store::secrets::SecretKeys;

/// How long a silent connection is kept: a phone that sends a batch every ten seconds or every minute keeps its own.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// A head that is not whole after this long is given up.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Connections of one worker.
const WORKER_CONNECTIONS_MAX: usize = 20_000;
/// How long requests that are being answered may go on when the listener stops.
const STOP_WITHIN_SEC: u64 = 10;

/// A listener that takes requests.
#[derive(Debug)]
pub struct Served {
    /// Where it listens.
    pub address: SocketAddr,
    /// By which it is stopped.
    pub handle: ServerHandle,
}

/// Serves the API at `server.listen`, from the running system on; with it comes the state that it serves from.
///
/// # Errors
///
/// The address can't be bound.
pub fn serve(
    config: &Config,
    workers: usize,
    service: Service,
    webhooks: Webhooks,
    secrets: &SecretKeys,
) -> anyhow::Result<(Served, Data<ApiState>)> {
    let api = ApiConfig {
        rate_limit_per_second: config.server.rate_limit_per_second,
        ..ApiConfig::default()
    };
    let console = Console::new(secrets);
    let state = ApiState::new(service, SessionTokens::of(secrets), api)
        .with_webhooks(webhooks)
        .with_console(console)
        .with_images(PathImages::of(secrets, &config.server.public_url));
    let state = Data::new(state);
    observe::install();
    actix_rt::spawn(keep_tidy(state.clone()));
    let served = listen(state.clone(), config.server.listen, workers)?;
    Ok((served, state))
}

/// Serves `state` at `address`; port 0 is any free one.
///
/// # Errors
///
/// The address can't be bound.
pub fn listen(
    state: Data<ApiState>,
    address: SocketAddr,
    workers: usize,
) -> anyhow::Result<Served> {
    let server = HttpServer::new(move || {
        App::new()
            .wrap(from_fn(edge::edge))
            .configure(configure(state.clone()))
    })
    .workers(workers.max(1))
    .keep_alive(KEEP_ALIVE)
    .client_request_timeout(HEAD_WITHIN)
    .max_connections(WORKER_CONNECTIONS_MAX)
    .shutdown_timeout(STOP_WITHIN_SEC)
    .disable_signals()
    .bind(address)
    .with_context(|| format!("server.listen: {address} can't be bound"))?;
    let address = server
        .addrs()
        .first()
        .copied()
        .context("server.listen: nothing was bound")?;
    let server = server.run();
    let handle = server.handle();
    actix_rt::spawn(server);
    Ok(Served { address, handle })
}
