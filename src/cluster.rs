//! Several nodes that share one keyspace: which of them acts for which shard.
//!
//! ```text
//! view.rs      what this node knows of ownership at this moment, for all who must ask
//! node.rs      what lives in this node's shards: its sessions and its webhooks
//! driver.rs    drives the machine of ownership: its clock, its reads and writes, and what follows from them
//! ```

pub mod driver;
pub mod node;
pub mod view;

pub use driver::{Driver, DriverParts, Tenants};
pub use node::Living;
pub use view::View;
