//! Several nodes that share one keyspace: which of them acts for which shard.
//!
//! ```text
//! view.rs      what this node knows of ownership at this moment, for all who must ask
//! ```

pub mod view;

pub use view::View;
