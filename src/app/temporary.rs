//! A service in a temporary folder, for the commands that need one.

use std::path::PathBuf;
use std::sync::mpsc;

use anyhow::{Context, anyhow};
use porchlight_keys::CreateKeyRequest;
use tokio::sync::oneshot;

use super::{Logging, Shutdown, run};
use crate::config::Config;
use crate::ops::client::OpsClient;

/// A service in a temporary folder, for a command.
#[derive(Debug)]
pub struct TemporaryService {
    /// The URL of the public API.
    pub url: String,
    /// The URL of the operators' listener.
    pub ops_url: String,
    /// A secret key of the service's only organization, in the sandbox.
    pub secret_key: String,
    /// The folder of the service's store, which is removed at the end.
    pub folder: PathBuf,
    config: Config,
}

impl TemporaryService {
    /// Creates a secret key of another organization, in the sandbox. Must be called outside of any
    /// runtime.
    ///
    /// # Errors
    ///
    /// Returns an error of the service.
    pub fn create_key_for(&self, organization: &str) -> anyhow::Result<String> {
        create_key(&self.config, organization)
    }
}

/// Runs `work` against a temporary service on an empty store; `configure` may change its
/// configuration.
pub fn with_temporary_service<T>(
    logging: Logging,
    configure: impl FnOnce(&mut Config) -> anyhow::Result<()>,
    work: impl FnOnce(&TemporaryService) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut suffix = [0_u8; 8];
    porchlight_world::fill(&mut suffix);
    let folder =
        std::env::temp_dir().join(format!("porchlight-{:016x}", u64::from_be_bytes(suffix)));
    let mut config = Config::default();
    config.store.path = folder.join("data");
    config.server.listen.set_port(0);
    config.server.ops_listen.set_port(0);
    config.server.rate_limit_per_second = 0;
    configure(&mut config)?;

    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = mpsc::sync_channel(1);
    let serving = config.clone();
    let server = std::thread::Builder::new()
        .name("porchlight".into())
        .spawn(move || {
            run(serving, logging, Shutdown::Channel(stopped), |bound| {
                // The receiver is gone, because the command has already stopped.
                let _sent = ready.send(*bound);
            })
        })?;
    // `None` if the service has ended before it was ready.
    let worked = is_ready.recv().ok().map(|bound| {
        config.server.ops_listen = bound.ops;
        let secret_key = create_key(&config, "demo")?;
        work(&TemporaryService {
            url: format!("http://{}", bound.api),
            ops_url: format!("http://{}", bound.ops),
            secret_key,
            folder: config.store.path.clone(),
            config,
        })
    });
    drop(stop);
    let served = server
        .join()
        .unwrap_or_else(|_panic| Err(anyhow!("the service panicked")));
    // The operating system cleans up a folder that cannot be removed.
    let _removed = std::fs::remove_dir_all(&folder);
    match (worked, served) {
        (Some(worked), served) => worked.and_then(|value| served.map(|()| value)),
        (None, Err(error)) => Err(error.context("the service did not start")),
        (None, Ok(())) => Err(anyhow!("the service ended before it was ready")),
    }
}

/// Creates a sandbox secret key of an organization through the running service.
fn create_key(config: &Config, organization: &str) -> anyhow::Result<String> {
    let server = OpsClient::of(config)?.context("the service has no token for its operators")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let request = CreateKeyRequest::new(organization, "sandbox", "secret");
    let created = runtime.block_on(server.create_key(&request))?;
    Ok(created.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_why_the_service_did_not_start() {
        let refused = with_temporary_service(
            Logging::Off,
            |config| {
                config.store.path = "/dev/null/data".into();
                Ok(())
            },
            |_| Ok(()),
        );
        let error = format!("{:#}", refused.unwrap_err());
        assert!(error.starts_with("the service did not start: "), "{error}");
        assert!(error.contains("Not a directory"), "{error}");
    }
}
