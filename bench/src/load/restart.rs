//! Recovery after a kill: the time until the service is ready again with many live sessions.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::live::{self, Live, LiveResult};
use super::process;
use super::server::Server;

/// The parameters of a restart run.
#[derive(Debug, Clone)]
pub struct Restart {
    /// The service's binary, a release build.
    pub server: PathBuf,
    /// The number of live sessions, each with one batch.
    pub sessions: u32,
    /// The number of connections shared by the sessions.
    pub connections: u32,
    /// The number of kills.
    pub kills: u32,
}

/// The result of a restart run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartResult {
    /// The number of live sessions.
    pub sessions: u32,
    /// The time from each restart until the service was ready, in seconds.
    pub ready_sec: Vec<f64>,
    /// The resident memory at that moment in bytes.
    pub resident_bytes: Vec<u64>,
    /// The run before the first kill.
    pub live: LiveResult,
}

impl RestartResult {
    /// Formats the result as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{}; killed: ready again after {:?} s",
            self.live.text(),
            self.ready_sec
        )
    }
}

/// Starts the sessions, then kills and restarts the service.
///
/// # Errors
///
/// Returns an error if the service or a session fails to start.
pub async fn run(run: &Restart) -> anyhow::Result<RestartResult> {
    let mut server = Server::service(&run.server).await?;
    let load = Live {
        sessions: run.sessions,
        rounds: 1,
        period: Duration::from_secs(u64::from(run.sessions / 5_000).max(1)),
        connections: run.connections,
        mix: crate::body::Mix::Walk,
    };
    let live = live::run(&server.target, server.pid(), load).await?;
    let (mut ready_sec, mut resident_bytes) = (Vec::new(), Vec::new());
    for _ in 0..run.kills {
        let took = server.kill_and_start().await?;
        ready_sec.push((took.as_secs_f64() * 100.0).round() / 100.0);
        resident_bytes.push(process::resident_bytes(server.pid())?);
    }
    Ok(RestartResult {
        sessions: live.sessions,
        ready_sec,
        resident_bytes,
        live,
    })
}
