//! Tests every endpoint against every error that it can return.

use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{Server, Started, start_body};

/// The credentials that an endpoint accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RequiredCredential {
    /// A client key or a secret key.
    Key,
    /// A secret key, or the session's token.
    Session,
    /// A secret key.
    Secret,
}

struct Endpoint {
    method: Method,
    path: &'static str,
    credential: RequiredCredential,
    /// The value of `Allow` for the path.
    allow: &'static str,
    body: Option<fn(&str) -> Value>,
}

fn endpoints() -> Vec<Endpoint> {
    let get = |path, credential, allow| Endpoint {
        method: Method::GET,
        path,
        credential,
        allow,
        body: None,
    };
    let post = |path, credential, allow, body: fn(&str) -> Value| Endpoint {
        method: Method::POST,
        path,
        credential,
        allow,
        body: Some(body),
    };
    let read = "GET, HEAD";
    vec![
        post(
            "/v1/sessions/start",
            RequiredCredential::Key,
            "POST",
            |_| start_body(),
        ),
        post(
            "/v1/sessions/stop",
            RequiredCredential::Session,
            "POST",
            |id| json!({ "sessionId": id }),
        ),
        post(
            "/v1/sessions/{id}/telemetry",
            RequiredCredential::Session,
            "GET, POST",
            |_| json!({ "seq": 0, "samples": [] }),
        ),
        post(
            "/v1/sessions/{id}/pod",
            RequiredCredential::Session,
            "POST",
            |_| json!({ "type": "photo", "url": "https://example.com/1.jpg" }),
        ),
        get("/v1/sessions", RequiredCredential::Secret, read),
        get("/v1/sessions/{id}", RequiredCredential::Secret, read),
        get(
            "/v1/sessions/{id}/insights",
            RequiredCredential::Secret,
            read,
        ),
        get(
            "/v1/sessions/{id}/evidence",
            RequiredCredential::Secret,
            read,
        ),
        get(
            "/v1/sessions/{id}/telemetry",
            RequiredCredential::Session,
            "GET, POST",
        ),
        get(
            "/v1/sessions/{id}/acknowledged",
            RequiredCredential::Session,
            read,
        ),
    ]
}

impl Endpoint {
    fn request(&self, server: &Server, id: &str) -> reqwest::RequestBuilder {
        let request = server.request(self.method.clone(), &self.path.replace("{id}", id));
        match self.body {
            Some(body) => request
                .header("Content-Type", "application/json")
                .body(body(id).to_string()),
            None => request,
        }
    }

    async fn with(&self, server: &Server, id: &str, key: &str) -> Answer {
        Answer::of(self.request(server, id).header("Service-Key", key)).await
    }

    /// Returns whether the endpoint concerns one session.
    fn names_session(&self) -> bool {
        self.path.contains("{id}") || self.path.ends_with("/stop")
    }
}

#[actix::test]
async fn an_unknown_path_or_method_returns_a_problem() {
    let server = Server::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/sessions",
        "/v1/sessions/",
        "/v1/sessions/x/nothing",
        "/v1/sessions/x/telemetry/",
        "/%ff",
        "/v1//sessions",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS] {
            Answer::of(server.request(method, path))
                .await
                .assert_problem(404, "not_found");
        }
    }
    for endpoint in endpoints() {
        let path = endpoint.path.replace("{id}", "x");
        for method in [
            "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "POST", "GET", "BREW",
        ] {
            if endpoint.allow.split(", ").any(|allowed| allowed == method) {
                continue;
            }
            let answer =
                Answer::of(server.request(Method::from_bytes(method.as_bytes()).unwrap(), &path))
                    .await;
            answer.assert_problem(405, "method_not_allowed");
            assert_eq!(answer.header("allow"), endpoint.allow, "{method} {path}");
        }
    }
    server.stop().await;
}

#[actix::test]
async fn no_endpoint_works_without_a_valid_credential() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let typo = {
        let (head, last) = server.keys.secret.split_at(server.keys.secret.len() - 1);
        format!("{head}{}", if last == "0" { "1" } else { "0" })
    };
    let stranger = Server::start().await;
    let revoked = revoked_key(&server).await;
    let bad = [
        typo.as_str(),
        "",
        "sk_live_",
        "st_nothing",
        "nonsense",
        &stranger.keys.secret,
        &revoked,
    ];
    for endpoint in endpoints() {
        Answer::of(endpoint.request(&server, &session.id))
            .await
            .assert_problem(401, "credential_missing");
        for credential in bad {
            endpoint
                .with(&server, &session.id, credential)
                .await
                .assert_problem(401, "credential_invalid");
            let bearer = endpoint
                .request(&server, &session.id)
                .bearer_auth(credential);
            Answer::of(bearer)
                .await
                .assert_problem(401, "credential_invalid");
        }
    }
    stranger.stop().await;
    server.stop().await;
}

async fn revoked_key(server: &Server) -> String {
    let key = crate::server::key(&server.key_admin, "acme", "sandbox", "secret").await;
    let listed = server.key_admin.list().await.unwrap();
    let made = listed
        .iter()
        .find(|listed| {
            key.ends_with(&listed.last4) && listed.kind == "secret" && listed.env == "sandbox"
        })
        .unwrap();
    server
        .key_admin
        .revoke(&made.id, porchlight_schema::time::TimestampMs(1))
        .await
        .unwrap();
    key
}

#[actix::test]
async fn each_endpoint_accepts_only_its_credentials() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let other = server.start_session().await;
    for endpoint in endpoints() {
        let is_good = |answer: &Answer| !matches!(answer.status, 401 | 403 | 404);
        let check = |answer: Answer, taken: bool, code: &str| {
            if taken {
                assert!(
                    is_good(&answer),
                    "{} {}: {answer:?}",
                    endpoint.method,
                    endpoint.path
                );
            } else {
                answer.assert_problem(403, code);
            }
        };
        let keys = &server.keys;
        check(
            endpoint.with(&server, &session.id, &keys.secret).await,
            true,
            "",
        );
        check(
            endpoint.with(&server, &session.id, &keys.client).await,
            endpoint.credential == RequiredCredential::Key,
            "secret_key_required",
        );
        let refused = if endpoint.credential == RequiredCredential::Key {
            "key_required"
        } else {
            "secret_key_required"
        };
        check(
            endpoint.with(&server, &session.id, &session.token).await,
            endpoint.credential == RequiredCredential::Session,
            refused,
        );
        let refused = if endpoint.credential == RequiredCredential::Session {
            "other_session"
        } else {
            refused
        };
        check(
            endpoint.with(&server, &session.id, &other.token).await,
            false,
            refused,
        );
    }
    server.stop().await;
}

#[actix::test]
async fn hidden_resources_return_not_found() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let unknown = "ses_01kakwp2g0h6vd6hx0w6ydbyhq";
    let malformed = [
        "ses_",
        "x",
        "ses_01KAKWP2G0H6VD6HX0W6YDBYHQ",
        "%00",
        "ses_01kakwp2g0h6vd6hx0w6ydbyhq0",
        "org_01kakwp2g0h6vd6hx0w6ydbyhq",
    ];
    for endpoint in endpoints()
        .iter()
        .filter(|endpoint| endpoint.names_session())
    {
        for key in [&server.keys.other, &server.keys.live] {
            endpoint
                .with(&server, &session.id, key)
                .await
                .assert_problem(404, "session_not_found");
        }
        for id in malformed.into_iter().chain([unknown]) {
            endpoint
                .with(&server, id, &server.keys.secret)
                .await
                .assert_problem(404, "session_not_found");
        }
    }
    server.stop().await;
}

#[actix::test]
async fn the_accept_header_is_respected() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    for endpoint in endpoints() {
        let answer = endpoint
            .request(&server, &session.id)
            .header("Service-Key", &server.keys.secret)
            .header("Accept", "text/html");
        let is_upgrade = endpoint.method == Method::GET && endpoint.path.ends_with("/telemetry");
        if is_upgrade {
            Answer::of(answer)
                .await
                .assert_problem(426, "upgrade_required");
        } else {
            Answer::of(answer)
                .await
                .assert_problem(406, "not_acceptable");
        }
    }
    server.stop().await;
}

#[actix::test]
async fn every_body_is_validated_in_the_same_way() {
    let server = Server::start().await;
    let Started { id, .. } = server.start_session().await;
    for endpoint in endpoints()
        .iter()
        .filter(|endpoint| endpoint.body.is_some())
    {
        let body = endpoint.body.unwrap()(&id).to_string();
        let request = || {
            server
                .request(Method::POST, &endpoint.path.replace("{id}", &id))
                .header("Service-Key", &server.keys.secret)
        };
        let json = || request().header("Content-Type", "application/json");
        for media in [
            "text/plain",
            "application/xml",
            "application/json; charset=latin1",
            "",
        ] {
            Answer::of(request().header("Content-Type", media).body(body.clone()))
                .await
                .assert_problem(415, "unsupported_media_type");
        }
        Answer::of(request().body(body.clone()))
            .await
            .assert_problem(415, "unsupported_media_type");
        for coding in ["br", "deflate", "gzip, gzip"] {
            Answer::of(json().header("Content-Encoding", coding).body(body.clone()))
                .await
                .assert_problem(415, "unsupported_encoding");
        }
        for coding in ["gzip", "zstd"] {
            Answer::of(json().header("Content-Encoding", coding).body(body.clone()))
                .await
                .assert_problem(400, "malformed_body");
        }
        for text in ["", "{", "nonsense", "{\"a\":NaN}", "{} {}", "\u{feff}{}"] {
            Answer::of(json().body(text))
                .await
                .assert_problem(400, "malformed_json");
        }
        Answer::of(json().body(vec![0xff, 0xfe]))
            .await
            .assert_problem(400, "malformed_json");
        // The JSON grammar sets no bounds on numbers; the requested fields do.
        for text in ["[]", "1", "1e999", "[1e999]", "null", "\"x\"", "{}"] {
            let answer = Answer::of(json().body(text)).await;
            assert!(
                !answer
                    .assert_problem(422, "invalid_body")
                    .faults()
                    .is_empty(),
                "{text}: {answer:?}"
            );
        }
        Answer::of(json().body(vec![b' '; 1024 * 1024 + 1]))
            .await
            .assert_problem(413, "body_too_large");
    }
    server.stop().await;
}
