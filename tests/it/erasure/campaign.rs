//! Erases the sessions of one courier among ten times as many under load, and then searches the
//! files and the rows of the store and of a restored backup from before.
//!
//! `PORCHLIGHT_ERASURE_SESSIONS=10000` sets the number of the courier's sessions; without it the
//! test is small. It prints the time of the erasure and the latency of the load before and during
//! it. Build with `--release` to measure.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;

use super::*;

const SESSIONS: usize = 30;
/// The number of all sessions for each session of the courier.
const SHARE: usize = 10;
/// The number of requests in flight while the sessions are recorded.
const AT_ONCE: usize = 16;
/// The number of phones that send batches during the erasure.
const PHONES: usize = 4;
/// The time for which the phones send before the erasure begins.
const LOAD_BEFORE: Duration = Duration::from_secs(5);

const ERASED: &str = "Jonathan-Needle";
const KEPT: &str = "Rebecca-Stays";

async fn start(client: &Client, rider: &str, number: usize) -> String {
    let body = json!({
        "deliveryId": format!("order-of-{rider}-{number}"),
        "externalRiderId": rider,
        "address": {
            "line1": format!("{rider} Knochenhauergasse {number}"), "city": "Hameln", "country": "DE",
            "lat": 52.1036, "lng": 9.3562,
        },
    });
    let body = body.to_string();
    let started = client.request("/v1/sessions/start", Some(&body), None);
    let (status, session) = started.await;
    assert_eq!(status, 201, "{session}");
    session["sessionId"].as_str().unwrap().to_owned()
}

async fn send(client: &Client, id: &str, rider: &str, seq: u32) {
    let path = format!("/v1/sessions/{id}/telemetry");
    let body = batch(rider, seq);
    let (status, answer) = client.request(&path, Some(&body), None).await;
    assert_eq!(status, 202, "{answer}");
}

/// Records a session with one batch; every fourth is stopped and scored.
async fn short_session(client: Client, number: usize) -> String {
    let rider = if number.is_multiple_of(SHARE) {
        ERASED
    } else {
        KEPT
    };
    let id = start(&client, rider, number).await;
    send(&client, &id, rider, 2).await;
    if (number / SHARE).is_multiple_of(4) {
        let stop = json!({ "sessionId": id }).to_string();
        let stopped = client.request("/v1/sessions/stop", Some(&stop), None);
        assert_eq!(stopped.await.0, 200);
    }
    id
}

async fn fill(client: &Client, sessions: usize) -> Vec<(usize, String)> {
    let (mut tasks, mut ids) = (JoinSet::new(), Vec::new());
    for number in 0..sessions {
        if tasks.len() >= AT_ONCE {
            ids.push(tasks.join_next().await.unwrap().unwrap());
        }
        let client = client.clone();
        tasks.spawn(async move { (number, short_session(client, number).await) });
    }
    while let Some(ended) = tasks.join_next().await {
        ids.push(ended.unwrap());
    }
    ids
}

/// Sends batches until `is_over`. Returns the time at which each batch was sent, and its latency.
async fn phone(
    client: Client,
    number: usize,
    is_over: Arc<AtomicBool>,
) -> Vec<(Instant, Duration)> {
    let id = start(&client, KEPT, 1_000_000 + number).await;
    let (mut sent, mut seq) = (Vec::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let began = Instant::now();
        send(&client, &id, KEPT, seq).await;
        sent.push((began, began.elapsed()));
        seq += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    sent
}

fn p99(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    let last = all.len().saturating_sub(1);
    all.get(last * 99 / 100).copied().unwrap_or_default()
}

/// Erases the courier while phones send batches, and prints the latency of the batches.
async fn erase_under_load(client: &Client, sessions: usize) {
    let is_over = Arc::<AtomicBool>::default();
    let mut phones = JoinSet::new();
    for number in 0..PHONES {
        phones.spawn(phone(client.clone(), number, Arc::clone(&is_over)));
    }
    tokio::time::sleep(LOAD_BEFORE).await;
    let began = Instant::now();
    submit(client, "erasure-1", ERASED).await;
    let done = completed(client, "erasure-1").await;
    let took = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let (mut before, mut during, mut by_second) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(phone) = phones.join_next().await {
        for (at, latency) in phone.unwrap() {
            let Some(since) = at.checked_duration_since(began) else {
                before.push(latency);
                continue;
            };
            during.push(latency);
            let second = since.as_secs() as usize;
            by_second.resize(by_second.len().max(second + 1), Vec::new());
            by_second[second].push(latency);
        }
    }
    assert_eq!(done["counts"]["sessions"], sessions, "{done}");
    println!(
        "{sessions} of {} sessions erased in {took:.1?}; p99 of {} batches before {:.1?}, of {} during {:.1?}",
        SHARE * sessions,
        before.len(),
        p99(before.clone()),
        during.len(),
        p99(during),
    );
    let by_second: Vec<_> = by_second.into_iter().map(p99).collect();
    println!("p99 of each second: {by_second:.1?}");
}

#[test]
fn the_sessions_of_a_courier_are_erased_under_load_and_from_a_restored_backup() {
    let sessions =
        std::env::var("PORCHLIGHT_ERASURE_SESSIONS").map_or(SESSIONS, |text| text.parse().unwrap());
    let folder = Folder::new();
    let server = Server::start(&folder, &VARIABLES);
    let client = connect(&server, &server.key("secret"));
    let copy = folder.path().join("copy");
    let needles = block_on(async {
        let ids = fill(&client, SHARE * sessions).await;
        let needles = known_values(ERASED);
        let kept = ids
            .iter()
            .filter(|(number, _)| number % SHARE == 1 && (number / SHARE).is_multiple_of(4));
        let kept: Vec<String> = kept.map(|(_, id)| id.clone()).take(50).collect();
        let mut before = Vec::new();
        for id in &kept {
            before.push(client.insight(id).await);
        }
        back_up(&folder, &copy);

        erase_under_load(&client, sessions).await;
        for (id, before) in kept.iter().zip(&before) {
            assert_eq!(client.insight(id).await, *before, "{id}");
        }
        needles
    });
    assert_eq!(found(&folder.store(), &needles), Vec::<String>::new());
    server.stop();
    assert_eq!(found(&folder.store(), &needles), Vec::<String>::new());
    assert_eq!(
        block_on(revealed(&folder.store(), &needles)),
        Vec::<String>::new()
    );
    assert_nothing_is_restored(&folder, &copy, &needles);
}

/// Restores a backup from before the erasure, and searches its files.
fn assert_nothing_is_restored(folder: &Folder, copy: &Path, needles: &[(String, Vec<u8>)]) {
    assert_eq!(
        block_on(revealed(copy, needles)).len(),
        needles.len(),
        "the backup has all"
    );
    let restored = folder.path().join("restored");
    let restore = porchlight()
        .arg("restore")
        .arg(copy)
        .arg("--data")
        .arg(&restored)
        .arg("--erasures")
        .arg(folder.store())
        .output();
    println!("{}", successful(restore.unwrap()).trim());
    let others = [("courier".to_owned(), KEPT.as_bytes().to_vec())];
    // The rows of the backup with the keys of the store: the content of its files without any
    // erasure.
    replace_keys(copy, &folder.store());
    for store in [restored.as_path(), copy] {
        assert_eq!(found(store, needles), Vec::<String>::new());
        assert_eq!(block_on(revealed(store, needles)), Vec::<String>::new());
        assert_eq!(
            block_on(revealed(store, &others)).len(),
            1,
            "the data of the others stays"
        );
    }
}
