//! The public listener.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use actix_http::HttpService;
use actix_server::{Server, ServerHandle};
use actix_service::{ServiceFactoryExt, apply_fn_factory, map_config};
use actix_web::dev::AppConfig;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, ServiceConfig};
use actix_web::{App, Error, HttpRequest};
use anyhow::Context;
#[cfg(target_os = "linux")]
use porchlight_schema::limits::UNREAD_MS_MAX;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::expect;
use super::middleware;
use super::open_files;
use super::problem::Problem;
use super::route;
use super::state::State;

/// The time for which an idle connection stays open: phones that send a batch every ten seconds or
/// every minute keep theirs.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// Deadline for a complete request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time for which a connection is read after an answer that closes it.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of new connections that wait in the kernel until they are accepted.
const CONNECTIONS_QUEUED_MAX: i32 = 2_048;
/// The maximum time for requests in flight when a listener stops.
pub const STOP_TIMEOUT_SEC: u64 = 10;
/// The interval at which a stopping listener checks for open connections.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running listener.
#[derive(Debug)]
pub struct Served {
    /// The address of the listener.
    pub address: SocketAddr,
    /// The handle that stops the listener.
    pub handle: ServerHandle,
    /// The open connections of the listener.
    pub connections: Connections,
}

/// The open connections of a listener.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<AtomicUsize>);

/// Counts one connection while it is open.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    fn open(&self) -> Open {
        self.0.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.0))
    }

    /// Waits until no connection is open, at most until the given time.
    pub async fn wait_until_none_open(&self, until: Instant) {
        while self.0.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            sleep(CLOSE_POLL_INTERVAL).await;
        }
    }
}

/// Serves `routes` with `state` at `address`; port 0 picks a free one. Other paths answer 404.
///
/// # Errors
///
/// Returns an error if the address cannot be bound.
pub fn listen(
    state: Data<State>,
    address: SocketAddr,
    workers: usize,
    routes: impl Fn(&mut ServiceConfig) + Clone + Send + 'static,
) -> anyhow::Result<Served> {
    let connections = Connections::default();
    let connected = connections.clone();
    let served = state.clone();
    let app = move || {
        let app = App::new()
            .wrap(from_fn(middleware::edge))
            .app_data(served.clone())
            .configure(routes.clone())
            .default_service(web::to(|http: HttpRequest| {
                route::refuse(http, Problem::not_found())
            }));
        map_config(app, |()| AppConfig::default())
    };
    let listener =
        bound(address).with_context(|| format!("server.listen: {address} cannot be bound"))?;
    let address = listener.local_addr()?;
    let builder = Server::build();
    let stopping = builder.graceful_shutdown_signal();
    let workers = workers.max(1);
    let server = builder
        .workers(workers)
        .max_concurrent_connections(open_files::worker_connections_max(workers))
        .shutdown_timeout(STOP_TIMEOUT_SEC)
        .disable_signals()
        .listen("public", listener, move || {
            let (stopping, connected) = (stopping.clone(), connected.clone());
            HttpService::build()
                .graceful_shutdown_signal(move || {
                    let stopping = stopping.clone();
                    async move { stopping.notified().await }
                })
                .keep_alive(KEEP_ALIVE)
                .client_request_timeout(HEAD_TIMEOUT)
                .client_disconnect_timeout(DISCONNECT_TIMEOUT)
                .local_addr(address)
                // Streams send small answers, which Nagle's algorithm would delay by 40 ms.
                .tcp_nodelay(true)
                .on_connect_ext(move |connection: &TcpStream, data| {
                    set_unread_timeout(connection);
                    data.insert(connected.open());
                })
                .expect(
                    apply_fn_factory(app(), expect::hold)
                        .map_err(|error: Error| error.error_response()),
                )
                .finish(
                    apply_fn_factory(app(), expect::resume)
                        .map_err(|error: Error| error.error_response()),
                )
                .tcp()
        })?
        .run();
    if let Some(links) = &state.links {
        links.listening_at(address);
    }
    let handle = server.handle();
    actix_rt::spawn(server);
    Ok(Served {
        address,
        handle,
        connections,
    })
}

/// Opens a listening socket whose queue holds a burst of new connections.
fn bound(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    rustix::net::listen(&listener, CONNECTIONS_QUEUED_MAX)?;
    Ok(listener)
}

/// Makes the kernel close a connection whose peer does not read. The framework waits for room to
/// write as long as the connection lasts, so a peer that never reads could hold it forever.
fn set_unread_timeout(connection: &TcpStream) {
    // A closed connection rejects the option.
    #[cfg(target_os = "linux")]
    let _set = rustix::net::sockopt::set_tcp_user_timeout(connection, UNREAD_MS_MAX);
    #[cfg(not(target_os = "linux"))]
    let _unread = connection;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn connections_with_unread_data_time_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_other, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, _) = accepted.unwrap();
        set_unread_timeout(&stream);
        let set = rustix::net::sockopt::tcp_user_timeout(&stream).unwrap();
        assert_eq!(set, UNREAD_MS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_a_limited_time_for_open_connections() {
        let connections = Connections::default();
        let began = Instant::now();
        let grace = Duration::from_secs(2);
        connections.wait_until_none_open(began + grace).await;
        assert_eq!(
            began.elapsed(),
            Duration::ZERO,
            "a stop without connections waits for nothing"
        );
        let first = connections.open();
        let (second, other) = (connections.open(), connections.clone());
        let leaving = tokio::spawn(async move {
            sleep(Duration::from_millis(500)).await;
            drop((first, second));
        });
        other.wait_until_none_open(began + grace).await;
        leaving.await.unwrap();
        let closed_after = Duration::from_millis(500);
        let seen = closed_after..=closed_after + 2 * CLOSE_POLL_INTERVAL;
        assert!(
            seen.contains(&began.elapsed()),
            "the stop waits until the connections have closed"
        );
        let _stays = connections.open();
        connections.wait_until_none_open(began + grace).await;
        let over = grace..=grace + 2 * CLOSE_POLL_INTERVAL;
        assert!(
            over.contains(&began.elapsed()),
            "the stop waits for its limit if a connection stays open"
        );
    }
}
