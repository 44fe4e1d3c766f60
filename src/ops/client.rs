//! The client of the command line for a running server.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use porchlight_actors::audit::ChainReport;
use porchlight_http::links::dial_address;
use porchlight_keys::secrets::Rewrapped;
use porchlight_keys::{CreateKeyRequest, CreatedKey, ListedKey};
use porchlight_store::CheckReport;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::admin::{BackupRequest, CheckRequest};
use super::token;
use crate::config::Config;

/// The deadline for connecting, which suffices because the server runs on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A client of the server that uses the store.
pub struct OpsClient {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl std::fmt::Debug for OpsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpsClient")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl OpsClient {
    /// Finds the server that runs on the configuration's store. Returns `None` if no server runs. A
    /// request to the address in the file distinguishes a running server from a file that a crashed
    /// server left behind.
    ///
    /// # Errors
    ///
    /// Returns an error if the file next to the store cannot be read.
    pub fn of(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(entry) = token::read(&config.store.path)? else {
            return Ok(None);
        };
        let address = dial_address(entry.address);
        if TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_err() {
            return Ok(None);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .no_proxy()
            .build()?;
        Ok(Some(Self {
            http,
            url: format!("http://{address}"),
            token: entry.token,
        }))
    }

    /// Creates a key. `env` is `sandbox` or `live`, `kind` is `secret` or `client`.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn create_key(&self, request: &CreateKeyRequest) -> anyhow::Result<CreatedKey> {
        self.call(Method::POST, "/admin/keys", Some(request)).await
    }

    /// Lists all keys, oldest first.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn list_keys(&self) -> anyhow::Result<Vec<ListedKey>> {
        let mut answer: Value = self.call(Method::GET, "/admin/keys", None::<&()>).await?;
        Ok(serde_json::from_value(answer["data"].take())?)
    }

    /// Revokes a key.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn revoke_key(&self, id: &str) -> anyhow::Result<ListedKey> {
        if !id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            bail!("the key does not exist");
        }
        self.call(
            Method::POST,
            &format!("/admin/keys/{id}/revoke"),
            None::<&()>,
        )
        .await
    }

    /// Requests the server to copy its store to `folder`, an absolute path.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn backup(&self, folder: &Path) -> anyhow::Result<()> {
        let request = BackupRequest {
            folder: folder.to_owned(),
        };
        let _report: Value = self
            .call(Method::POST, "/admin/backup", Some(&request))
            .await?;
        Ok(())
    }

    /// Lets the server check the audit logs of all organizations.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn verify_audit(&self) -> anyhow::Result<Vec<ChainReport>> {
        let mut answer: Value = self
            .call(Method::POST, "/admin/audit/verify", None::<&()>)
            .await?;
        Ok(serde_json::from_value(answer["data"].take())?)
    }

    /// Requests the server to read every row of its store. With `quarantine`, it quarantines
    /// damaged rows.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn check_store(&self, quarantine: bool) -> anyhow::Result<CheckReport> {
        let request = CheckRequest { quarantine };
        self.call(Method::POST, "/admin/store/check", Some(&request))
            .await
    }

    /// Requests the server to re-encrypt its customers' secrets with its current key.
    ///
    /// # Errors
    ///
    /// Returns the server's error.
    pub async fn rewrap(&self) -> anyhow::Result<Rewrapped> {
        self.call(Method::POST, "/admin/secrets/rewrap", None::<&()>)
            .await
    }

    /// Sends a request to the operators' API, and returns its response or an error with the
    /// server's reason.
    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> anyhow::Result<T> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.token);
        if let Some(body) = body {
            request = request
                .header("Content-Type", "application/json")
                .body(serde_json::to_string(body)?);
        }
        let answer = request
            .send()
            .await
            .context("the running server does not answer")?;
        let status = answer.status();
        let text = answer
            .text()
            .await
            .context("the running server's response ended early")?;
        if status.as_u16() == 401 {
            bail!(
                "another server is listening at {} and does not use this store. Is this store's server stopped?",
                self.url
            );
        }
        if !status.is_success() {
            bail!(
                "{}",
                describe_problem(&text).unwrap_or_else(|| status.to_string())
            );
        }
        serde_json::from_str(&text).context("the running server's response cannot be parsed")
    }
}

/// Returns the faults of a problem or, if it has none, its detail.
fn describe_problem(text: &str) -> Option<String> {
    let problem: Value = serde_json::from_str(text).ok()?;
    let fault = |fault: &Value| {
        Some(format!(
            "{} {}",
            fault["pointer"].as_str()?.trim_start_matches('/'),
            fault["detail"].as_str()?
        ))
    };
    let faults: Vec<_> = problem["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(fault)
        .collect();
    if faults.is_empty() {
        problem["detail"].as_str().map(str::to_owned)
    } else {
        Some(faults.join("; "))
    }
}
