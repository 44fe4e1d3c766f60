//! Tests the commands of contract section 8, as a person at a terminal runs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use serde_json::{Value, json};

use crate::phone::{Client, delivery};
use crate::server::{Folder, Server, block_on, porchlight, successful};

fn client(server: &Server, key: &str) -> Client {
    Client::new(&Arc::new(RwLock::new(server.api.clone())), key)
}

/// Runs a failing command, and returns its exit code and its standard error.
fn refused(arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = porchlight()
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), stderr)
}

#[test]
fn a_configuration_with_a_missing_file_is_refused() {
    for (variable, key) in [
        (
            "PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE",
            "webhook.extra_ca_file",
        ),
        ("PORCHLIGHT__SECRETS__KEY_FILES", "secrets.key_files"),
        ("PORCHLIGHT__CLUSTER__SECRET_FILE", "cluster.secret_file"),
    ] {
        let (code, stderr) = refused(&["check-config"], &[(variable, "/nowhere/file")]);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.contains(key) && stderr.contains("/nowhere/file"),
            "{stderr}"
        );
    }
    let folder = Folder::new();
    let [good, short] = ["good", "short"].map(|name| folder.path().join(name));
    std::fs::write(&good, "5e".repeat(32)).unwrap();
    std::fs::write(&short, "5e".repeat(15)).unwrap();
    let (secret, accepted) = (
        "PORCHLIGHT__CLUSTER__SECRET_FILE",
        "PORCHLIGHT__CLUSTER__ACCEPTED_SECRET_FILES",
    );
    for (variables, key) in [
        (vec![(secret, &short)], "cluster.secret_file"),
        (
            vec![(secret, &good), (accepted, &short)],
            "cluster.accepted_secret_files",
        ),
    ] {
        let variables = variables
            .iter()
            .map(|(name, file)| (*name, file.to_str().unwrap()));
        let variables: Vec<_> = variables.collect();
        let (code, stderr) = refused(&["check-config"], &variables);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains(key) && stderr.contains("short"), "{stderr}");
    }
    let (code, stderr) = refused(&["check-config"], &[("PORCHLIGHT__LOG__FILTER", "=!")]);
    assert!(code == Some(1) && stderr.contains("log.filter"), "{stderr}");
}

#[test]
fn a_node_of_a_cluster_without_a_public_url_is_refused() {
    for arguments in [&["check-config"][..], &["serve"]] {
        let (code, message) = refused(
            arguments,
            &[
                ("PORCHLIGHT__STORE__KIND", "cql"),
                ("PORCHLIGHT__SECRETS__KEY_FILES", "/nowhere/file"),
                ("PORCHLIGHT__CLUSTER__ADVERTISE", "node-1.internal:7400"),
                ("PORCHLIGHT__CLUSTER__SECRET_FILE", "/nowhere/file"),
            ],
        );
        assert_eq!(code, Some(1), "{message}");
        assert!(
            message.contains("server.public_url: must be set with cluster.advertise"),
            "{message}"
        );
    }
}

#[test]
fn a_fault_is_reported_once() {
    for (variable, value, printed_once) in [
        (
            "PORCHLIGHT__SERVER__LISSTEN",
            "1",
            "server.lissten: is unknown",
        ),
        (
            "PORCHLIGHT__SESSION__IDLE_TIMEOUT",
            "soon",
            "for key `session.idle_timeout`",
        ),
    ] {
        let (code, stderr) = refused(&["check-config"], &[(variable, value)]);
        assert_eq!(code, Some(1), "{stderr}");
        assert_eq!(stderr.matches(printed_once).count(), 1, "{stderr}");
    }
}

#[test]
fn read_commands_do_not_create_a_store() {
    let folder = Folder::new();
    let nowhere = folder.path().join("nowhere");
    let copy = folder.path().join("copy");
    for arguments in [
        &["keys", "list"][..],
        &["keys", "revoke", "key_1"],
        &["secrets", "rewrap"],
        &["backup", copy.to_str().unwrap()],
    ] {
        let path = nowhere.to_str().unwrap();
        let (code, stderr) = refused(arguments, &[("PORCHLIGHT__STORE__PATH", path)]);
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(
            stderr.contains("contains no store") && stderr.contains(path),
            "{arguments:?}: {stderr}"
        );
        assert!(!nowhere.exists() && !copy.exists(), "{arguments:?}");
    }
}

#[test]
fn a_page_names_every_command() {
    let help = successful(porchlight().arg("--help").output().unwrap());
    let (_, listed) = help.split_once("Commands:\n").unwrap();
    let commands: Vec<_> = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.contains(&"serve"), "{commands:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    let mut pages: Vec<_> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    let text: String = pages
        .iter()
        .map(|page| std::fs::read_to_string(page).unwrap())
        .collect();
    for command in commands {
        assert!(
            text.contains(&format!("porchlight {command}")),
            "no page names `porchlight {command}`: describe it in docs or in README.md"
        );
    }
}

#[test]
fn an_unusable_map_is_refused_before_the_store_is_opened() {
    let folder = Folder::new();
    let map = folder.path().join("city.pmtiles");
    let data = folder.path().join("data");
    let variables = [
        ("PORCHLIGHT__MAP__FILE", map.to_str().unwrap()),
        ("PORCHLIGHT__STORE__PATH", data.to_str().unwrap()),
    ];
    for command in ["check-config", "serve"] {
        let (code, stderr) = refused(&[command], &variables);
        assert_eq!(code, Some(1), "{command}");
        assert!(
            stderr.contains("map.file") && stderr.contains("cannot be read"),
            "{stderr}"
        );
        std::fs::write(&map, "a map of the city").unwrap();
        let (_, stderr) = refused(&[command], &variables);
        assert!(
            stderr.contains("is not a PMTiles file of version 3"),
            "{stderr}"
        );
        std::fs::remove_file(&map).unwrap();
    }
    assert!(!data.exists(), "no store was created");
    let town = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/map/town.pmtiles");
    let checked = porchlight()
        .arg("check-config")
        .env("PORCHLIGHT__MAP__FILE", town)
        .output();
    successful(checked.unwrap());
}

#[test]
fn a_healthcheck_reports_readiness() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let address = server.ops.trim_start_matches("http://").to_owned();
    let check = || {
        porchlight()
            .arg("healthcheck")
            .env("PORCHLIGHT__SERVER__OPS_LISTEN", &address)
            .output()
            .unwrap()
    };
    successful(check());
    server.kill();
    assert_eq!(check().status.code(), Some(1));
}

#[test]
fn keys_are_managed_with_and_without_a_running_server() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let keys = |arguments: &[&str]| {
        let output = porchlight()
            .arg("keys")
            .args(arguments)
            .env("PORCHLIGHT__STORE__PATH", folder.store())
            .output()
            .unwrap();
        successful(output)
    };
    let create = [
        "create", "--org", "Parcels", "--env", "live", "--kind", "secret", "--json",
    ];
    let made: Value = serde_json::from_str(&keys(&create)).unwrap();
    assert_eq!(
        (&made["env"], &made["kind"]),
        (&json!("live"), &json!("secret"))
    );
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert!(key.starts_with(concat!("sk_", "live_")));
    let list = client(&server, key);
    let status = || block_on(list.request("/v1/sessions", None, None)).0;
    assert_eq!(status(), 200, "a new key is valid immediately");
    let listed = keys(&["list"]);
    assert!(
        listed.contains(id) && !listed.contains(key),
        "a key is shown once:\n{listed}"
    );
    keys(&["revoke", id]);
    // The revocation takes effect within 30 s on every node.
    let mut last = status();
    for _ in 0..450 {
        if last == 401 {
            break;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        last = status();
    }
    assert_eq!(last, 401, "a revoked key is refused");

    let other: Value = serde_json::from_str(&keys(&create)).unwrap();
    assert_eq!(
        other["organizationId"], made["organizationId"],
        "a name belongs to one organization"
    );
    server.stop();
    let stopped_server_key = keys(&[
        "create", "--org", "Parcels", "--env", "sandbox", "--kind", "client",
    ]);
    let server = Server::start(&folder, &[]);
    let answer =
        block_on(client(&server, stopped_server_key.trim()).request("/v1/sessions", None, None));
    assert_eq!(answer.0, 403, "a valid client key may not list sessions");
    server.stop();
}

#[test]
fn a_backup_of_a_running_server_is_a_valid_store() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let key = server.key("secret");
    let (before, during) = block_on(async {
        let client = client(&server, &key);
        let before = client.send(1, std::time::Duration::ZERO).await;
        (client.insight(&before.session_id).await, before.session_id)
    });
    let copy = Folder::new();
    let taken = porchlight()
        .arg("backup")
        .arg(copy.store())
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output()
        .unwrap();
    successful(taken);
    let again = porchlight()
        .arg("backup")
        .arg(copy.store())
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output()
        .unwrap();
    assert_eq!(
        again.status.code(),
        Some(1),
        "a backup never overwrites a copy"
    );
    block_on(client(&server, &key).send(2, std::time::Duration::ZERO));
    server.stop();

    let server = Server::start(&copy, &[]);
    let insight = block_on(client(&server, &key).insight(&during));
    assert_eq!(insight.to_string(), before.to_string());
    let listed = block_on(client(&server, &key).request("/v1/sessions", None, None)).1;
    assert_eq!(
        listed["data"].as_array().unwrap().len(),
        1,
        "the backup lacks later data"
    );
    server.stop();
}

#[test]
fn the_demo_shows_its_deliveries_and_ends() {
    let shown = successful(porchlight().args(["demo", "--once"]).output().unwrap());
    let kinds: BTreeSet<&str> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("── "))
        .filter_map(|line| line.split(" ── ").next())
        .collect();
    for kind in [
        "house",
        "elevator",
        "stairs",
        "lobby-hand-off",
        "never-came",
        "wrong-address",
    ] {
        assert!(kinds.contains(kind), "{kind} in {kinds:?}");
    }
    for word in [
        "FULL_ATTEMPT",
        "NO_ATTEMPT",
        "ELEVATOR",
        "STAIRS",
        "DRIVING",
        "WALKING",
    ] {
        assert!(shown.contains(word), "{word} in:\n{shown}");
    }
    let hooks: Vec<_> = shown
        .lines()
        .filter(|line| line.contains("⇐ webhook of"))
        .collect();
    // Three of each of eight deliveries, and of the ninth three plus the failed one.
    assert_eq!(hooks.len(), 28, "{hooks:#?}");
    assert!(hooks.iter().all(|line| line.contains("signature valid")));
    assert!(shown.ends_with(
        "9 deliveries. 28 webhooks received, 28 with a valid signature; 1 refused by the receiver and retried.\n"
    ));
    let failed = shown.find("answered 503").unwrap();
    let waits = shown.find("is retrying: cause status, status 503").unwrap();
    let again = shown.find("attempt 2").unwrap();
    assert!(failed < waits && waits < again, "{shown}");
}

/// Writes one simulated delivery as a recording, with one sample per line.
fn recording(folder: &Path, number: u64) -> PathBuf {
    let delivery = delivery(number);
    let lines = delivery.samples.iter();
    let text: Vec<_> = lines
        .map(|sample| serde_json::to_string(sample).unwrap())
        .collect();
    let file = folder.join(format!("delivery-{number}.ndjson"));
    std::fs::write(&file, text.join("\n")).unwrap();
    file
}

#[test]
fn recordings_are_replayed_with_one_insight_per_line() {
    let folder = Folder::new();
    let (one, two) = (recording(folder.path(), 0), recording(folder.path(), 1));
    let printed = successful(
        porchlight()
            .arg("replay")
            .args([&one, &two])
            .output()
            .unwrap(),
    );
    let insights: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(insights.len(), 2);
    for insight in &insights {
        assert_eq!(insight["status"], "ready");
        assert!(!insight["events"].as_array().unwrap().is_empty());
    }
    let missing = porchlight()
        .arg("replay")
        .args([&one, &folder.path().join("nothing.ndjson")])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(
        missing.stdout.iter().filter(|&&byte| byte == b'\n').count(),
        1,
        "the valid recordings are replayed"
    );
}

/// Returns the seed that a run of `simulate` prints on standard error.
fn simulated_seed(arguments: &[&str]) -> u64 {
    let output = porchlight()
        .args(["simulate", "--deliveries", "0"])
        .args(arguments)
        .env("PORCHLIGHT_KEY", "none is asked for")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    successful(output);
    error
        .trim()
        .strip_prefix("--seed ")
        .unwrap()
        .parse()
        .unwrap()
}

/// Without a random seed, the second run's deliveries would be copies of the first run's, and look
/// like fraud.
#[test]
fn simulated_deliveries_vary_without_a_seed() {
    assert_ne!(simulated_seed(&[]), simulated_seed(&[]));
    assert_eq!(simulated_seed(&["--seed", "7"]), 7);
}

/// Recordings of real phones, if this machine has them: `PORCHLIGHT_RECORDINGS` names the folder.
#[test]
fn a_real_recording_is_replayed() {
    let Some(folder) = std::env::var_os("PORCHLIGHT_RECORDINGS").map(PathBuf::from) else {
        println!("PORCHLIGHT_RECORDINGS is not set: left out");
        return;
    };
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let file = entries
        .filter(|path| path.to_string_lossy().ends_with(".ndjson.gz"))
        .min()
        .unwrap();
    let printed = successful(porchlight().arg("replay").arg(file).output().unwrap());
    let insight: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(insight["status"], "ready");
}
