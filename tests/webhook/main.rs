//! Tests webhooks from the receiver's side: over real TLS on loopback, with receivers that
//! misbehave in every known way.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this binary contains only tests, including the functions without a test attribute"
)]

mod cql;
mod customer;
mod dns;
mod examples;
mod flow;
mod hostile;
mod http2;
mod lost_lease;
mod measure;
mod name_server;
mod process;
mod receiver;
mod restricted;
mod reuse;
mod service;
mod signatures;
mod world;

use porchlight_support::{cql_process, fixed, server};
