//! The page of a delivery explains its attempts and its waiting; the list of keys shows their use.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::tenant::{api, session};
use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

#[test]
fn a_failed_attempt_and_a_waiting_delivery_are_explained() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8")],
    );
    let secret = server.key("secret");
    block_on(async {
        // Nothing listens at the port, so that the connection is refused.
        let webhook = json!({ "url": "https://127.0.0.1:1/hook" });
        let ask = async |method, path: &str, body| api(&server, method, path, &secret, body).await;
        ask(Method::POST, "/v1/webhooks", Some(&webhook)).await;
        let session_id = session(&server, &secret, "refused").await;
        let path = format!("/v1/webhooks/deliveries?sessionId={session_id}");
        let rows = loop {
            let list = ask(Method::GET, &path, None).await;
            let rows = list["data"].as_array().unwrap().clone();
            let is_waiting = rows.first().is_some_and(|row| row["waitsFor"].is_object());
            if is_waiting && rows.last().unwrap()["status"] == "retrying" {
                break rows;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let visitor = Visitor::sign_in(&server, &secret).await;
        let page = async |row: &serde_json::Value| {
            let id = row["id"].as_str().unwrap();
            visitor
                .page(&format!("/console/deliveries/{id}"))
                .await
                .text
        };
        let failed = page(rows.last().unwrap()).await;
        assert!(failed.contains("connection refused"), "{failed}");
        assert!(failed.contains(">127.0.0.1<"), "{failed}");
        let waiting = page(&rows[0]).await;
        let before = rows[0]["waitsFor"]["deliveryId"].as_str().unwrap();
        assert!(waiting.contains("Waits for"), "{waiting}");
        let link = format!("href=\"/console/deliveries/{before}\"");
        assert!(waiting.contains(&link), "{waiting}");
        assert!(!failed.contains("Waits for"), "{failed}");
        let keys = visitor.page("/console/keys").await.text;
        assert!(keys.contains("Last used"), "{keys}");
    });
}
