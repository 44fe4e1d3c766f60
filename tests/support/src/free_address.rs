//! Addresses for servers whose port must be known before they start.

use std::net::SocketAddr;
use std::sync::Mutex;

use tokio::net::TcpSocket;

/// The reserved ports of this process, each held by a socket that is bound and does not listen.
static RESERVED: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());

/// Reserves a loopback address until the end of this process and returns it.
///
/// Nothing listens on it, so a connection to it is refused. A server can listen on it, also
/// repeatedly, because servers set `SO_REUSEADDR`, as the reserving socket does. Meanwhile the
/// kernel gives its port to no outgoing connection and to no listener that asks for any port.
pub fn free_address() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    RESERVED.lock().unwrap().push(socket);
    address
}

#[test]
fn a_reserved_address_admits_one_listener_after_another() {
    let address = free_address();
    assert!(std::net::TcpStream::connect(address).is_err());
    for _ in 0..2 {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let connection = std::net::TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        drop((listener, accepted, connection));
    }
    let mut others: Vec<_> = (0..200).map(|_| free_address()).collect();
    others.sort_unstable();
    others.dedup();
    assert_eq!((others.len(), others.contains(&address)), (200, false));
}
