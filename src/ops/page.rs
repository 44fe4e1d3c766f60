//! `/`: the operators' page. It shows the values of `/readyz` and `/metrics` at the time of the
//! request, ordered for people; Grafana shows their history. It changes nothing and shows no
//! customer's data.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use actix_web::web::Data;
use maud::{DOCTYPE, Markup, html};
use porchlight_core::ownership::NodeName;
use porchlight_observe::ActorKind;
use porchlight_observe::name;
use porchlight_observe::quarantine::{self, Damaged, Quarantined};
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::SHARDS;

use super::OpsState;
use super::health::{Check, checks};
use super::scrape::Scrape;
use crate::cluster::OwnershipView;
use crate::config::{Config, StoreKind};

/// The page loads no external resources, and has no script and no form.
const POLICY: &str = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
const STYLE: &str = include_str!("page.css");

/// The configuration as the page shows it.
pub(super) struct ConfigView {
    /// The text of `print-config`: it names files, and contains no secret.
    text: String,
    store: StoreView,
}

/// The location of the store.
enum StoreView {
    /// The folder of the embedded store.
    Embedded(String),
    /// The keyspace, and the contact points of its cluster.
    Cql { keyspace: String, nodes: String },
}

impl ConfigView {
    pub(super) fn of(config: &Config) -> anyhow::Result<Self> {
        let store = match config.store.kind {
            StoreKind::Embedded => StoreView::Embedded(config.store.path.display().to_string()),
            StoreKind::Cql => StoreView::Cql {
                keyspace: config.store.cql.keyspace.clone(),
                nodes: config.store.cql.nodes.join(", "),
            },
        };
        let text = toml::to_string(config)?;
        Ok(Self { text, store })
    }
}

pub(super) async fn style() -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/css; charset=utf-8"))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .body(STYLE)
}

pub(super) async fn page(state: Data<OpsState>) -> HttpResponse {
    state.process.collect();
    let now = Scrape::of(&state.metrics.render());
    let page = render(&state, &checks(&state).await, &now);
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((CACHE_CONTROL, "no-store"))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .insert_header(("Referrer-Policy", "no-referrer"))
        .body(page.into_string())
}

fn render(state: &OpsState, checks: &[Check], now: &Scrape) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Porchlight · operators" }
                link rel="stylesheet" href="/page.css";
            }
            body {
                header {
                    h1 { "Porchlight" }
                    span { "version " (env!("CARGO_PKG_VERSION")) }
                    nav aria-label="Pages" {
                        a href="/" { "Refresh" }
                        a href="/metrics" { "Metrics" }
                        a href="/readyz" { "Readiness" }
                    }
                }
                main {
                    (readiness(checks))
                    (members(state.health.view.as_deref()))
                    (process(now))
                    (actors(now))
                    (sessions(now))
                    (webhooks(now))
                    (store(state.config.as_ref(), now))
                    (quarantined(&quarantine::recent()))
                    (damaged(&quarantine::damaged()))
                    @if let Some(config) = &state.config {
                        section.wide { h2 { "Configuration" } pre tabindex="0" { (config.text) } }
                    }
                }
            }
        }
    }
}

/// Renders a card of names and values.
fn card(title: &str, rows: &[(&str, String)]) -> Markup {
    html! {
        section {
            h2 { (title) }
            table { tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td.number { (value) } } } } }
        }
    }
}

fn readiness(checks: &[Check]) -> Markup {
    html! {
        section {
            h2 { "Ready" }
            table { tbody {
                @for check in checks {
                    tr {
                        th scope="row" { (check.name) }
                        td.number.good[check.ok].bad[!check.ok] { (check.reason.as_deref().unwrap_or("yes")) }
                    }
                }
            } }
        }
    }
}

/// Renders all members with the shards that each acts for, as far as this node knows.
fn members(view: Option<&OwnershipView>) -> Markup {
    let Some(view) = view else {
        return html! {
            section {
                h2 { "Members and shards" }
                p { "Single node: it runs the sessions and the webhooks of all " (SHARDS) " shards." }
            }
        };
    };
    let owners: Vec<_> = ShardSet::ALL
        .iter()
        .map(|shard| view.owner_of(shard))
        .collect();
    let shards_of = |node: &NodeName| {
        owners
            .iter()
            .flatten()
            .filter(|&owner| owner == node)
            .count()
    };
    let unowned = owners.iter().filter(|owner| owner.is_none()).count();
    html! {
        section {
            h2 { "Members and shards" }
            table { tbody {
                @for node in view.members() {
                    tr {
                        th scope="row" { (node.0) @if node == *view.me() { " (this node)" } }
                        td.number { (shards_of(&node)) }
                    }
                }
                @if unowned > 0 {
                    tr { th scope="row" { "no owner" } td.number { (unowned) } }
                }
            } }
        }
    }
}

fn process(now: &Scrape) -> Markup {
    card(
        "Process",
        &[
            (
                "resident memory",
                bytes(now.of_metric("process_resident_memory_bytes")),
            ),
            (
                "processor time",
                seconds(now.of_metric("process_cpu_seconds_total")),
            ),
            ("threads", count(now.of_metric("process_threads"))),
            ("open files", count(now.of_metric("process_open_fds"))),
            ("open file limit", count(now.of_metric("process_max_fds"))),
        ],
    )
}

/// The metrics in the columns of the table of actors.
const ACTOR_COLUMNS: [&str; 7] = [
    name::ACTOR_LIVE,
    name::ACTOR_STARTED_TOTAL,
    name::ACTOR_STOPPED_TOTAL,
    name::ACTOR_RESTARTS_TOTAL,
    name::ACTOR_MAILBOX_MESSAGES,
    name::ACTOR_MESSAGES_TOTAL,
    name::ACTOR_REJECTED_TOTAL,
];

/// Returns the mean of a histogram of seconds, in milliseconds; 0 if it has no value.
fn mean_ms(now: &Scrape, name: &str, labels: &[(&str, &str)]) -> f64 {
    let values = now.sum(&format!("{name}_count"), labels);
    let total_sec = now.sum(&format!("{name}_sum"), labels);
    if values > 0.0 {
        total_sec / values * 1000.0
    } else {
        0.0
    }
}

fn actors(now: &Scrape) -> Markup {
    let row = |kind: &ActorKind| {
        let labels = [("actor", kind.as_str())];
        let mean_ms = mean_ms(now, name::ACTOR_HANDLE_SECONDS, &labels);
        html! {
            tr {
                th scope="row" { (kind.as_str()) }
                @for name in ACTOR_COLUMNS {
                    td.number { (count(now.sum(name, &labels))) }
                }
                td.number { (format!("{mean_ms:.3} ms")) }
            }
        }
    };
    html! {
        section.wide {
            h2 { "Actors" }
            div.scroll tabindex="0" role="group" aria-label="Actors by kind" {
                table {
                    thead { tr {
                        th scope="col" { "kind" }
                        @for title in ["live", "started", "stopped", "rebuilt after a panic", "waiting", "handled", "rejected", "mean handling time"] {
                            th.number scope="col" { (title) }
                        }
                    } }
                    tbody { @for kind in ActorKind::ALL { (row(kind)) } }
                }
            }
        }
    }
}

fn sessions(now: &Scrape) -> Markup {
    let batches = |outcome| now.sum(name::INGEST_BATCHES_TOTAL, &[("outcome", outcome)]);
    card(
        "Sessions, since the start of the process",
        &[
            ("recording", count(now.of_metric(name::SESSIONS_LIVE))),
            (
                "started",
                count(now.of_metric(name::SESSIONS_STARTED_TOTAL)),
            ),
            ("ended", count(now.of_metric(name::SESSIONS_ENDED_TOTAL))),
            (
                "waiting to be scored",
                count(now.of_metric(name::SCORING_WAITING_SESSIONS)),
            ),
            ("insights", count(now.of_metric(name::INSIGHTS_TOTAL))),
            ("batches accepted", count(batches("new"))),
            ("batches refused, node full", count(batches("node_full"))),
            (
                "batches refused, store unavailable",
                count(batches("store_unavailable")),
            ),
        ],
    )
}

fn webhooks(now: &Scrape) -> Markup {
    let messages = |state| now.sum(name::WEBHOOK_MESSAGES, &[("state", state)]);
    let delivered = now.sum(name::WEBHOOK_ATTEMPTS_TOTAL, &[("outcome", "delivered")]);
    let attempts = now.of_metric(name::WEBHOOK_ATTEMPTS_TOTAL);
    card(
        "Webhooks",
        &[
            ("attempts since start", count(attempts)),
            ("delivered", count(delivered)),
            ("in flight", count(now.of_metric(name::WEBHOOK_IN_FLIGHT))),
            ("waiting for the first attempt", count(messages("pending"))),
            ("waiting for a retry", count(messages("retrying"))),
            ("failed permanently", count(messages("failed"))),
        ],
    )
}

fn store(config: Option<&ConfigView>, now: &Scrape) -> Markup {
    match config.map(|config| &config.store) {
        None => html! {},
        Some(StoreView::Embedded(folder)) => embedded_store(folder, now),
        Some(StoreView::Cql { keyspace, nodes }) => cql_store(keyspace, nodes, now),
    }
}

fn failed_operations(now: &Scrape) -> String {
    count(now.sum(name::STORE_OPERATIONS_TOTAL, &[("outcome", "failed")]))
}

fn embedded_store(folder: &str, now: &Scrape) -> Markup {
    let mean_ms = mean_ms(now, name::STORE_COMMIT_SECONDS, &[]);
    card(
        "Store",
        &[
            ("folder", folder.to_owned()),
            ("used on disk", bytes(now.of_metric(name::STORE_DISK_BYTES))),
            (
                "free on disk",
                bytes(now.of_metric(name::STORE_DISK_FREE_BYTES)),
            ),
            (
                "waiting operations",
                count(now.of_metric(name::STORE_QUEUE_OPERATIONS)),
            ),
            ("failed operations", failed_operations(now)),
            ("mean time of a commit", format!("{mean_ms:.2} ms")),
        ],
    )
}

fn cql_store(keyspace: &str, nodes: &str, now: &Scrape) -> Markup {
    card(
        "Store",
        &[
            ("CQL keyspace", keyspace.to_owned()),
            ("contact points", nodes.to_owned()),
            (
                "statements",
                count(now.of_metric(name::STORE_STATEMENTS_TOTAL)),
            ),
            (
                "lightweight transactions",
                count(now.of_metric(name::STORE_LIGHTWEIGHT_TOTAL)),
            ),
            ("failed operations", failed_operations(now)),
        ],
    )
}

fn quarantined(recent: &[Quarantined]) -> Markup {
    html! {
        section.wide {
            h2 { "Quarantined sessions" }
            @if recent.is_empty() {
                p { "No batch has been quarantined since the process started." }
            } @else {
                p { "Sessions that continue without a batch that made a detector panic; newest first." }
                table {
                    thead { tr { th scope="col" { "session" } th.number scope="col" { "seq" } } }
                    tbody { @for one in recent {
                        tr { td { (one.session_id) } td.number { (one.seq) } }
                    } }
                }
            }
        }
    }
}

fn damaged(recent: &[Damaged]) -> Markup {
    html! {
        @if !recent.is_empty() {
            section.wide {
                h2 { "Sessions with damaged data" }
                p { "These could not be read from the store since the start of the process. Other sessions are not affected." }
                table {
                    thead { tr { th scope="col" { "session" } th scope="col" { "damaged" } } }
                    tbody { @for one in recent {
                        tr { td { (one.session_id) } td { (one.what) } }
                    } }
                }
            }
        }
    }
}

/// Formats a whole number with separated thousands.
fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(value: f64) -> String {
    if value >= 1e9 {
        format!("{:.2} GB", value / 1e9)
    } else {
        format!("{:.1} MB", value / 1e6)
    }
}

fn seconds(value: f64) -> String {
    format!("{value:.1} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_readable_form() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(999.0), "999");
        assert_eq!(count(1_234_567.0), "1,234,567");
        assert_eq!(bytes(1_500_000.0), "1.5 MB");
        assert_eq!(bytes(2.5e9), "2.50 GB");
    }
}
