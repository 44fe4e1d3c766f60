//! The load generator: keeps connections busy, counts what comes back, and reads off what it cost the server.
//!
//! It speaks HTTP/1.1 itself, on one thread, so that it stays cheap beside the server on a machine of two cores,
//! and it dials the loopback interface only.

pub mod closed;
pub mod http;
pub mod live;
pub mod neighbour;
pub mod overload;
pub mod process;
pub mod ratio;
pub mod report;
pub mod restart;
pub mod server;
pub mod socket;
pub mod streams;
pub mod target;
pub mod wire;

/// Nanoseconds since an instant, kept in 64 bits.
fn elapsed_ns(since: std::time::Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
