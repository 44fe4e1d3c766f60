//! Tests the real binary, as a real process on a real disk: killed, overloaded, stopped, and
//! queried by its commands.
//!
//! The binary is `PORCHLIGHT_BIN`, or else the binary that cargo built next to these tests.

#[cfg(test)]
mod backups;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod console;
#[cfg(test)]
mod cql;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damaged_block;
#[cfg(test)]
mod damaged_rows;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod erasure;
#[cfg(test)]
mod first_key;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod lost_keys;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod migrating;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod opened;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod phone;
#[cfg(test)]
mod power_cut;
#[cfg(test)]
mod recorder_crash;
#[cfg(test)]
mod released;
#[cfg(test)]
mod renewal;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod tools;

#[cfg(test)]
use porchlight_support::{cql_process, cql_server, fixed, free_address, receiver, server};
