//! Builds the archive that answers an access request: everything that is stored about a person, as a ZIP file.
//!
//! The builder is pure: typed data in, bytes out. It reads no store and no clock, and equal data give equal bytes.
//!
//! | file | content |
//! |---|---|
//! | `index.html` | a page for people: the request, each session, its result and its path |
//! | `sessions.json` | the sessions, and the ids of the sessions that were erased before |
//! | `sessions/ID/session.json` | the session |
//! | `sessions/ID/telemetry.ndjson` | the samples of its phone, one batch a line |
//! | `sessions/ID/insight.json` | its insight |
//! | `sessions/ID/evidence.json` | why the insight is what it is |
//! | `sessions/ID/path.png` | its path, drawn |

mod page;

use std::io::{Cursor, Write};

use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::{DroppedSamples, Evidence, InsightView};
use porchlight_schema::limits::{ACCESS_ARCHIVE_BYTES_MAX, ACCESS_ARCHIVE_SESSIONS_MAX};
use porchlight_schema::session::SessionView;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Why an archive can't be built.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The data of the sessions is larger than an archive may be.
    #[error("the data has more than {ACCESS_ARCHIVE_BYTES_MAX} bytes")]
    TooLarge,
    /// There are more sessions than an archive may hold.
    #[error("there are more than {ACCESS_ARCHIVE_SESSIONS_MAX} sessions")]
    TooManySessions,
    /// The archive can't be written.
    #[error("the archive can't be written")]
    Zip(#[from] zip::result::ZipError),
    /// The archive can't be written.
    #[error("the archive can't be written")]
    Io(#[from] std::io::Error),
    /// A value can't be written as JSON.
    #[error("a value can't be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// The request that an archive answers.
#[derive(Debug, Clone)]
pub struct Request {
    /// The caller's id of the request.
    pub request_id: String,
    /// The name of the identifier that it asks for, such as `externalRiderId`.
    pub subject_kind: String,
    /// The identifier.
    pub subject: String,
    /// When the request was received.
    pub received_at: TimestampMs,
    /// When the data was read.
    pub read_at: TimestampMs,
    /// Sessions of the person that were erased before, so that copies elsewhere can be erased too.
    pub erased: Vec<SessionId>,
}

/// The evidence of a session's insight.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedEvidence<'a> {
    /// The evidence.
    pub data: &'a [Evidence],
    /// The version of the weights.
    pub weights: &'a str,
    /// Samples that nothing rests on.
    pub dropped_samples: DroppedSamples,
}

/// Everything that is stored about one session.
#[derive(Debug, Clone)]
pub struct ExportedSession<'a> {
    /// The session's id.
    pub session_id: SessionId,
    /// The session.
    pub session: SessionView<'a>,
    /// Its telemetry as NDJSON, one batch a line.
    pub telemetry_ndjson: &'a [u8],
    /// Its insight.
    pub insight: Option<InsightView<'a>>,
    /// Why the insight is what it is.
    pub evidence: Option<ExportedEvidence<'a>>,
    /// Its path as a PNG image.
    pub path_png: Option<&'a [u8]>,
}

/// `sessions.json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contents<'a> {
    request_id: &'a str,
    received_at: TimestampMs,
    read_at: TimestampMs,
    data: &'a [serde_json::Value],
    /// Sessions that were erased before.
    deleted: &'a [SessionId],
}

/// An archive that is being built, one session at a time.
pub struct AccessArchive {
    request: Request,
    zip: ZipWriter<Cursor<Vec<u8>>>,
    sessions: Vec<serde_json::Value>,
    rows: Vec<page::Row>,
    /// The bytes of all files so far, before compression.
    bytes: usize,
}

impl std::fmt::Debug for AccessArchive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessArchive")
            .field("sessions", &self.sessions.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl AccessArchive {
    /// Begins an archive.
    #[must_use]
    pub fn new(request: Request) -> Self {
        Self {
            request,
            zip: ZipWriter::new(Cursor::new(Vec::new())),
            sessions: Vec::new(),
            rows: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a session.
    ///
    /// # Errors
    ///
    /// See [`ExportError`]. After an error the archive is of no use.
    pub fn add(&mut self, session: &ExportedSession<'_>) -> Result<(), ExportError> {
        if self.sessions.len() >= ACCESS_ARCHIVE_SESSIONS_MAX {
            return Err(ExportError::TooManySessions);
        }
        let folder = format!("sessions/{}", session.session_id);
        let file = |name: &str| format!("{folder}/{name}");
        self.json(&file("session.json"), &session.session)?;
        self.file(&file("telemetry.ndjson"), session.telemetry_ndjson)?;
        if let Some(insight) = &session.insight {
            self.json(&file("insight.json"), insight)?;
        }
        if let Some(evidence) = &session.evidence {
            self.json(&file("evidence.json"), evidence)?;
        }
        if let Some(png) = session.path_png {
            self.file(&file("path.png"), png)?;
        }
        let value = serde_json::to_value(&session.session)?;
        let insight = session.insight.as_ref().map(serde_json::to_value);
        self.rows.push(page::Row::new(
            session,
            &value,
            insight.transpose()?.as_ref(),
        ));
        self.sessions.push(value);
        Ok(())
    }

    /// Completes the archive and gives its bytes.
    ///
    /// # Errors
    ///
    /// See [`ExportError`].
    pub fn finish(mut self) -> Result<Vec<u8>, ExportError> {
        let contents = Contents {
            request_id: &self.request.request_id,
            received_at: self.request.received_at,
            read_at: self.request.read_at,
            data: &self.sessions,
            deleted: &self.request.erased,
        };
        let contents = serde_json::to_vec_pretty(&contents)?;
        self.file("sessions.json", &contents)?;
        let page = page::index(&self.request, &self.rows).into_string();
        self.file("index.html", page.as_bytes())?;
        Ok(self.zip.finish()?.into_inner())
    }

    fn json(&mut self, name: &str, value: &impl Serialize) -> Result<(), ExportError> {
        let text = serde_json::to_vec_pretty(value)?;
        self.file(name, &text)
    }

    fn file(&mut self, name: &str, content: &[u8]) -> Result<(), ExportError> {
        self.bytes = self.bytes.saturating_add(content.len());
        if self.bytes > ACCESS_ARCHIVE_BYTES_MAX {
            return Err(ExportError::TooLarge);
        }
        // A PNG image is compressed already.
        let method = if name.ends_with(".png") {
            CompressionMethod::Stored
        } else {
            CompressionMethod::Deflated
        };
        // Without a time of its own each file has the first time that the format knows.
        let options = SimpleFileOptions::default().compression_method(method);
        self.zip.start_file(name, options)?;
        self.zip.write_all(content)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
