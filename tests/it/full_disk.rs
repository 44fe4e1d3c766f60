//! Fills the disk under the real server: new data is refused before the disk is full, reads
//! continue, a server that starts on a full disk serves reads too, and everything works again once
//! space is freed.
//!
//! The disk is a small tmpfs. Mounting it needs rights that not every machine gives to tests:
//! `PORCHLIGHT_TMPFS=required` fails without them, and otherwise the test prints that it was
//! skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Folder, Server, block_on, http};

/// The size of the disk in MiB. A quarter of it is the reserve, and a quarter of the reserve is the
/// space below which the store writes nothing.
const DISK_MIB: u64 = 96;

/// A mounted file system of its own, at the place of a folder's store.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(folder: &Folder) -> Option<Self> {
        let place = folder.store();
        std::fs::create_dir_all(&place).unwrap();
        let size = format!("size={DISK_MIB}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&place)
            .output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        let is_required = std::env::var("PORCHLIGHT_TMPFS").is_ok_and(|value| value == "required");
        assert!(is_mounted || !is_required, "a tmpfs cannot be mounted");
        is_mounted.then_some(Self(place))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Fills the disk until this much is free.
    fn fill_until(&self, free_mib: u64) {
        drop(std::fs::remove_file(self.filler()));
        let disk = Command::new("df")
            .args(["-B1", "--output=avail"])
            .arg(&self.0)
            .output()
            .unwrap();
        let text = String::from_utf8(disk.stdout).unwrap();
        let free: u64 = text.lines().last().unwrap().trim().parse().unwrap();
        let bytes = free.saturating_sub(free_mib << 20);
        write(&self.filler(), bytes);
    }
}

/// Writes a file of this many bytes, or as many of them as the disk takes.
fn write(path: &Path, bytes: u64) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let page = vec![0x5a_u8; 4096];
    for _ in 0..bytes / 4096 {
        if file.write_all(&page).is_err() {
            break;
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

struct Caller {
    api: String,
    ops: String,
    key: String,
}

impl Caller {
    async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let mut request = http()
            .request(method, format!("{}{path}", self.api))
            .header("Service-Key", &self.key);
        if let Some(body) = body {
            request = request
                .header("Content-Type", "application/json")
                .body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let may_retry = answer.headers().contains_key("Retry-After");
        assert_eq!(may_retry, status == 503, "{path}");
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call(reqwest::Method::POST, path, Some(&body)).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.call(reqwest::Method::GET, path, None).await
    }

    async fn start(&self) -> (u16, Value) {
        let start = json!({
            "deliveryId": "d", "externalRiderId": "r",
            "address": { "line1": "1 Main St", "city": "Town", "country": "XX", "lat": 1.0, "lng": 2.0 },
        });
        self.post("/v1/sessions/start", start).await
    }

    async fn send(&self, id: &str, seq: u32) -> (u16, Value) {
        let fix = json!({ "kind": "location", "t": f64::from(seq), "lat": 1.0, "lng": 2.0 });
        let batch = json!({ "seq": seq, "samples": [fix] });
        self.post(&format!("/v1/sessions/{id}/telemetry"), batch)
            .await
    }

    async fn assert_full(&self, answer: (u16, Value)) {
        assert_eq!(
            (answer.0, &answer.1["code"]),
            (503, &json!("store_full")),
            "{}",
            answer.1
        );
    }

    /// Returns the status of `/readyz`, and its note about the disk.
    async fn readiness(&self) -> (u16, String) {
        let answer = http()
            .get(format!("{}/readyz", self.ops))
            .send()
            .await
            .unwrap();
        let status = answer.status().as_u16();
        let body: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        let notes = body["notes"].as_array().cloned().unwrap_or_default();
        let note = notes.iter().find(|note| note["name"] == "disk");
        (
            status,
            note.map(|note| note["detail"].to_string())
                .unwrap_or_default(),
        )
    }

    /// Repeats a batch until the server accepts it.
    async fn send_until_accepted(&self, id: &str, seq: u32) {
        for _ in 0..1_200 {
            if self.send(id, seq).await.0 == 202 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the store does not recover");
    }
}

fn start(folder: &Folder, key: Option<String>) -> (Server, Caller) {
    let server = Server::start(folder, &[]);
    let key = key.unwrap_or_else(|| server.key("secret"));
    let caller = Caller {
        api: server.api.clone(),
        ops: server.ops.clone(),
        key,
    };
    (server, caller)
}

#[test]
fn a_full_disk_refuses_new_data_reads_on_and_recovers() {
    let folder = Folder::new();
    let Some(disk) = Tmpfs::mount(&folder) else {
        println!("skipped: a tmpfs cannot be mounted");
        return;
    };
    let (server, caller) = start(&folder, None);
    let (first, second) = block_on(async {
        let first = caller.start().await.1["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        let second = caller.start().await.1["sessionId"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(caller.send(&first, 0).await.0, 202);
        assert_eq!(caller.send(&second, 0).await.0, 202);

        // The disk is nearly full: new data is refused, and the service finishes its work.
        disk.fill_until(DISK_MIB / 8);
        caller.assert_full(caller.send(&first, 1).await).await;
        caller.assert_full(caller.start().await).await;
        assert_eq!(caller.get(&format!("/v1/sessions/{first}")).await.0, 200);
        let (status, note) = caller.readiness().await;
        assert!(
            status == 200 && note.contains("nearly full"),
            "{status} {note}"
        );
        let stop = json!({ "sessionId": second });
        assert_eq!(caller.post("/v1/sessions/stop", stop).await.0, 200);

        // The disk is full: nothing is written, and the process lives.
        disk.fill_until(0);
        caller.assert_full(caller.send(&first, 1).await).await;
        let stop = json!({ "sessionId": first });
        caller
            .assert_full(caller.post("/v1/sessions/stop", stop).await)
            .await;
        assert_eq!(caller.get("/v1/sessions").await.0, 200);
        (first, second)
    });
    server.kill();

    // The server starts on the full disk.
    let (server, caller) = start(&folder, Some(caller.key));
    block_on(async {
        for id in [&first, &second] {
            assert_eq!(caller.get(&format!("/v1/sessions/{id}")).await.0, 200);
        }
        caller.assert_full(caller.send(&first, 1).await).await;
        let (status, note) = caller.readiness().await;
        assert!(status == 200 && note.contains("is full"), "{status} {note}");

        std::fs::remove_file(disk.filler()).unwrap();
        caller.send_until_accepted(&first, 1).await;
        assert_eq!(caller.start().await.0, 201);
        assert_eq!(caller.readiness().await, (200, String::new()));
        let (_, acknowledged) = caller
            .get(&format!("/v1/sessions/{first}/acknowledged"))
            .await;
        assert_eq!(acknowledged["nextSeq"], 2);
        assert_eq!(acknowledged["missing"], json!([]));
    });
    server.stop();
}
