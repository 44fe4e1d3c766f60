//! Runs `kill -9` at random times under load. Acknowledged data is in the journal, and each insight
//! is byte for byte the same as that of a server that runs without a fault.
//!
//! `PORCHLIGHT_CRASHES=50` kills more often than the default of 6 times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime};

use porchlight_ports::Journal;
use porchlight_schema::sample::json::decode_batch;
use serde_json::Value;

use crate::opened::open_store;
use crate::phone::{Client, Sent, ServerUrl};
use crate::server::{Folder, Server, block_on};

const CRASHES: u64 = 6;
const PHONES: usize = 8;
/// The pause between two batches of a phone, so that the crashes hit sessions in all their stages.
const PAUSE: Duration = Duration::from_millis(15);
/// Disables the rate limit: these tests are about crashes.
const NO_LIMIT: [(&str, &str); 1] = [("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0")];

/// Runs `count` phones that send deliveries, with the pause between batches, one after the other,
/// until `enough` is set. Returns all sent sessions, by number.
pub(crate) async fn phones(
    client: &Client,
    next: &Arc<AtomicU64>,
    enough: &Arc<AtomicBool>,
    (count, pause): (usize, Duration),
) -> Vec<Sent> {
    let phone = || {
        let (client, next, enough) = (client.clone(), Arc::clone(next), Arc::clone(enough));
        tokio::spawn(async move {
            let mut sent = Vec::new();
            while !enough.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                sent.push(client.send(number, pause).await);
            }
            sent
        })
    };
    let phones: Vec<_> = (0..count).map(|_| phone()).collect();
    let mut sent = Vec::new();
    for phone in phones {
        sent.extend(phone.await.unwrap());
    }
    sent
}

/// Returns the insights of these sessions, by number, once they are scored.
pub(crate) async fn insights(client: &Client, sent: &[Sent]) -> BTreeMap<u64, Value> {
    let mut insights = BTreeMap::new();
    for session in sent {
        insights.insert(session.number, client.insight(&session.session_id).await);
    }
    insights
}

/// Kills and restarts the server `crashes` times at random moments, while phones send. Returns the
/// sent sessions and their insights.
pub(crate) fn run_with_crashes(
    folder: &Folder,
    variables: &[(&str, &str)],
    crashes: u64,
) -> (Vec<Sent>, BTreeMap<u64, Value>) {
    let mut server = Server::start(folder, variables);
    let url: ServerUrl = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    let (next, enough) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let load = {
        let (client, next, enough) = (client.clone(), Arc::clone(&next), Arc::clone(&enough));
        std::thread::spawn(move || block_on(phones(&client, &next, &enough, (PHONES, PAUSE))))
    };
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let mut chance = now.as_nanos() as u64;
    let mut slowest = Duration::ZERO;
    for _ in 0..crashes {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::park_timeout(Duration::from_millis(100 + (chance >> 33) % 1_500));
        server.kill();
        let began = Instant::now();
        server = Server::start(folder, variables);
        slowest = slowest.max(began.elapsed());
        server.api.clone_into(&mut url.write().unwrap());
    }
    enough.store(true, Ordering::Relaxed);
    let sent = load.join().unwrap();
    println!(
        "{crashes} crashes, {} sessions, {} batches; the slowest start took {slowest:?}",
        sent.len(),
        sent.iter()
            .map(|session| session.acknowledged.len())
            .sum::<usize>()
    );
    let insights = block_on(insights(&client, &sent));
    server.stop();
    (sent, insights)
}

/// Returns the insights of the first `count` deliveries from a server that runs without a fault.
pub(crate) fn reference_insights(count: u64) -> BTreeMap<u64, Value> {
    let folder = Folder::new();
    let server = Server::start(&folder, &NO_LIMIT);
    let url: ServerUrl = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    let insights = block_on(async {
        let mut insights = BTreeMap::new();
        let numbers: Vec<u64> = (0..count).collect();
        for some in numbers.chunks(PHONES) {
            let sending = some
                .iter()
                .map(|&number| client.send(number, Duration::ZERO));
            let sent = futures_util::future::join_all(sending).await;
            insights.append(&mut self::insights(&client, &sent).await);
        }
        insights
    });
    server.stop();
    insights
}

/// Asserts that these insights equal, byte for byte, those of a server that runs without a fault.
pub(crate) fn assert_reference_insights(found: &BTreeMap<u64, Value>) {
    let expected = reference_insights(found.len() as u64);
    for (number, expected) in &expected {
        assert_eq!(expected["status"], "ready");
        assert_eq!(
            found[number].to_string(),
            expected.to_string(),
            "the insight of delivery {number}"
        );
    }
}

/// Asserts that every acknowledged batch is in the journal, with its acknowledged body.
fn check_journal(folder: &Folder, sent: &[Sent]) {
    let store = open_store(&folder.store()).unwrap();
    block_on(async {
        for session in sent {
            let id = session.session_id.parse().unwrap();
            let mut journal = BTreeMap::new();
            loop {
                let from = journal.last_key_value().map_or(0, |(seq, _)| *seq + 1);
                let page = Journal::read(&*store, id, from, 500).await.unwrap();
                if page.is_empty() {
                    break;
                }
                journal.extend(page.into_iter().map(|entry| (entry.seq, entry.batch)));
            }
            for (seq, body) in &session.acknowledged {
                let batch = decode_batch(body.as_bytes()).unwrap().batch;
                assert_eq!(
                    journal.get(seq).map(|there| there.as_bytes()),
                    Some(batch.as_bytes()),
                    "batch {seq} of delivery {} was acknowledged",
                    session.number
                );
            }
        }
        store.close().await;
    });
}

#[test]
fn a_killed_server_loses_nothing_and_changes_nothing() {
    let crashes = std::env::var("PORCHLIGHT_CRASHES").map_or(CRASHES, |text| text.parse().unwrap());
    let folder = Folder::new();
    let (sent, found) = run_with_crashes(&folder, &NO_LIMIT, crashes);
    check_journal(&folder, &sent);
    assert_eq!(found.len(), sent.len());
    assert_reference_insights(&found);
}
