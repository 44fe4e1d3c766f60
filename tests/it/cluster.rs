//! Several nodes on several nodes of a database: phones that send without pause, webhooks to a real receiver, and faults.
//!
//! | variable | meaning |
//! |---|---|
//! | `PORCHLIGHT_CLUSTER_CQL_NODES` | how many nodes of Cassandra are started for a cluster: 1 (the default) or 3 |
//! | `PORCHLIGHT_CLUSTER_ROUNDS` | how often each fault is inflicted by the campaign, which is left out without it |
//! | `PORCHLIGHT_CLUSTER_SESSIONS` | sessions that live when a node is lost, in the measurement of a take-over |
//! | `PORCHLIGHT_CLUSTER_SEED` | what the moments of the faults are drawn from |

mod cost;
mod faults;
mod nodes;
mod receiving;
mod take_over;
mod wires;
