//! Tests webhooks from the receiver's side: over real TLS on loopback, with receivers that
//! misbehave in every way we know.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this binary contains only tests, including the functions without a test attribute"
)]

mod cql;
#[path = "../cql/process.rs"]
mod cql_process;
#[path = "../cql/server.rs"]
#[expect(dead_code, reason = "the other black-box tests use all of it")]
mod cql_server;
mod customer;
mod dns;
mod examples;
#[path = "../shapes/fixed.rs"]
#[expect(dead_code, reason = "the tests of the API use the rest")]
mod fixed;
mod flow;
mod hostile;
mod http2;
mod measure;
mod name_server;
mod process;
mod receiver;
mod restricted;
#[path = "../it/server.rs"]
#[expect(dead_code, reason = "the other black-box tests use all of it")]
mod server;
mod service;
mod signatures;
mod world;
