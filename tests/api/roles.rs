//! The roles of secret keys: each route and method, with a key of each role.

use std::str::FromStr;

use porchlight_api::openapi::document;
use porchlight_keys::CreateKeyRequest;
use porchlight_ports::Clock;
use porchlight_schema::key::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, start_body};

/// The operations that a support key may use in addition to reads.
const RETRIES: [(&str, &str); 2] = [
    ("post", "/v1/webhooks/deliveries/retry"),
    ("post", "/v1/webhooks/deliveries/{id}/retry"),
];

async fn key(server: &Server, role: Role) -> String {
    let order = CreateKeyRequest {
        role: Some(role.as_str().to_owned()),
        ..CreateKeyRequest::new("acme", "sandbox", "secret")
    };
    let created = server.key_admin.create(&order, server.clock.now()).await;
    created.unwrap().key
}

/// Returns whether the contract lets a key of this role use an operation.
fn is_allowed(role: Role, method: &str, path: &str) -> bool {
    let is_read = method == "get" && path != "/v1/sessions/{id}/telemetry";
    match role {
        Role::Admin => true,
        Role::Support => is_read || RETRIES.contains(&(method, path)),
        Role::Viewer => is_read,
    }
}

/// Returns the documented operations that take a secret key, as method and path.
fn operations() -> Vec<(String, String)> {
    let mut operations = Vec::new();
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let credentials = operation["x-credentials"].as_array().unwrap();
            if credentials.contains(&json!("secret")) {
                operations.push((method.clone(), path.clone()));
            }
        }
    }
    operations
}

/// The link of a recorder lets its holder send telemetry, which a role that only reads must not do.
#[actix::test]
async fn a_key_that_only_reads_does_not_get_the_link_of_a_recorder() {
    let server = Server::start().await;
    let body = json!({ "externalRiderId": "rider-1", "address": start_body()["address"] });
    let made = server
        .post("/v1/recorders", &server.keys.secret, &body)
        .await;
    let id = made.json["recorderId"].as_str().unwrap();
    for role in Role::ALL {
        let key = key(&server, role).await;
        let shown = server.get(&format!("/v1/recorders/{id}"), &key).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        assert_eq!(shown.json["recorderId"], made.json["recorderId"]);
        assert_eq!(shown.json["expiresAt"], made.json["expiresAt"]);
        for field in ["url", "qrSvg", "pushUrls"] {
            let expected = (role == Role::Admin).then_some(&made.json[field]);
            assert_eq!(shown.json.get(field), expected, "{role:?} {field}");
        }
        let token = made.json["url"].as_str().unwrap().rsplit('/').next();
        assert_eq!(shown.text.contains(token.unwrap()), role == Role::Admin);
    }
    server.stop().await;
}

#[actix::test]
async fn each_role_has_its_permissions_on_each_route() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let operations = operations();
    assert!(operations.len() > 20, "{operations:?}");
    for role in Role::ALL {
        let key = key(&server, role).await;
        for (method, path) in &operations {
            for id in [session.id.as_str(), "ses_none"] {
                let upper = Method::from_str(&method.to_uppercase()).unwrap();
                let request = server
                    .request(upper, &path.replace("{id}", id))
                    .header("Service-Key", &key);
                let response = request.body("!").send().await.unwrap();
                let status = response.status().as_u16();
                // An event stream does not end, so the test reads only its head.
                let code = if status < 400 {
                    Value::Null
                } else {
                    let text = response.text().await.unwrap();
                    serde_json::from_str::<Value>(&text).unwrap()["code"].clone()
                };
                let is_refused = code == "role_forbidden";
                assert_eq!(
                    is_refused,
                    !is_allowed(role, method, path),
                    "{role:?} {method} {path}: {status} {code}"
                );
                assert_eq!(is_refused, status == 403, "{role:?} {method} {path}");
            }
        }
    }
    server.stop().await;
}

#[actix::test]
async fn the_document_marks_the_operations_that_can_refuse_a_role() {
    for (method, path) in operations() {
        let operation = &document()["paths"][&path][&method];
        let text = operation["description"].as_str().unwrap();
        assert_eq!(
            text.contains("`admin`"),
            !is_allowed(Role::Viewer, &method, &path),
            "{method} {path}: {text}"
        );
        assert_eq!(
            text.contains("`support`"),
            RETRIES.contains(&(&method, &path)),
            "{method} {path}: {text}"
        );
    }
}

#[actix::test]
async fn the_role_is_checked_after_the_credential_and_before_the_object() {
    let server = Server::start().await;
    let viewer = key(&server, Role::Viewer).await;
    for request in [
        server.request(Method::POST, "/v1/sessions/ses_none/pod"),
        server.request(Method::POST, "/v1/sessions/start?unknown=1"),
    ] {
        let request = request
            .header("Service-Key", &viewer)
            .header("Accept", "text/html")
            .header("Content-Type", "text/plain");
        Answer::of(request.body("{"))
            .await
            .assert_problem(403, "role_forbidden");
    }
    for (method, path, status, code) in [
        (Method::POST, "/v1/nothing", 404, "not_found"),
        (Method::PUT, "/v1/sessions", 405, "method_not_allowed"),
    ] {
        let request = server.request(method, path).header("Service-Key", &viewer);
        Answer::of(request).await.assert_problem(status, code);
    }
    let body = start_body();
    let typo = server.post("/v1/sessions/start", &viewer[1..], &body).await;
    typo.assert_problem(401, "credential_invalid");
    server.stop().await;
}

#[actix::test]
async fn a_key_is_created_with_a_role_and_listed_with_it() {
    let server = Server::start().await;
    let create = async |kind: &str, role: Option<&str>| {
        let order = CreateKeyRequest {
            role: role.map(str::to_owned),
            ..CreateKeyRequest::new("roles", "sandbox", kind)
        };
        server.key_admin.create(&order, server.clock.now()).await
    };
    for (kind, role, listed) in [
        ("secret", None, Some("admin")),
        ("secret", Some("support"), Some("support")),
        ("client", None, None),
    ] {
        let id = create(kind, role).await.unwrap().id;
        let keys = server.key_admin.list().await.unwrap();
        let key = keys.iter().find(|key| key.id == id).unwrap();
        assert_eq!(key.role.as_deref(), listed);
        assert_eq!(key.to_string().contains("  role "), listed.is_some());
    }
    for (kind, role) in [("secret", "owner"), ("client", "viewer")] {
        let error = create(kind, Some(role)).await.unwrap_err().to_string();
        assert!(error.starts_with("role "), "{error}");
    }
    server.stop().await;
}
