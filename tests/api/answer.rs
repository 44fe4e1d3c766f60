//! An answer, and the rules that every answer obeys.

use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::document::assert_documented;
use crate::fixed::assert_answer;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Answer {
    pub(crate) async fn of(request: reqwest::RequestBuilder) -> Self {
        let (client, request) = request.build_split();
        let request = request.unwrap();
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let answer = client.execute(request).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let text = answer.text().await.unwrap();
        let json = serde_json::from_str(&text).unwrap_or_default();
        assert!(
            headers.contains_key("x-request-id"),
            "{status}: no X-Request-Id"
        );
        assert_documented(&method, &path, status, &headers, &text);
        assert_answer(method.as_str(), &path, status, &text);
        Self {
            status,
            headers,
            text,
            json,
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Asserts that the answer is this problem, in the shape of all problems.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!(
            (self.status, self.json["code"].as_str()),
            (status, Some(code)),
            "{self:?}"
        );
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{self:?}"
        );
        assert_eq!(self.json["status"], status);
        assert_eq!(self.json["type"], format!("/docs/errors#{code}"));
        assert_eq!(self.json["requestId"], self.header("x-request-id"));
        for name in ["title", "detail"] {
            assert!(
                self.json[name]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{name}: {self:?}"
            );
        }
        assert_eq!(
            self.headers.contains_key("www-authenticate"),
            status == 401,
            "{self:?}"
        );
        assert_eq!(
            self.headers.contains_key("allow"),
            status == 405,
            "{self:?}"
        );
        assert_eq!(
            self.headers.contains_key("retry-after"),
            matches!(status, 429 | 503),
            "{self:?}"
        );
        self
    }

    /// Returns the pointers, or the parameters, of the faults.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let faults = self.json["errors"].as_array().into_iter().flatten();
        faults
            .map(|fault| {
                assert!(
                    fault["detail"]
                        .as_str()
                        .is_some_and(|text| !text.is_empty()),
                    "{fault}"
                );
                fault["pointer"]
                    .as_str()
                    .or(fault["parameter"].as_str())
                    .unwrap()
            })
            .collect()
    }
}

/// Sends raw bytes and reads until the server closes the connection, or has answered and stays
/// silent for some time.
pub(crate) async fn raw(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may answer and close before it has read everything.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    let mut chunk = [0; 4_096];
    loop {
        let patience_ms = if answer.is_empty() { 20_000 } else { 1_500 };
        let patience = std::time::Duration::from_millis(patience_ms);
        match tokio::time::timeout(patience, stream.read(&mut chunk)).await {
            Ok(Ok(length)) if length > 0 => answer.extend_from_slice(&chunk[..length]),
            _ => return String::from_utf8_lossy(&answer).into_owned(),
        }
    }
}
