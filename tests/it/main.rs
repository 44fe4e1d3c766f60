//! The real binary, as a real process on a real disk: killed, overloaded, stopped, and asked by its commands.
//!
//! The binary is `PORCHLIGHT_BIN`, or else the one that cargo built beside these tests.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on has failed"
)]

#[cfg(test)]
mod commands;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod phone;
#[cfg(test)]
mod server;
#[cfg(test)]
mod shutdown;
