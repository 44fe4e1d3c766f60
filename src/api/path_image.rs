//! `GET /v1/sessions/{id}/path.png` and `.svg`: the image behind `pathImageUrl`. The signature in
//! the link is the only credential, so that the link works in a web page or an e-mail.
//!
//! Images are drawn on demand, away from the threads that serve requests, and cached.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::{Bytes, Data, Query};
use actix_web::{HttpRequest, HttpResponse, Resource};
use porchlight_actors::service::{InsightState, Service};
use porchlight_actors::turns::{TooManyWaiting, Turns};
use porchlight_core::audit::{Action, Actor, ActorKind};
use porchlight_core::fair_cache::FairCache;
use porchlight_observe::http::Route;
use porchlight_ports::SessionRow;
use porchlight_schema::ids::{OrganizationId, SessionId};
use porchlight_schema::insight::Score;
use porchlight_schema::limits::{
    ORGANIZATION_PATH_IMAGES_WAITING_MAX, PATH_IMAGES_DRAWN_AT_ONCE_MAX, PATH_IMAGES_KEPT_MAX,
    RETRY_AFTER_SEC,
};
use serde::Deserialize;

use porchlight_http::audit;
use porchlight_http::etag::{PRIVATE, conditional};
use porchlight_http::problem::{Code, Problem, session_not_found};
use porchlight_http::request_context::RequestContext;
use porchlight_http::route::{at, get};
use porchlight_map::StreetMap;
use porchlight_picture::png::png;
use porchlight_picture::{self as picture, Ground, svg};

/// The policy lets an SVG style itself and allows nothing else.
const SVG_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");
/// Forbids browsers to send the link as a referrer.
const REFERRER_POLICY: (HeaderName, HeaderValue) = (
    HeaderName::from_static("referrer-policy"),
    HeaderValue::from_static("no-referrer"),
);

/// Draws and caches images.
pub struct Drawings {
    kept: Mutex<FairCache<OrganizationId, Key, Arc<Drawn>>>,
    /// The turns of organizations to draw.
    turns: Turns,
    /// The street map under the paths.
    map: Option<Arc<StreetMap>>,
}

impl std::fmt::Debug for Drawings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drawings").finish_non_exhaustive()
    }
}

impl Default for Drawings {
    fn default() -> Self {
        Self {
            kept: Mutex::new(FairCache::new(PATH_IMAGES_KEPT_MAX)),
            turns: Turns::new(
                PATH_IMAGES_DRAWN_AT_ONCE_MAX,
                ORGANIZATION_PATH_IMAGES_WAITING_MAX,
            ),
            map: None,
        }
    }
}

/// A session and the revision of its insight.
type Key = (SessionId, u32);

/// An image in both formats.
struct Drawn {
    png: Bytes,
    svg: Bytes,
}

/// The parameters of a link.
#[derive(Debug, Deserialize)]
struct Parameters {
    #[serde(default)]
    signature: String,
}

impl Drawings {
    /// Draws on this street map, if there is one.
    #[must_use]
    pub fn new(map: Option<Arc<StreetMap>>) -> Self {
        Self {
            map,
            ..Self::default()
        }
    }

    /// Returns the entity tag of an image, which depends on everything that the image shows.
    fn tag(&self, form: &str, revision: u32) -> String {
        let version = picture::VERSION;
        match &self.map {
            Some(map) => format!("\"{form}-{revision}-{version}-{}\"", map.version()),
            None => format!("\"{form}-{revision}-{version}\""),
        }
    }

    fn kept(&self, key: Key) -> Option<Arc<Drawn>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(&key).map(Arc::clone)
    }

    fn keep(&self, organization_id: OrganizationId, key: Key, drawn: &Arc<Drawn>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(organization_id, key, Arc::clone(drawn));
    }

    /// Returns the image from the cache, or draws it.
    async fn drawn(
        &self,
        service: &Service,
        row: SessionRow,
        revision: u32,
        score: Score,
    ) -> Result<Arc<Drawn>, Problem> {
        let key = (row.start.session_id, revision);
        if let Some(drawn) = self.kept(key) {
            return Ok(drawn);
        }
        let organization_id = row.start.tenant.organization_id;
        let turn = self.turns.take(organization_id);
        let turn = turn.await.map_err(too_many_waiting)?;
        // Another request may have drawn it in the meantime.
        if let Some(drawn) = self.kept(key) {
            return Ok(drawn);
        }
        let (service, runtime) = (service.clone(), tokio::runtime::Handle::current());
        let map = self.map.clone();
        let work = move || {
            // Held until the image is drawn, even if the client disconnects before.
            let _turn = turn;
            runtime.block_on(draw(&service, &row, &score, map.as_deref()))
        };
        let drawn = tokio::task::spawn_blocking(work).await;
        let drawn = Arc::new(drawn.map_err(Problem::internal)??);
        self.keep(organization_id, key, &drawn);
        Ok(drawn)
    }
}

async fn draw(
    service: &Service,
    row: &SessionRow,
    score: &Score,
    map: Option<&StreetMap>,
) -> Result<Drawn, Problem> {
    let track = service.path_track(row, score).await?.ok_or_else(no_path)?;
    let origin = row.start.address.point;
    let ground = map.map(|map| Ground { map, origin });
    let drawn = catch_unwind(AssertUnwindSafe(|| picture::draw_on(&track, score, ground)));
    let picture = drawn.map_err(|_panic| no_path())?;
    Ok(Drawn {
        png: png(&picture).map_err(Problem::internal)?.into(),
        svg: svg::write(&picture).into(),
    })
}

fn too_many_waiting(_: TooManyWaiting) -> Problem {
    let detail = "Too many path images of your organization wait to be drawn.";
    Problem::new(Code::TenantRequests, detail).retry_after_sec(RETRY_AFTER_SEC)
}

fn no_path() -> Problem {
    Problem::new(
        Code::NotScored,
        "The session is not scored yet, or has no path to draw.",
    )
}

/// Returns the link to a session's image; the insight decides whether there is a path to draw.
pub(super) fn link(call: &RequestContext, session_id: SessionId) -> Option<String> {
    let links = call.state.links.as_ref()?;
    links.image_url(session_id)
}

/// Returns the application's images.
fn drawings(http: &HttpRequest) -> Result<&Drawings, Problem> {
    let drawings = http.app_data::<Data<Drawings>>();
    drawings
        .map(|drawings| drawings.as_ref())
        .ok_or_else(|| Problem::internal("the application draws no pictures"))
}

/// Returns the two routes, which count as one for metrics.
pub(super) fn resources() -> [Resource; 2] {
    let resource = |pattern| at(pattern, "GET, HEAD").app_data(Route::PathImage);
    [
        resource("/v1/sessions/{id}/path.png").route(get().to(as_png)),
        resource("/v1/sessions/{id}/path.svg").route(get().to(as_svg)),
    ]
}

async fn as_png(call: RequestContext) -> Result<HttpResponse, Problem> {
    path_image(call, "png", "png", |drawn| drawn.png.clone()).await
}

async fn as_svg(call: RequestContext) -> Result<HttpResponse, Problem> {
    path_image(call, "svg", "svg+xml", |drawn| drawn.svg.clone()).await
}

/// Returns the image of a session's path. 200 with `ETag`, or 304.
///
/// # Errors
///
/// Returns 403 for an invalid signature; 404 if the session is gone or has no path; 406; 410 if the
/// telemetry was deleted after its retention; 429; 503.
async fn path_image(
    call: RequestContext,
    form: &str,
    sub_type: &str,
    body: impl FnOnce(&Drawn) -> Bytes,
) -> Result<HttpResponse, Problem> {
    let links = call.state.links.as_ref();
    let links = links.ok_or_else(|| Problem::internal("this process signs no links"))?;
    let parameters = Query::<Parameters>::from_query(call.http.query_string());
    let signature = parameters.map(|parameters| parameters.into_inner().signature);
    let session_id = call.session_id().filter(|&session_id| {
        signature
            .as_ref()
            .is_ok_and(|signature| links.is_image_signed(session_id, signature))
    });
    let session_id = session_id
        .ok_or_else(|| Problem::new(Code::Forbidden, "The link's signature is invalid."))?;
    call.state.auth.count_link(&session_id.to_bytes())?;
    let service = &call.state.service;
    let row = service.find_shown(session_id).await?;
    let row = row.ok_or_else(session_not_found)?;
    call.count_request(&service.usage(row.start.tenant))?;
    let InsightState::Scored(stored) = service.insight(&row).await? else {
        return Err(no_path());
    };
    let revision = stored.record.revision;
    let score = stored.record.score.filter(|score| score.has_path);
    let score = score.ok_or_else(no_path)?;
    call.check_accept("image", sub_type)?;
    let link = Actor::of_kind(ActorKind::Link);
    audit::begin(
        &call.http,
        service,
        row.start.tenant,
        link,
        Action::ReadImage,
    )
    .await?;
    if service.has_expired_telemetry(session_id).await? {
        return Err(Problem::new(
            Code::TelemetryExpired,
            "The telemetry of the session was deleted after its retention, so its path cannot be drawn.",
        ));
    }
    let drawings = drawings(&call.http)?;
    let tag = drawings.tag(form, revision);
    let (mut response, is_known) = conditional(call.headers(), &tag, PRIVATE);
    if is_known {
        return Ok(response.finish());
    }
    let drawn = drawings.drawn(service, row, revision, score).await?;
    Ok(response
        .insert_header((CONTENT_TYPE, format!("image/{sub_type}")))
        .insert_header((CONTENT_SECURITY_POLICY, SVG_POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .insert_header(REFERRER_POLICY)
        .body(body(&drawn)))
}
