//! The webhook's page: the endpoint and all actions on it. Each action is the API's own.

mod show;

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use porchlight_actors::webhook::{ConfigureError, Tested, Webhooks};
use porchlight_core::audit::Action;
use porchlight_http::problem::Problem;
use porchlight_http::query::Query;
use porchlight_ports::Endpoint;
use porchlight_schema::limits::{SECRET_OVERLAP_SEC_DEFAULT, SECRET_OVERLAP_SEC_MAX};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::guard;
use super::layout::{Notice, Section};
use super::route::{ROOT, action, page};
use super::signed_in::SignedInRequest;

/// The completed action, as named in the address of the page that follows it.
#[derive(Clone, Copy)]
enum Done {
    Changed,
    Paused,
    Resumed,
    OverlapEnded,
    Deleted,
}

impl Done {
    const ALL: [(&'static str, Self); 5] = [
        ("changed", Self::Changed),
        ("paused", Self::Paused),
        ("resumed", Self::Resumed),
        ("ended", Self::OverlapEnded),
        ("deleted", Self::Deleted),
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Changed => "The URL was changed. Pending deliveries will be sent to the new URL.",
            Self::Paused => "The webhook is paused. Events are queued and held until you resume.",
            Self::Resumed => "The webhook is active again. Held deliveries are being sent now.",
            Self::OverlapEnded => "The previous secret is no longer valid.",
            Self::Deleted => "The webhook was deleted. Pending deliveries were cancelled.",
        }
    }
}

/// The messages that the page shows in addition to the current state.
#[derive(Default)]
struct Feedback {
    notice: Option<(Notice, String)>,
    /// A secret that was just created, shown only once.
    secret: Option<(String, Option<TimestampMs>)>,
    /// The input of the URL form, if it was rejected.
    typed: Option<String>,
    /// A test message that was just sent.
    tested: Option<(MessageEvent, Tested)>,
}

impl Feedback {
    fn notice(kind: Notice, words: impl Into<String>) -> Self {
        Self {
            notice: Some((kind, words.into())),
            ..Self::default()
        }
    }
}

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "/webhook", None, show);
    action(
        config,
        "/webhook/register",
        Some(Action::CreateWebhook),
        register,
    );
    action(
        config,
        "/webhook/change",
        Some(Action::UpdateWebhook),
        change,
    );
    action(config, "/webhook/pause", Some(Action::UpdateWebhook), pause);
    action(
        config,
        "/webhook/resume",
        Some(Action::UpdateWebhook),
        resume,
    );
    action(
        config,
        "/webhook/rotate",
        Some(Action::RotateSecret),
        rotate,
    );
    action(
        config,
        "/webhook/end-overlap",
        Some(Action::EndOverlap),
        end_overlap,
    );
    action(
        config,
        "/webhook/delete",
        Some(Action::DeleteWebhook),
        delete,
    );
    action(config, "/webhook/test", Some(Action::TestWebhook), test);
}

/// Returns the endpoint, if there is one.
pub(super) async fn endpoint(
    request: &SignedInRequest,
    webhooks: &Webhooks,
) -> Result<Option<Endpoint>, Problem> {
    match webhooks.endpoint(request.tenant()).await {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(ConfigureError::None) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn answer(request: &SignedInRequest, feedback: Feedback) -> Result<HttpResponse, Problem> {
    let webhooks = request.webhooks()?;
    let endpoint = endpoint(request, &webhooks).await?;
    let frame = request.frame();
    let body = match &endpoint {
        Some(endpoint) => {
            let ends_at = webhooks.certificate_ends_at(endpoint);
            show::configured(&frame, endpoint, ends_at, &feedback)
        }
        None => show::none(&frame, &feedback),
    };
    Ok(guard::ok(frame.page(Section::Webhook, "Webhook", body)))
}

async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let mut query = Query::of(request.http.query_string());
    let feedback = match query.closed("done", &Done::ALL) {
        Some(done) => Feedback::notice(Notice::Good, done.words()),
        None => Feedback::default(),
    };
    answer(&request, feedback).await
}

/// Renders the page with the explanation of a refused action, under the status of the API. `typed`
/// is the rejected input of the URL form. An internal fault stays an error.
async fn refuse(
    request: &SignedInRequest,
    error: ConfigureError,
    typed: Option<String>,
) -> Result<HttpResponse, Problem> {
    let words: String = match &error {
        ConfigureError::Url(refused) => format!("The URL was not accepted: {refused}."),
        ConfigureError::Exists => "A webhook already exists.".into(),
        ConfigureError::None => "The webhook was deleted.".into(),
        ConfigureError::OverlapRuns => {
            "The previous secret is still valid. End the overlap first.".into()
        }
        ConfigureError::NoOverlap => "The previous secret has already expired.".into(),
        ConfigureError::Busy => {
            "Your organization has too many URL checks in progress. Try again.".into()
        }
        ConfigureError::Contended => {
            "The webhook was changed by someone else. Reload and try again.".into()
        }
        ConfigureError::KeyReused
        | ConfigureError::TooManyRemembered
        | ConfigureError::Store(_)
        | ConfigureError::Seal => return Err(error.into()),
    };
    let feedback = Feedback {
        typed,
        ..Feedback::notice(Notice::Bad, words)
    };
    let mut page = answer(request, feedback).await?;
    *page.status_mut() = Problem::from(error).code().status();
    Ok(page)
}

fn done(word: &str) -> HttpResponse {
    guard::redirect(&format!("{ROOT}/webhook?done={word}"))
}

async fn register(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let url = form.get("url").trim().to_owned();
    let webhooks = request.webhooks()?;
    match webhooks.register(request.tenant(), &url, None).await {
        Ok(created) => {
            let feedback = Feedback {
                secret: Some((created.secret.to_string(), None)),
                ..Feedback::notice(Notice::Good, "The webhook is registered.")
            };
            answer(&request, feedback).await
        }
        Err(error) => refuse(&request, error, Some(url)).await,
    }
}

async fn change(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let url = form.get("url").trim().to_owned();
    match request
        .webhooks()?
        .change(request.tenant(), Some(&url), None)
        .await
    {
        Ok(_) => Ok(done("changed")),
        Err(error) => refuse(&request, error, Some(url)).await,
    }
}

async fn pause(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    enable(request, false).await
}

async fn resume(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    enable(request, true).await
}

async fn enable(mut request: SignedInRequest, enabled: bool) -> Result<HttpResponse, Problem> {
    request.form().await?;
    match request
        .webhooks()?
        .change(request.tenant(), None, Some(enabled))
        .await
    {
        Ok(_) => Ok(done(if enabled { "resumed" } else { "paused" })),
        Err(error) => refuse(&request, error, None).await,
    }
}

async fn rotate(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let overlap_sec = form
        .get("overlapSec")
        .parse()
        .unwrap_or(SECRET_OVERLAP_SEC_DEFAULT);
    let overlap_sec = overlap_sec.min(SECRET_OVERLAP_SEC_MAX);
    let webhooks = request.webhooks()?;
    match webhooks.rotate(request.tenant(), overlap_sec, None).await {
        Ok(created) => {
            let feedback = Feedback {
                secret: Some((created.secret.to_string(), created.previous_expires_at)),
                ..Feedback::notice(Notice::Good, "The webhook has a new secret.")
            };
            answer(&request, feedback).await
        }
        Err(error) => refuse(&request, error, None).await,
    }
}

async fn end_overlap(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    match request.webhooks()?.end_overlap(request.tenant()).await {
        Ok(()) => Ok(done("ended")),
        Err(error) => refuse(&request, error, None).await,
    }
}

async fn delete(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    match request.webhooks()?.remove(request.tenant()).await {
        Ok(()) => Ok(done("deleted")),
        Err(error) => refuse(&request, error, None).await,
    }
}

async fn test(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let form = request.form().await?;
    let event = MessageEvent::ALL
        .into_iter()
        .find(|event| event.as_str() == form.get("event"));
    let event = event.unwrap_or(MessageEvent::InsightUpdated);
    let tested = request.webhooks()?.test(request.tenant(), event).await?;
    let feedback = Feedback {
        tested: Some((event, tested)),
        ..Feedback::default()
    };
    answer(&request, feedback).await
}
