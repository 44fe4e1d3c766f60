#![doc = include_str!("../README.md")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::new_without_default,
    reason = "only tests use this crate, and a test ends where something is wrong"
)]

mod cql_command;
pub mod cql_process;
pub mod cql_server;
mod cql_site;
pub mod files;
pub mod fixed;
pub mod free_address;
pub mod hex;
pub mod receiver;
pub mod server;
mod target;
