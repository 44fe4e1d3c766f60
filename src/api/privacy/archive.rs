//! `GET /v1/privacy/requests/{requestId}/archive`: the data behind `downloadUrl`. The signature in
//! the link is the only credential.
//!
//! Archives are built on demand from the store, away from the threads that serve requests, and are
//! not kept. An archive therefore never contains data that was erased before the download.
//!
//! An archive occupies its turn until it is sent, so that a node holds few of them. A client that
//! reads too slowly is disconnected.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::{Bytes, Data, Query};
use futures_util::Stream;
use porchlight_actors::turns::{TooManyWaiting, Turn, Turns};
use porchlight_core::audit::{Action, Actor, ActorKind};
use porchlight_core::privacy::PrivacyRequest;
use porchlight_http::audit;
use porchlight_http::links::ArchiveLink;
use porchlight_http::problem::{Code, Problem, privacy_request_not_found};
use porchlight_http::query;
use porchlight_http::request_context::RequestContext;
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::limits::{
    ACCESS_ARCHIVE_SENT_MS_MAX, ACCESS_ARCHIVES_AT_ONCE_MAX, ANSWER_WRITTEN_MS_MAX,
};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::collect::{self, Source};
use super::id_in_path;

/// Forbids browsers to send the link as a referrer.
const REFERRER_POLICY: (HeaderName, HeaderValue) = (
    HeaderName::from_static("referrer-policy"),
    HeaderValue::from_static("no-referrer"),
);

/// The maximum size of a piece of an archive that waits to be written.
const PIECE_BYTES: usize = 64 * 1024;

/// The turns of organizations to build and send archives: one archive of each organization at a
/// time, and few on the node.
pub(crate) struct Archives(Turns);

impl Default for Archives {
    fn default() -> Self {
        Self(Turns::new(ACCESS_ARCHIVES_AT_ONCE_MAX, 1))
    }
}

impl Archives {
    /// Waits until an archive of this organization may be built.
    ///
    /// # Errors
    ///
    /// Returns 429 while another archive of the organization is being built or sent, or waits.
    async fn begin(&self, organization_id: OrganizationId) -> Result<Turn, Problem> {
        let turn = self.0.take(organization_id).await;
        turn.map_err(|_: TooManyWaiting| {
            let detail = "Another archive of your organization is being built or sent.";
            Problem::new(Code::TenantRequests, detail)
        })
    }
}

/// The parameters of a link.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    organization_id: OrganizationId,
    environment: Env,
    expires: i64,
    signature: String,
}

/// Returns the link to the archive of a request; `None` before the archive exists and after the
/// link has expired.
pub(super) fn link(
    call: &RequestContext,
    tenant: Tenant,
    request: &PrivacyRequest,
) -> Option<String> {
    let expires_at = request.archive_expires_at()?;
    if call.state.service.now() >= expires_at {
        return None;
    }
    call.state.links.as_ref()?.archive_url(&ArchiveLink {
        tenant,
        request_id: &request.request_id,
        expires_at,
    })
}

/// Returns the request that the link names, if its signature is valid.
fn signed(call: &RequestContext) -> Result<Option<ArchiveLink<'_>>, Problem> {
    let links = call.state.links.as_ref();
    let links = links.ok_or_else(|| Problem::internal("this process signs no links"))?;
    let parameters = Query::<Parameters>::from_query(call.http.query_string());
    let Ok(Query(parameters)) = parameters else {
        return Ok(None);
    };
    let link = ArchiveLink {
        tenant: Tenant {
            organization_id: parameters.organization_id,
            env: parameters.environment,
        },
        request_id: id_in_path(call),
        expires_at: TimestampMs(parameters.expires),
    };
    let is_signed = links.is_archive_signed(&link, &parameters.signature);
    Ok(Some(link).filter(|_| is_signed))
}

/// Checks that the request has no parameters besides those of the link, which the signature has
/// checked.
///
/// # Errors
///
/// Returns 422 with the name of each other parameter.
fn only_known_parameters(call: &RequestContext) -> Result<(), Problem> {
    let mut query = query::Query::of(call.http.query_string());
    for parameter in ["organizationId", "environment", "expires", "signature"] {
        let _known = query.read(parameter, "", |_| Some(()));
    }
    query.finish()
}

/// Returns the archive of an access request. 200 with a ZIP file.
///
/// # Errors
///
/// Returns 403 for an invalid signature; 404 if the link has expired, or the request has no
/// archive; 406; 422 for a parameter that the link does not have; 429; 503.
pub(super) async fn download(call: RequestContext) -> Result<HttpResponse, Problem> {
    let link = signed(&call)?
        .ok_or_else(|| Problem::new(Code::Forbidden, "The link's signature is invalid."))?;
    let service = &call.state.service;
    if service.now() >= link.expires_at {
        let detail = "The link has expired. Submit another access request.";
        return Err(Problem::new(Code::PrivacyRequestNotFound, detail));
    }
    let tenant = link.tenant;
    let organization_id = tenant.organization_id;
    call.state.auth.count_link(&organization_id.to_bytes())?;
    call.count_request(&service.usage(tenant))?;
    let request = service.privacy(tenant).find(link.request_id).await?;
    let request = request.filter(|request| request.archive_expires_at() == Some(link.expires_at));
    let request = request.ok_or_else(privacy_request_not_found)?;
    call.check_accept("application", "zip")?;
    only_known_parameters(&call)?;
    let actor = Actor::of_kind(ActorKind::Link);
    audit::begin(&call.http, service, tenant, actor, Action::DownloadExport).await?;
    let archives = call.http.app_data::<Data<Archives>>();
    let archives =
        archives.ok_or_else(|| Problem::internal("the application builds no archive"))?;
    let turn = archives.begin(organization_id).await?;
    let source = Source {
        service: service.clone(),
        webhooks: call.state.webhooks.clone(),
        tenant,
    };
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        // The work holds the turn until it ends, even if the client disconnects before.
        let archive = runtime.block_on(collect::archive(&source, &request));
        archive.map(|archive| (archive, turn))
    };
    let built = tokio::task::spawn_blocking(work).await;
    let (archive, turn) = built.map_err(Problem::internal)??;
    let size = archive.len() as u64;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/zip")))
        .insert_header((
            CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"personal-data.zip\""),
        ))
        .insert_header((CACHE_CONTROL, HeaderValue::from_static("no-store")))
        .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .insert_header(REFERRER_POLICY)
        .body(SizedStream::new(size, in_pieces(archive, turn))))
}

/// Returns an archive as a stream. The archive and its turn are dropped when the archive is sent,
/// the client has left, or has read too slowly. In the last case the stream ends early, and the
/// framework cuts the connection, because the answer announces the whole size.
fn in_pieces(archive: Vec<u8>, turn: Turn) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let (pieces, mut sent) = mpsc::channel(1);
    let send = async move {
        let _turn = turn;
        let piece_timeout = Duration::from_millis(ANSWER_WRITTEN_MS_MAX);
        for piece in archive.chunks(PIECE_BYTES) {
            // A shared piece would keep the whole archive in memory until it is written.
            let piece = Bytes::copy_from_slice(piece);
            if pieces.send_timeout(piece, piece_timeout).await.is_err() {
                return;
            }
        }
    };
    let whole_timeout = Duration::from_millis(ACCESS_ARCHIVE_SENT_MS_MAX);
    tokio::spawn(timeout(whole_timeout, send));
    futures_util::stream::poll_fn(move |context| {
        let piece = sent.poll_recv(context);
        piece.map(|piece: Option<Bytes>| piece.map(Ok))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;

    #[actix::test]
    async fn one_archive_of_an_organization_and_few_of_a_node_are_built_at_once() {
        let archives = Archives::default();
        let begin = |number: u8| Box::pin(archives.begin(OrganizationId::from_bytes([number; 16])));
        let status = |number| match begin(number).now_or_never() {
            Some(turn) => turn.err().map(|problem| problem.code()),
            None => panic!("the archive waits for its turn"),
        };
        let first = begin(0).await.unwrap();
        assert_eq!(status(0), Some(Code::TenantRequests));
        let mut others = Vec::new();
        for number in 1..ACCESS_ARCHIVES_AT_ONCE_MAX as u8 {
            others.push(begin(number).await.unwrap());
        }
        let mut waiting = begin(100);
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(status(100), Some(Code::TenantRequests));
        drop(first);
        drop(waiting.await.unwrap());
        assert_eq!(status(0), None);
        drop(others);
    }

    fn organization() -> OrganizationId {
        OrganizationId::from_bytes([1; 16])
    }

    /// Returns whether an archive of the organization may begin at once.
    fn may_begin(archives: &Archives) -> bool {
        let turn = archives.begin(organization()).now_or_never();
        turn.is_some_and(|turn| turn.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn an_archive_is_sent_whole_and_occupies_its_turn_until_then() {
        let archives = Archives::default();
        let turn = archives.begin(organization()).await.unwrap();
        let archive: Vec<u8> = (0..5 * PIECE_BYTES + 1).map(|n| (n % 251) as u8).collect();
        let (mut stream, mut read) = (Box::pin(in_pieces(archive.clone(), turn)), Vec::new());
        tokio::task::yield_now().await;
        assert!(!may_begin(&archives));
        while let Some(Ok(piece)) = stream.next().await {
            assert!(piece.len() <= PIECE_BYTES);
            read.extend_from_slice(&piece);
        }
        assert!(read == archive);
        assert!(may_begin(&archives));
    }

    #[tokio::test(start_paused = true)]
    async fn an_archive_whose_client_reads_too_slowly_is_cut_and_gives_its_turn_back() {
        let piece_timeout = Duration::from_millis(ANSWER_WRITTEN_MS_MAX);
        let whole_timeout = Duration::from_millis(ACCESS_ARCHIVE_SENT_MS_MAX);
        let archives = Archives::default();
        // One client reads nothing, the other one a piece now and then.
        for (pause, lasts) in [
            (whole_timeout, piece_timeout),
            (piece_timeout / 2, whole_timeout),
        ] {
            let turn = archives.begin(organization()).await.unwrap();
            let archive = vec![7; 100 * PIECE_BYTES];
            let (size, mut read) = (archive.len(), 0);
            let mut stream = Box::pin(in_pieces(archive, turn));
            let reading = async {
                loop {
                    tokio::time::sleep(pause).await;
                    match stream.next().await {
                        Some(Ok(piece)) => read += piece.len(),
                        None => break,
                    }
                }
            };
            let ending = async {
                tokio::time::sleep(lasts - Duration::from_millis(1)).await;
                assert!(!may_begin(&archives));
                tokio::time::sleep(Duration::from_millis(2)).await;
                assert!(may_begin(&archives));
            };
            tokio::join!(reading, ending);
            assert!(read < size, "{read}");
        }
    }
}
