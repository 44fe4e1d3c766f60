//! The routes `/metrics`, `/healthz` and `/readyz`.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::web::Data;
use porchlight_core::disk_space::SpaceLevel;
use porchlight_http::middleware::Report;
use porchlight_http::problem::Problem;
use porchlight_http::request_context;
use serde::Serialize;

use super::OpsState;

/// The maximum time for a read of the store; a slower store counts as unreachable.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether the process is ready, and the reasons if it is not.
#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    checks: Vec<Check>,
    /// Notes for operators that do not affect readiness.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Note>,
}

/// A note for operators about a condition that does not keep requests from being answered.
#[derive(Debug, Serialize)]
struct Note {
    /// The subject of the note.
    name: &'static str,
    /// The text of the note.
    detail: &'static str,
}

/// One condition for readiness.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// The name of the condition.
    pub(super) name: &'static str,
    /// Whether the condition holds.
    pub(super) ok: bool,
    /// The reason why the condition does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

impl Check {
    fn of(name: &'static str, outcome: Result<(), String>) -> Self {
        Self {
            name,
            ok: outcome.is_ok(),
            reason: outcome.err(),
        }
    }
}

pub(super) async fn metrics(state: Data<OpsState>) -> HttpResponse {
    state.process.collect();
    state.service.show_shares();
    let text = state.metrics.render();
    HttpResponse::Ok()
        .insert_header((
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
        ))
        .body(text)
}

pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")))
        .body(r#"{"status":"ok"}"#)
}

/// Checks all conditions for readiness.
pub(super) async fn checks(state: &OpsState) -> Vec<Check> {
    let probed = tokio::time::timeout(STORE_TIMEOUT, state.key_admin.probe()).await;
    let store = match probed {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!(
            "the store did not answer within {} s",
            STORE_TIMEOUT.as_secs()
        )),
    };
    let draining = if state.service.is_draining() {
        Err("the service is stopping".to_owned())
    } else {
        Ok(())
    };
    let mut checks = vec![Check::of("store", store), Check::of("accepting", draining)];
    if let Some(view) = &state.health.view {
        let membership = if view.has_valid_lease() {
            Ok(())
        } else {
            Err("this node is not a member: its heartbeats are not answered".to_owned())
        };
        checks.push(Check::of("member", membership));
        let shards = if view.has_received_shards() {
            Ok(())
        } else {
            Err("this node waits for its shards".to_owned())
        };
        checks.push(Check::of("shards", shards));
    }
    checks
}

/// Returns the reason why writes are refused, or `None` if the disk has room for all of them.
fn disk_note(state: &OpsState) -> Option<&'static str> {
    match state.store.as_ref()?.committer().space() {
        SpaceLevel::Plenty => None,
        SpaceLevel::Low => {
            Some("the disk is nearly full: reads and deletions continue, new data is refused")
        }
        SpaceLevel::Exhausted => Some("the disk is full: reads continue, all writes are refused"),
    }
}

pub(super) async fn ready(state: Data<OpsState>) -> Result<HttpResponse, Problem> {
    let checks = checks(&state).await;
    let ready = checks.iter().all(|check| check.ok);
    let retention = state.health.retention.pause_reason();
    let disk = disk_note(&state);
    let notes = [("retention", retention), ("disk", disk)];
    let note = |(name, detail): (_, Option<_>)| {
        Some(Note {
            name,
            detail: detail?,
        })
    };
    let readiness = Readiness {
        ready,
        checks,
        notes: notes.into_iter().filter_map(note).collect(),
    };
    let status = if ready {
        HttpResponse::Ok()
    } else {
        HttpResponse::ServiceUnavailable()
    };
    let mut response = request_context::json(status, &readiness)?;
    response.extensions_mut().insert(Report);
    Ok(response)
}
