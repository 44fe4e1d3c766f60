//! Tests the page behind a recorder's link: its own files, and the state that it shows.

use porchlight_ports::Clock;
use reqwest::Method;
use serde_json::json;

use super::{body, create, push};
use crate::answer::Answer;
use crate::server::Server;

/// Returns the paths of the page's own files.
fn assets(page: &str) -> Vec<&str> {
    let paths = page.split('"').filter(|text| text.starts_with("/phone/"));
    paths.collect()
}

#[actix::test]
async fn the_page_has_its_own_files_and_no_others() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let page = Answer::of(server.request(Method::GET, &recorder.link))
        .await
        .text;
    let files = assets(&page);
    assert_eq!(files.len(), 2, "{files:?}");
    for (path, media) in files.iter().zip(["text/css", "text/javascript"]) {
        let file = Answer::of(server.request(Method::GET, path)).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.header("content-type").starts_with(media), "{path}");
        assert!(file.header("cache-control").contains("immutable"));
        assert!(!file.text.contains("://"), "{path} names another origin");
    }
    let unknown = Answer::of(server.request(Method::GET, "/phone/phone-0.js")).await;
    unknown.assert_problem(404, "not_found");
    server.stop().await;
}

#[actix::test]
async fn the_link_gives_the_state_and_the_insight_without_suspicion() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let status = async || {
        Answer::of(server.request(Method::GET, &format!("{}/status", recorder.link))).await
    };
    let empty = status().await;
    assert_eq!(empty.header("cache-control"), "no-store");
    assert_eq!(
        empty.json,
        json!({ "activity": "waiting", "text": "Nothing received yet.", "lastHeardAt": null, "receiving": {},
            "sessionId": null, "insight": null })
    );
    let now_sec = server.clock.now().0 / 1_000;
    for second in 0..3 {
        let text = format!(
            "id=1&lat=51.38&lon=-2.36&timestamp={}",
            now_sec - 10 + second
        );
        push(&server, &recorder, "traccar", text).await;
    }
    let receiving = status().await.json;
    assert_eq!(receiving["activity"], "receiving");
    assert_eq!(receiving["receiving"], json!({ "location": 1.0 }));
    assert_eq!(receiving["insight"]["status"], "processing");
    let end = format!("id=1&timestamp={}&event=delivered", now_sec - 7);
    push(&server, &recorder, "traccar", end).await;
    let id = receiving["sessionId"].as_str().unwrap();
    server.wait_until_ready(id).await;
    let recorded = status().await.json;
    assert_eq!(recorded["activity"], "recorded");
    assert_eq!(recorded["insight"]["status"], "ready");
    let summary = &recorded["insight"]["summary"];
    assert!(summary["visibilityScore"].is_number(), "{recorded}");
    for hidden in ["fraudScore", "suspiciousBehavior"] {
        assert_eq!(summary.get(hidden), None, "{recorded}");
    }
    server.clock.advance_min(2 * 24 * 60);
    let expired = status().await;
    expired.assert_problem(401, "credential_invalid");
    server.stop().await;
}

/// The `Accept` of a browser that opens a link.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[actix::test]
async fn a_browser_gets_a_page_about_a_link_that_does_not_work() {
    let server = Server::start().await;
    let recorder = create(&server, &body()).await;
    let open = async |link: &str, accept: &str| {
        let request = server.request(Method::GET, link).header("Accept", accept);
        Answer::of(request).await
    };
    let works = open(&recorder.link, BROWSER).await;
    assert_eq!(works.status, 200, "{works:?}");
    server.clock.advance_min(2 * 24 * 60);
    for link in [&*recorder.link, "/r/unknown"] {
        let page = open(link, BROWSER).await;
        assert_eq!(page.status, 401, "{page:?}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(page.header("cache-control"), "no-store");
        assert!(page.header("content-security-policy").contains("'none'"));
        assert!(page.text.contains("Ask for a new one."), "{}", page.text);
        assert!(page.text.contains(page.header("x-request-id")));
        assert!(!page.text.contains("credential"), "{}", page.text);
        assert_eq!(assets(&page.text).len(), 1, "no script runs");
        for accept in ["*/*", "application/json"] {
            let document = open(link, accept).await;
            document.assert_problem(401, "credential_invalid");
        }
    }
    server.stop().await;
}
