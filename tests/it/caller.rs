//! A caller of the API with one key, for tests that check single answers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, http};

/// Calls one server with one key.
#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// An answer: its status and its body as JSON (null if it is not JSON).
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Caller {
    /// Creates a secret key and a caller that uses it.
    pub(crate) fn new(server: &Server) -> Self {
        Self::with_key(server, &server.key("secret"))
    }

    pub(crate) fn with_key(server: &Server, key: &str) -> Self {
        Self {
            http: http(),
            url: server.api.clone(),
            key: key.to_owned(),
        }
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) async fn send(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .header("Service-Key", &self.key);
        if let Some(body) = body {
            request = request
                .header("Content-Type", "application/json")
                .body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.bytes().await.unwrap();
        Answer {
            status,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        }
    }

    /// Requests a stream, and returns once the head of the answer has arrived.
    pub(crate) async fn begin(&self, path: &str) -> reqwest::Response {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = request.header("Service-Key", &self.key);
        let begun = request.timeout(Duration::from_secs(120)).send();
        begun.await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(reqwest::Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(reqwest::Method::POST, path, Some(body)).await
    }

    /// Requests a session.
    pub(crate) async fn try_start(&self, delivery: &str) -> Answer {
        let body = json!({
            "deliveryId": delivery, "externalRiderId": "rider",
            "address": { "line1": "1 Main St", "city": "Town", "country": "XX", "lat": 1.0, "lng": 2.0 },
        });
        self.post("/v1/sessions/start", &body).await
    }

    /// Starts a session and returns its id.
    pub(crate) async fn start(&self, delivery: &str) -> String {
        let started = self.try_start(delivery).await;
        assert_eq!(started.status, 201, "{}", started.body);
        started.body["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a batch of one sample.
    pub(crate) async fn batch(&self, id: &str, seq: u32) -> Answer {
        let sample = json!({ "t": seq, "kind": "pressure", "hPa": 1_000 });
        let body = json!({ "seq": seq, "samples": [sample] });
        self.post(&format!("/v1/sessions/{id}/telemetry"), &body)
            .await
    }
}
