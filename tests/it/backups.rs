//! Backups as operators make and restore them, with the real binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;

use crate::caller::Caller;
use crate::server::{Folder, Server, block_on, porchlight, successful};

const METRIC: &str = "porchlight_store_last_backup_timestamp_seconds";

/// Returns the time of the last successful backup in Unix seconds, from the server's metrics.
fn last_backup(server: &Server) -> f64 {
    block_on(server.metric(METRIC)).unwrap()
}

fn backup(server: &Folder, to: &Path) -> Output {
    porchlight()
        .arg("backup")
        .arg(to)
        .env("PORCHLIGHT__STORE__PATH", server.store())
        .output()
        .unwrap()
}

fn restore(from: &Path, to: &Path) -> Output {
    porchlight()
        .arg("restore")
        .arg(from)
        .arg("--data")
        .arg(to)
        .output()
        .unwrap()
}

/// Returns the output of a command that failed.
fn failed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn table_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(table_files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_backup_is_verified_restored_and_remembered() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    let id = block_on(caller.start("kept"));
    assert!(last_backup(&server) < 1.0, "no backup was made before");
    let copy = folder.path().join("copy");
    successful(backup(&folder, &copy));
    let at = last_backup(&server);
    assert!(at > 1.7e9, "{at}");
    let nowhere = Path::new("/proc/no-backup");
    let stderr = failed(backup(&folder, nowhere));
    assert!(stderr.contains("/proc/no-backup"), "{stderr}");
    server.stop();
    let server = Server::start(&folder, &[]);
    assert!(
        (last_backup(&server) - at).abs() < 1.0,
        "the time of the backup is known after a restart"
    );
    server.stop();

    // A restore does not replace an existing store.
    let stderr = failed(restore(&copy, &folder.store()));
    assert!(stderr.contains("is not empty"), "{stderr}");

    // A copy without its file of acknowledged groups, or with another key, is not a valid backup.
    let target = Folder::new();
    let acknowledged = copy.join("acknowledged");
    let bytes = fs::read(&acknowledged).unwrap();
    fs::remove_file(&acknowledged).unwrap();
    failed(restore(&copy, &target.store()));
    fs::write(&acknowledged, bytes).unwrap();
    let key = fs::read(copy.join("secret.key")).unwrap();
    fs::write(copy.join("secret.key"), "ab".repeat(32)).unwrap();
    let stderr = failed(restore(&copy, &target.store()));
    assert!(stderr.contains("depends on secret key"), "{stderr}");
    fs::write(copy.join("secret.key"), key).unwrap();
    let left: Vec<_> = fs::read_dir(target.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    // A restore accepts an empty folder as its target.
    fs::create_dir(target.store()).unwrap();
    let stdout = successful(restore(&copy, &target.store()));
    assert!(stdout.contains("rows verified"), "{stdout}");
    let server = Server::start(&target, &[]);
    let caller = Caller::with_key(&server, caller.key());
    let session = block_on(caller.get(&format!("/v1/sessions/{id}")));
    assert_eq!(session.status, 200, "{}", session.body);
    server.stop();
}

#[test]
fn a_restored_backup_loses_sessions_that_were_erased_later() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[("PORCHLIGHT__PRIVACY__DELAY", "0s")]);
    let caller = Caller::new(&server);
    let (erased, kept) =
        block_on(async { (caller.start("erased").await, caller.start("kept").await) });
    let copy = folder.path().join("copy");
    successful(backup(&folder, &copy));
    block_on(async {
        let body =
            json!({"requestId": "later", "type": "erasure", "subject": {"sessionId": erased}});
        let submitted = caller.post("/v1/privacy/requests", &body).await;
        assert_eq!(submitted.status, 202, "{}", submitted.body);
        for _ in 0..600 {
            let answer = caller.get("/v1/privacy/requests/later").await;
            if answer.body["status"] == "completed" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the erasure does not complete");
    });
    server.stop();
    let target = Folder::new();
    let listed = porchlight()
        .args(["erasures", "list"])
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    let log = folder.path().join("erasures");
    std::fs::write(&log, successful(listed.unwrap())).unwrap();
    for (data, erasures) in [
        (target.store(), folder.store()),
        (target.path().join("other"), log),
    ] {
        let output = porchlight()
            .args(["restore", copy.to_str().unwrap(), "--data"])
            .arg(data)
            .arg("--erasures")
            .arg(erasures)
            .output()
            .unwrap();
        let printed = successful(output);
        assert!(
            printed.contains("1 later erasure applied, 1 session erased"),
            "{printed}"
        );
    }
    let server = Server::start(&target, &[]);
    let caller = Caller::with_key(&server, caller.key());
    for (id, status) in [(erased, 404), (kept, 200)] {
        let session = block_on(caller.get(&format!("/v1/sessions/{id}")));
        assert_eq!(session.status, status, "{}", session.body);
    }
    server.stop();
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    block_on(async {
        let id = caller.start("kept").await;
        for seq in 0..50 {
            assert_eq!(caller.batch(&id, seq).await.status, 202);
        }
    });
    let copy = folder.path().join("copy");
    successful(backup(&folder, &copy));
    server.stop();
    let target = Folder::new();
    let largest = table_files(&copy.join("engine"))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "jnl"))
        .max_by_key(|file| fs::metadata(file).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 1;
    fs::write(&largest, bytes).unwrap();
    failed(restore(&copy, &target.store()));
    assert!(!target.store().exists());
}

/// Returns the value of a setting of a systemd unit.
fn setting(unit: &str, name: &str) -> String {
    let mut lines = unit.lines();
    let line = lines.find_map(|line| line.strip_prefix(&format!("{name}=")));
    line.unwrap_or_else(|| panic!("{name} in {unit}"))
        .to_owned()
}

#[test]
fn the_nightly_backup_lies_where_the_unit_may_write() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let unit = |name: &str| fs::read_to_string(root.join("deploy").join(name)).unwrap();
    let state = format!(
        "/var/lib/{}/",
        setting(&unit("porchlight.service"), "StateDirectory")
    );
    let command = setting(&unit("porchlight-backup.service"), "ExecStart");
    assert!(command.contains(&format!("{state}backup/")), "{command}");
    let path = setting(&unit("porchlight-backup.service"), "Environment");
    assert!(path.ends_with(&format!("={state}data")), "{path}");
    let served = setting(&unit("porchlight.service"), "ExecStart");
    assert!(served.ends_with(&format!("--data {state}data")), "{served}");
    let manual = fs::read_to_string(root.join("docs/operating.md")).unwrap();
    assert!(manual.contains(&format!("restore {state}backup/")));

    // The binaries that the units start are not installed here: those complaints are left out.
    let units = [
        "porchlight.service",
        "porchlight-backup.service",
        "porchlight-backup.timer",
    ];
    let files = units.map(|name| root.join("deploy").join(name));
    let Ok(verified) = Command::new("systemd-analyze")
        .arg("verify")
        .args(files)
        .output()
    else {
        return;
    };
    let stderr = String::from_utf8_lossy(&verified.stderr);
    let ours = stderr.lines().filter(|line| line.contains("porchlight"));
    let wrong: Vec<_> = ours
        .filter(|line| !line.contains("is not executable"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The threads for large bodies lower their priority. A filter of system calls that does not permit
/// it, and kills the process, would end the service at the first large body.
#[test]
fn the_unit_permits_the_system_calls_of_the_service() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/porchlight.service");
    let unit = fs::read_to_string(unit).unwrap();
    let filters = unit
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let mut filters = filters.skip_while(|filter| !filter.starts_with('~'));
    assert!(filters.next().unwrap().contains("@resources"));
    let permitted: Vec<&str> = filters.flat_map(str::split_whitespace).collect();
    for call in ["sched_setscheduler", "setpriority"] {
        assert!(permitted.contains(&call), "{call}: {permitted:?}");
    }
    assert_eq!(setting(&unit, "SystemCallErrorNumber"), "EPERM");
}
