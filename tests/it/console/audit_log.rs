//! Tests that every page of the console that shows personal data is in the audit log.

use std::path::Path;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::tenant::{api, session};
use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

/// Part of the courier's id, the address and everything else that the session contains.
const NEEDLE: &str = "Needleman";

/// Returns the patterns of all pages, from the calls that register them.
fn patterns(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            patterns(&path, found);
        } else if path.extension().is_some_and(|name| name == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let calls = text.split("page(").skip(1);
            let arguments = calls.filter_map(|call| call.trim_start().strip_prefix("config,"));
            found.extend(arguments.map(|call| call.split('"').nth(1).unwrap().to_owned()));
        }
    }
}

async fn lines(server: &Server, key: &str) -> usize {
    let page = api(server, Method::GET, "/v1/audit?limit=200", key, None).await;
    page["data"].as_array().unwrap().len()
}

/// Waits for more than `before` lines, much longer than the log gathers lines before it writes
/// them. Returns whether they have been written.
async fn has_grown(server: &Server, key: &str, before: usize) -> bool {
    for _ in 0..1_200 {
        if lines(server, key).await > before {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn delivery(server: &Server, key: &str) -> String {
    for _ in 0..1_200 {
        let list = api(server, Method::GET, "/v1/webhooks/deliveries", key, None).await;
        if let Some(id) = list["data"][0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the session has no delivery");
}

async fn recorder(server: &Server, key: &str) -> String {
    let address =
        json!({ "line1": "Door 1", "city": "Town", "country": "DE", "lat": 51.38, "lng": 7.0 });
    let body = json!({ "externalRiderId": NEEDLE, "address": address });
    let made = api(server, Method::POST, "/v1/recorders", key, Some(&body)).await;
    made["recorderId"].as_str().unwrap().to_owned()
}

/// Returns the id of a completed erasure of another courier, after asking for the data of this one.
async fn erasure(server: &Server, key: &str) -> String {
    let path = "/v1/privacy/requests";
    for (id, request_type, rider) in [("a1", "access", NEEDLE), ("e1", "erasure", "nobody")] {
        let subject = json!({ "externalRiderId": rider });
        let body = json!({ "requestId": id, "type": request_type, "subject": subject });
        api(server, Method::POST, path, key, Some(&body)).await;
    }
    for _ in 0..1_200 {
        let shown = api(server, Method::GET, &format!("{path}/e1"), key, None).await;
        if shown["status"] == "completed" {
            return "e1".to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the erasure is not completed");
}

#[test]
fn every_page_that_shows_personal_data_is_on_the_audit_log() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[
            ("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8"),
            ("PORCHLIGHT__PRIVACY__DELAY", "0s"),
        ],
    );
    let key = server.key("secret");
    let mut pages = Vec::new();
    let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    patterns(&console, &mut pages);
    // The root, and the two pages that also take a form.
    pages.extend(["", "/deliveries/retry", "/sign-in"].map(str::to_owned));
    // Files and squares of the street map contain no personal data. The stream of the live board
    // does not end; the test of the maps checks its line.
    pages.retain(|page| {
        page != "/assets/{name}" && !page.starts_with("/map/") && page != "/board/live"
    });
    assert!(pages.len() >= 12, "{pages:?}");
    block_on(async {
        let webhook = json!({ "url": "https://127.0.0.1:9/closed" });
        api(&server, Method::POST, "/v1/webhooks", &key, Some(&webhook)).await;
        let id = session(&server, &key, NEEDLE).await;
        let delivery = delivery(&server, &key).await;
        let recorder = recorder(&server, &key).await;
        let erasure = erasure(&server, &key).await;
        let visitor = Visitor::sign_in(&server, &key).await;
        let (mut shown, mut before) = (Vec::new(), lines(&server, &key).await);
        for page in &pages {
            let object = match page.split('/').nth(1) {
                Some("deliveries") => &delivery,
                Some("recorders") => &recorder,
                Some("privacy") => &erasure,
                _ => &id,
            };
            let path = format!("/console{}", page.replace("{id}", object));
            let seen = visitor.get(&path).await;
            let is_ok = seen.status == 200 || path.ends_with("/sign-in");
            assert!(is_ok, "{path}: {seen:?}");
            let shows = seen.text.contains(NEEDLE) || seen.text.contains("51.38");
            let is_recorded = !shows || has_grown(&server, &key, before).await;
            assert!(
                is_recorded,
                "{path} shows personal data and is not recorded"
            );
            if shows {
                shown.push(page.as_str());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            before = lines(&server, &key).await;
        }
        for page in [
            "/sessions",
            "/sessions/{id}",
            "/deliveries/{id}",
            "/recorders/{id}",
            "/privacy",
        ] {
            assert!(shown.contains(&page), "{page} shows nothing: {shown:?}");
        }
        let log = api(&server, Method::GET, "/v1/audit?limit=200", &key, None).await;
        let names = log["data"].as_array().unwrap().iter();
        let names: Vec<&Value> = names.map(|line| &line["action"]).collect();
        assert!(names.contains(&&json!("console.view")), "{names:?}");
    });
    server.stop();
}
