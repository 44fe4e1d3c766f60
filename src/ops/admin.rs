//! The operators' API, under `/admin`.

use std::future::Future;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::AUTHORIZATION;
use actix_web::web::{self, Data};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use porchlight_actors::audit::ChainReport;
use porchlight_core::audit::{Action, Line};
use porchlight_http::body::{self, Limits};
use porchlight_http::problem::{Code, Fault, Problem};
use porchlight_http::{Settings, request_context};
use porchlight_keys::{CreateKeyRequest, KeyAdminError, ListedKey};
use porchlight_observe::error_text;
use porchlight_store::BackupError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::OpsState;
use crate::audit::{key_line, tenant_of};

/// A request with the operators' token.
pub(super) struct AdminRequest {
    http: HttpRequest,
    payload: Payload,
    state: Data<OpsState>,
}

impl FromRequest for AdminRequest {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(http: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (http, payload) = (http.clone(), payload.take());
        Box::pin(async move {
            let state = http.app_data::<Data<OpsState>>().cloned();
            let state = state.ok_or_else(|| Problem::internal("the application has no state"))?;
            let given = http
                .headers()
                .get(AUTHORIZATION)
                .and_then(|value| value.to_str().ok());
            let given = given.ok_or_else(|| {
                Problem::new(
                    Code::CredentialMissing,
                    "Send the operators' token as Authorization: Bearer.",
                )
            })?;
            let is_good = given
                .strip_prefix("Bearer ")
                .is_some_and(|token| state.token.matches(token));
            if !is_good {
                return Err(Problem::new(
                    Code::CredentialInvalid,
                    "This is not the operators' token of this server.",
                ));
            }
            Ok(Self {
                http,
                payload,
                state,
            })
        })
    }
}

impl AdminRequest {
    /// Reads the body as JSON.
    async fn read<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        let announced = body::json(self.http.headers(), Limits::REQUEST)?;
        // Commands come from this machine, so the default deadlines suffice.
        let deadlines = Settings::default().body_deadlines;
        let body = announced
            .read(self.payload.take(), deadlines, |_| Ok(()))
            .await?;
        let value = porchlight_http::fields::parse(&body.to_bytes())?;
        serde_json::from_value(value).map_err(|error| Problem::invalid_field("", error.to_string()))
    }
}

/// The answer with all keys.
#[derive(Serialize)]
struct KeyList {
    data: Vec<ListedKey>,
}

/// The result of the check of all audit logs.
#[derive(Serialize)]
struct ChainReports {
    data: Vec<ChainReport>,
}

/// The target folder of a backup.
#[derive(serde::Deserialize, Serialize)]
pub(super) struct BackupRequest {
    pub(super) folder: PathBuf,
}

/// The size of the copy.
#[derive(Serialize)]
struct BackupAnswer {
    rows: u64,
    bytes: u64,
}

pub(super) async fn create_key(mut request: AdminRequest) -> Result<HttpResponse, Problem> {
    let new_key: CreateKeyRequest = request.read().await?;
    let created = request
        .state
        .key_admin
        .create(&new_key, request.state.service.now())
        .await
        .map_err(refused)?;
    let line = key_line(Action::CreateKey, &created.id, request.state.service.now());
    record(&request, &created.organization_id, &created.env, line).await;
    request_context::json(HttpResponse::Created(), &created)
}

pub(super) async fn list_keys(request: AdminRequest) -> Result<HttpResponse, Problem> {
    let data = request.state.key_admin.list().await.map_err(refused)?;
    request_context::json(HttpResponse::Ok(), &KeyList { data })
}

pub(super) async fn revoke_key(request: AdminRequest) -> Result<HttpResponse, Problem> {
    let id = request.http.match_info().get("id").unwrap_or_default();
    let key = request
        .state
        .key_admin
        .revoke(id, request.state.service.now())
        .await
        .map_err(refused)?;
    if let Ok(id) = key.id.parse() {
        (request.state.on_revoked)(id);
    }
    let line = key_line(Action::RevokeKey, &key.id, request.state.service.now());
    record(&request, &key.organization_id, &key.env, line).await;
    request_context::json(HttpResponse::Ok(), &key)
}

pub(super) async fn backup(mut request: AdminRequest) -> Result<HttpResponse, Problem> {
    let BackupRequest { folder } = request.read().await?;
    if !folder.is_absolute() {
        return Err(Problem::invalid_field(
            "/folder",
            "must be an absolute path",
        ));
    }
    let store = request.state.store.as_ref().map(Arc::clone);
    let store = store.ok_or_else(|| {
        Problem::new(
            Code::Conflict,
            "Back up the CQL cluster of this server with its own tools.",
        )
    })?;
    let store_to_copy = Arc::clone(&store);
    let private_files = request.state.backup_files;
    let copied = web::block(move || store_to_copy.backup(&folder, private_files))
        .await
        .map_err(Problem::internal)?;
    let report = copied.map_err(|error| Problem::new(Code::Conflict, describe_failure(error)))?;
    store.record_backup(request.state.service.now()).await?;
    request_context::json(
        HttpResponse::Ok(),
        &BackupAnswer {
            rows: report.rows,
            bytes: report.bytes,
        },
    )
}

/// Returns the causes of a failed backup, and a remedy if the server may not write to the folder.
fn describe_failure(error: BackupError) -> String {
    let is_not_writable = match &error {
        BackupError::Io(_, cause) => matches!(
            cause.kind(),
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied
        ),
        _ => false,
    };
    let hint = if is_not_writable {
        ". The server writes the copy, so its user must be allowed to write there; under the shipped systemd unit that \
         is only the case below /var/lib/porchlight"
    } else {
        ""
    };
    format!("{}{hint}", error_text(&error))
}

/// Whether to quarantine damaged rows.
#[derive(serde::Deserialize, Serialize)]
pub(super) struct CheckRequest {
    pub(super) quarantine: bool,
}

pub(super) async fn check_store(mut request: AdminRequest) -> Result<HttpResponse, Problem> {
    let CheckRequest { quarantine } = request.read().await?;
    let store = request.state.store.as_ref().map(Arc::clone);
    let store = store.ok_or_else(|| {
        Problem::new(
            Code::Conflict,
            "Check the CQL cluster of this server with its own tools.",
        )
    })?;
    let store_to_check = Arc::clone(&store);
    let mut report = web::block(move || store_to_check.check())
        .await
        .map_err(Problem::internal)?;
    if quarantine {
        let moved = store.quarantine(&mut report).await;
        moved.map_err(|error| Problem::new(Code::Conflict, error_text(&error)))?;
    }
    request_context::json(HttpResponse::Ok(), &report)
}

pub(super) async fn rewrap(request: AdminRequest) -> Result<HttpResponse, Problem> {
    let sealing = request.state.sealing.as_ref();
    let sealing = sealing.ok_or_else(|| {
        Problem::new(
            Code::Conflict,
            "This server has no secrets to seal.".to_owned(),
        )
    })?;
    let report = sealing.vault.rewrap(sealing.outbox.as_ref()).await?;
    request_context::json(HttpResponse::Ok(), &report)
}

/// Checks the audit logs of all organizations.
pub(super) async fn verify_audit(request: AdminRequest) -> Result<HttpResponse, Problem> {
    let log = request.state.service.audit();
    let log = log.ok_or_else(|| Problem::internal("the service has no audit log"))?;
    let data = log.verify().await?;
    request_context::json(HttpResponse::Ok(), &ChainReports { data })
}

/// Records in the organization's audit log that an operator has created or revoked a key. The key
/// has changed already, so a failure to record is only logged.
async fn record(request: &AdminRequest, organization_id: &str, env: &str, line: Line) {
    let tenant = tenant_of(organization_id, env);
    let (Some(log), Some(tenant)) = (request.state.service.audit(), tenant) else {
        return;
    };
    let from = request.http.peer_addr().map(|peer| peer.ip());
    match log.reserve(tenant).await {
        Ok(permit) => permit.record(Line { from, ..line }),
        Err(error) => tracing::warn!(
            error = error_text(&error),
            "a change of a key is not in the audit log"
        ),
    }
}

fn refused(error: KeyAdminError) -> Problem {
    match error {
        KeyAdminError::Invalid { field, detail } => Problem::invalid_body(vec![Fault::Field {
            pointer: format!("/{field}"),
            detail,
        }]),
        KeyAdminError::TooMany => Problem::too_many_keys(),
        KeyAdminError::NotFound => Problem::new(Code::NotFound, "The key does not exist."),
        KeyAdminError::Store(error) => error.into(),
    }
}
