//! `GET /v1/sessions/{id}/path.png` and `.svg`: what `pathImageUrl` leads to. A signature of its own in the link is all
//! the credential that there is, so that the link can stand in a page or a letter.
//!
//! A picture is drawn when it is asked for, away from the threads that serve requests, and kept until others take its
//! place.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use actix_web::web::{Bytes, Query};
use actix_web::{HttpRequest, HttpResponse, Resource};
use hmac::{Hmac, KeyInit, Mac};
use porchlight_actors::service::{InsightState, Service};
use porchlight_core::picture::{self, svg};
use porchlight_observe::http::Route;
use porchlight_ports::SessionRow;
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::Score;
use porchlight_schema::limits::{
    PICTURES_DRAWN_AT_ONCE_MAX, PICTURES_KEPT_MAX, PICTURES_WAITING_MAX,
};
use serde::Deserialize;
use sha2::Sha256;
use tokio::sync::Semaphore;

use super::call::{Call, session_not_found};
use super::insights::names;
use super::problem::{Code, Problem};
use super::route::{at, get};
use crate::keyring::SecretKeys;
use crate::picture::png;

/// What the key of the signatures is derived for; another use of the same master key says something else.
const PURPOSE: &str = "path image link, version 1";
/// Bytes of a signature: 128 of the HMAC's 256 bits, which nobody guesses.
const SIGNATURE_BYTES: usize = 16;
/// An SVG may style itself, and nothing else.
const SVG_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox");
/// Who has the link may keep the picture, if they ask each time whether it is still right.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
/// Where a link is taken from goes to nobody.
const REFERRER_POLICY: (HeaderName, HeaderValue) = (
    HeaderName::from_static("referrer-policy"),
    HeaderValue::from_static("no-referrer"),
);

type HmacSha256 = Hmac<Sha256>;

/// Makes and checks the links, and keeps what was drawn.
pub struct PathImages {
    /// Keyed and ready; the first one makes, all check.
    macs: Vec<HmacSha256>,
    /// How the world reaches us; empty: as the request says.
    public_url: String,
    kept: Mutex<VecDeque<(Key, Arc<Drawn>)>>,
    /// Requests that draw or wait for it.
    admitted: Semaphore,
    drawing: Semaphore,
}

impl std::fmt::Debug for PathImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathImages").finish_non_exhaustive()
    }
}

/// A session and the revision of its insight.
type Key = (SessionId, u32);

/// A picture in both forms.
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

impl PathImages {
    /// Links signed with keys derived from the service's secrets: made with the one that writes, checked with any.
    #[must_use]
    pub fn of(secrets: &SecretKeys, public_url: &str) -> Self {
        let keys = secrets.reading().map(|secret| secret.derive(PURPOSE));
        Self::new(keys.map(|key| *key.bytes()), public_url)
    }

    /// Links signed with keys that serve nothing else: made with the first, checked with any.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = [u8; 32]>, public_url: &str) -> Self {
        // A key of any length is good for HMAC (RFC 2104): none is left out.
        let keyed = |key: [u8; 32]| HmacSha256::new_from_slice(&key).ok();
        Self {
            macs: keys.into_iter().filter_map(keyed).collect(),
            public_url: public_url.trim_end_matches('/').to_owned(),
            kept: Mutex::default(),
            admitted: Semaphore::new(PICTURES_WAITING_MAX),
            drawing: Semaphore::new(PICTURES_DRAWN_AT_ONCE_MAX),
        }
    }

    /// The link of a session's picture, for who sent `request`.
    #[must_use]
    pub fn url(&self, request: &HttpRequest, session_id: SessionId) -> Option<String> {
        let mac = self.macs.first()?.clone();
        let tag = mac.chain_update(session_id.to_bytes()).finalize();
        let tag = tag.into_bytes();
        let signature: String = tag
            .iter()
            .take(SIGNATURE_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let path = format!("/v1/sessions/{session_id}/path.png?signature={signature}");
        if self.public_url.is_empty() {
            let connection = request.connection_info();
            let (scheme, host) = (connection.scheme(), connection.host());
            Some(format!("{scheme}://{host}{path}"))
        } else {
            Some(format!("{}{path}", self.public_url))
        }
    }

    /// Whether the signature is the session's, in constant time.
    fn is_signed(&self, session_id: SessionId, signature: &str) -> bool {
        let Some(tag) = from_hex(signature) else {
            return false;
        };
        self.macs.iter().any(|mac| {
            let mac = mac.clone().chain_update(session_id.to_bytes());
            mac.verify_truncated_left(&tag).is_ok()
        })
    }

    fn kept(&self, key: Key) -> Option<Arc<Drawn>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = kept.iter();
        all.find(|(one, _)| *one == key)
            .map(|(_, drawn)| Arc::clone(drawn))
    }

    fn keep(&self, key: Key, drawn: &Arc<Drawn>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(one, _)| *one != key);
        while kept.len() >= PICTURES_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((key, Arc::clone(drawn)));
    }

    /// The picture, drawn now or before.
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
        let busy = |_| Problem::new(Code::Overloaded, "Too many pictures are being drawn.");
        let _admitted = self.admitted.try_acquire().map_err(busy)?;
        let _turn = self.drawing.acquire().await.map_err(Problem::internal)?;
        // Who came first may have drawn it meanwhile.
        if let Some(drawn) = self.kept(key) {
            return Ok(drawn);
        }
        let (service, runtime) = (service.clone(), tokio::runtime::Handle::current());
        let work = move || runtime.block_on(draw(&service, &row, &score));
        let drawn = tokio::task::spawn_blocking(work).await;
        let drawn = Arc::new(drawn.map_err(Problem::internal)??);
        self.keep(key, &drawn);
        Ok(drawn)
    }
}

async fn draw(service: &Service, row: &SessionRow, score: &Score) -> Result<Drawn, Problem> {
    let picture = service.path_picture(row, score).await?;
    let picture = picture.ok_or_else(no_path)?;
    Ok(Drawn {
        png: png(&picture).map_err(Problem::internal)?.into(),
        svg: svg::write(&picture).into(),
    })
}

fn no_path() -> Problem {
    Problem::new(
        Code::NotScored,
        "The session is not scored yet, or has no path to draw.",
    )
}

/// The bytes of a signature in lower-case hex; none for any other text.
fn from_hex(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * SIGNATURE_BYTES {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; SIGNATURE_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// The link to a session's picture, for who made this call; whether there is a path to draw is the insight's to say.
pub(super) fn link(call: &Call, session_id: SessionId) -> Option<String> {
    let images = call.state.images.as_ref()?;
    images.url(&call.http, session_id)
}

/// The two routes; they are one to the metrics.
pub(super) fn resources() -> [Resource; 2] {
    let resource = |pattern| at(pattern, "GET, HEAD").app_data(Route::PathImage);
    [
        resource("/v1/sessions/{id}/path.png").route(get().to(as_png)),
        resource("/v1/sessions/{id}/path.svg").route(get().to(as_svg)),
    ]
}

async fn as_png(call: Call) -> Result<HttpResponse, Problem> {
    path_image(call, "png", "png", |drawn| drawn.png.clone()).await
}

async fn as_svg(call: Call) -> Result<HttpResponse, Problem> {
    path_image(call, "svg", "svg+xml", |drawn| drawn.svg.clone()).await
}

/// The picture of a session's path. 200 with `ETag`, or 304.
///
/// # Errors
///
/// 403 for a wrong signature; 404 where the session is gone or has no path; 406; 503.
async fn path_image(
    call: Call,
    form: &str,
    sub_type: &str,
    body: impl FnOnce(&Drawn) -> Bytes,
) -> Result<HttpResponse, Problem> {
    let images = call.state.images.as_ref();
    let images = images.ok_or_else(|| Problem::internal("this process signs no links"))?;
    let parameters = Query::<Parameters>::from_query(call.http.query_string());
    let signature = parameters.map(|parameters| parameters.into_inner().signature);
    let session_id = call.session_id().filter(|&session_id| {
        signature
            .as_ref()
            .is_ok_and(|signature| images.is_signed(session_id, signature))
    });
    let session_id = session_id
        .ok_or_else(|| Problem::new(Code::Forbidden, "The link's signature is not right."))?;
    let service = &call.state.service;
    let row = service.find(session_id).await?;
    let row = row.ok_or_else(session_not_found)?;
    let InsightState::Scored(stored) = service.insight(&row).await? else {
        return Err(no_path());
    };
    let revision = stored.record.revision;
    let score = stored.record.score.filter(|score| score.has_path);
    let score = score.ok_or_else(no_path)?;
    call.accepts("image", sub_type)?;
    let tag = format!("\"{form}-{revision}-{}\"", picture::VERSION);
    let is_known = names(call.headers(), &tag);
    let mut response = if is_known {
        HttpResponse::NotModified()
    } else {
        HttpResponse::Ok()
    };
    response
        .insert_header((ETAG, tag))
        .insert_header((CACHE_CONTROL, PRIVATE));
    if is_known {
        return Ok(response.finish());
    }
    let drawn = images.drawn(service, row, revision, score).await?;
    Ok(response
        .insert_header((CONTENT_TYPE, format!("image/{sub_type}")))
        .insert_header((CONTENT_SECURITY_POLICY, SVG_POLICY))
        .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .insert_header(REFERRER_POLICY)
        .body(body(&drawn)))
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_link_is_good_for_its_session_and_under_any_key_that_reads() {
        let session_id = SessionId::new(TimestampMs(1_763_636_100_000), 7);
        let other = SessionId::new(TimestampMs(1_763_636_100_000), 8);
        let request = actix_web::test::TestRequest::default().to_http_request();
        let old = PathImages::new([[1; 32]], "https://api.example.com/");
        let url = old.url(&request, session_id).unwrap();
        let (before, signature) = url.split_once("?signature=").unwrap();
        assert_eq!(
            before,
            format!("https://api.example.com/v1/sessions/{session_id}/path.png")
        );
        let both = PathImages::new([[2; 32], [1; 32]], "");
        for images in [&old, &both] {
            assert!(images.is_signed(session_id, signature));
            assert!(!images.is_signed(other, signature));
            for place in 0..signature.len() {
                let mut wrong = signature.to_owned();
                let digit = if &wrong[place..=place] == "0" {
                    "1"
                } else {
                    "0"
                };
                wrong.replace_range(place..=place, digit);
                assert!(!images.is_signed(session_id, &wrong), "{wrong}");
            }
            for wrong in [
                "",
                "0",
                &signature[1..],
                &format!("{signature}0"),
                &signature.to_uppercase(),
            ] {
                let is_same = wrong == signature;
                assert!(is_same || !images.is_signed(session_id, wrong), "{wrong}");
            }
        }
        assert!(!PathImages::new([[2; 32]], "").is_signed(session_id, signature));
    }
}
