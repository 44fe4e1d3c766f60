//! How long a service that was killed takes until it is ready again, with many sessions that live.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::live::{self, Live};
use super::process;
use super::server::Server;

/// How much.
#[derive(Debug, Clone)]
pub struct Restart {
    /// The service's binary, a release build.
    pub server: PathBuf,
    /// Sessions that live, each with one batch.
    pub sessions: u32,
    /// Connections that they share.
    pub connections: u32,
    /// How often it is killed.
    pub kills: u32,
}

/// What it came to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartResult {
    /// Sessions that lived.
    pub sessions: u32,
    /// From each new start until it was ready, seconds.
    pub ready_sec: Vec<f64>,
    /// Resident memory then, bytes.
    pub resident_bytes: Vec<u64>,
}

impl RestartResult {
    /// The same in a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{} live sessions, killed: ready again after {:?} s",
            self.sessions, self.ready_sec
        )
    }
}

/// Runs it.
///
/// # Errors
///
/// Where the service does not come up, or a session is not started.
pub async fn run(run: &Restart) -> anyhow::Result<RestartResult> {
    let mut server = Server::service(&run.server).await?;
    let load = Live {
        sessions: run.sessions,
        rounds: 1,
        period: Duration::from_secs(u64::from(run.sessions / 5_000).max(1)),
        connections: run.connections,
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
    })
}
