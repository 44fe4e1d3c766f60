//! The style sheet and the script, embedded in the binary. Their names change with their content,
//! so that a browser may cache them forever.

use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::web::{Bytes, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use porchlight_http::problem::Problem;
use sha2::{Digest, Sha256};

use super::route::ROOT;

/// A static file of the console.
pub(super) struct Asset {
    name: String,
    media: &'static str,
    bytes: &'static [u8],
}

impl Asset {
    fn new(name: &str, ending: &str, media: &'static str, bytes: &'static [u8]) -> Self {
        let hash = Sha256::digest(bytes);
        let mark: String = hash
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            name: format!("{name}-{mark}.{ending}"),
            media,
            bytes,
        }
    }

    /// The address that serves the file.
    pub(super) fn address(&self) -> String {
        format!("{ROOT}/assets/{}", self.name)
    }
}

/// The style sheet.
pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/console.css");
    Asset::new("console", "css", "text/css; charset=utf-8", bytes)
});

/// The script of the console.
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/console.js");
    Asset::new("console", "js", "text/javascript; charset=utf-8", bytes)
});

/// The script of pages with a map.
pub(super) static MAP_SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/map.js");
    Asset::new("map", "js", "text/javascript; charset=utf-8", bytes)
});

/// The icon in the browser's tab.
pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let bytes = include_bytes!("assets/icon.svg");
    Asset::new("icon", "svg", "image/svg+xml", bytes)
});

pub(super) fn routes(config: &mut ServiceConfig) {
    super::route::page(config, "/assets/{name}", serve);
}

async fn serve(http: HttpRequest) -> Result<HttpResponse, Problem> {
    let name = http.match_info().get("name").unwrap_or_default();
    let all = [&*STYLE, &*SCRIPT, &*MAP_SCRIPT, &*ICON];
    let asset = all.into_iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(Problem::not_found)?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, asset.media))
        .insert_header((CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .body(Bytes::from_static(asset.bytes)))
}
