//! The style sheet and the script of the phone's page, embedded in the binary. Their names change
//! with their content, so that a browser may cache them forever.

use std::sync::LazyLock;

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::web::Bytes;
use sha2::{Digest, Sha256};

use porchlight_http::problem::Problem;
use porchlight_http::request_context::RequestContext;

/// A static file of the page.
pub(super) struct Asset {
    name: String,
    media: &'static str,
    bytes: &'static [u8],
}

impl Asset {
    fn new(ending: &str, media: &'static str, bytes: &'static [u8]) -> Self {
        let hash = Sha256::digest(bytes);
        let mark: String = hash
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            name: format!("phone-{mark}.{ending}"),
            media,
            bytes,
        }
    }

    /// Returns the path that serves the file.
    pub(super) fn path(&self) -> String {
        format!("/phone/{}", self.name)
    }
}

/// The style sheet.
pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/phone.css");
    Asset::new("css", "text/css; charset=utf-8", bytes)
});

/// The script: live status, and the recorder in the browser.
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/phone.js");
    Asset::new("js", "text/javascript; charset=utf-8", bytes)
});

/// A file of the page. 404 for a name that this version does not have.
pub(super) async fn serve(call: RequestContext) -> Result<HttpResponse, Problem> {
    let name = call.http.match_info().get("name").unwrap_or_default();
    let asset = [&*STYLE, &*SCRIPT]
        .into_iter()
        .find(|asset| asset.name == name)
        .ok_or_else(Problem::not_found)?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, asset.media))
        .insert_header((CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
        .body(Bytes::from_static(asset.bytes)))
}
