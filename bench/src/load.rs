//! The load generator: keeps connections busy, counts the responses, and reads the server's
//! resource usage.
//!
//! It speaks HTTP/1.1 itself on one thread, so that it stays cheap next to the server on a two-core
//! machine, and it connects to the loopback interface only.

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

/// Returns the nanoseconds since an instant, as a `u64`.
fn elapsed_ns(since: std::time::Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
