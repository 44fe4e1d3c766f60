//! Several nodes that share one keyspace: which of them acts for which shard.
//!
//! ```text
//! view.rs      what this node knows of ownership at this moment, for all who must ask
//! driver.rs    drives the machine of ownership: its clock, its reads and writes, and what follows from them
//! ```

pub mod driver;
pub mod view;

pub use driver::{Driver, Tenants};
pub use view::View;
