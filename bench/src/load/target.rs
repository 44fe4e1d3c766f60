//! The target of the load: the service, through its API, or the floor.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::http::Connection;

/// A server under load.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server's address.
    pub address: SocketAddr,
    /// The key for the service; `None` for the floor.
    pub key: Option<String>,
}

/// One session's stream of batches.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// The path of its batches; empty while no session is started.
    pub path: String,
    /// The sequence number of the next batch.
    pub seq: u32,
}

const START: &str = r#"{"deliveryId":"load","externalRiderId":"load","address":{"line1":"1 Lindenweg","city":"Musterstadt","country":"DE","lat":52.5200066,"lng":13.4049541,"floor":2},"device":{"platform":"android","sensors":["location","pressure","motion","steps"]}}"#;

/// The delay before a refused session start is retried.
const START_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

impl Target {
    /// Returns the header lines that authenticate a request.
    #[must_use]
    pub fn headers(&self) -> String {
        self.key
            .as_ref()
            .map_or_else(String::new, |key| format!("service-key: {key}\r\n"))
    }

    /// Starts a stream: starts a session on the service, or uses the fixed path of the floor.
    ///
    /// # Errors
    ///
    /// Returns an error if the service does not start the session.
    pub async fn begin(&self, connection: &mut Connection) -> anyhow::Result<Stream> {
        if self.key.is_none() {
            return Ok(Stream {
                path: "/telemetry".to_owned(),
                seq: 0,
            });
        }
        let (stream, _) = self.begin_with_token(connection).await?;
        Ok(stream)
    }

    /// Starts a session on the service. Returns its stream and its session token.
    ///
    /// # Errors
    ///
    /// Returns an error if the service does not start the session.
    pub async fn begin_with_token(
        &self,
        connection: &mut Connection,
    ) -> anyhow::Result<(Stream, String)> {
        let answer = loop {
            let (path, headers) = ("/v1/sessions/start", self.headers());
            let start = connection.request("POST", path, &headers, START.as_bytes());
            let answer = start.await?;
            // The service limits the session starts per second of an organization, and refuses
            // starts while its store is overloaded.
            if !matches!(answer.status, 429 | 503) {
                break answer;
            }
            tokio::time::sleep(START_RETRY_PAUSE).await;
        };
        ensure!(
            answer.status == 201,
            "start: {} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
        let session: Value = serde_json::from_slice(&answer.body)?;
        let field = |name: &str| session.get(name).and_then(Value::as_str);
        let id = field("sessionId").context("no sessionId")?;
        let token = field("sessionToken").context("no sessionToken")?;
        let stream = Stream {
            path: format!("/v1/sessions/{id}/telemetry"),
            seq: 0,
        };
        Ok((stream, token.to_owned()))
    }

    /// Begins all of a connection's streams.
    ///
    /// # Errors
    ///
    /// Returns an error if a session is not started.
    pub async fn begin_all(
        &self,
        connection: &mut Connection,
        streams: &mut [Stream],
    ) -> anyhow::Result<()> {
        for stream in streams {
            *stream = self.begin(connection).await?;
        }
        Ok(())
    }

    /// Stops the session of a stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses.
    pub async fn stop(&self, connection: &mut Connection, stream: &Stream) -> anyhow::Result<()> {
        let body = format!("{{\"sessionId\":\"{}\"}}", stream.session()?);
        let (path, headers) = ("/v1/sessions/stop", self.headers());
        let stop = connection.request("POST", path, &headers, body.as_bytes());
        let answer = stop.await?;
        ensure!(
            answer.status == 200,
            "stop: {} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
        Ok(())
    }

    /// Waits until a stopped session has its first insight.
    ///
    /// # Errors
    ///
    /// Returns an error if the service refuses, or needs longer than [`SCORING_TIMEOUT`].
    pub async fn until_scored(
        &self,
        connection: &mut Connection,
        stream: &Stream,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{}/insights", stream.session()?);
        let headers = self.headers();
        let until = std::time::Instant::now() + SCORING_TIMEOUT;
        loop {
            let answer = connection.request("GET", &path, &headers, b"").await?;
            ensure!(answer.status == 200, "insights: {}", answer.status);
            let insight: Value = serde_json::from_slice(&answer.body)?;
            if insight.get("status").and_then(Value::as_str) == Some("ready") {
                return Ok(());
            }
            ensure!(std::time::Instant::now() < until, "{path} is not ready");
            tokio::time::sleep(SCORING_POLL_INTERVAL).await;
        }
    }
}

/// The time within which the last sessions must have their insights.
const SCORING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);
/// The pause between two reads of an insight that is not ready.
const SCORING_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(100);

impl Stream {
    /// Returns the id of the session.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream has no session.
    pub fn session(&self) -> anyhow::Result<&str> {
        self.path.split('/').nth(3).context("no session id")
    }
}
