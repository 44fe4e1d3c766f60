//! Opens the connection to the cluster, checks the database and migrates its tables.
//!
//! ```text
//! options.rs, open_error.rs    the settings of a connection, and the errors of opening the store
//! connect.rs, tls.rs           the session, TLS, and the limits of each kind of statement
//! topology.rs                  refuses a database that is set up so that answers could be wrong
//! schema.rs                    migrations, each applied once even if several nodes start together
//! ```

pub(super) mod connect;
pub(super) mod open_error;
pub(super) mod options;
pub(super) mod schema;
pub(super) mod tls;
pub(super) mod topology;
