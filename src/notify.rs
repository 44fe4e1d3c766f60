//! Notifies systemd of the service's state through the socket `NOTIFY_SOCKET` (sd_notify(3)), if
//! there is one.

use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use porchlight_observe::error_text;

/// The message that the service accepts requests.
pub(crate) const READY: &str = "READY=1";
/// The message that the service drains.
pub(crate) const STOPPING: &str = "STOPPING=1";
/// The message that every thread is alive.
const ALIVE: &str = "WATCHDOG=1";

/// Notifies systemd. If a message is lost, systemd's own timeouts apply.
pub(crate) fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = address_of(&name);
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(
            error = error_text(&error),
            state,
            "systemd cannot be notified"
        );
    }
}

/// Returns the socket's address. A name that starts with `@` is abstract, which exists on Linux
/// only.
fn address_of(name: &OsStr) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}

/// The time of each thread's last tick.
#[derive(Debug)]
pub(crate) struct ThreadTicks {
    origin: Instant,
    /// Milliseconds since `origin`.
    ticked: Vec<AtomicU64>,
}

impl ThreadTicks {
    /// Creates the record of `threads` threads, which count as alive at first.
    pub(crate) fn of(threads: usize) -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            ticked: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Records a tick of this thread.
    pub(crate) fn tick(&self, thread: usize) {
        if let Some(ticked) = self.ticked.get(thread) {
            ticked.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Returns whether every thread has ticked within the last `within`.
    fn is_alive(&self, within: Duration) -> bool {
        let oldest = self
            .ticked
            .iter()
            .map(|at| at.load(Ordering::Relaxed))
            .min();
        let age_ms = self.now_ms().saturating_sub(oldest.unwrap_or(u64::MAX));
        Duration::from_millis(age_ms) <= within
    }
}

/// Feeds systemd's watchdog, if it is enabled, as long as every one of these threads ticks.
pub(crate) async fn feed_watchdog(ticks: Arc<ThreadTicks>) {
    let variable = std::env::var("WATCHDOG_USEC").ok();
    let Some(limit_us) = variable
        .and_then(|text| text.parse().ok())
        .filter(|us| *us > 0)
    else {
        return;
    };
    let half = Duration::from_micros(limit_us) / 2;
    loop {
        if ticks.is_alive(half) {
            send(ALIVE);
        }
        actix_rt::time::sleep(half / 2).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stalled_thread_is_detected() {
        let ticks = ThreadTicks::of(2);
        assert!(ticks.is_alive(Duration::from_secs(3_600)));
        std::thread::park_timeout(Duration::from_millis(30));
        ticks.tick(0);
        assert!(!ticks.is_alive(Duration::from_millis(10)));
        assert!(ThreadTicks::of(0).is_alive(Duration::ZERO));
    }
}
