//! Tests the public API and the operators' listener over real connections: the promises of the
//! contract's sections 1 to 5, 7 and 9, endpoint by endpoint and error by error.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this binary contains only tests, including the functions without a test attribute"
)]

mod acknowledged;
mod answer;
mod audit;
mod bodies;
mod checks;
mod cors;
mod credentials;
mod document;
mod events;
mod expect;
mod explanation;
mod fields;
mod insights;
mod lifecycle;
mod lists;
mod middleware;
mod ndjson;
mod nodes;
mod operators;
mod order;
mod overload;
mod path_image;
mod privacy;
mod protobuf;
mod recorders;
mod roles;
mod server;
mod shares;
mod stored_rows;
mod strict;
mod websocket;

use porchlight_support::fixed;
