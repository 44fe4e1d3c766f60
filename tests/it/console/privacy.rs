//! Tests the page of privacy requests: an erasure needs a confirmation, a pending request can be
//! cancelled, a completed erasure has a receipt, and a held session is not erased.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};

use super::tenant::{api, session};
use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

const RIDER: &str = "rider-of-the-console";

fn erasure<'f>(id: &'f str, confirm: &'f str) -> [(&'f str, &'f str); 6] {
    [
        ("requestId", id),
        ("type", "erasure"),
        ("kind", "externalRiderId"),
        ("subject", RIDER),
        ("reason", "asked by telephone"),
        ("confirm", confirm),
    ]
}

/// Returns the statement that a receipt signs.
fn signed(receipt: &str) -> Value {
    let payload = receipt.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

async fn requests(server: &Server, key: &str) -> Vec<Value> {
    let page = api(server, Method::GET, "/v1/privacy/requests", key, None).await;
    page["data"].as_array().unwrap().clone()
}

/// Waits until a request has this status.
async fn wait_for_status(server: &Server, key: &str, id: &str, status: &str) {
    for _ in 0..1_200 {
        let path = format!("/v1/privacy/requests/{id}");
        if api(server, Method::GET, &path, key, None).await["status"] == status {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{id} is not {status}");
}

#[test]
fn an_erasure_is_confirmed_cancelled_and_proved() {
    let folder = Folder::new();
    // The request is cancelled while it is pending, however slow the machine is.
    let server = Server::start(&folder, &[("PORCHLIGHT__PRIVACY__DELAY", "1h")]);
    let key = server.key("secret");
    block_on(async {
        let id = session(&server, &key, RIDER).await;
        let visitor = Visitor::sign_in(&server, &key).await;
        let confirm = visitor
            .post("/console/privacy/confirm", &erasure("e1", ""))
            .await;
        assert_eq!(confirm.status, 200, "{confirm:?}");
        for shown in ["Erase permanently", RIDER, "cannot be undone", "<dd>1</dd>"] {
            assert!(confirm.text.contains(shown), "{shown}: {}", confirm.text);
        }
        for wrong in ["", "rider"] {
            let refused = visitor
                .post("/console/privacy/create", &erasure("e1", wrong))
                .await;
            assert_eq!(refused.status, 422);
            assert!(refused.text.contains("Nothing was erased"));
        }
        let wrong = [("type", "erasure"), ("requestId", "a/b"), ("subject", "x")];
        let refused = visitor.post("/console/privacy/confirm", &wrong).await;
        assert_eq!(refused.status, 422);
        assert!(requests(&server, &key).await.is_empty());

        let created = visitor
            .post("/console/privacy/create", &erasure("e1", RIDER))
            .await;
        assert_eq!(created.status, 303);
        let list = visitor.page("/console/privacy").await.text;
        assert!(list.contains("/console/privacy/e1/cancel"), "{list}");
        let cancelled = visitor.post("/console/privacy/e1/cancel", &[]).await;
        assert_eq!(cancelled.status, 303);
        wait_for_status(&server, &key, "e1", "cancelled").await;
        let late = visitor.post("/console/privacy/e1/cancel", &[]).await;
        assert_eq!(late.status, 409);

        let hold = format!("/console/sessions/{id}/hold");
        assert_eq!(visitor.post(&hold, &[]).await.status, 303);
        let page = visitor.page(&format!("/console/sessions/{id}")).await.text;
        assert!(page.contains("this session is held"), "{page}");
        let held = visitor
            .post("/console/privacy/create", &erasure("e2", RIDER))
            .await;
        assert_eq!(held.status, 409);
        let release = format!("/console/sessions/{id}/release-hold");
        assert_eq!(visitor.post(&release, &[]).await.status, 303);
    });
    server.stop();

    let server = Server::start(&folder, &[("PORCHLIGHT__PRIVACY__DELAY", "0s")]);
    block_on(async {
        let visitor = Visitor::sign_in(&server, &key).await;
        let created = visitor
            .post("/console/privacy/create", &erasure("e2", RIDER))
            .await;
        assert_eq!(created.status, 303);
        wait_for_status(&server, &key, "e2", "completed").await;
        let page = visitor.page("/console/privacy?status=completed").await.text;
        assert!(page.contains("sessions: 1") && page.contains("/console/privacy/e2/receipt"));
        assert!(!page.contains(RIDER), "{page}");
        let receipt = visitor.get("/console/privacy/e2/receipt").await;
        assert_eq!(receipt.status, 200);
        let shown = api(&server, Method::GET, "/v1/privacy/requests/e2", &key, None).await;
        assert_eq!(json!(receipt.text), shown["receipt"]);
        assert_eq!(signed(&receipt.text)["keyIds"].as_array().unwrap().len(), 1);
        assert_eq!(visitor.get("/console/privacy/e1/receipt").await.status, 404);
    });
    server.stop();
}
