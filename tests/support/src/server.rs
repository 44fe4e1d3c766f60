//! A server of a test's own: a process, its folder, and its client functions.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The timeout of a start. Generous, for a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns the binary under test.
pub fn binary() -> PathBuf {
    std::env::var_os("PORCHLIGHT_BIN").map_or_else(
        || crate::target::profile_folder().join("porchlight"),
        PathBuf::from,
    )
}

/// Returns a command of the binary that inherits nothing of this process's configuration.
pub fn porchlight() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PORCHLIGHT") {
            command.env_remove(name);
        }
    }
    command
}

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder that no other test uses.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("porchlight-it-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the store of this folder's server.
    pub fn store(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A running server. It is killed when this is dropped.
pub struct Server {
    child: Child,
    store: PathBuf,
    /// The server's log lines since it was ready.
    lines: Arc<Mutex<Vec<Value>>>,
    /// The public API, with its scheme.
    pub api: String,
    /// The operators' listener, with its scheme.
    pub ops: String,
}

impl Server {
    /// Starts a server on the folder's store, with these additional variables of its configuration.
    pub fn start(folder: &Folder, variables: &[(&str, &str)]) -> Self {
        let store = folder.store();
        let mut child = porchlight()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--ops-listen", "127.0.0.1:0", "--data"])
            .arg(&store)
            .current_dir(folder.path())
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        #[expect(clippy::disallowed_methods, reason = "the server writes few lines")]
        let (on_ready, ready) = mpsc::channel();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&lines);
        let output = BufReader::new(child.stdout.take().unwrap());
        // Reads the pipe to its end, because a full pipe would block the server.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                if line["message"] == "ready" {
                    drop(on_ready.send(line));
                    continue;
                }
                if line["level"] == "ERROR" {
                    eprintln!("{line}");
                }
                read.lock().unwrap().push(line);
            }
        });
        let line = ready.recv_timeout(START_TIMEOUT);
        let Ok(line) = line else {
            let status = child.try_wait();
            drop(child.kill());
            panic!("the server did not start: {status:?}");
        };
        let url = |name: &str| format!("http://{}", line[name].as_str().unwrap());
        Self {
            store,
            lines,
            api: url("api"),
            ops: url("ops"),
            child,
        }
    }

    /// Returns the line with this message about this session, once it is logged.
    pub fn logged(&self, message: &str, session_id: &str) -> Value {
        let is_wanted = |line: &&Value| line["message"] == message && line["session"] == session_id;
        let began = Instant::now();
        loop {
            if let Some(line) = self.lines.lock().unwrap().iter().find(is_wanted) {
                return line.clone();
            }
            assert!(began.elapsed() < START_TIMEOUT, "{message}: not logged");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Returns `HOST:PORT` of the public API.
    pub fn address(&self) -> &str {
        self.api.trim_start_matches("http://")
    }

    /// Creates a new key of the test's organization with the command line, while the server runs.
    pub fn key(&self, kind: &str) -> String {
        let made = porchlight()
            .args([
                "keys", "create", "--init", "--org", "it", "--env", "sandbox", "--kind", kind,
            ])
            .env("PORCHLIGHT__STORE__PATH", &self.store)
            .output()
            .unwrap();
        let text = successful(made);
        text.trim().to_owned()
    }

    /// Sends SIGKILL, as in a crash.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `-STOP`.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends SIGTERM, without waiting.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Waits until the process has ended, for at most `within`.
    pub fn ended(mut self, within: Duration) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < within, "still running after {within:?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn stop(self) {
        self.terminate();
        assert!(self.ended(Duration::from_secs(40)).success());
    }

    /// Returns the text of `/metrics`, or `None` if the server does not answer.
    pub async fn metrics(&self) -> Option<String> {
        let url = format!("{}/metrics", self.ops);
        http().get(url).send().await.ok()?.text().await.ok()
    }

    /// Returns the sum of a metric's series, or `None` if the server does not answer or has none.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let text = self.metrics().await?;
        let values = text.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            (labels.is_empty() || labels.starts_with('{')).then(|| value.parse::<f64>().ok())?
        });
        values.reduce(|sum, value| sum + value)
    }

    /// Returns the memory of the process, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    /// Returns the most memory that the process has had so far, in KiB.
    pub fn peak_memory_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    fn memory_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the output of a command, and asserts that it succeeded.
pub fn successful(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a test's requests.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

/// Returns a client that waits no longer than a phone would.
pub fn http() -> reqwest::Client {
    reqwest::Client::builder()
        .timeout(Duration::from_secs(20))
        .no_proxy()
        .build()
        .unwrap()
}
