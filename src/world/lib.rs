//! Time, chance and private files, for real: the adapters of the machine on which the service runs.

pub mod private_file;

use porchlight_ports::{Clock, Entropy};
use porchlight_schema::time::TimestampMs;

/// The machine's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> TimestampMs {
        TimestampMs(jiff::Timestamp::now().as_millisecond())
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn random(&self) -> u128 {
        let mut bytes = [0_u8; 16];
        fill(&mut bytes);
        u128::from_be_bytes(bytes)
    }
}

/// Fills `bytes` with randomness fit for keys.
///
/// # Panics
///
/// Where the operating system gives no randomness: nothing that is made then could be trusted.
#[expect(
    clippy::expect_used,
    reason = "without randomness no key or secret may be made"
)]
pub fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives randomness");
}
