//! Tests the real binary, as a real process on a real disk: killed, overloaded, stopped, and
//! queried by its commands.
//!
//! The binary is `PORCHLIGHT_BIN`, or else the binary that cargo built next to these tests.

#[cfg(test)]
mod backups;
#[cfg(test)]
mod caller;
#[cfg(test)]
mod cluster;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod console;
#[cfg(test)]
mod cql;
#[cfg(test)]
#[path = "../cql/process.rs"]
mod cql_process;
#[cfg(test)]
#[path = "../cql/server.rs"]
mod cql_server;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damaged_rows;
#[cfg(test)]
mod dashboards;
#[cfg(test)]
mod erasure;
#[cfg(test)]
#[path = "../shapes/fixed.rs"]
mod fixed;
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
mod overload;
#[cfg(test)]
mod phone;
#[cfg(test)]
mod power_cut;
#[cfg(test)]
#[path = "../webhook/receiver.rs"]
#[expect(dead_code, reason = "the tests of webhooks use all of it")]
mod receiver;
#[cfg(test)]
mod recorder_crash;
#[cfg(test)]
mod released;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod server;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod wrong_clock;
