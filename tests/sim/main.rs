//! A seeded simulation of the whole actor system: the real service on the real store (in memory),
//! in virtual time. Calls to the store fail, lose their answer, are slow or panic; forwards are
//! lost, duplicated and late; a node is killed, loses power or its disk, and restarts; the wall
//! clock jumps by hours; and phones send out of order, twice, too late, or never.
//!
//! The invariants are numbered in `judge.rs`.
//!
//! `ownership.rs` simulates the ownership of shards among several nodes, with its own judge.
//!
//! `PORCHLIGHT_SIM_SEEDS=5000` runs more seeds than the default 500, `PORCHLIGHT_SIM_SEED=17` one.
//! A seed always runs the same way.

#[cfg(test)]
mod chance;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod deferral;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod late_stops;
#[cfg(test)]
mod node;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod phone;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod scoring;
#[cfg(test)]
mod store;
#[cfg(test)]
mod world;

#[cfg(test)]
mod simulation;
