//! The connections between nodes: all others dial a proxy in front of each node, so that a test can
//! cut or mute a connection. A proxy of the same kind is the link between two data centres of a
//! database.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The state of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// The wire carries data.
    Open,
    /// Connections end, and new ones are not made.
    Cut,
    /// Connections stay, and their data is lost.
    Mute,
}

/// The wires of a cluster.
pub(super) struct Wires {
    /// The wires to each dialled node, one for each dialling node.
    wires: Vec<Vec<watch::Sender<Wire>>>,
    /// The current processes of the nodes.
    processes: Mutex<Vec<Option<u32>>>,
}

impl Wires {
    pub(super) fn new(nodes: usize) -> Arc<Self> {
        let wire = || watch::Sender::new(Wire::Open);
        Arc::new(Self {
            wires: (0..nodes)
                .map(|_| (0..nodes).map(|_| wire()).collect())
                .collect(),
            processes: Mutex::new(vec![None; nodes]),
        })
    }

    /// Sets the current process of a node.
    pub(super) fn set_process(&self, node: usize, process: Option<u32>) {
        self.processes.lock().unwrap()[node] = process;
    }

    /// Sets all wires.
    pub(super) fn set_all(&self, wire: Wire) {
        for sender in self.wires.iter().flatten() {
            sender.send_replace(wire);
        }
    }

    /// Sets all wires from and to a node.
    pub(super) fn set_node(&self, node: usize, wire: Wire) {
        for (to, senders) in self.wires.iter().enumerate() {
            for (from, sender) in senders.iter().enumerate() {
                if to == node || from == node {
                    sender.send_replace(wire);
                }
            }
        }
    }

    /// Starts a proxy that forwards to a node, and returns the proxy's address.
    pub(super) async fn start_proxy(self: Arc<Self>, node: usize, target: SocketAddr) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(forward(listener, target, move |dialler| {
            let from = self.node_of_address(dialler);
            self.wires[node][from.unwrap_or(node)].subscribe()
        }));
        address.to_string()
    }

    /// Returns the node whose process has this address: the system knows the owner of each socket.
    fn node_of_address(&self, address: SocketAddr) -> Option<usize> {
        let port = format!("0100007F:{:04X}", address.port());
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let row = table.lines().find(|row| {
            let mut cells = row.split_whitespace().skip(1);
            cells.next() == Some(&port)
        })?;
        let inode = row.split_whitespace().nth(9)?;
        let socket = format!("socket:[{inode}]");
        let processes = self.processes.lock().unwrap().clone();
        processes.iter().position(|process| {
            let folder = process.map(|process| format!("/proc/{process}/fd"));
            let files = folder.and_then(|folder| std::fs::read_dir(folder).ok());
            files.into_iter().flatten().flatten().any(|file| {
                std::fs::read_link(file.path()).is_ok_and(|to| to.to_str() == Some(&socket))
            })
        })
    }
}

/// The link between the data centres of a database, which is one wire for all connections.
pub(super) struct Link(watch::Sender<Wire>);

impl Link {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Wire::Open))
    }

    /// Starts a proxy at `address` that forwards to `target`.
    pub(super) async fn start_proxy(&self, address: SocketAddr, target: SocketAddr) {
        let listener = TcpListener::bind(address).await.unwrap();
        let wire = self.0.clone();
        tokio::spawn(forward(listener, target, move |_dialler| wire.subscribe()));
    }

    /// Cuts the link, and waits until no connection is left: nothing that is sent from now on
    /// crosses.
    pub(super) async fn cut(&self) {
        self.0.send_replace(Wire::Cut);
        self.0.closed().await;
    }

    /// Restores a cut link.
    pub(super) fn restore(&self) {
        self.0.send_replace(Wire::Open);
    }
}

/// Forwards each accepted connection to an address, as long as the wire of its dialler permits.
async fn forward(
    listener: TcpListener,
    to: SocketAddr,
    wire_of: impl Fn(SocketAddr) -> watch::Receiver<Wire>,
) {
    while let Ok((near, dialler)) = listener.accept().await {
        tokio::spawn(forward_connection(near, to, wire_of(dialler)));
    }
}

/// Forwards one connection as long as the wire permits.
async fn forward_connection(mut near: TcpStream, to: SocketAddr, mut wire: watch::Receiver<Wire>) {
    let is_open = *wire.borrow_and_update() == Wire::Open;
    let far = if is_open {
        TcpStream::connect(to).await.ok()
    } else {
        None
    };
    if let Some(mut far) = far {
        tokio::select! {
            _ended = copy_bidirectional(&mut near, &mut far) => return,
            _changed = wire.wait_for(|wire| *wire != Wire::Open) => {}
        }
    } else if is_open {
        return;
    }
    // Lost data cannot be recovered within a connection: it ends when the wire carries again.
    let mut lost = vec![0; 16_384];
    loop {
        tokio::select! {
            read = near.read(&mut lost) => if !matches!(read, Ok(1..)) { return },
            _changed = wire.wait_for(|wire| *wire != Wire::Mute) => return,
        }
    }
}
