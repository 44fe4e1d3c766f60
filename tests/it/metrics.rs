//! `/metrics` of a server that has just started: every series is there, at 0.

use std::io::Write;
use std::process::{Command, Stdio};

use porchlight_actors::observe::{CATALOGUE, Instrument};

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
fn every_series_of_the_catalogue_is_there_from_the_start() {
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
            "{} is not told of as a {kind}",
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
