//! A client of the public API, for phones and customers' servers.

use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// The deadline of one response.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of attempts after 429 and 503, each after the requested wait.
const ATTEMPTS_MAX: u32 = 20;
/// The longest wait before an attempt, in seconds.
const RETRY_AFTER_SEC_MAX: u64 = 30;

/// The running service that a command calls.
#[derive(Debug, clap::Args)]
pub(super) struct ServiceArguments {
    /// The URL of a running service.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    /// A secret key of that service.
    #[arg(long, env = "PORCHLIGHT_KEY", hide_env_values = true)]
    key: String,
}

impl ServiceArguments {
    pub(super) fn client(&self) -> anyhow::Result<Client> {
        Client::new(&self.url, &self.key)
    }
}

/// A client of one service with one key.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// A started session.
#[derive(Debug, Clone)]
pub(crate) struct StartedSession {
    /// The session id.
    pub(crate) session_id: String,
    /// The session token, with which a phone sends.
    pub(crate) token: String,
}

impl Client {
    pub(crate) fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .no_proxy()
            .build()?;
        Ok(Self {
            http,
            url: url.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
        })
    }

    /// Sends one request, and retries it when the service requests a retry. All attempts have the
    /// same `Idempotency-Key`, so that a session is started once.
    async fn request(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Option<String>,
    ) -> anyhow::Result<(StatusCode, String)> {
        let mut call = [0; 16];
        porchlight_world::fill_random(&mut call);
        let idempotency_key = porchlight_schema::hex::encode(&call);
        let url = format!("{}{path}", self.url);
        let mut last_refusal = String::new();
        for _ in 0..ATTEMPTS_MAX {
            let mut request = self
                .http
                .request(method.clone(), &url)
                .header("Service-Key", key)
                .header("Idempotency-Key", &idempotency_key);
            if let Some(body) = &body {
                request = request
                    .header("Content-Type", "application/json")
                    .body(body.clone());
            }
            let answer = request
                .send()
                .await
                .map_err(reqwest::Error::without_url)
                .with_context(|| format!("{method} {url}"))?;
            let status = answer.status();
            if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE
            {
                let after = answer
                    .headers()
                    .get("Retry-After")
                    .and_then(|value| value.to_str().ok());
                let after_sec: u64 = after.and_then(|text| text.parse().ok()).unwrap_or(1);
                last_refusal = refusal(status, &answer.text().await?);
                let after_sec = after_sec.min(RETRY_AFTER_SEC_MAX);
                tokio::time::sleep(Duration::from_secs(after_sec)).await;
                continue;
            }
            return Ok((status, answer.text().await?));
        }
        bail!("{method} {path}: refused {ATTEMPTS_MAX} times, at last with {last_refusal}")
    }

    async fn json(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Option<String>,
    ) -> anyhow::Result<Value> {
        let (status, text) = self.request(method.clone(), path, key, body).await?;
        if !status.is_success() {
            bail!("{method} {path}: {}", refusal(status, &text));
        }
        serde_json::from_str(&text).with_context(|| format!("{method} {path}: not JSON"))
    }

    /// Starts a session.
    pub(crate) async fn start(&self, body: &Value) -> anyhow::Result<StartedSession> {
        let session = self
            .json(
                Method::POST,
                "/v1/sessions/start",
                &self.key,
                Some(body.to_string()),
            )
            .await?;
        let text = |name: &str| {
            session[name]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("the answer contains no {name}"))
        };
        Ok(StartedSession {
            session_id: text("sessionId")?,
            token: text("sessionToken")?,
        })
    }

    /// Sends a request with the client's key and returns the answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string);
        self.json(method, path, &self.key, body).await
    }

    /// Sends a DELETE request with the client's key.
    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        let (status, text) = self.request(Method::DELETE, path, &self.key, None).await?;
        if !status.is_success() {
            bail!("DELETE {path}: {}", refusal(status, &text));
        }
        Ok(())
    }

    /// Creates a recorder.
    pub(crate) async fn create_recorder(&self, body: &Value) -> anyhow::Result<Value> {
        let body = Some(body.to_string());
        self.json(Method::POST, "/v1/recorders", &self.key, body)
            .await
    }

    /// Sends one batch with the session's token, as a phone does.
    pub(crate) async fn send(&self, session: &StartedSession, batch: String) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{}/telemetry", session.session_id);
        self.json(Method::POST, &path, &session.token, Some(batch))
            .await
            .map(drop)
    }

    /// Stops a session.
    pub(crate) async fn stop(
        &self,
        session: &StartedSession,
        ended_at: Option<&str>,
    ) -> anyhow::Result<()> {
        let mut body = json!({ "sessionId": session.session_id });
        if let Some(ended_at) = ended_at {
            body["endedAt"] = json!(ended_at);
        }
        self.json(
            Method::POST,
            "/v1/sessions/stop",
            &session.token,
            Some(body.to_string()),
        )
        .await
        .map(drop)
    }

    /// Attaches a PoD.
    pub(crate) async fn attach_pod(
        &self,
        session: &StartedSession,
        pod: &Value,
    ) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{}/pod", session.session_id);
        self.json(Method::POST, &path, &session.token, Some(pod.to_string()))
            .await
            .map(drop)
    }

    /// Returns the current insight.
    pub(crate) async fn insight(&self, session_id: &str) -> anyhow::Result<Value> {
        self.json(
            Method::GET,
            &format!("/v1/sessions/{session_id}/insights"),
            &self.key,
            None,
        )
        .await
    }

    /// Waits until the session is scored or scoring has failed, and returns the insight.
    pub(crate) async fn wait_until_scored(&self, session_id: &str) -> anyhow::Result<Value> {
        let mut pause = Duration::from_millis(20);
        for _ in 0..60 {
            let insight = self.insight(session_id).await?;
            if insight["status"] != "processing" {
                return Ok(insight);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        bail!("session {session_id} was not scored within a minute")
    }

    /// Registers the webhook and returns its secret.
    pub(crate) async fn register_webhook(&self, url: &str) -> anyhow::Result<String> {
        let body = json!({ "url": url }).to_string();
        let created = self.json(Method::POST, "/v1/webhooks", &self.key, Some(body));
        let created = created.await?;
        let secret = created["secret"]
            .as_str()
            .context("the answer contains no secret")?;
        Ok(secret.to_owned())
    }

    /// Returns the webhook deliveries of one session, newest first.
    pub(crate) async fn messages(&self, session_id: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("/v1/webhooks/deliveries?sessionId={session_id}");
        let mut page = self.json(Method::GET, &path, &self.key, None).await?;
        Ok(serde_json::from_value(page["data"].take())?)
    }

    /// Requests a retry of a delivery.
    pub(crate) async fn retry(&self, message_id: &str) -> anyhow::Result<()> {
        let path = format!("/v1/webhooks/deliveries/{message_id}/retry");
        self.json(Method::POST, &path, &self.key, None)
            .await
            .map(drop)
    }
}

/// Formats an answer that refuses a request: the status and, if the body is a problem, its `detail`
/// and the fields that it names.
fn refusal(status: StatusCode, body: &str) -> String {
    let problem: Value = serde_json::from_str(body).unwrap_or_default();
    let Some(detail) = problem["detail"].as_str() else {
        return match body.trim() {
            "" => status.to_string(),
            text => format!("{status}: {text}"),
        };
    };
    let errors = problem["errors"].as_array().into_iter().flatten();
    let faults = errors.filter_map(|error| {
        let field = error["pointer"].as_str().or(error["parameter"].as_str());
        let text = format!(
            "{} {}",
            field.unwrap_or_default(),
            error["detail"].as_str()?
        );
        Some(text.trim_start().to_owned())
    });
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() {
        return format!("{status}: {detail}");
    }
    let detail = detail
        .trim_end_matches("; see errors.")
        .trim_end_matches('.');
    format!("{status}: {detail}: {}", faults.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_sentence_and_not_json() {
        let problem = json!({
            "type": "about:blank",
            "status": 422,
            "detail": "The body does not match the schema; see errors.",
            "code": "invalid",
            "errors": [
                { "pointer": "/address/lat", "detail": "must be a number" },
                { "parameter": "limit", "detail": "must be 1 to 200" },
            ],
        });
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        assert_eq!(
            refusal(status, &problem.to_string()),
            "422 Unprocessable Entity: The body does not match the schema: /address/lat must be a number; limit must be 1 to 200"
        );
        let problem = json!({ "detail": "The session does not exist.", "code": "not_found" });
        assert_eq!(
            refusal(StatusCode::NOT_FOUND, &problem.to_string()),
            "404 Not Found: The session does not exist."
        );
        assert_eq!(
            refusal(StatusCode::BAD_GATEWAY, "<p>"),
            "502 Bad Gateway: <p>"
        );
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, ""), "502 Bad Gateway");
    }

    /// A service that drains or limits a tenant says so in each answer.
    #[tokio::test]
    async fn the_error_after_the_last_attempt_has_the_detail_of_the_answer() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let body = r#"{"status": 503, "detail": "The service is draining."}"#;
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let serving = async {
            for _ in 0..ATTEMPTS_MAX {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 4_096];
                assert!(stream.read(&mut head).await.unwrap() > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        };
        let client = Client::new(&url, "key").unwrap();
        let (refused, ()) = tokio::join!(client.call(Method::GET, "/v1/sessions", None), serving);
        assert_eq!(
            refused.unwrap_err().to_string(),
            "GET /v1/sessions: refused 20 times, at last with 503 Service Unavailable: The service is draining."
        );
    }
}
