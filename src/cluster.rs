//! Several nodes that share one keyspace, and the assignment of shards to them.
//!
//! ```text
//! view.rs      this node's view of ownership, which every actor checks before it acts
//! driver.rs    drives the ownership machine: clock, reads, writes, and their consequences
//! node.rs      this process as a node of the cluster
//! workload.rs  the work of this node's shards: sessions and webhooks
//! wire.rs      message encoding; secret.rs: authentication
//! client.rs    sends notifications and queries; server.rs: handles them
//! ```

pub mod client;
pub mod driver;
mod failed_reads;
pub mod node;
pub mod secret;
pub mod server;
pub mod view;
mod wire;
pub mod workload;

pub use client::PeerClient;
pub use driver::{Driver, DriverParts};
pub use node::Node;
pub use secret::{PeerSecret, PeerSecrets};
pub use server::PeerServer;
pub use view::OwnershipView;
pub use workload::ShardWorkload;
