#![doc = include_str!("README.md")]

mod page;

use std::io::{Cursor, Write};

use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::{DroppedSamples, Evidence, InsightView};
use porchlight_schema::limits::{ACCESS_ARCHIVE_BYTES_MAX, ACCESS_ARCHIVE_SESSIONS_MAX};
use porchlight_schema::review::ReviewView;
use porchlight_schema::session::SessionView;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The error of building an archive.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The data of the sessions is larger than the maximum size of an archive.
    #[error("the data has more than {ACCESS_ARCHIVE_BYTES_MAX} bytes")]
    TooLarge,
    /// There are more sessions than an archive may contain.
    #[error("there are more than {ACCESS_ARCHIVE_SESSIONS_MAX} sessions")]
    TooManySessions,
    /// The parts of the ZIP archive cannot be written.
    #[error("the parts of the ZIP archive cannot be written")]
    Zip(#[from] zip::result::ZipError),
    /// The contents of the archive cannot be written.
    #[error("the contents of the archive cannot be written")]
    Io(#[from] std::io::Error),
    /// A value cannot be serialized as JSON.
    #[error("a value cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// The request that an archive answers.
#[derive(Debug, Clone)]
pub struct Request {
    /// The caller's id for the request.
    pub request_id: String,
    /// The name of the requested identifier, such as `externalRiderId`.
    pub subject_kind: String,
    /// The identifier of the subject.
    pub subject: String,
    /// The time at which the request was received.
    pub received_at: TimestampMs,
    /// The time at which the data was read.
    pub read_at: TimestampMs,
    /// The previously erased sessions of the person as salted hashes of their ids, so that copies
    /// elsewhere can be recognised and erased too.
    pub erased: Vec<String>,
}

/// The evidence of a session's insight.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExportedEvidence<'a> {
    /// The list of evidence.
    pub data: &'a [Evidence],
    /// The version of the scoring weights.
    pub weights: &'a str,
    /// The number of acknowledged samples that no detector received.
    pub dropped_samples: DroppedSamples,
}

/// All stored data about one session.
#[derive(Debug, Clone)]
pub struct ExportedSession<'a> {
    /// The id of the session.
    pub session_id: SessionId,
    /// The session as the API shows it.
    pub session: SessionView<'a>,
    /// The address and the device with all fields, as the app sent them at the start.
    pub start: serde_json::Value,
    /// The telemetry of the session as NDJSON, one batch a line.
    pub telemetry_ndjson: &'a [u8],
    /// The insight of the session.
    pub insight: Option<InsightView<'a>>,
    /// The evidence of the insight.
    pub evidence: Option<ExportedEvidence<'a>>,
    /// The path of the session as a PNG image.
    pub path_png: Option<&'a [u8]>,
    /// The review of the decision.
    pub review: Option<ReviewView<'a>>,
    /// The batches that were acknowledged to the phone, as the API shows them.
    pub acknowledged: Option<serde_json::Value>,
    /// The webhook messages about the session, as the API shows them.
    pub messages: Vec<serde_json::Value>,
    /// The contributions of the session to the knowledge of its place.
    pub places: Vec<serde_json::Value>,
}

/// The content of `sessions.json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contents<'a> {
    request_id: &'a str,
    received_at: TimestampMs,
    read_at: TimestampMs,
    data: &'a [serde_json::Value],
    /// The previously erased sessions.
    deleted: &'a [String],
}

/// An archive under construction, to which sessions are added one at a time.
pub struct AccessArchive {
    request: Request,
    zip: ZipWriter<Cursor<Vec<u8>>>,
    sessions: Vec<serde_json::Value>,
    rows: Vec<page::Row>,
    recorders: Vec<serde_json::Value>,
    /// The total size of all files so far before compression, bytes.
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
            recorders: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a session.
    ///
    /// # Errors
    ///
    /// See [`ExportError`]. The archive is unusable after an error.
    pub fn add(&mut self, session: &ExportedSession<'_>) -> Result<(), ExportError> {
        if self.sessions.len() >= ACCESS_ARCHIVE_SESSIONS_MAX {
            return Err(ExportError::TooManySessions);
        }
        let folder = format!("sessions/{}", session.session_id);
        let file = |name: &str| format!("{folder}/{name}");
        self.json(&file("session.json"), &session.session)?;
        self.json(&file("start.json"), &session.start)?;
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
        if let Some(review) = &session.review {
            self.json(&file("review.json"), review)?;
        }
        if let Some(acknowledged) = &session.acknowledged {
            self.json(&file("acknowledged.json"), acknowledged)?;
        }
        if !session.messages.is_empty() {
            self.json(&file("messages.json"), &session.messages)?;
        }
        if !session.places.is_empty() {
            self.json(&file("places.json"), &session.places)?;
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

    /// Adds a recorder.
    ///
    /// # Errors
    ///
    /// Returns an error if the recorder cannot be serialized as JSON.
    pub fn add_recorder(&mut self, recorder: &impl Serialize) -> Result<(), ExportError> {
        self.recorders.push(serde_json::to_value(recorder)?);
        Ok(())
    }

    /// Completes the archive and returns its bytes.
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
        if !self.recorders.is_empty() {
            let recorders = serde_json::to_vec_pretty(&self.recorders)?;
            self.file("recorders.json", &recorders)?;
        }
        let page = page::index(&self.request, &self.rows, &self.recorders).into_string();
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
        // A PNG image is already compressed.
        let method = if name.ends_with(".png") {
            CompressionMethod::Stored
        } else {
            CompressionMethod::Deflated
        };
        // Without an explicit time, each file has the earliest time that the format supports.
        let options = SimpleFileOptions::default().compression_method(method);
        self.zip.start_file(name, options)?;
        self.zip.write_all(content)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
