//! The servers under load, each in its own process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::http::Connection;
use super::target::Target;

/// The startup timeout of a server, generous enough for a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(240);

/// A server process and its working directory; dropping the handle kills the process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The server's address and the key for it.
    pub target: Target,
    service: Option<Service>,
}

/// The launch parameters of a service.
#[derive(Debug)]
struct Service {
    binary: PathBuf,
    folder: PathBuf,
    ops_address: SocketAddr,
    variables: Vec<(String, String)>,
}

impl Service {
    fn config_path(&self) -> PathBuf {
        self.folder.join("porchlight.toml")
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let log = std::fs::File::create(self.folder.join("log"))?;
        Command::new(&self.binary)
            .arg("serve")
            .arg("--config")
            .arg(self.config_path())
            .envs(self.variables.iter().cloned())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{} does not start", self.binary.display()))
    }

    async fn until_ready(&self, child: &mut Child) -> anyhow::Result<()> {
        let ready = wait_for(child, self.ops_address, "/readyz", 200).await;
        ready.with_context(|| std::fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }
}

impl Server {
    /// Returns the process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts the floor.
    ///
    /// # Errors
    ///
    /// Returns an error if the floor exits or does not start within four minutes.
    pub async fn floor(binary: &Path) -> anyhow::Result<Self> {
        let address = free_address()?;
        let child = Command::new(binary)
            .args(["--port", &address.port().to_string()])
            .spawn()
            .with_context(|| format!("{} does not start; build it first", binary.display()))?;
        let mut server = Self {
            child,
            target: Target { address, key: None },
            service: None,
        };
        wait_for(&mut server.child, address, "/", 202).await?;
        Ok(server)
    }

    /// Starts the service on an embedded store in a new directory, with a secret key. The key's
    /// rate limit is counted and checked as usual, but too high for the load to reach, and the
    /// shares of live sessions and of session starts are unlimited.
    ///
    /// # Errors
    ///
    /// Returns an error if the service exits or does not start within four minutes.
    pub async fn service(binary: &Path) -> anyhow::Result<Self> {
        Self::service_with(binary, &[]).await
    }

    /// Starts the service as [`Server::service`] does, with additional configuration variables such
    /// as `PORCHLIGHT__STORE__KIND`.
    ///
    /// # Errors
    ///
    /// Returns an error if the service exits or does not start within four minutes.
    pub async fn service_with(
        binary: &Path,
        variables: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let (address, ops_address) = (free_address()?, free_address()?);
        let folder = std::env::temp_dir().join(format!(
            "porchlight-load-{}-{}",
            std::process::id(),
            address.port()
        ));
        std::fs::create_dir_all(&folder)?;
        let service = Service {
            binary: binary.to_path_buf(),
            folder,
            ops_address,
            variables: variables.to_vec(),
        };
        let config = format!(
            "[server]\nlisten = \"{address}\"\nops_listen = \"{ops_address}\"\nrate_limit_per_second = 10000000\n[limits]\ntenant_session_starts_per_second = 0\ntenant_live_sessions = 0\n[store]\npath = {:?}\n",
            service.folder.join("data"),
        );
        std::fs::write(service.config_path(), config)?;
        let mut server = Self {
            child: service.spawn()?,
            target: Target { address, key: None },
            service: Some(service),
        };
        if let Some(service) = &server.service {
            service.until_ready(&mut server.child).await?;
            server.target.key = Some(create_key(binary, &service.config_path(), "load")?);
        }
        Ok(server)
    }

    /// Returns the same service as a target for another organization with its own secret key.
    ///
    /// # Errors
    ///
    /// Returns an error if this server is not a service or the key cannot be created.
    pub fn another_tenant(&self) -> anyhow::Result<Target> {
        let service = self.service.as_ref().context("not a service of ours")?;
        let key = create_key(&service.binary, &service.config_path(), "neighbour")?;
        Ok(Target {
            address: self.target.address,
            key: Some(key),
        })
    }

    /// Kills the service immediately, as `kill -9` does, and restarts it on the same store. Returns
    /// the time from the restart until it is ready.
    ///
    /// # Errors
    ///
    /// Returns an error if the service exits or does not start within four minutes, or if this
    /// server is not a service.
    pub async fn kill_and_start(&mut self) -> anyhow::Result<Duration> {
        let service = self.service.as_ref().context("it is no service")?;
        self.child.kill()?;
        self.child.wait()?;
        let began = Instant::now();
        self.child = service.spawn()?;
        service.until_ready(&mut self.child).await?;
        Ok(began.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(service) = &self.service {
            let _ = std::fs::remove_dir_all(&service.folder);
        }
    }
}

fn create_key(binary: &Path, config_path: &Path, organization: &str) -> anyhow::Result<String> {
    let output = Command::new(binary)
        .args([
            "keys", "create", "--init", "--env", "sandbox", "--kind", "secret", "--org",
        ])
        .arg(organization)
        .arg("--config")
        .arg(config_path)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "keys create failed");
    let key = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(!key.is_empty(), "keys create printed no key");
    Ok(key)
}

/// Returns a loopback address that is currently unused.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Waits until a server answers with a status.
///
/// # Errors
///
/// Returns an error if the process exits, or if nothing answers for four minutes.
async fn wait_for(
    child: &mut Child,
    address: SocketAddr,
    path: &str,
    status: u16,
) -> anyhow::Result<()> {
    let until = Instant::now() + START_TIMEOUT;
    loop {
        let answer = Connection::new(address).request("GET", path, "", b"").await;
        if answer.is_ok_and(|answer| answer.status == status) {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("the server exited: {status}");
        }
        ensure!(
            Instant::now() < until,
            "nothing answers {status} at {address}{path}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
