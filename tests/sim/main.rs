//! A seeded simulation of the whole actor system: the real service on the real store (in memory), in virtual time,
//! with calls to the store that fail, lose their answer, dawdle or panic; hand-overs that are lost, doubled and late;
//! a node that is killed, loses power or its disk, and starts again; a wall clock that jumps by hours; and phones that
//! send out of order, twice, too late, or never.
//!
//! What must hold all the same is numbered in `judge.rs`.
//!
//! `ownership.rs` plays the ownership of shards among several nodes, with a judge of its own.
//!
//! `PORCHLIGHT_SIM_SEEDS=5000` plays more seeds than the usual 500, `PORCHLIGHT_SIM_SEED=17` one. A seed plays the
//! same each time.

#[cfg(test)]
mod chance;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod judge;
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
mod store;
#[cfg(test)]
mod world;

#[cfg(test)]
mod simulation;
