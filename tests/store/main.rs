//! Tests every store through the ports: one suite for all (`conformance`), and the further promises
//! of the local ones.
#![expect(
    unreachable_pub,
    reason = "a test binary exports nothing; its modules share public items"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "this binary contains only tests, including the functions without a test attribute"
)]

mod bulk_retries;
mod committing;
mod conformance;
mod cql;
mod damage;
mod fixtures;
mod guards;
mod measure;
mod migrating;
mod model;
mod retention;
mod stored_rows;

use porchlight_support::cql_server;

mod suite {
    use super::conformance;

    conformance::suite!(memory, crate::fixtures::Memory::make());
    conformance::suite!(embedded, crate::fixtures::Embedded::make());
    conformance::suite!(
        cql,
        match crate::cql::Cql::make().await {
            Some(subject) => subject,
            None => return,
        }
    );
}
