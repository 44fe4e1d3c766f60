//! Tests several nodes on several nodes of a database, with phones that send without pause,
//! webhooks to a real receiver, and faults.
//!
//! | variable | meaning |
//! |---|---|
//! | `PORCHLIGHT_CLUSTER_CQL_NODES` | the nodes of Cassandra: 1 (the default) or 3 |
//! | `PORCHLIGHT_CLUSTER_ROUNDS` | the rounds of the fault campaign; unset: none |
//! | `PORCHLIGHT_CLUSTER_SESSIONS` | sessions in progress, for `failover` and `fleet` |
//! | `PORCHLIGHT_CLUSTER_MINUTES` | the duration of `fleet` and `stream` |
//! | `PORCHLIGHT_CLUSTER_PERIOD_SEC` | the time between two batches of a session, for `fleet` |
//! | `PORCHLIGHT_CLUSTER_STARTS` | the session starts per second, for `stream` |
//! | `PORCHLIGHT_CLUSTER_SEED` | the seed of the times of the faults |

mod arrivals;
pub(crate) mod cost;
mod data_centers;
mod failover;
mod faults;
mod fleet;
mod nodes;
mod receiving;
mod stream;
mod wires;
