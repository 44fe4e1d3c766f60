//! `POST /v1/sessions/{id}/telemetry`: the hot path. All checks that need no body, including
//! admission, happen before it is read, so that overload is refused at the lowest cost. The body is
//! held once, and a batch exists only in packed form.

use actix_web::HttpResponse;
use porchlight_actors::service::{AdmitError, IngestError, Permit};
use porchlight_http::background;
use porchlight_http::body::{Account, Body};
use porchlight_http::problem::{
    Code, Fault, Problem, restricted, session_not_found, share_exceeded,
};
use porchlight_http::queue_delay;
use porchlight_http::request_context::{self, RequestContext};
use porchlight_http::waking::{await_batched, yield_to_payload};
use porchlight_observe::{BatchOutcome, Metrics};
use porchlight_schema::limits::{BATCH_SAMPLES_MAX, LARGE_BODY_BYTES};
use porchlight_schema::sample::json::{DecodeError, DecodedBatch};

use super::format::{Format, Negotiated};

/// Accepts one batch. 202 `{sessionId, ackSeq}` in the format of the request, once it is durable
/// and not before.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn telemetry(call: RequestContext) -> Result<HttpResponse, Problem> {
    let service = &call.state.service;
    let queue_delay = queue_delay::current();
    let caller = call.caller().await?;
    let session_id = call.session_id();
    caller.check_may_act_on(session_id)?;
    let session_id = session_id.ok_or_else(session_not_found)?;
    let target = service.target(session_id).await?;
    let target = target
        .filter(|target| caller.can_see(target.tenant))
        .ok_or_else(session_not_found)?;
    caller.check_expiry(target.end.as_ref(), service.now())?;
    let Negotiated {
        sent,
        answer,
        announced,
    } = Format::negotiate(call.headers())?;
    call.count_request(target.usage())?;
    let mut permit = match service.admit(&target) {
        Ok(permit) => permit.with_queue_delay(queue_delay),
        Err(error) => {
            // A body that arrived together with its head is consumed; unread, it would cost the
            // connection.
            yield_to_payload().await;
            return Err(not_admitted(error));
        }
    };
    let account = BodyAccount(&mut permit);
    let body = announced
        .read(call.payload, call.state.config.body_deadlines, account)
        .await?;
    let decoded = decode_body(sent, body, &mut permit).await?;
    request_context::reject_parameters(&call.http)?;
    await_batched(service.ingest(&target, permit, decoded.seq, decoded.batch))
        .await
        .map_err(ingest_problem)?;
    let body = answer.acknowledge(session_id, decoded.seq);
    Ok(answer.respond(HttpResponse::Accepted(), body))
}

/// Returns the problem for a request that was not admitted: a batch, a start or a push.
pub(super) fn not_admitted(error: AdmitError) -> Problem {
    match error {
        AdmitError::SessionFull => Problem::new(
            Code::SessionBusy,
            "Too many requests of this session are in flight.",
        ),
        AdmitError::NodeFull => Problem::new(
            Code::Overloaded,
            "The node has too many requests in flight; the request was not read.",
        ),
        AdmitError::LargeBodiesFull => Problem::new(
            Code::Overloaded,
            "The node decodes too many large bodies; the request was not decoded.",
        ),
        AdmitError::TenantFull(exceeded) => share_exceeded(exceeded),
        AdmitError::Draining => Problem::new(Code::Draining, "The service is stopping."),
    }
}

/// Counts a body by its permit.
pub(super) struct BodyAccount<'p>(pub(super) &'p mut Permit);

impl Account for BodyAccount<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.0.grow(bytes).map_err(not_admitted)
    }

    async fn begin_large(&mut self) -> Result<(), Problem> {
        self.0.begin_large_body().await.map_err(not_admitted)
    }
}

/// Decodes the batch in a body, and a large one outside of the worker when it has its permit.
///
/// # Errors
///
/// Returns 400, 413, 422; 429 or 503 if no permit of the tenant or of the node was free in time.
pub(super) async fn decode_body(
    format: Format,
    body: Body,
    permit: &mut Permit,
) -> Result<DecodedBatch, Problem> {
    if body.len() <= LARGE_BODY_BYTES {
        return decode(format, &body.to_bytes());
    }
    BodyAccount(permit).begin_large().await?;
    let work = move || format.decode(&body.to_bytes());
    let decoded = background::run(work).await.map_err(Problem::internal)?;
    let packed = decoded.as_ref().map(|decoded| decoded.batch.as_bytes());
    permit.end_large_body(packed.map_or(0, <[u8]>::len));
    counted(format, decoded)
}

/// Decodes one batch and counts skipped samples.
///
/// # Errors
///
/// Returns 400, 413, 422.
pub(super) fn decode(format: Format, body: &[u8]) -> Result<DecodedBatch, Problem> {
    counted(format, format.decode(body))
}

/// Counts the skipped samples of a decoded batch, or the batch itself if it is invalid.
fn counted(
    format: Format,
    decoded: Result<DecodedBatch, DecodeError>,
) -> Result<DecodedBatch, Problem> {
    let decoded = decoded.map_err(|error| not_decoded(format, error))?;
    count_unknown(&decoded);
    Ok(decoded)
}

/// Counts skipped samples of a batch.
pub(super) fn count_unknown(batch: &DecodedBatch) {
    if batch.unknown_kinds > 0 {
        Metrics::get()
            .samples_unknown
            .increment(u64::from(batch.unknown_kinds));
    }
}

/// Returns the problem for a batch that cannot be decoded.
pub(super) fn not_decoded(format: Format, error: DecodeError) -> Problem {
    Metrics::get().on_batch(BatchOutcome::Invalid);
    match error {
        DecodeError::Syntax(detail) => format.malformed(&detail),
        DecodeError::Invalid(faults) => {
            Problem::invalid_batch(faults.into_iter().map(Fault::from).collect())
        }
        DecodeError::TooManySamples => Problem::new(
            Code::TooManySamples,
            format!("A batch may have at most {BATCH_SAMPLES_MAX} samples."),
        ),
    }
}

/// Returns the problem for a batch that was not accepted.
pub(super) fn ingest_problem(error: IngestError) -> Problem {
    match error {
        IngestError::Conflict => Problem::new(
            Code::SeqConflict,
            "Another body was acknowledged under this seq.",
        ),
        IngestError::Closed => Problem::new(
            Code::SessionCompleted,
            "The session has ended, and its time for late telemetry has passed.",
        ),
        IngestError::Restricted => restricted(),
        IngestError::Erased => session_not_found(),
        IngestError::Store(error) => error.into(),
    }
}
