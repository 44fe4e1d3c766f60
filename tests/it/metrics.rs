//! Tests `/metrics` of a server that has just started: every series is there, at 0.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use porchlight::config::Config;
use porchlight::ops::client::OpsClient;
use porchlight_keys::CreateKeyRequest;
use porchlight_observe::{CATALOGUE, Instrument, Label};
use serde_json::json;

use crate::server::{Folder, Server, block_on, http};

fn scraped(server: &Server) -> String {
    let url = format!("{}/metrics", server.ops);
    block_on(async {
        let answer = http().get(url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    })
}

#[test]
fn a_start_after_a_kill_is_unclean_and_the_one_after_a_stop_is_not() {
    let folder = Folder::new();
    let unclean = |server: &Server| block_on(server.metric("porchlight_unclean_start"));
    let server = Server::start(&folder, &[]);
    assert_eq!(unclean(&server), Some(0.0));
    server.kill();
    let server = Server::start(&folder, &[]);
    assert_eq!(unclean(&server), Some(1.0));
    server.stop();
    let server = Server::start(&folder, &[]);
    assert_eq!(unclean(&server), Some(0.0));
    server.stop();
}

#[test]
fn every_series_of_the_catalogue_exists_from_the_start() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let text = scraped(&server);
    for definition in CATALOGUE {
        let (name, kind) = match definition.instrument {
            Instrument::Counter => (definition.name.to_owned(), "counter"),
            Instrument::Gauge => (definition.name.to_owned(), "gauge"),
            Instrument::Histogram => (format!("{}_count", definition.name), "histogram"),
        };
        assert!(
            text.contains(&format!("# TYPE {} {kind}\n", definition.name)),
            "{} is not documented as a {kind}",
            definition.name
        );
        let is_series = |line: &&str| {
            line.strip_prefix(name.as_str())
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        let series: Vec<&str> = text.lines().filter(is_series).collect();
        assert!(!series.is_empty(), "{name} has no series");
        for label in definition.labels {
            let has_label = |line: &&str| line.contains(&format!("{}=\"", label.name));
            assert!(series.iter().all(has_label), "{name}: {}", label.name);
        }
    }
    for name in [
        "porchlight_ingest_samples_total",
        "porchlight_sessions_live",
    ] {
        assert!(text.contains(&format!("\n{name} 0\n")), "{name} is not 0");
    }
    check_by_promtool(&text);
    server.stop();
}

/// Returns the number of series of a page.
fn series(text: &str) -> usize {
    let is_series = |line: &&str| line.starts_with("porchlight_");
    text.lines().filter(is_series).count()
}

#[test]
fn a_thousand_organizations_do_not_raise_the_number_of_series() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8")],
    );
    let before = series(&scraped(&server));
    let mut config = Config::default();
    config.store.path = folder.store();
    let operators = OpsClient::of(&config).unwrap().unwrap();
    let address = json!({"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0});
    let start = json!({"deliveryId": "d", "externalRiderId": "r", "address": address});
    // Nothing listens on this port: each message is attempted and fails.
    let webhook = json!({"url": "https://127.0.0.1:1/"});
    block_on(async {
        let http = http();
        for number in 0..1_000 {
            let name = format!("organization {number}");
            let order = CreateKeyRequest::new(&name, "sandbox", "secret");
            let made = operators.create_key(&order);
            let key = made.await.unwrap().key;
            for (path, body) in [("webhooks", &webhook), ("sessions/start", &start)] {
                let answer = http
                    .post(format!("{}/v1/{path}", server.api))
                    .bearer_auth(&key)
                    .header("content-type", "application/json")
                    .body(body.to_string());
                assert_eq!(answer.send().await.unwrap().status(), 201);
            }
        }
    });
    let text = scraped(&server);
    assert!(
        text.contains("\nporchlight_sessions_started_total 1000\n"),
        "a thousand organizations were at work"
    );
    assert_eq!(series(&text), before);
    server.stop();
}

/// Returns the page of all metrics, as in `docs/metrics.md`.
fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\nThis page lists the metrics at `/metrics` on the operators' listener. The listener also has the usual \
         `process_*` metrics of the\nprocess. A test generates the page from the catalogue in the code: `PORCHLIGHT_WRITE=1 \
         cargo test --test it the_page_of_metrics`.\n\nLabels are closed lists, and no label \
         names a customer, a session or a URL: the number of series does not depend on\nload. Every series starts at 0. Histograms have classic buckets: `NAME_bucket`, \
         `NAME_sum`, `NAME_count`.\n",
    );
    let mut section = "";
    for definition in CATALOGUE {
        if definition.section != section {
            section = definition.section;
            page.push_str(&format!(
                "\n## {section}\n\n| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
            ));
        }
        let labels: Vec<_> = definition.labels.iter().map(label).collect();
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {} |\n",
            definition.name,
            definition.instrument.as_str(),
            definition.unit.as_str(),
            labels.join("; "),
            definition.help
        ));
    }
    page
}

fn label(label: &Label) -> String {
    let values: Vec<_> = match (label.name, label.values) {
        ("code", []) => vec!["the `code` of the problem, as the API's document lists them"],
        ("route", values) if values.contains(&"unknown") => vec![
            "the path with its parameters in braces, such as `/v1/sessions/{id}/telemetry`; `/console` for all pages of \
             the console; `unknown` for any other path",
        ],
        ("version", _) => vec!["as `porchlight --version` prints it"],
        (_, values) => values.to_vec(),
    };
    format!("`{}`: {}", label.name, values.join(", "))
}

#[test]
fn the_page_of_metrics_matches_the_catalogue() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    if std::env::var_os("PORCHLIGHT_WRITE").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(
        written == page(),
        "docs/metrics.md is old: PORCHLIGHT_WRITE=1 cargo test --test it the_page_of_metrics"
    );
}

fn check_by_promtool(text: &str) {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = started else {
        println!("promtool is not installed: its check was left out");
        return;
    };
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
}
