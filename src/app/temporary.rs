//! A service in a temporary folder, for the commands that need one.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use porchlight_keys::CreateKeyRequest;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{BoundAddresses, Logging, Shutdown, run};
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
    /// Creates a secret key of another organization, in the sandbox.
    ///
    /// # Errors
    ///
    /// Returns an error of the service.
    pub async fn create_key_for(&self, organization: &str) -> anyhow::Result<String> {
        create_key(&self.config, organization).await
    }
}

/// Runs `work` against a temporary service on an empty store; `configure` may change its
/// configuration. SIGINT, SIGTERM and SIGHUP end the work, and the result is then `None`. The
/// folder of the service is removed in every case.
pub fn with_temporary_service<T>(
    logging: Logging,
    configure: impl FnOnce(&mut Config) -> anyhow::Result<()>,
    work: impl AsyncFnOnce(&TemporaryService) -> anyhow::Result<T>,
) -> anyhow::Result<Option<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Installed before the folder exists, so that no signal leaves it behind.
    let mut signals = runtime.block_on(async { Signals::install() })?;
    let folder = TemporaryFolder::create()?;
    let mut config = Config::default();
    config.store.path = folder.0.join("data");
    config.server.listen.set_port(0);
    config.server.ops_listen.set_port(0);
    config.server.rate_limit_per_second = 0;
    configure(&mut config)?;

    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = oneshot::channel();
    let serving = config.clone();
    let server = std::thread::Builder::new()
        .name("porchlight".into())
        .spawn(move || {
            run(serving, logging, Shutdown::Channel(stopped), |bound| {
                // The receiver is gone, because the command has already stopped.
                let _sent = ready.send(*bound);
            })
        })?;
    let worked = runtime.block_on(async {
        tokio::select! {
            worked = work_when_ready(config, is_ready, work) => worked.map(|worked| worked.map(Some)),
            () = signals.received() => Some(Ok(None)),
        }
    });
    // Tasks of the work, such as receivers, must not keep the service waiting. The handlers of the
    // signals stay installed.
    drop(runtime);
    drop(stop);
    let served = server
        .join()
        .unwrap_or_else(|_panic| Err(anyhow!("the service panicked")));
    match (worked, served) {
        (Some(worked), served) => worked.and_then(|value| served.map(|()| value)),
        (None, Err(error)) => Err(error.context("the service did not start")),
        (None, Ok(())) => Err(anyhow!("the service ended before it was ready")),
    }
}

/// Runs `work` once the service is ready. Returns `None` if the service ends before it is ready.
async fn work_when_ready<T>(
    mut config: Config,
    is_ready: oneshot::Receiver<BoundAddresses>,
    work: impl AsyncFnOnce(&TemporaryService) -> anyhow::Result<T>,
) -> Option<anyhow::Result<T>> {
    let bound = is_ready.await.ok()?;
    config.server.ops_listen = bound.ops;
    let secret_key = match create_key(&config, "demo").await {
        Ok(secret_key) => secret_key,
        Err(error) => return Some(Err(error)),
    };
    let service = TemporaryService {
        url: format!("http://{}", bound.api),
        ops_url: format!("http://{}", bound.ops),
        secret_key,
        folder: config.store.path.clone(),
        config,
    };
    Some(work(&service).await)
}

/// Creates a sandbox secret key of an organization through the running service.
async fn create_key(config: &Config, organization: &str) -> anyhow::Result<String> {
    let server = OpsClient::of(config)?.context("the service has no token for its operators")?;
    let request = CreateKeyRequest::new(organization, "sandbox", "secret");
    Ok(server.create_key(&request).await?.key)
}

/// The signals that end the work.
struct Signals([Signal; 3]);

impl Signals {
    /// Handles the signals from now on.
    fn install() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Waits for one of the signals.
    async fn received(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// A folder for its owner only, which is removed when this is dropped.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates a folder with a new name in the folder for temporary files.
    fn create() -> anyhow::Result<Self> {
        let mut suffix = [0_u8; 8];
        porchlight_world::fill_random(&mut suffix);
        let name = format!("porchlight-{:016x}", u64::from_be_bytes(suffix));
        let path = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("{} cannot be created", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The operating system cleans up a folder that cannot be removed.
        let _removed = std::fs::remove_dir_all(&self.0);
    }
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
            async |_| Ok(()),
        );
        let error = format!("{:#}", refused.unwrap_err());
        assert!(error.starts_with("the service did not start: "), "{error}");
        assert!(error.contains("Not a directory"), "{error}");
    }

    #[test]
    fn a_refused_configuration_leaves_no_folder() {
        use std::os::unix::fs::PermissionsExt;
        let mut folder = PathBuf::new();
        let refused = with_temporary_service(
            Logging::Off,
            |config| {
                folder = config.store.path.with_file_name("");
                let mode = std::fs::metadata(&folder)?.permissions().mode();
                assert_eq!(mode & 0o777, 0o700);
                std::fs::create_dir_all(&config.store.path)?;
                Err(anyhow!("refused"))
            },
            async |_| Ok(()),
        );
        assert_eq!(refused.unwrap_err().to_string(), "refused");
        assert!(folder.is_absolute() && !folder.exists());
    }
}
