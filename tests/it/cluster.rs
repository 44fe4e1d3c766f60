//! Tests several nodes on several nodes of a database, with phones that send without pause,
//! webhooks to a real receiver, and faults.
//!
//! | variable | meaning |
//! |---|---|
//! | `PORCHLIGHT_CLUSTER_CQL_NODES` | how many nodes of Cassandra are started for a cluster: 1 (the default) or 3 |
//! | `PORCHLIGHT_CLUSTER_ROUNDS` | how often the campaign injects each fault; without it the campaign is skipped |
//! | `PORCHLIGHT_CLUSTER_SESSIONS` | sessions in progress, in the measurements of a failover and of a large fleet |
//! | `PORCHLIGHT_CLUSTER_MINUTES` | the duration of the measurements of a large fleet and of a stream of sessions |
//! | `PORCHLIGHT_CLUSTER_PERIOD_SEC` | the time between two batches of a session of a large fleet |
//! | `PORCHLIGHT_CLUSTER_STARTS` | how many sessions a stream of sessions starts per second |
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
