//! Several nodes that share one keyspace: which of them acts for which shard.
//!
//! ```text
//! view.rs      what this node knows of ownership at this moment, for all who must ask
//! driver.rs    drives the machine of ownership: its clock, its reads and writes, and what follows from them
//! node.rs      what lives in this node's shards: its sessions and its webhooks
//! wire.rs      what nodes say to each other; secret.rs: how they know that it is them
//! client.rs    telling and asking the others; server.rs: being told and asked
//! ```

pub mod client;
pub mod driver;
pub mod node;
pub mod secret;
pub mod server;
pub mod view;
mod wire;

pub use client::PeerClient;
pub use driver::{Driver, DriverParts, Tenants};
pub use node::Node;
pub use secret::{PeerSecret, PeerSecrets};
pub use server::PeerServer;
pub use view::View;
