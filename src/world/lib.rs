#![doc = include_str!("README.md")]

pub mod private_file;

use std::sync::LazyLock;
use std::time::Instant;

use porchlight_ports::{Clock, Entropy};
use porchlight_schema::time::TimestampMs;

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> TimestampMs {
        TimestampMs(jiff::Timestamp::now().as_millisecond())
    }

    fn uptime_ms(&self) -> i64 {
        static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        i64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn random(&self) -> u128 {
        let mut bytes = [0_u8; 16];
        fill_random(&mut bytes);
        u128::from_be_bytes(bytes)
    }
}

/// Fills `bytes` with cryptographic randomness.
///
/// # Panics
///
/// Panics if the operating system provides no randomness, because nothing created without it could
/// be trusted.
#[expect(
    clippy::expect_used,
    reason = "without randomness no key or secret may be made"
)]
pub fn fill_random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system provides randomness");
}
