//! Tests the pages and actions that the console offers to a key of each role.

use porchlight_schema::limits::REVIEW_NOTE_CHARS_MAX;

use super::tenant::{role_key, session};
use super::visitor::Visitor;
use crate::server::{Folder, Server, block_on};

/// Returns the actions that a page offers, other than to sign out.
fn actions(page: &str) -> Vec<&str> {
    let forms = page.split("method=\"post\" action=\"").skip(1);
    let actions = forms.map(|form| form.split('"').next().unwrap());
    actions
        .filter(|action| *action != "/console/sign-out")
        .collect()
}

/// Waits until the audit log shows the acts of an admin, and asserts that it does and that the
/// review is kept.
async fn assert_acts_shown(log: &Visitor, explanation: &str) {
    let seen = async || log.page("/console/audit").await.text;
    let mut page = seen().await;
    for _ in 0..1_200 {
        if page.contains("key.create") && page.contains("review.write") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        page = seen().await;
    }
    assert!(page.contains("key.create") && page.contains("review.write"));
    assert!(log.page(explanation).await.text.contains("seen"));
}

#[test]
fn a_page_offers_exactly_the_actions_that_the_role_allows() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let admin = server.key("secret");
    block_on(async {
        let id = session(&server, &admin, "roles").await;
        let explanation = format!("/console/sessions/{id}/explanation");
        for role in ["admin", "support", "viewer"] {
            let visitor = Visitor::sign_in(&server, &role_key(&folder, "it", role)).await;
            let is_admin = role == "admin";
            for (path, has_actions) in [
                ("/console/keys", is_admin),
                ("/console/webhook", is_admin),
                ("/console/recorders", is_admin),
                ("/console/privacy", is_admin),
                (explanation.as_str(), is_admin),
                ("/console/sessions", false),
                ("/console/audit", false),
            ] {
                let page = visitor.page(path).await;
                assert!(
                    page.text.contains(&format!("Role: {role}")),
                    "{role} {path}"
                );
                assert_eq!(
                    !actions(&page.text).is_empty(),
                    has_actions,
                    "{role} {path}"
                );
            }
            let fields = [("state", "reviewed"), ("note", "seen")];
            let note = "x".repeat(REVIEW_NOTE_CHARS_MAX + 1);
            let long = [("state", "reviewed"), ("note", note.as_str())];
            // A browser counts a line break as one character, and sends two.
            let most = format!("x\r\n{}", "x".repeat(REVIEW_NOTE_CHARS_MAX - 2));
            let most = [("state", "reviewed"), ("note", most.as_str())];
            let review = format!("/console/sessions/{id}/review");
            let hold = format!("/console/sessions/{id}/hold");
            let release = format!("/console/sessions/{id}/release-hold");
            let access = [
                ("requestId", "a1"),
                ("type", "access"),
                ("kind", "sessionId"),
                ("subject", id.as_str()),
            ];
            for (path, fields, done) in [
                (review.as_str(), &most[..], 303),
                (review.as_str(), &fields[..], 303),
                (review.as_str(), &long[..], 422),
                ("/console/keys/create", &[("kind", "viewer")][..], 200),
                ("/console/webhook/pause", &[][..], 404),
                ("/console/privacy/confirm", &access[..], 200),
                ("/console/privacy/create", &access[..], 303),
                ("/console/privacy/a1/cancel", &[][..], 303),
                (hold.as_str(), &[][..], 303),
                (release.as_str(), &[][..], 303),
                (
                    "/console/recorders/create",
                    &[("rider", "me"), ("position", "52.52, 13.405")][..],
                    303,
                ),
            ] {
                let status = visitor.post(path, fields).await.status;
                assert_eq!(status, if is_admin { done } else { 403 }, "{role} {path}");
            }
            let retry = visitor.post("/console/deliveries/retry", &[]).await.status;
            assert_eq!(retry == 403, role == "viewer", "{role}: {retry}");
        }
        assert_acts_shown(&Visitor::sign_in(&server, &admin).await, &explanation).await;
    });
}
