//! Addresses for servers whose port must be known before they start.

use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, TcpListener};

/// The ports to choose from. The kernel gives outgoing connections ports from 32,768 up (Linux) or
/// 49,152 up (RFC 6335), so no connection takes such a port before its server starts.
const PORTS: std::ops::Range<u64> = 10_240..32_768;

/// Returns a loopback address on which nothing listens.
pub fn free_address() -> SocketAddr {
    loop {
        let random = RandomState::new().hash_one(());
        let port = PORTS.start + random % (PORTS.end - PORTS.start);
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap())) {
            return listener.local_addr().unwrap();
        }
    }
}
