//! Refuses a database that is set up so that answers could be wrong, and warns of a setting that
//! makes lightweight transactions slow.
//!
//! [`assess`] decides; [`check`] reads.

use std::collections::BTreeSet;

use porchlight_observe::store::{DatabaseWarning, StoreMetrics};
use scylla::client::session::Session;
use scylla::cluster::metadata::Strategy;

use super::open_error::{CqlOpenError, Refusal};
use super::options::CqlOptions;

/// The first ScyllaDB release whose lightweight transactions work on tables with tablets: year and
/// number (release notes of ScyllaDB 2025.4).
const TABLETS_WITH_LWT: (u32, u32) = (2025, 4);

/// The placement of a keyspace's replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Replication {
    /// In these data centres (`NetworkTopologyStrategy`).
    DataCenters(BTreeSet<String>),
    /// On the next nodes of the ring, in any data centre (`SimpleStrategy`).
    Ring,
}

/// The product that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Product {
    /// Apache Cassandra, with the implementation of its lightweight transactions if the database
    /// names it.
    Cassandra { paxos_variant: Option<String> },
    /// ScyllaDB, with its version, and whether the keyspace has tablets.
    Scylla { version: String, has_tablets: bool },
}

/// The facts about the database on which the decision depends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Topology {
    product: Product,
    /// The data centres of all nodes.
    nodes_in: BTreeSet<String>,
    replication: Replication,
    /// The data centre that the configuration names.
    named: Option<String>,
}

/// Decides whether the database is safe to use, and returns the warnings.
fn assess(topology: &Topology) -> Result<Vec<DatabaseWarning>, Refusal> {
    let list = |names: &BTreeSet<String>| {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        names.join(", ")
    };
    match (&topology.replication, &topology.named) {
        (Replication::Ring, _) if topology.nodes_in.len() > 1 => {
            return Err(Refusal::SimpleStrategy(list(&topology.nodes_in)));
        }
        (Replication::Ring, Some(named)) if !topology.nodes_in.contains(named) => {
            return Err(Refusal::NoReplicas {
                named: named.clone(),
                present: list(&topology.nodes_in),
            });
        }
        (Replication::DataCenters(present), None) if present.len() > 1 => {
            return Err(Refusal::NoneNamed(list(present)));
        }
        (Replication::DataCenters(present), Some(named)) if !present.contains(named) => {
            return Err(Refusal::NoReplicas {
                named: named.clone(),
                present: list(present),
            });
        }
        _ => {}
    }
    match &topology.product {
        Product::Scylla {
            version,
            has_tablets: true,
        } if !has_lwt_on_tablets(version) => Err(Refusal::Tablets(version.clone())),
        Product::Scylla { .. } => Ok(Vec::new()),
        Product::Cassandra { paxos_variant } if paxos_variant.as_deref() == Some("v2") => {
            Ok(Vec::new())
        }
        Product::Cassandra { .. } => Ok(vec![DatabaseWarning::PaxosVariant]),
    }
}

/// Returns whether lightweight transactions work on tablets in this version of ScyllaDB, such as
/// `2025.4.0` or `6.2.3`. A version that cannot be parsed counts as one in which they do not.
fn has_lwt_on_tablets(version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '~']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(year)), Some(Ok(number))) => (year, number) >= TABLETS_WITH_LWT,
        _ => false,
    }
}

/// Returns the data centres of all nodes that the driver knows.
fn data_centers(session: &Session) -> BTreeSet<String> {
    let state = session.get_cluster_state();
    let nodes = state.get_nodes_info().iter();
    nodes.filter_map(|node| node.datacenter.clone()).collect()
}

/// Refuses a named data centre that has no nodes, because no statement could be sent.
pub(super) fn check_name(session: &Session, options: &CqlOptions) -> Result<(), Refusal> {
    let nodes_in = data_centers(session);
    match &options.datacenter {
        Some(named) if !nodes_in.contains(named) => Err(Refusal::NoReplicas {
            named: named.clone(),
            present: nodes_in.into_iter().collect::<Vec<_>>().join(", "),
        }),
        _ => Ok(()),
    }
}

/// Reads the facts and refuses an unsafe database.
pub(in crate::cql) async fn check(
    session: &Session,
    options: &CqlOptions,
) -> Result<(), CqlOpenError> {
    session.refresh_metadata().await.map_err(unreadable)?;
    let Some(topology) = read(session, options).await? else {
        return Ok(());
    };
    for warning in assess(&topology)? {
        StoreMetrics::get().on_database_warning(warning);
        match warning {
            DatabaseWarning::PaxosVariant => tracing::warn!(
                "Cassandra does not run lightweight transactions with paxos_variant: v2. Each takes four round \
                 trips between replicas instead of two, and one may be lost while nodes join or leave. Set \
                 paxos_variant: v2 and paxos_state_purging: repaired on all nodes, and run paxos repairs"
            ),
        }
    }
    Ok(())
}

fn unreadable(error: impl std::fmt::Display) -> CqlOpenError {
    CqlOpenError::Schema(format!("the database's own tables cannot be read: {error}"))
}

/// Reads the facts. Returns `None` if the driver does not know the keyspace's strategy.
async fn read(session: &Session, options: &CqlOptions) -> Result<Option<Topology>, CqlOpenError> {
    let state = session.get_cluster_state();
    let Some(keyspace) = state.get_keyspace(&options.keyspace) else {
        return Ok(None);
    };
    let nodes_in = data_centers(session);
    let replication = match &keyspace.strategy {
        Strategy::NetworkTopologyStrategy {
            datacenter_repfactors,
        } => {
            let with_replicas = datacenter_repfactors
                .iter()
                .filter(|(_, factor)| **factor > 0);
            Replication::DataCenters(with_replicas.map(|(name, _)| name.clone()).collect())
        }
        Strategy::SimpleStrategy { .. } => Replication::Ring,
        _ => return Ok(None),
    };
    let product = match text(session, "SELECT version FROM system.versions", ()).await {
        Some(version) => Product::Scylla {
            has_tablets: has_tablets(session, &options.keyspace).await,
            version,
        },
        None => Product::Cassandra {
            paxos_variant: text(
                session,
                "SELECT value FROM system_views.settings WHERE name = 'paxos_variant'",
                (),
            )
            .await,
        },
    };
    Ok(Some(Topology {
        product,
        nodes_in,
        replication,
        named: options.datacenter.clone(),
    }))
}

/// Returns the text in the first row. `None` if there is no such table or row: each product lacks
/// tables of the other.
async fn text(
    session: &Session,
    query: &str,
    values: impl scylla::serialize::row::SerializeRow,
) -> Option<String> {
    let answer = session.query_unpaged(query, values).await.ok()?;
    let rows = answer.into_rows_result().ok()?;
    let row: Option<(Option<String>,)> = rows.maybe_first_row().ok()?;
    row.and_then(|(text,)| text)
}

/// Returns whether ScyllaDB lists tablets for the keyspace.
async fn has_tablets(session: &Session, keyspace: &str) -> bool {
    let query =
        "SELECT initial_tablets FROM system_schema.scylla_keyspaces WHERE keyspace_name = ?";
    let Ok(answer) = session.query_unpaged(query, (keyspace,)).await else {
        return false;
    };
    let Ok(rows) = answer.into_rows_result() else {
        return false;
    };
    let row = rows.maybe_first_row::<(Option<i32>,)>();
    row.is_ok_and(|row| row.is_some_and(|(tablets,)| tablets.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn good() -> Topology {
        Topology {
            product: Product::Cassandra {
                paxos_variant: Some("v2".to_owned()),
            },
            nodes_in: names(&["dc1"]),
            replication: Replication::DataCenters(names(&["dc1"])),
            named: None,
        }
    }

    #[test]
    fn replicas_in_several_data_centers_need_a_named_one() {
        let two = names(&["dc1", "dc2"]);
        let in_both = Replication::DataCenters(two.clone());
        let in_first = Replication::DataCenters(names(&["dc1"]));
        let ring = Replication::Ring;
        let none_named = Err(Refusal::NoneNamed("dc1, dc2".to_owned()));
        let simple = Err(Refusal::SimpleStrategy("dc1, dc2".to_owned()));
        let without = |present: &str| {
            Err(Refusal::NoReplicas {
                named: "dc3".to_owned(),
                present: present.to_owned(),
            })
        };
        let one = names(&["dc1"]);
        for (nodes_in, replication, named, expected) in [
            (&one, &in_first, None, Ok(vec![])),
            (&one, &in_first, Some("dc1"), Ok(vec![])),
            (&one, &in_first, Some("dc3"), without("dc1")),
            (&one, &ring, None, Ok(vec![])),
            (&one, &ring, Some("dc1"), Ok(vec![])),
            (&one, &ring, Some("dc3"), without("dc1")),
            // Nodes elsewhere without replicas are harmless.
            (&two, &in_first, None, Ok(vec![])),
            (&two, &in_both, None, none_named),
            (&two, &in_both, Some("dc2"), Ok(vec![])),
            (&two, &in_both, Some("dc3"), without("dc1, dc2")),
            (&two, &ring, None, simple.clone()),
            (&two, &ring, Some("dc1"), simple),
        ] {
            let topology = Topology {
                nodes_in: nodes_in.clone(),
                replication: replication.clone(),
                named: named.map(str::to_owned),
                ..good()
            };
            assert_eq!(assess(&topology), expected, "{topology:?}");
        }
    }

    #[test]
    fn tablets_need_a_version_whose_lightweight_transactions_support_them() {
        for (version, is_good) in [
            ("5.4.9", false),
            ("6.2.3", false),
            ("2025.3.4", false),
            ("2025.4.0", true),
            ("2025.4.0~rc1", true),
            ("2026.1.0", true),
            ("unknown", false),
        ] {
            for has_tablets in [false, true] {
                let topology = Topology {
                    product: Product::Scylla {
                        version: version.to_owned(),
                        has_tablets,
                    },
                    ..good()
                };
                let expected = if is_good || !has_tablets {
                    Ok(Vec::new())
                } else {
                    Err(Refusal::Tablets(version.to_owned()))
                };
                assert_eq!(assess(&topology), expected, "{version} {has_tablets}");
            }
        }
    }

    #[test]
    fn cassandra_without_the_second_paxos_is_warned_about() {
        for (variant, expected) in [
            (Some("v2"), vec![]),
            (Some("v1"), vec![DatabaseWarning::PaxosVariant]),
            (None, vec![DatabaseWarning::PaxosVariant]),
        ] {
            let topology = Topology {
                product: Product::Cassandra {
                    paxos_variant: variant.map(str::to_owned),
                },
                ..good()
            };
            assert_eq!(assess(&topology), Ok(expected));
        }
    }
}
