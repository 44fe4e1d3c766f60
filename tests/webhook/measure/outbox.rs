//! Measures a very long outbox: its memory use, and how the real process starts on it and drains
//! it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use porchlight::key_guard::store_secrets;
use porchlight_keys::keyring::SecretKeys;
use porchlight_keys::secrets::SecretVault;
use porchlight_ports::{Clock, Insights, Sessions, StoredInsight};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{EndReason, Env, SessionEnd, Tenant};
use porchlight_store::EmbeddedStore;
use porchlight_world::SystemClock;
use serde_json::{Value, json};

use super::{Bench, Manner, counting, resident_mib, run};
use crate::server::{Folder, Server, http, porchlight, successful};
use crate::service::{Customer, serve};

/// Enqueues a completed session with its three messages.
async fn enqueue_session(bench: &Bench, tenant: Tenant) {
    let session_id: SessionId = bench.enqueue(tenant, 400).await;
    let now = SystemClock.now();
    let end = SessionEnd {
        ended_at: now,
        completed_at: now,
        reason: EndReason::Stopped,
    };
    let stopped = bench.message(MessageEvent::SessionStopped, bench.body(400));
    let ended = bench.store.end(session_id, end, None, stopped).await;
    ended.unwrap();
    let record = InsightRecord {
        revision: 1,
        score: None,
        error_message: None,
        pod: None,
        updated_at: now,
    };
    let insight = StoredInsight {
        record,
        covered: Default::default(),
        known: Vec::new(),
        dropped: DroppedSamples::default(),
    };
    let updated = bench.message(MessageEvent::InsightUpdated, bench.body(400));
    let committed = bench
        .store
        .commit_insight(session_id, insight, updated, Vec::new());
    assert!(committed.await.unwrap());
}

/// Creates a key before a server exists. Returns the organization's id and the key.
fn key_without_server(store: &Path) -> (String, String) {
    let made = porchlight()
        .args([
            "keys", "create", "--init", "--org", "it", "--env", "sandbox",
        ])
        .args(["--kind", "secret", "--json"])
        .env("PORCHLIGHT__STORE__PATH", store)
        .output()
        .unwrap();
    let made: Value = serde_json::from_str(&successful(made)).unwrap();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("organizationId"), text("key"))
}

async fn point_to(server: &Server, key: &str, url: &str) {
    let customer = Customer {
        api: server.api.clone(),
        key: key.to_owned(),
        http: http(),
    };
    let body = json!({ "url": url });
    let (status, problem) = customer.call("PUT", "/v1/webhooks", Some(body)).await;
    assert_eq!(status, 200, "{problem}");
}

/// `PORCHLIGHT_OUTBOX=1000000` sets more than the default 200,000 messages; `PORCHLIGHT_BIN` names
/// the binary.
#[test]
#[ignore = "a measurement"]
fn measure_a_long_outbox() {
    run(async {
        let count: usize =
            std::env::var("PORCHLIGHT_OUTBOX").map_or(200_000, |text| text.parse().unwrap());
        let folder = Folder::new();
        let mut bench = Bench::new("outbox");
        let (organization, key) = key_without_server(&folder.store());
        let store = EmbeddedStore::open_for_command(&folder.store()).unwrap();
        let own = std::mem::replace(&mut bench.store, store);
        let keys = SecretKeys::load_or_create(&folder.store()).unwrap();
        bench.store.unlock(&store_secrets(&keys)).unwrap();
        bench.vault = Arc::new(SecretVault::new(&keys));
        let hanging = counting(Arc::clone(&bench.authority), bench.origin, Manner::Hangs);
        let good = counting(Arc::clone(&bench.authority), bench.origin, Manner::Answers);
        let tenant = Tenant {
            organization_id: organization.parse().unwrap(),
            env: Env::Sandbox,
        };
        bench.endpoint(tenant, 1, &hanging.url).await;
        for _ in 0..count / 3_000 {
            let enqueuing = (0..1_000).map(|_| enqueue_session(&bench, tenant));
            futures_util::future::join_all(enqueuing).await;
        }
        let count = count / 3_000 * 3_000;
        bench.store.close().await;
        // The server can open the store only after it is released here.
        bench.store = own;

        let begun = Instant::now();
        let server = serve(&folder, &bench.authority);
        let ready_ms = begun.elapsed().as_millis();
        println!("{count} messages wait for a receiver that hangs");
        println!("  ready {ready_ms} ms after the start of the process");
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(6)).await;
            println!("  at work: {} MiB", server.resident_kib() / 1024);
        }
        server.kill();
        let begun = Instant::now();
        let server = serve(&folder, &bench.authority);
        let ready_ms = begun.elapsed().as_millis();
        println!("  killed; ready {ready_ms} ms after the start of the next process");
        let begun = Instant::now();
        point_to(&server, &key, &good.url).await;
        good.until(1).await;
        let first_ms = begun.elapsed().as_millis();
        println!("  first delivery {first_ms} ms after the receiver is back");
        good.until(1_000).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (begun, before) = (Instant::now(), good.seen.load(Ordering::SeqCst));
        let server = serve(&folder, &bench.authority);
        good.until(before + 1).await;
        let first_ms = begun.elapsed().as_millis();
        println!("  killed; first delivery {first_ms} ms after the start of the next process");
        let (begun, before) = (Instant::now(), good.seen.load(Ordering::SeqCst));
        // Messages attempted at the hanging receiver wait for their retry.
        good.until(count - 3_000).await;
        let rate = (count - 3_000 - before) as f64 / begun.elapsed().as_secs_f64();
        println!(
            "  drained at {rate:.0}/s, {} MiB, {} out of order",
            server.resident_kib() / 1024,
            good.disorder()
        );
        println!("  (the test itself: {} MiB)", resident_mib(None));
        server.stop();
    });
}
