//! Tests that the dashboards and rules under `grafana/` are well-formed, and that a real Prometheus
//! that scrapes the real process has data for each of their queries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use porchlight_observe::CATALOGUE;
use serde_json::{Value, json};

use crate::free_address::free_address;
use crate::receiver::{Authority, OK, Receiver};
use crate::server::{Folder, Server, block_on, http, porchlight, successful};

/// The panels that may be empty, with the reasons.
const MAY_BE_EMPTY: [(&str, &str); 4] = [
    ("Alerts", "no alert fires in a healthy system"),
    (
        "Time of a request between nodes",
        "a single process sends no request to another node",
    ),
    ("Failover time", "a single process takes over no shards"),
    (
        "Duration of a lookup",
        "the receiver's name needs no DNS server",
    ),
];
/// Metrics of Prometheus itself, and of the process, that the pages use.
const NOT_OURS: [&str; 4] = ["up", "ALERTS", "scrape_samples_scraped", "process_"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all dashboards, by file name.
fn boards() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(root().join("grafana/dashboards")).unwrap();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        (name, serde_json::from_str(&text).unwrap())
    };
    let mut boards: Vec<_> = files.map(|file| read(file.unwrap().path())).collect();
    boards.sort_by(|one, two| one.0.cmp(&two.0));
    assert_eq!(boards.len(), 7);
    boards
}

/// Returns all panels that show data.
fn panels(board: &Value) -> impl Iterator<Item = &Value> {
    let panels = board["panels"].as_array().unwrap().iter();
    panels.filter(|panel| panel["type"] != "row")
}

fn targets(panel: &Value) -> impl Iterator<Item = &str> {
    let targets = panel["targets"].as_array().unwrap().iter();
    targets.map(|target| target["expr"].as_str().unwrap())
}

/// A rule with its expression, and its result: a series or an alert.
struct Rule {
    name: String,
    is_alert: bool,
    expr: String,
    lines: Vec<String>,
}

/// Returns the rules of a file. The generator writes every scalar on its own line, as JSON.
fn rules(file: &str) -> Vec<Rule> {
    let text = std::fs::read_to_string(root().join("grafana/rules").join(file)).unwrap();
    let mut rules: Vec<Rule> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_start_matches("- ");
        let value = |key: &str| {
            let rest = line.strip_prefix(key)?.strip_prefix(": ")?;
            serde_json::from_str::<String>(rest).ok()
        };
        if let Some(name) = value("alert").or_else(|| value("record")) {
            rules.push(Rule {
                name,
                is_alert: line.starts_with("alert"),
                expr: String::new(),
                lines: Vec::new(),
            });
        } else if let Some(rule) = rules.last_mut() {
            rule.expr = value("expr").unwrap_or(std::mem::take(&mut rule.expr));
            rule.lines.push(line.to_owned());
        }
    }
    assert!(rules.len() > 10 && rules.iter().all(|rule| !rule.expr.is_empty()));
    rules
}

#[test]
fn every_panel_has_a_unit_and_a_description() {
    let mut uids = BTreeSet::new();
    for (file, board) in boards() {
        assert!(uids.insert(board["uid"].as_str().unwrap().to_owned()));
        assert_eq!(board["editable"], false, "{file}");
        for panel in panels(&board) {
            let title = panel["title"].as_str().unwrap();
            assert!(!title.is_empty(), "{file}");
            let about = format!("{file}, {title}");
            let description = panel["description"].as_str().unwrap();
            assert!(
                description.len() > 15 && description.ends_with('.'),
                "{about}"
            );
            let unit = &panel["fieldConfig"]["defaults"]["unit"];
            assert!(unit.is_string(), "{about}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{about}");
            assert!(targets(panel).count() > 0, "{about}");
            for expr in targets(panel) {
                let scoped = expr.matches("job=~\"$job\"").count();
                let ours = expr.contains("porchlight_") || expr.contains("process_");
                assert!(!ours || scoped > 0, "{about}: {expr} selects every job");
                let counted = expr.contains("_total{") || expr.contains("_bucket{");
                let over_time = expr.contains("rate(") || expr.contains("increase(");
                assert!(!counted || over_time, "{about}: {expr}");
            }
        }
    }
}

#[test]
fn dashboards_show_exactly_the_metrics_of_the_catalogue() {
    let mut used = BTreeSet::new();
    let recorded: BTreeSet<_> = rules("recording.yaml")
        .into_iter()
        .map(|rule| rule.name)
        .collect();
    for (_, board) in boards() {
        for panel in panels(&board) {
            used.extend(targets(panel).flat_map(names));
        }
    }
    for definition in CATALOGUE {
        let name = definition.name;
        assert!(
            used.contains(name),
            "{name} is on no page: give it a panel in grafana/generate/boards.py"
        );
    }
    for file in ["recording.yaml", "alerts.yaml"] {
        used.extend(rules(file).iter().flat_map(|rule| names(&rule.expr)));
    }
    for name in used {
        let known = CATALOGUE.iter().any(|definition| definition.name == name)
            || recorded.contains(&name)
            || NOT_OURS.iter().any(|theirs| name.starts_with(theirs));
        assert!(known, "{name} is not a metric of this service");
    }
}

/// Returns the metrics of an expression, histograms by their plain name.
fn names(expr: &str) -> Vec<String> {
    let words = expr.split(|letter: char| !(letter.is_alphanumeric() || "_:".contains(letter)));
    let ours = words.filter(|word| {
        word.starts_with("porchlight") || NOT_OURS.iter().any(|name| word.starts_with(name))
    });
    let plain = |word: &str| {
        let word = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| word.strip_suffix(end))
            .filter(|plain| plain.ends_with("_seconds"))
            .unwrap_or(word);
        word.to_owned()
    };
    // In `job="porchlight"`, the word is a value and no metric.
    ours.filter(|word| *word != "porchlight")
        .map(plain)
        .collect()
}

#[test]
fn every_alert_links_to_the_runbook_and_a_dashboard() {
    let runbook = std::fs::read_to_string(root().join("docs/runbook.md")).unwrap();
    let uids: BTreeSet<_> = boards()
        .iter()
        .map(|(_, board)| board["uid"].as_str().unwrap().to_owned())
        .collect();
    let anchors: BTreeSet<_> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    let tests: String = std::fs::read_dir(root().join("grafana/rules/tests"))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    for rule in rules("alerts.yaml").iter().filter(|rule| rule.is_alert) {
        let value = |key: &str| {
            let line = rule.lines.iter().find_map(|line| line.strip_prefix(key));
            let text: String = serde_json::from_str(line.unwrap()).unwrap();
            text
        };
        let name = &rule.name;
        assert!(["page", "ticket"].contains(&value("severity: ").as_str()));
        let url = value("runbook_url: ");
        let anchor = url.strip_prefix("docs/runbook.md#").unwrap();
        assert!(anchors.contains(anchor), "{name}: {anchor} is no heading");
        let board = value("dashboard: ");
        assert!(uids.contains(board.trim_start_matches("/d/")), "{name}");
        let tested = tests.matches(&format!("alertname: \"{name}\"\n")).count();
        assert!(
            tested >= 2,
            "no test shows that {name} fires and that it stays silent"
        );
    }
}

/// Returns whether a name of the table of alerts means this alert; `…` stands for any part of a
/// name.
fn names_alert(pattern: &str, alert: &str) -> bool {
    match pattern.split_once('…') {
        Some((start, end)) => alert.starts_with(start) && alert.ends_with(end),
        None => pattern == alert,
    }
}

#[test]
fn every_alert_is_in_the_operators_table_with_its_severity() {
    let page = std::fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let table: Vec<(&str, &str)> = page
        .lines()
        .filter(|line| line.starts_with("| `Porchlight"))
        .filter_map(|line| line.trim_start_matches("| ").split_once(" | "))
        .map(|(names, rest)| (names, rest.split(' ').next().unwrap()))
        .collect();
    let names = |names: &str| -> Vec<String> {
        let names = names.split(", ").map(|name| name.trim_matches('`'));
        names.map(str::to_owned).collect()
    };
    let rules = rules("alerts.yaml");
    for alert in rules.iter().filter(|rule| rule.is_alert) {
        let mut rows = table.iter().filter(|(patterns, _)| {
            let mut patterns = names(patterns).into_iter();
            patterns.any(|pattern| names_alert(&pattern, &alert.name))
        });
        let Some((_, severity)) = rows.next() else {
            panic!("{} is not in docs/operating.md", alert.name);
        };
        let expected = format!("severity: \"{severity}\"");
        assert!(alert.lines.contains(&expected), "{}", alert.name);
    }
    for pattern in table.iter().flat_map(|(patterns, _)| names(patterns)) {
        let mut alerts = rules.iter().filter(|rule| rule.is_alert);
        let is_alert = alerts.any(|alert| names_alert(&pattern, &alert.name));
        assert!(is_alert, "{pattern} is no alert");
    }
}

/// A Prometheus of the test's own; it ends with the test.
struct Prometheus {
    child: Child,
    url: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Prometheus {
    /// Starts a Prometheus. Returns `None` if it is not installed.
    fn start(folder: &Path, target: &str) -> Option<Self> {
        let address = free_address();
        let rules = root().join("grafana/rules");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [{0}/recording.yaml, {0}/alerts.yaml]\n\
             scrape_configs: [{{job_name: porchlight, static_configs: [{{targets: [\"{target}\"]}}]}}]\n",
            rules.display()
        );
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self {
            child,
            url: format!("http://{address}"),
        })
    }

    /// Returns the values of an instant query, or an error if the query is refused.
    async fn query(&self, expr: &str) -> Result<Vec<f64>, String> {
        let url = format!("{}/api/v1/query", self.url);
        let url = reqwest::Url::parse_with_params(&url, [("query", expr)]).unwrap();
        let answer = http().get(url).send().await.map_err(|e| e.to_string())?;
        let text = answer.text().await.map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        if answer["status"] != "success" {
            return Err(text);
        }
        let result = answer["data"]["result"].as_array().unwrap().iter();
        let value = |row: &Value| row["value"][1].as_str()?.parse().ok();
        Ok(result.filter_map(value).collect())
    }

    /// Returns whether there is data: at least one number.
    async fn has_data(&self, expr: &str) -> Result<bool, String> {
        let values = self.query(expr).await?;
        Ok(values.iter().any(|value| !value.is_nan()))
    }
}

/// Generates every kind of traffic until the given time.
async fn traffic(server: &Server, keys: &[String], until: Instant) {
    let mut number = 0;
    while Instant::now() < until {
        let key = &keys[number % keys.len()];
        let simulated = porchlight()
            .args(["simulate", "--deliveries", "3", "--url", &server.api])
            .args(["--seed", &(number * 7).to_string()])
            .env("PORCHLIGHT_KEY", key)
            .output()
            .unwrap();
        successful(simulated);
        let refused = http()
            .get(format!("{}/v1/sessions", server.api))
            .bearer_auth("sk_sandbox_wrong");
        assert_eq!(refused.send().await.unwrap().status(), 401);
        number += 1;
    }
}

/// The maximum number of times that more traffic is generated for a query.
const MORE_TRAFFIC_MAX: u32 = 8;

/// Returns whether a query has data, with more traffic if the last traffic was before the time that
/// the query covers: on a busy machine, all queries together take longer than that.
async fn has_recent_data(
    prometheus: &Prometheus,
    expr: &str,
    server: &Server,
    keys: &[String],
) -> Result<bool, String> {
    for _ in 0..MORE_TRAFFIC_MAX {
        if prometheus.has_data(expr).await? {
            return Ok(true);
        }
        traffic(server, keys, Instant::now() + Duration::from_secs(3)).await;
    }
    prometheus.has_data(expr).await
}

/// Returns the selectors of an alert, without the values that they are compared with.
fn selectors(expr: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (place, _) in expr.match_indices("porchlight") {
        let rest = &expr[place..];
        let is_start = !expr[..place]
            .ends_with(|letter: char| letter.is_alphanumeric() || "\"_:".contains(letter));
        if !is_start {
            continue;
        }
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || "_:".contains(letter)));
        let end = end.unwrap_or(rest.len());
        let labels = match rest[end..].strip_prefix('{') {
            Some(labels) => labels.find('}').unwrap() + 2,
            None => 0,
        };
        found.push(rest[..end + labels].to_owned());
    }
    found
}

/// Returns the queries of the panels that have no data.
async fn empty_panels(prometheus: &Prometheus, server: &Server, keys: &[String]) -> Vec<String> {
    let mut empty = Vec::new();
    for (file, board) in boards() {
        for panel in panels(&board) {
            let title = panel["title"].as_str().unwrap();
            for expr in targets(panel) {
                let expr = expr
                    .replace("$__rate_interval", "15s")
                    .replace("$job", "porchlight")
                    .replace("$instance", ".*")
                    .replace("$actor", ".*");
                if MAY_BE_EMPTY.iter().any(|(name, _)| *name == title) {
                    prometheus.has_data(&expr).await.unwrap();
                    continue;
                }
                match has_recent_data(prometheus, &expr, server, keys).await {
                    Ok(true) => {}
                    Ok(false) => empty.push(format!("{file}, {title}: {expr}")),
                    Err(error) => empty.push(format!("{file}, {title}: {expr}: {error}")),
                }
            }
        }
    }
    empty
}

/// `PORCHLIGHT_SCRAPE_SECONDS` sets another time than 20 s.
#[test]
fn a_real_prometheus_has_data_for_every_panel_and_every_rule() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let ca = authority.file.to_str().unwrap();
    let server = Server::start(
        &folder,
        &[
            ("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8"),
            ("PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE", ca),
        ],
    );
    let target = server.ops.trim_start_matches("http://");
    let Some(prometheus) = Prometheus::start(folder.path(), target) else {
        println!("prometheus is not installed: its test was left out");
        return;
    };
    let seconds = std::env::var("PORCHLIGHT_SCRAPE_SECONDS");
    let seconds = seconds.map_or(20, |text| text.parse().unwrap());
    block_on(async {
        let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
        let keys: Vec<_> = (0..2).map(|_| server.key("secret")).collect();
        let made = http()
            .post(format!("{}/v1/webhooks", server.api))
            .bearer_auth(&keys[0])
            .header("content-type", "application/json")
            .body(json!({"url": receiver.local_url()}).to_string());
        assert_eq!(made.send().await.unwrap().status(), 201);
        traffic(
            &server,
            &keys,
            Instant::now() + Duration::from_secs(seconds),
        )
        .await;
        let mut empty = empty_panels(&prometheus, &server, &keys).await;
        for file in ["recording.yaml", "alerts.yaml"] {
            for rule in rules(file) {
                let wanted = if rule.is_alert {
                    selectors(&rule.expr)
                } else {
                    vec![rule.expr]
                };
                for expr in wanted {
                    let found = has_recent_data(&prometheus, &expr, &server, &keys).await;
                    if found != Ok(true) {
                        empty.push(format!("{file}, {}: {expr}", rule.name));
                    }
                }
            }
        }
        assert!(empty.is_empty(), "no data:\n  {}", empty.join("\n  "));
    });
    server.stop();
}
