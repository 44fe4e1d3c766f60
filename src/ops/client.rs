//! The command line's way to a running server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use porchlight_keys::secrets::Rewrapped;
use porchlight_keys::{CreateKeyRequest, CreatedKey, ListedKey};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::admin::BackupRequest;
use super::token;
use crate::config::Config;

/// Whether somebody listens is known after this long: it is this machine.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Speaks to the server that has the store.
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
    /// The server that runs on the configuration's store; none where none does. A file that a crashed server left
    /// behind is told from a running one by asking at its address.
    ///
    /// # Errors
    ///
    /// The file beside the store can't be read.
    pub fn of(config: &Config) -> anyhow::Result<Option<Self>> {
        let Some(entry) = token::read(&config.store.path)? else {
            return Ok(None);
        };
        let address = reachable(entry.address);
        if TcpStream::connect_timeout(&address, CONNECT_WITHIN).is_err() {
            return Ok(None);
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_WITHIN)
            .no_proxy()
            .build()?;
        Ok(Some(Self {
            http,
            url: format!("http://{address}"),
            token: entry.token,
        }))
    }

    /// Makes a key. `env` is `sandbox` or `live`, `kind` is `secret` or `client`.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn create_key(&self, order: &CreateKeyRequest) -> anyhow::Result<CreatedKey> {
        self.ask(Method::POST, "/admin/keys", Some(order)).await
    }

    /// All keys, oldest first.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn list_keys(&self) -> anyhow::Result<Vec<ListedKey>> {
        let mut answer: Value = self.ask(Method::GET, "/admin/keys", None::<&()>).await?;
        Ok(serde_json::from_value(answer["data"].take())?)
    }

    /// Revokes a key.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn revoke_key(&self, id: &str) -> anyhow::Result<ListedKey> {
        if !id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            bail!("the key does not exist");
        }
        self.ask(
            Method::POST,
            &format!("/admin/keys/{id}/revoke"),
            None::<&()>,
        )
        .await
    }

    /// Lets the server copy its store to `folder`, an absolute path.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn backup(&self, folder: &Path) -> anyhow::Result<()> {
        let order = BackupRequest {
            folder: folder.to_owned(),
        };
        let _report: Value = self
            .ask(Method::POST, "/admin/backup", Some(&order))
            .await?;
        Ok(())
    }

    /// Lets the server seal its customers' secrets anew, with the key that it writes with.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn rewrap(&self) -> anyhow::Result<Rewrapped> {
        self.ask(Method::POST, "/admin/secrets/rewrap", None::<&()>)
            .await
    }

    async fn ask<T: DeserializeOwned>(
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
            .context("the running server's answer broke off")?;
        if status.as_u16() == 401 {
            bail!(
                "another server listens at {}: is the one of this store stopped?",
                self.url
            );
        }
        if !status.is_success() {
            bail!("{}", explained(&text).unwrap_or_else(|| status.to_string()));
        }
        serde_json::from_str(&text).context("the running server's answer is not understood")
    }
}

/// What a problem says, its faults first.
fn explained(text: &str) -> Option<String> {
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

/// An address to dial for one to listen at: all addresses of a machine are reached at its loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
