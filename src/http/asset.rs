//! Static files that are embedded in the binary. Their names change with their content, so that a
//! browser may cache them permanently.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::web::Bytes;
use porchlight_schema::hex;
use sha2::{Digest, Sha256};

use super::sliced::Sliced;

/// A static file that is embedded in the binary.
#[derive(Debug)]
pub struct Asset {
    name: String,
    media: &'static str,
    bytes: &'static [u8],
}

impl Asset {
    /// Names a file `NAME-HASH.ENDING`, with the first 48 bits of the SHA-256 of its content.
    /// `media` is its media type.
    #[must_use]
    pub fn new(name: &str, ending: &str, media: &'static str, bytes: &'static [u8]) -> Self {
        let hash = Sha256::digest(bytes);
        let mark = hex::encode(hash.get(..6).unwrap_or_default());
        Self {
            name: format!("{name}-{mark}.{ending}"),
            media,
            bytes,
        }
    }

    /// Returns the name of the file, which contains a hash of its content.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the answer that serves the file and lets browsers cache it for a year.
    #[must_use]
    pub fn response(&self) -> HttpResponse {
        HttpResponse::Ok()
            .insert_header((CONTENT_TYPE, self.media))
            .insert_header((CACHE_CONTROL, "public, max-age=31536000, immutable"))
            .insert_header((X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
            .body(Sliced::new(Bytes::from_static(self.bytes)))
    }
}
