//! Tests that the console uses the shares of its visitor's tenant.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::tenant::{api, key};
use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

/// Starts a session and returns its id.
async fn start(server: &Server, key: &str) -> String {
    let body = json!({
        "deliveryId": "order-1", "externalRiderId": "rider-1",
        "address": { "line1": "1 High Street", "city": "Bath", "country": "GB", "lat": 51.38, "lng": -2.36 },
    });
    let started = api(server, Method::POST, "/v1/sessions/start", key, Some(&body));
    started.await["sessionId"].as_str().unwrap().to_owned()
}

/// Returns whether a page is answered with this status within half a minute.
async fn has_status(visitor: &Visitor, path: &str, status: u16) -> bool {
    for _ in 0..1_200 {
        if visitor.get(path).await.status == status {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[test]
fn pages_count_among_the_requests_of_their_tenant() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[("PORCHLIGHT__LIMITS__TENANT_REQUESTS", "2")]);
    let (secret, other) = (
        server.key("secret"),
        key(&folder, "other", "sandbox", "secret"),
    );
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        let id = start(&server, &secret).await;
        let head = format!(
            "POST /v1/sessions/{id}/telemetry HTTP/1.1\r\nHost: x\r\nService-Key: {secret}\r\n\
             Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        );
        let address = server.api.strip_prefix("http://").unwrap();
        let mut open = Vec::new();
        let mut is_refused = false;
        for _ in 0..20 {
            // The service ends a request whose body is silent, on a busy machine before the page.
            for _ in 0..2 {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(head.as_bytes()).await.unwrap();
                open.push(stream);
            }
            is_refused = visitor.get("/console").await.status == 429;
            if is_refused {
                break;
            }
        }
        assert!(is_refused);
        let neighbour = Visitor::sign_in(&server, &other).await;
        neighbour.page("/console").await;
        drop(open);
        assert!(has_status(&visitor, "/console", 200).await);
    });
}

#[test]
fn lists_count_among_the_lists_of_their_tenant() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[("PORCHLIGHT__LIMITS__TENANT_LISTS", "1")]);
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        for path in ["/console", "/console/sessions", "/console/audit"] {
            let mut has_refused = false;
            for _ in 0..20 {
                let answers = join_all((0..32).map(|_| visitor.get(path))).await;
                assert!(answers.iter().any(|seen| seen.status == 200), "{path}");
                let refused = answers.iter().find(|seen| seen.status == 429);
                if let Some(refused) = refused {
                    assert_eq!(refused.header("retry-after"), "1");
                    has_refused = true;
                    break;
                }
            }
            assert!(has_refused, "{path}");
            visitor.page(path).await;
        }
    });
}

#[test]
fn live_pages_count_among_the_event_streams_of_their_tenant() {
    let folder = Folder::new();
    let share = ("PORCHLIGHT__LIMITS__TENANT_EVENT_STREAMS", "1");
    let server = Server::start(&folder, &[share]);
    let (secret, other) = (
        server.key("secret"),
        key(&folder, "other", "sandbox", "secret"),
    );
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        let live = format!("/console/sessions/{}/live", start(&server, &secret).await);
        let open = visitor.request(Method::GET, &live).send().await.unwrap();
        assert_eq!(open.status(), 200);
        let refused = visitor.get(&live).await;
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (429, "1"),
            "{refused:?}"
        );
        let neighbour = Visitor::sign_in(&server, &other).await;
        let of_other = format!("/console/sessions/{}/live", start(&server, &other).await);
        let seen = neighbour.request(Method::GET, &of_other).send().await;
        assert_eq!(seen.unwrap().status(), 200);
    });
}
