//! Tests the commands that simulate phones and replay recordings.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use porchlight_sim::{Kind, ParameterSet, Scenario};
use serde_json::Value;

use crate::server::{Folder, Server, block_on, http, porchlight, successful};

/// Returns the answer to a request with a secret key.
fn get(server: &Server, key: &str, path: &str) -> Value {
    let url = format!("{}/v1/{path}", server.api);
    let text = block_on(async {
        let request = http().get(url).header("Service-Key", key);
        request.send().await.unwrap().text().await.unwrap()
    });
    serde_json::from_str(&text).unwrap()
}

/// The telemetry of a delivery that is sent faster than it happened still lasts as long.
#[test]
fn a_fast_simulation_keeps_the_length_of_the_delivery() {
    let scenario = Scenario::new(Kind::House, ParameterSet::Tuning, 7);
    let length_sec = scenario.deliver().end_t.round() as u64;
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let key = server.key("secret");
    let simulated = porchlight()
        .args(["simulate", "--deliveries", "1", "--seed", "7"])
        .args(["--kind", Kind::House.as_str(), "--speed", "200"])
        .args(["--url", &server.api, "--key", &key])
        .output();
    successful(simulated.unwrap());
    let sessions = get(&server, &key, "sessions");
    let id = sessions["data"][0]["sessionId"].as_str().unwrap();
    let insight = get(&server, &key, &format!("sessions/{id}/insights"));
    let total_sec = insight["summary"]["totalDurationSec"].as_u64().unwrap();
    assert!(
        total_sec.abs_diff(length_sec) <= 1,
        "{total_sec} of {length_sec}"
    );
    server.stop();
}

/// The folder of the replay's own service holds the secret key and the samples.
#[test]
fn an_interrupted_replay_leaves_no_folder() {
    let folder = Folder::new();
    let sample = r#"{"t": 1, "kind": "location", "lat": 52.5, "lng": 13.4, "accuracyM": 5}"#;
    let file = folder.path().join("one.ndjson");
    std::fs::write(&file, sample).unwrap();
    let temporary = folder.path().join("temporary");
    for signal in ["-INT", "-TERM", "-HUP"] {
        std::fs::create_dir_all(&temporary).unwrap();
        let mut replay = porchlight()
            .arg("replay")
            .args(std::iter::repeat_n(&file, 2_000))
            .env("TMPDIR", &temporary)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut printed = BufReader::new(replay.stdout.take().unwrap()).lines();
        assert!(printed.next().unwrap().unwrap().starts_with('{'));
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
        let killed = std::process::Command::new("kill")
            .args([signal, &replay.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        let rest = printed.map_while(Result::ok).count();
        assert!(rest < 1_999, "{rest}");
        assert_eq!(replay.wait().unwrap().code(), Some(1), "{signal}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    }
}
