//! Privacy requests: the list, the form, the confirmation, cancelling, and the receipt of an
//! erasure. `/v1/privacy/requests` does the same for programs.

mod confirm;
mod form;
mod list;

use actix_web::HttpResponse;
use actix_web::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use actix_web::web::ServiceConfig;
use porchlight_actors::service::Submitted;
use porchlight_core::audit::Action;
use porchlight_core::privacy::PrivacyRequest;
use porchlight_http::audit;
use porchlight_http::problem::{Code, Problem, privacy_limit_reached, privacy_request_not_found};

use super::guard;
use super::route::{ROOT, action, page};
use super::signed_in::SignedInRequest;
use form::Entered;

pub(super) fn routes(config: &mut ServiceConfig) {
    page(
        config,
        "/privacy",
        Some(Action::ReadPrivacyRequest),
        list::show,
    );
    action(
        config,
        "/privacy/confirm",
        Some(Action::ReadPrivacyRequest),
        confirm::confirm,
    );
    action(
        config,
        "/privacy/create",
        Some(Action::CreatePrivacyRequest),
        create,
    );
    action(
        config,
        "/privacy/{id}/cancel",
        Some(Action::CancelPrivacyRequest),
        cancel,
    );
    page(
        config,
        "/privacy/{id}/receipt",
        Some(Action::ReadPrivacyRequest),
        receipt,
    );
}

/// Returns the request in the path.
async fn request_in_path(request: &SignedInRequest) -> Result<PrivacyRequest, Problem> {
    let privacy = request.state.service.privacy(request.tenant());
    let found = privacy.find(request.path_segment("id")).await?;
    found.ok_or_else(privacy_request_not_found)
}

/// Submits a confirmed request. An erasure must repeat the identifier of its subject.
async fn create(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let entered = Entered::of(&form);
    let new = match entered.request() {
        Ok(new) => new,
        Err(message) => return list::render(&request, Some(&message), &entered).await,
    };
    if !entered.is_confirmed(&form) {
        let message = "Nothing was erased: the identifier that you entered again does not match.";
        return confirm::confirmation(&request, &entered, &new, Some(message)).await;
    }
    audit::created(&request.http, &new.request_id);
    let privacy = request.state.service.privacy(request.tenant());
    match privacy.submit(new).await? {
        Submitted::New(_) | Submitted::Repeated(_) => {
            Ok(guard::redirect(&format!("{ROOT}/privacy?done=created")))
        }
        Submitted::Differs => Err(Problem::new(
            Code::RequestIdReused,
            "Another privacy request has this id. Go back and choose another one.",
        )),
        Submitted::NoRoom => Err(privacy_limit_reached()),
        Submitted::Held => Err(Problem::new(
            Code::LegalHold,
            "A legal hold protects a session of the subject. Release the hold on the session's page first.",
        )),
    }
}

async fn cancel(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    let privacy = request.state.service.privacy(request.tenant());
    match privacy.cancel(request.path_segment("id")).await? {
        Some(Ok(())) => Ok(guard::redirect(&format!("{ROOT}/privacy?done=cancelled"))),
        Some(Err(_not_pending)) => Err(Problem::new(
            Code::NotPending,
            "The request has started or finished, and cannot be cancelled.",
        )),
        None => Err(privacy_request_not_found()),
    }
}

/// Downloads the receipt of a completed erasure.
async fn receipt(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let found = request_in_path(&request).await?;
    let receipt = found.receipt.ok_or_else(|| {
        Problem::new(
            Code::PrivacyRequestNotFound,
            "The request has no receipt: only a completed erasure has one.",
        )
    })?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "application/jose"))
        .insert_header((CONTENT_DISPOSITION, "attachment; filename=\"receipt.jws\""))
        .body(receipt))
}
