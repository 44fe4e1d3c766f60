//! Tests the data that the console shows to each tenant, and the secrets that it shows only once.

use reqwest::Method;
use serde_json::json;

use super::tenant::{PAGES, api, key, session};
use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

/// Asserts that `visitor` cannot see another tenant's objects.
async fn assert_sees_nothing(visitor: &Visitor, paths: &[String], delivery: &str, key_id: &str) {
    for path in paths {
        let seen = visitor.get(path).await;
        assert_eq!(seen.status, 404, "{path}");
        assert!(!seen.text.contains("ours-alone"));
    }
    for path in PAGES {
        let seen = visitor.page(path).await;
        assert!(
            !seen.text.contains("ours-alone") && !seen.text.contains("192.0.2.1"),
            "{path}"
        );
    }
    let retried = visitor
        .post(&format!("/console/deliveries/{delivery}/retry"), &[])
        .await;
    let revoked = visitor
        .post(&format!("/console/keys/key_{key_id}/revoke"), &[])
        .await;
    assert_eq!((retried.status, revoked.status), (404, 404));
}

/// Registers a webhook and starts a session of a delivery. Returns the ids of the session and of
/// the webhook delivery that its start caused.
async fn session_with_delivery(
    server: &Server,
    secret: &str,
    url: &str,
    delivery_id: &str,
) -> (String, String) {
    let webhook = json!({ "url": url });
    api(server, Method::POST, "/v1/webhooks", secret, Some(&webhook)).await;
    let id = session(server, secret, delivery_id).await;
    let path = "/v1/webhooks/deliveries";
    let list = api(server, Method::GET, path, secret, None).await;
    let delivery = list["data"][0]["id"].as_str().unwrap().to_owned();
    (id, delivery)
}

#[test]
fn a_tenant_never_opens_a_page_of_another_tenant() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32")],
    );
    let secret = server.key("secret");
    block_on(async {
        let url = "https://192.0.2.1/hook";
        let (id, delivery) = session_with_delivery(&server, &secret, url, "ours-alone").await;
        let own = Visitor::sign_in(&server, &secret).await;
        let keys = own.page("/console/keys").await;
        let key_id = keys
            .between("action=\"/console/keys/key_", "/revoke")
            .to_owned();
        let paths = [
            format!("/console/sessions/{id}"),
            format!("/console/sessions/{id}/live"),
            format!("/console/deliveries/{delivery}"),
        ];
        for path in &paths {
            assert_eq!(own.get(path).await.status, 200, "{path}");
        }
        for other in [
            key(&folder, "it", "live", "secret"),
            key(&folder, "other", "sandbox", "secret"),
        ] {
            let visitor = Visitor::sign_in(&server, &other).await;
            assert_sees_nothing(&visitor, &paths, &delivery, &key_id).await;
        }
        let live = Visitor::sign_in(&server, &key(&folder, "it", "live", "secret")).await;
        assert!(
            live.page("/console")
                .await
                .text
                .contains("<strong>Production</strong>")
        );
        assert!(
            own.page("/console")
                .await
                .text
                .contains("<strong>Sandbox</strong>")
        );
    });
}

#[test]
fn stored_data_is_shown_as_text() {
    const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32")],
    );
    let secret = key(&folder, HOSTILE, "sandbox", "secret");
    block_on(async {
        let url = "https://192.0.2.1/hook?'><script>alert(1)</script>";
        let (id, delivery) = session_with_delivery(&server, &secret, url, HOSTILE).await;
        let visitor = Visitor::sign_in(&server, &secret).await;
        let reflected = [
            "/console/sessions?deliveryId=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&from=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
            "/console/deliveries?status=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&sessionId=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
            "/console/keys?revoked=%3Cscript",
            "/console/sign-in?next=/console/%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        ];
        let stored = [
            format!("/console/sessions/{id}"),
            format!("/console/deliveries/{delivery}"),
        ];
        let all = PAGES
            .into_iter()
            .chain(stored.iter().map(String::as_str))
            .chain(reflected);
        for path in all {
            let seen = visitor.get(path).await;
            // The page of a refused search has status 422.
            assert!([200, 422].contains(&seen.status), "{path}: {seen:?}");
            let scripts = seen.text.matches("<script").count();
            let own = "<script type=\"module\" src=\"/console/assets/";
            assert!(scripts > 0, "{path}");
            assert_eq!(
                scripts,
                seen.text.matches(own).count(),
                "{path}: only our own"
            );
            let pictures = seen.text.matches("<img").count();
            let our_own = seen.text.matches("<img class=\"path\" src=\"").count();
            assert_eq!(pictures, our_own, "{path}: no picture but the path image");
            assert!(!seen.text.contains("alert(1)</script>"), "{path}");
        }
        let page = visitor.page(&stored[0]).await;
        assert!(
            page.text.contains("&lt;script&gt;alert(1)"),
            "the page shows the value as text"
        );
    });
}

#[test]
fn a_secret_is_shown_once() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32")],
    );
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        assert!(
            visitor
                .page("/console/webhook")
                .await
                .text
                .contains("No webhook yet")
        );
        let bad = visitor
            .post(
                "/console/webhook/register",
                &[("url", "http://192.0.2.1/hook")],
            )
            .await;
        assert!(
            bad.text.contains("the scheme must be https")
                && bad.text.contains("value=\"http://192.0.2.1/hook\"")
        );
        let url = [("url", "https://192.0.2.1/hook")];
        let made = visitor.post("/console/webhook/register", &url).await;
        assert!(made.shown_once().starts_with("whsec_"));
        let again = visitor.post("/console/webhook/register", &url).await;
        assert!(again.text.contains("A webhook already exists") && !again.text.contains("whsec_"));
        assert!(
            !visitor
                .page("/console/webhook")
                .await
                .text
                .contains("whsec_")
        );

        let rotated = visitor
            .post("/console/webhook/rotate", &[("overlapSec", "3600")])
            .await;
        assert_ne!(rotated.shown_once(), made.shown_once());
        let refused = visitor
            .post("/console/webhook/rotate", &[("overlapSec", "3600")])
            .await;
        assert!(
            refused.text.contains("The previous secret is still valid")
                && !refused.text.contains("whsec_")
        );
        assert!(
            visitor
                .page("/console/webhook")
                .await
                .text
                .contains("The previous secret stays valid for another")
        );

        for (act, said) in [
            ("pause", "is paused"),
            ("end-overlap", "no longer valid"),
            ("resume", "is active again"),
            ("delete", "was deleted"),
        ] {
            let done = visitor.post(&format!("/console/webhook/{act}"), &[]).await;
            assert!(
                visitor.page(done.location()).await.text.contains(said),
                "{act}"
            );
        }
        assert!(visitor.post("/console/webhook/test", &[]).await.status == 404);
    });
}

#[test]
fn a_refused_form_has_the_status_of_the_api_and_keeps_the_entered_texts() {
    let folder = Folder::new();
    let allowed = ("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32");
    let server = Server::start(&folder, &[allowed]);
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        let recorder = [("rider", "me"), ("position", "91, 0")];
        let refused = visitor.post("/console/recorders/create", &recorder).await;
        assert_eq!(refused.status, 422);
        assert!(refused.text.contains("value=\"91, 0\""), "{refused:?}");
        assert!(refused.text.contains("Enter the position of the door"));
        let paused = visitor.post("/console/webhook/pause", &[]).await;
        assert_eq!(paused.status, 404);
        assert!(paused.text.contains("The webhook was deleted."));
        for (url, status) in [
            ("http://192.0.2.1/hook", 422),
            ("https://192.0.2.1/hook", 200),
            ("https://192.0.2.1/other", 409),
        ] {
            let form = [("url", url)];
            let seen = visitor.post("/console/webhook/register", &form).await;
            assert_eq!(seen.status, status, "{url}");
            if status != 200 {
                let typed = format!("value=\"{url}\"");
                assert!(seen.text.contains(&typed), "{url}");
            }
        }
        for path in ["/console/sessions?from=x", "/console/deliveries?from=x"] {
            let refused = visitor.get(path).await;
            assert_eq!(refused.status, 422, "{path}");
            assert!(refused.text.contains("is not a time such as"), "{path}");
        }
    });
}
