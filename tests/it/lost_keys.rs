//! Tests that the real binary refuses to start on a store whose secret key is lost or replaced, and
//! names the remedy.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::cql_process::{borrowed, variables};
use crate::server::{Folder, Server, block_on, porchlight, successful};

/// A start that is refused must end by itself.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server that must refuse to run, and returns its output.
fn refused(store: &Path, variables: &[(&str, &str)]) -> String {
    let mut child = porchlight()
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(["--ops-listen", "127.0.0.1:0", "--data"])
        .arg(store)
        .envs(variables.iter().copied())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > REFUSAL_TIMEOUT {
            drop(child.kill());
            panic!("the server starts with the wrong key");
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let output: Output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

fn key_file(folder: &Folder, name: &str, byte: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, byte.repeat(32)).unwrap();
    path.to_str().unwrap().to_owned()
}

const KEY_FILES: &str = "PORCHLIGHT__SECRETS__KEY_FILES";

#[test]
fn a_store_whose_secret_key_is_missing_or_replaced_does_not_start() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    block_on(caller.start("kept"));
    server.stop();
    let file = folder.store().join("secret.key");
    let kept = fs::read(&file).unwrap();

    fs::remove_file(&file).unwrap();
    let stderr = refused(&folder.store(), &[]);
    for words in ["secret.key is missing", "backup", "secrets.key_files"] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    assert!(!file.exists(), "the refused start creates no key");
    let rewrap = porchlight()
        .args(["secrets", "rewrap"])
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output()
        .unwrap();
    assert!(!rewrap.status.success() && !file.exists());

    fs::write(&file, "ab".repeat(32)).unwrap();
    let stderr = refused(&folder.store(), &[]);
    assert!(stderr.contains("depends on secret key"), "{stderr}");
    let other = key_file(&folder, "other.key", "cd");
    let stderr = refused(&folder.store(), &[(KEY_FILES, &other)]);
    assert!(stderr.contains("depends on secret key"), "{stderr}");
    assert!(!stderr.contains("cdcd"), "a key is printed");

    fs::write(&file, kept).unwrap();
    Server::start(&folder, &[]).stop();
}

#[test]
fn keys_rotate_through_key_files() {
    let folder = Folder::new();
    let (old, new) = (
        key_file(&folder, "old.key", "0d"),
        key_file(&folder, "new.key", "4e"),
    );
    Server::start(&folder, &[(KEY_FILES, &old)]).stop();
    let both = format!("{new},{old}");
    Server::start(&folder, &[(KEY_FILES, &both)]).stop();
    let stderr = refused(&folder.store(), &[(KEY_FILES, &old)]);
    assert!(stderr.contains("depends on secret key"), "{stderr}");
    Server::start(&folder, &[(KEY_FILES, &new)]).stop();
}

#[test]
fn a_backup_has_no_key_that_the_configuration_no_longer_names() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let caller = Caller::new(&server);
    let id = block_on(caller.start("kept"));
    server.stop();
    let unused = folder.store().join("secret.key");
    let new = key_file(&folder, "new.key", "4e");
    let both = format!("{new},{}", unused.display());
    Server::start(&folder, &[(KEY_FILES, &both)]).stop();
    let server = Server::start(&folder, &[(KEY_FILES, &new)]);
    assert!(unused.exists());

    let command = |name: &str| {
        let mut command = porchlight();
        command.arg(name).env(KEY_FILES, &new);
        command
    };
    let copy = folder.path().join("copy");
    let backup = command("backup")
        .arg(&copy)
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    successful(backup.unwrap());
    server.stop();
    assert!(copy.join("acknowledged").exists() && !copy.join("secret.key").exists());

    let target = Folder::new();
    let restore = command("restore")
        .arg(&copy)
        .arg("--data")
        .arg(target.store())
        .output();
    successful(restore.unwrap());
    let server = Server::start(&target, &[(KEY_FILES, &new)]);
    let caller = Caller::with_key(&server, caller.key());
    let session = block_on(caller.get(&format!("/v1/sessions/{id}")));
    assert_eq!(session.status, 200, "{}", session.body);
    server.stop();
}

#[test]
fn keys_created_before_the_first_start_do_not_prevent_it() {
    let folder = Folder::new();
    for _ in 0..2 {
        let made = porchlight()
            .args([
                "keys", "create", "--init", "--org", "it", "--env", "sandbox",
            ])
            .args(["--kind", "secret"])
            .env("PORCHLIGHT__STORE__PATH", folder.store())
            .output()
            .unwrap();
        assert!(successful(made).starts_with("sk_sandbox_"));
    }
    Server::start(&folder, &[]).stop();
    Server::start(&folder, &[]).stop();
}

#[test]
fn a_keyspace_of_another_key_is_refused_and_its_server_continues() {
    let folder = Folder::new();
    let Some(mut variables) = variables(folder.path()) else {
        return;
    };
    let server = Server::start(&folder, &borrowed(&variables));
    let caller = Caller::new(&server);
    let other = key_file(&folder, "other.key", "cd");
    for (name, value) in &mut variables {
        if *name == KEY_FILES {
            value.clone_from(&other);
        }
    }
    let second = Folder::new();
    let stderr = refused(&second.store(), &borrowed(&variables));
    assert!(stderr.contains("depends on secret key"), "{stderr}");
    block_on(caller.start("still served"));
    server.stop();
}
