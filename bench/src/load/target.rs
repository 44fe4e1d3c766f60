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

/// The batch stream of one session.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The path that receives the batches.
    pub path: String,
    /// The sequence number of the next batch.
    pub seq: u32,
}

const START: &str = r#"{"deliveryId":"load","externalRiderId":"load","address":{"line1":"1 Lindenweg","city":"Musterstadt","country":"DE","lat":52.5200066,"lng":13.4049541,"floor":2},"device":{"platform":"android","sensors":["location"]}}"#;

/// The delay before a refused session start is retried.
const START_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_millis(200);

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
        let answer = loop {
            let (path, headers) = ("/v1/sessions/start", self.headers());
            let start = connection.request("POST", path, &headers, START.as_bytes());
            let answer = start.await?;
            // The service limits the session starts per second of an organization.
            if answer.status != 429 {
                break answer;
            }
            tokio::time::sleep(START_AGAIN_AFTER).await;
        };
        ensure!(
            answer.status == 201,
            "start: {} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
        let session: Value = serde_json::from_slice(&answer.body)?;
        let id = session
            .get("sessionId")
            .and_then(Value::as_str)
            .context("no sessionId")?;
        Ok(Stream {
            path: format!("/v1/sessions/{id}/telemetry"),
            seq: 0,
        })
    }
}
