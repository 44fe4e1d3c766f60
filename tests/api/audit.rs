//! Tests the audit log: its content, that every route that shows a position is recorded, and that
//! its chain can be checked.

use std::str::FromStr;
use std::time::Duration;

use actix_web::http::Method as RouteMethod;
use porchlight_actors::audit::Outcome;
use porchlight_api::openapi::document;
use porchlight_core::shares::ShareLimits;
use porchlight_http::audit::action_of;
use porchlight_keys::CreateKeyRequest;
use porchlight_observe::http::Route;
use porchlight_ports::{Clock, Collection, DocumentKind, Documents, Keys};
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::limits::{AUDIT_QUEUE_LINES_MAX, AUDIT_TENANT_LINES_MAX};
use porchlight_schema::session::{Env, Tenant};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::answer::Answer;
use crate::server::{Server, config, insights};

async fn lines(server: &Server, query: &str) -> Vec<Value> {
    server.service.audit().unwrap().flush().await;
    let answer = server
        .get(&format!("/v1/audit?{query}"), &server.keys.secret)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json["data"].as_array().unwrap().clone()
}

fn actions(lines: &[Value]) -> Vec<&str> {
    let actions = lines.iter().map(|line| line["action"].as_str().unwrap());
    actions.collect()
}

#[actix::test]
async fn a_read_is_logged_with_key_name_object_and_address() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let order = CreateKeyRequest {
        name: Some("dispatch".to_owned()),
        ..CreateKeyRequest::new("acme", "sandbox", "secret")
    };
    let made = server
        .key_admin
        .create(&order, server.clock.now())
        .await
        .unwrap();
    let insight = server.get(&insights(&session.id), &made.key).await;
    assert_eq!(insight.status, 200);
    let found = lines(
        &server,
        &format!("action=insight.read&sessionId={}&limit=1", session.id),
    )
    .await;
    let line = &found[0];
    assert_eq!(
        line["actor"],
        json!({ "kind": "key", "id": made.id, "name": "dispatch" })
    );
    assert_eq!(line["object"], session.id.as_str());
    assert_eq!(line["from"], "127.0.0.1");
    // Refused requests, and requests that show nothing new, are not recorded.
    let before = lines(&server, "limit=200").await.len();
    server.get(&insights("ses_none"), &made.key).await;
    server
        .get(&insights(&session.id), &server.keys.client)
        .await;
    let again = server
        .request(Method::GET, &insights(&session.id))
        .header("Service-Key", &made.key)
        .header("If-None-Match", insight.header("etag"));
    assert_eq!(Answer::of(again).await.status, 304);
    assert_eq!(lines(&server, "limit=200").await.len(), before);
    server.stop().await;
}

#[actix::test]
async fn the_log_names_the_client_behind_a_trusted_proxy() {
    let server = Server::start().await;
    let request = server
        .request(Method::GET, "/v1/sessions")
        .header("Service-Key", &server.keys.secret)
        .header("X-Forwarded-For", "192.0.2.1, 198.51.100.7");
    assert_eq!(Answer::of(request).await.status, 200);
    let found = lines(&server, "action=session.list&limit=1").await;
    assert_eq!(found[0]["from"], "198.51.100.7");
    server.stop().await;
}

/// Returns whether a schema of the document has a field that is a latitude, at any depth.
fn has_position(schema: &Value, depth: usize) -> bool {
    if depth > 12 {
        return false;
    }
    match schema {
        Value::Object(fields) => fields.iter().any(|(name, value)| match name.as_str() {
            "properties" => {
                let own = value.as_object().unwrap();
                own.contains_key("lat")
                    // The bytes of a webhook body, which contain the address.
                    || own.contains_key("payload")
                    || own.contains_key("pathImageUrl")
                    || own.values().any(|value| has_position(value, depth + 1))
            }
            "$ref" => {
                let pointer = value.as_str().unwrap().trim_start_matches('#');
                has_position(document().pointer(pointer).unwrap(), depth + 1)
            }
            "schema" | "x-event" | "x-end" | "items" | "anyOf" | "oneOf" | "allOf" => {
                has_position(value, depth + 1)
            }
            media if media.starts_with("image/") => true,
            media if media.contains('/') => has_position(value, depth + 1),
            "content" => has_position(value, depth + 1),
            _ => false,
        }),
        Value::Array(values) => values.iter().any(|value| has_position(value, depth + 1)),
        _ => false,
    }
}

/// The routes that record a delivery only return data to the phone or gateway that sent it.
const RECORDING: [&str; 2] = ["/v1/sessions/start", "/v1/sessions/stop"];

#[test]
fn every_route_that_shows_a_position_is_audited() {
    let mut shown = Vec::new();
    for (path, methods) in document()["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            let mut good = answers.iter().filter(|(status, _)| status.starts_with('2'));
            if !good.any(|(_, answer)| has_position(answer, 0))
                || RECORDING.contains(&path.as_str())
            {
                continue;
            }
            // Both formats of the image are one route.
            let pattern = path.replace("path.svg", "path.png");
            let route = Route::ALL.iter().find(|route| route.as_str() == pattern);
            let method = RouteMethod::from_str(&method.to_uppercase()).unwrap();
            let action = action_of(*route.unwrap(), &method);
            assert!(
                action.is_some(),
                "{method} {path} shows a position and is not audited"
            );
            shown.push(format!("{method} {path}"));
        }
    }
    for path in [
        "/v1/sessions/{id}",
        "/v1/sessions",
        "/v1/sessions/{id}/insights",
        "/v1/sessions/{id}/path.png",
        "/v1/sessions/{id}/path.svg",
        "/v1/webhooks/deliveries/{id}",
    ] {
        assert!(shown.contains(&format!("GET {path}")), "{path}: {shown:?}");
    }
}

#[actix::test]
async fn each_audited_read_of_a_session_appears_on_the_log() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let secret = server.keys.secret.clone();
    let id = &session.id;
    let before = lines(&server, "limit=200").await.len();
    let insight = server.get(&insights(id), &secret).await;
    for path in ["", "/evidence", "/explanation"] {
        let path = format!("/v1/sessions/{id}{path}");
        assert_eq!(server.get(&path, &secret).await.status, 200, "{path}");
    }
    server.get("/v1/sessions", &secret).await;
    let events = server
        .request(Method::GET, &format!("/v1/sessions/{id}/events"))
        .header("Service-Key", &secret);
    assert_eq!(events.send().await.unwrap().status().as_u16(), 200);
    let image = insight.json["pathImageUrl"].as_str().unwrap();
    let image = image.split_once("/v1/").unwrap().1;
    let image = server
        .request(Method::GET, &format!("/v1/{image}"))
        .send()
        .await
        .unwrap();
    assert_eq!(image.status().as_u16(), 200);
    let all = lines(&server, "limit=200").await;
    let new = &all[..all.len() - before];
    assert_eq!(
        actions(new),
        [
            "image.read",
            "events.read",
            "session.list",
            "explanation.read",
            "evidence.read",
            "session.read",
            "insight.read",
        ]
    );
    assert_eq!(
        new[0]["actor"],
        json!({ "kind": "link", "id": null, "name": null })
    );
    assert_eq!(new[2]["object"], Value::Null);
    assert!(
        new.iter()
            .all(|line| line["action"] == "session.list" || line["object"] == id.as_str())
    );
    server.stop().await;
}

#[actix::test]
async fn pages_follow_each_other_and_the_customer_can_check_the_chain() {
    let server = Server::start().await;
    let session = server.start_session().await;
    for _ in 0..150 {
        server
            .get(&insights(&session.id), &server.keys.secret)
            .await;
    }
    server.service.audit().unwrap().flush().await;
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/audit?limit=40{cursor}");
        let page = server.get(&path, &server.keys.secret).await;
        all.extend(page.json["data"].as_array().unwrap().clone());
        match page.json["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(all.len(), 150);
    let mut previous = "0".repeat(64);
    for line in all.iter().rev() {
        let actor = &line["actor"];
        let text = format!(
            r#"{{"at":{},"actor":{{"kind":{},"id":{},"name":{}}},"action":{},"object":{},"from":{}}}"#,
            line["at"],
            actor["kind"],
            actor["id"],
            actor["name"],
            line["action"],
            line["object"],
            line["from"]
        );
        let hash = Sha256::digest(format!("{previous}\n{text}"));
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(line["hash"], hash.as_str());
        previous = hash;
    }
    assert_eq!(lines(&server, "to=2020-01-01T00:00:00Z").await.len(), 0);
    assert_eq!(
        lines(&server, "from=2020-01-01T00:00:00Z&limit=7")
            .await
            .len(),
        7
    );
    assert_eq!(lines(&server, "action=key.create").await.len(), 0);
    for query in [
        "a=1",
        "action=nothing",
        "sessionId=x",
        "limit=0",
        "cursor=x",
        "cursor=AAAAAAAAAAAAAAAA",
        "cursor=AAAAAAAAAAAAAAAAAAAAAA",
        "from=x",
    ] {
        server
            .get(&format!("/v1/audit?{query}"), &server.keys.secret)
            .await
            .assert_problem(422, "invalid_parameter");
    }
    let others = server.get("/v1/audit", &server.keys.other).await;
    assert_eq!(
        others.json["data"],
        json!([]),
        "another organization sees its own log only"
    );
    for key in [&session.token, &server.keys.client] {
        server
            .get("/v1/audit", key)
            .await
            .assert_problem(403, "secret_key_required");
    }
    server.stop().await;
}

/// Returns the tenant of the organization `acme` in the sandbox.
async fn tenant_of(server: &Server) -> Tenant {
    let keys = server.store.list_keys(None).await.unwrap();
    let key = keys
        .iter()
        .find(|key| server.keys.secret.ends_with(&key.last4));
    key.unwrap().tenant
}

/// Reads the tenant's sessions until the answer has this status.
async fn wait_for_status(server: &Server, key: &str, status: u16) {
    for _ in 0..3_000 {
        if server.get("/v1/sessions", key).await.status == status {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", server.get("/v1/sessions", key).await);
}

#[actix::test]
async fn a_damaged_row_of_a_log_stops_only_its_own_organization() {
    let server = Server::start().await;
    let log = server.service.audit().unwrap();
    let heads = Collection::of_tenant(DocumentKind::AuditHead, tenant_of(&server).await);
    let replace = |from, to| {
        let key = b"head".to_vec();
        server.store.replace_document(heads, key, from, to)
    };
    let damaged = Some(vec![0xff; 3]);
    assert!(replace(None, damaged.clone()).await.unwrap());
    let first = server.get("/v1/sessions", &server.keys.secret).await;
    assert_eq!(first.status, 200, "the log is read after the answer");
    assert!(!log.flush().await, "the line is not committed");
    let refused = server.get("/v1/sessions", &server.keys.secret).await;
    refused.assert_problem(503, "overloaded");

    for _ in 0..3 {
        let others = server.get("/v1/sessions", &server.keys.other).await;
        assert_eq!(others.status, 200);
        log.flush().await;
    }
    let others = server.get("/v1/audit", &server.keys.other).await;
    assert_eq!(others.json["data"].as_array().unwrap().len(), 3);
    let reports = log.verify().await.unwrap();
    let is_broken = |outcome: &Outcome| matches!(outcome, Outcome::Broken { .. });
    let broken = reports.iter().filter(|report| is_broken(&report.outcome));
    assert_eq!(broken.count(), 1, "{reports:?}");

    assert!(replace(damaged, None).await.unwrap());
    wait_for_status(&server, &server.keys.secret, 200).await;
    let found = lines(&server, "action=session.list").await;
    assert_eq!(found.len(), 2, "the line of the first answer is kept");
    server.stop().await;
}

#[actix::test]
async fn a_removed_line_is_found() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let log = server.service.audit().unwrap();
    for _ in 0..3 {
        server
            .get(&insights(&session.id), &server.keys.secret)
            .await;
        log.flush().await;
    }
    let broken = async || -> Vec<String> {
        let reports = log.verify().await.unwrap().into_iter();
        let faults = reports.filter_map(|report| match report.outcome {
            Outcome::Broken { fault } => Some(fault),
            Outcome::Whole(_) => None,
        });
        faults.collect()
    };
    assert_eq!(broken().await, Vec::<String>::new());
    let tenant = tenant_of(&server).await;
    let groups = Collection::part_of_tenant(DocumentKind::AuditGroup, tenant, 0);
    let stored = server.store.documents(groups, None, 10).await.unwrap();
    assert_eq!(stored.len(), 3);
    for document in stored {
        let (key, data) = (document.key, Some(document.data));
        let replace = |from, to| server.store.replace_document(groups, key.clone(), from, to);
        assert!(replace(data.clone(), None).await.unwrap());
        assert_eq!(broken().await.len(), 1, "group {key:?}");
        assert!(replace(None, data).await.unwrap());
        assert_eq!(broken().await, Vec::<String>::new());
    }
    server.stop().await;
}

#[actix::test]
async fn a_tenant_that_fills_its_share_of_the_queue_delays_no_other() {
    let server = Server::start().await;
    let log = server.service.audit().unwrap();
    let [busy, other] = [1, 2].map(|number| Tenant {
        organization_id: OrganizationId::new(server.clock.now(), number),
        env: Env::Production,
    });
    let mut held = Vec::new();
    while held.len() < AUDIT_QUEUE_LINES_MAX {
        let reserving = tokio::time::timeout(Duration::from_millis(200), log.reserve(busy));
        match reserving.await {
            Ok(permit) => held.push(permit.unwrap()),
            Err(_elapsed) => break,
        }
    }
    assert!(log.reserve(other).await.is_ok(), "{} are held", held.len());
    drop(held.pop());
    assert!(log.reserve(busy).await.is_ok());
    drop(held);
    server.stop().await;
}

#[actix::test]
async fn requests_that_wait_for_room_hold_permits_of_their_tenant() {
    let shares = ShareLimits {
        requests: 3,
        ..ShareLimits::default()
    };
    let server = Server::with_shares(config(), shares).await;
    let tenant = tenant_of(&server).await;
    let log = server.service.audit().unwrap();
    log.flush().await;
    let mut held = Vec::new();
    for _ in 0..AUDIT_TENANT_LINES_MAX {
        held.push(log.reserve(tenant).await.unwrap());
    }
    let requests = (0..8).map(|_| server.get("/v1/sessions", &server.keys.secret));
    let answers = futures_util::future::join_all(requests).await;
    let count = |status| {
        let answers = answers.iter();
        answers.filter(|answer| answer.status == status).count()
    };
    assert_eq!((count(503), count(429)), (3, 5), "{answers:?}");
    drop(held);
    server.stop().await;
}
