//! Tests the operators' listener.

use std::net::SocketAddr;
use std::sync::Arc;

use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{App, HttpServer};
use metrics_exporter_prometheus::PrometheusBuilder;
use porchlight::config::Config;
use porchlight::ops::client::OpsClient;
use porchlight::ops::token::TokenFile;
use porchlight::ops::{OpsState, configure};
use porchlight_http::middleware::plain_edge;
use porchlight_keys::CreateKeyRequest;
use porchlight_support::free_address::free_address;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::{self, TestClock};

struct Operators {
    url: String,
    http: reqwest::Client,
    config: Config,
    token: String,
    service: porchlight_actors::service::Service,
    handle: actix_web::dev::ServerHandle,
}

impl Operators {
    async fn start(name: &str) -> Self {
        let mut config = Config::default();
        config.store.path =
            std::env::temp_dir().join(format!("porchlight-ops-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&config.store.path).unwrap();
        let (service, store, _arbiters) = server::service(
            Arc::<TestClock>::default(),
            porchlight_core::shares::ShareLimits::default(),
        );
        let listener = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let token = TokenFile::write(&config.store.path, address).unwrap();
        let entry: Value = serde_json::from_slice(
            &std::fs::read(config.store.path.join("operators.json")).unwrap(),
        )
        .unwrap();
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let state = Data::new(
            OpsState::new(service.clone(), store, None, metrics, token)
                .with_config(&config)
                .unwrap(),
        );
        let build = move || {
            App::new()
                .wrap(from_fn(plain_edge))
                .configure(configure(state.clone()))
        };
        let running = HttpServer::new(build)
            .workers(1)
            .disable_signals()
            .listen(listener)
            .unwrap()
            .run();
        let handle = running.handle();
        actix_rt::spawn(running);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let token = entry["token"].as_str().unwrap().to_owned();
        Self {
            url: format!("http://{address}"),
            http,
            config,
            token,
            service,
            handle,
        }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    async fn stop(self) {
        self.handle.stop(false).await;
        std::fs::remove_dir_all(&self.config.store.path).unwrap();
    }
}

#[actix::test]
async fn health_and_metrics_are_served() {
    let operators = Operators::start("health").await;
    let metrics = Answer::of(operators.request(Method::GET, "/metrics")).await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let lives = Answer::of(operators.request(Method::GET, "/healthz")).await;
    assert_eq!((lives.status, lives.json), (200, json!({ "status": "ok" })));
    let ready = Answer::of(operators.request(Method::GET, "/readyz")).await;
    let checks = json!([{ "name": "store", "ok": true }, { "name": "accepting", "ok": true }]);
    assert_eq!(
        (ready.status, ready.json),
        (200, json!({ "ready": true, "checks": checks }))
    );
    operators.service.drain().await;
    let ready = Answer::of(operators.request(Method::GET, "/readyz")).await;
    assert_eq!((ready.status, &ready.json["ready"]), (503, &json!(false)));
    assert_eq!(
        ready.json["checks"][1],
        json!({ "name": "accepting", "ok": false, "reason": "the service is stopping" })
    );
    Answer::of(operators.request(Method::GET, "/nothing"))
        .await
        .assert_problem(404, "not_found");
    Answer::of(operators.request(Method::DELETE, "/admin/keys"))
        .await
        .assert_problem(405, "method_not_allowed");
    operators.stop().await;
}

#[actix::test]
async fn the_page_shows_the_status_without_scripts() {
    let operators = Operators::start("page").await;
    let answer = operators.request(Method::GET, "/").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    let text = answer.text().await.unwrap();
    for heading in [
        "Ready",
        "Members and shards",
        "Process",
        "Actors",
        "Sessions",
        "Webhooks",
        "Store",
        "Quarantined sessions",
        "Configuration",
    ] {
        assert!(text.contains(&format!("<h2>{heading}")), "{heading}");
    }
    assert!(!text.contains("<script") && !text.contains(" style="));
    assert!(!text.contains(&operators.token));
    let style = operators.request(Method::GET, "/page.css").send().await;
    assert_eq!(style.unwrap().status(), 200);
    operators.stop().await;
}

#[actix::test]
async fn the_operators_api_accepts_only_its_token() {
    let operators = Operators::start("token").await;
    for (method, path) in [
        (Method::GET, "/admin/keys"),
        (Method::POST, "/admin/keys"),
        (Method::POST, "/admin/keys/x/revoke"),
        (Method::POST, "/admin/backup"),
    ] {
        Answer::of(operators.request(method.clone(), path))
            .await
            .assert_problem(401, "credential_missing");
        for token in [
            "",
            "x",
            &operators.token[1..],
            &format!("{}0", operators.token),
        ] {
            Answer::of(operators.request(method.clone(), path).bearer_auth(token))
                .await
                .assert_problem(401, "credential_invalid");
        }
    }
    let good = Answer::of(
        operators
            .request(Method::GET, "/admin/keys")
            .bearer_auth(&operators.token),
    )
    .await;
    assert_eq!((good.status, good.json), (200, json!({ "data": [] })));
    operators.stop().await;
}

#[actix::test]
async fn keys_are_created_listed_and_revoked_via_a_running_server() {
    let operators = Operators::start("keys").await;
    let client = OpsClient::of(&operators.config).unwrap().unwrap();
    let made = client
        .create_key(&CreateKeyRequest {
            name: Some("  back office ".to_owned()),
            expires_ms: Some(60_000),
            ..CreateKeyRequest::new("acme", "live", "secret")
        })
        .await
        .unwrap();
    let second = client
        .create_key(&CreateKeyRequest::new("acme", "sandbox", "client"))
        .await
        .unwrap();
    assert!(made.key.starts_with("sk_live_") && second.key.starts_with("pk_sandbox_"));
    assert_eq!(
        made.organization_id, second.organization_id,
        "an organization has one id in both environments"
    );
    let listed = client.list_keys().await.unwrap();
    assert_eq!(listed.len(), 2);
    let first = listed.iter().find(|key| key.id == made.id).unwrap();
    assert!(
        made.key.ends_with(&first.last4)
            && first.prefix == "sk_live_"
            && first.organization == "acme"
    );
    assert!(first.expires_at.is_some() && first.revoked_at.is_none());
    assert_eq!(first.name.as_deref(), Some("back office"));
    assert_eq!(first.last_used_at, None);
    assert!(!serde_json::to_string(&listed).unwrap().contains(&made.key));
    let revoked = client.revoke_key(&made.id).await.unwrap();
    let again = client.revoke_key(&made.id).await.unwrap();
    assert!(
        revoked.revoked_at.is_some() && revoked == again,
        "an earlier revocation stays"
    );
    assert!(
        client
            .revoke_key("key_nothing")
            .await
            .unwrap_err()
            .to_string()
            .contains("does not exist")
    );
    assert!(client.revoke_key("../backup").await.is_err());
    for (organization, env, kind, field) in [
        ("", "live", "secret", "organization"),
        ("a", "production", "secret", "env"),
        ("a", "live", "public", "kind"),
    ] {
        let error = client
            .create_key(&CreateKeyRequest::new(organization, env, kind))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(field), "{error}");
    }
    operators.stop().await;
}

#[actix::test]
async fn a_stopped_server_is_not_contacted() {
    let mut config = Config::default();
    config.store.path =
        std::env::temp_dir().join(format!("porchlight-gone-{}", std::process::id()));
    assert!(OpsClient::of(&config).unwrap().is_none());
    std::fs::create_dir_all(&config.store.path).unwrap();
    let _left_behind = TokenFile::write(&config.store.path, free_address()).unwrap();
    assert!(OpsClient::of(&config).unwrap().is_none());
    std::fs::remove_dir_all(&config.store.path).unwrap();
}
