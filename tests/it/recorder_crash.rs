//! Runs `kill -9` at random times while apps push to recorders. Every reading that the service has
//! acknowledged is in the journal, once.
//!
//! `PORCHLIGHT_CRASHES=100` kills more often than the default of 4 times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use porchlight_ports::Journal;
use porchlight_schema::sample::Sample;
use porchlight_store::EmbeddedStore;
use serde_json::{Value, json};

use crate::opened::open_store;
use crate::phone::{Client, ServerUrl};
use crate::server::{Folder, Server, block_on};

const CRASHES: u64 = 4;
/// The number of apps that push at the same time. Every second one numbers its messages, like
/// Sensor Logger.
const APPS: usize = 4;
/// The number of readings in one message.
const READINGS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);
const NO_LIMIT: [(&str, &str); 1] = [("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0")];

/// An app and the readings that it has seen acknowledged.
struct App {
    recorder_id: String,
    /// The number of acknowledged readings. Reading `n` was measured `n` tenths of a second after
    /// the first one.
    acknowledged: u32,
    repeats: u32,
}

/// Returns message `number` of an app, and the path to which the app pushes it.
fn message(is_numbered: bool, number: u32, began_ms: u64) -> (&'static str, Value) {
    let readings = (0..READINGS).map(|place| {
        let reading = number * READINGS + place;
        (
            began_ms + u64::from(reading) * 100,
            f64::from(reading) * 1e-6,
        )
    });
    if is_numbered {
        let payload: Vec<_> = readings
            .map(|(at_ms, north)| {
                json!({ "name": "location", "time": at_ms * 1_000_000,
                    "values": { "latitude": 52.5 + north, "longitude": 13.4, "horizontalAccuracy": 5 } })
            })
            .collect();
        let push =
            json!({ "messageId": number, "sessionId": "s", "deviceId": "d", "payload": payload });
        ("sensor-logger", push)
    } else {
        let positions: Vec<_> = readings
            .map(|(at_ms, north)| json!({ "id": "1", "lat": 52.5 + north, "lon": 13.4, "timestamp": at_ms }))
            .collect();
        ("traccar", json!(positions))
    }
}

/// Pushes messages until `enough` is set. Like an app, it repeats a message until it is
/// acknowledged, and some of them once more.
async fn push(client: &Client, number: usize, enough: &AtomicBool) -> App {
    let order = json!({ "externalRiderId": format!("rider-{number}"),
        "address": { "line1": "", "city": "", "country": "", "lat": 52.5, "lng": 13.4 } });
    let (_, made) = client
        .request("/v1/recorders", Some(&order.to_string()), None)
        .await;
    let link = made["url"].as_str().unwrap();
    let link = &link[link.find("/r/").unwrap()..];
    let mut app = App {
        recorder_id: made["recorderId"].as_str().unwrap().to_owned(),
        acknowledged: 0,
        repeats: 0,
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let began_ms = now.unwrap().as_millis() as u64 - 3_600_000;
    for next in 0.. {
        // Without a message there is no session.
        if next > 0 && enough.load(Ordering::Relaxed) {
            break;
        }
        let (end, body) = message(number.is_multiple_of(2), next, began_ms);
        let path = format!("{link}/{end}");
        let is_repeated = next % 7 == 3;
        for _ in 0..=u32::from(is_repeated) {
            let (status, answer) = client.request(&path, Some(&body.to_string()), None).await;
            assert_eq!(status, 200, "{answer}");
        }
        app.repeats += u32::from(is_repeated);
        app.acknowledged += READINGS;
        tokio::time::sleep(PAUSE).await;
    }
    app
}

/// Asserts that the journal of a session has exactly the acknowledged readings.
async fn check(store: &EmbeddedStore, app: &App, session_id: &Value) {
    let id = session_id.as_str().unwrap().parse().unwrap();
    let (mut times, mut from) = (Vec::new(), 0);
    loop {
        let page = Journal::read(store, id, from, 500).await.unwrap();
        let Some(last) = page.last() else { break };
        from = last.seq + 1;
        for entry in &page {
            let mut reader = entry.batch.reader().unwrap();
            while let Some(sample) = reader.next_sample().unwrap() {
                if let Sample::Location(fix) = sample {
                    times.push(fix.t_ms);
                }
            }
        }
    }
    times.sort_unstable();
    let expected: Vec<_> = (0..app.acknowledged).map(|reading| reading * 100).collect();
    assert_eq!(times, expected, "{}", app.recorder_id);
}

#[test]
fn a_killed_server_loses_no_acknowledged_push() {
    let crashes = std::env::var("PORCHLIGHT_CRASHES").map_or(CRASHES, |text| text.parse().unwrap());
    let folder = Folder::new();
    let mut server = Server::start(&folder, &NO_LIMIT);
    let url: ServerUrl = Arc::new(RwLock::new(server.api.clone()));
    let client = Client::new(&url, &server.key("secret"));
    let enough = Arc::new(AtomicBool::new(false));
    let load = {
        let (client, enough) = (client.clone(), Arc::clone(&enough));
        let all = async move {
            let apps = (0..APPS).map(|number| push(&client, number, &enough));
            futures_util::future::join_all(apps).await
        };
        std::thread::spawn(move || block_on(all))
    };
    let mut chance = u64::from(std::process::id());
    for _ in 0..crashes {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        std::thread::park_timeout(Duration::from_millis(100 + (chance >> 33) % 600));
        server.kill();
        server = Server::start(&folder, &NO_LIMIT);
        server.api.clone_into(&mut url.write().unwrap());
    }
    enough.store(true, Ordering::Relaxed);
    let apps = load.join().unwrap();
    let sessions = block_on(async {
        let mut sessions = Vec::new();
        for app in &apps {
            let path = format!("/v1/recorders/{}", app.recorder_id);
            let (_, shown) = client.request(&path, None, None).await;
            sessions.push(shown["sessionId"].clone());
        }
        sessions
    });
    server.stop();
    let store = open_store(&folder.store()).unwrap();
    block_on(async {
        for (app, session_id) in apps.iter().zip(&sessions) {
            check(&store, app, session_id).await;
        }
        store.close().await;
    });
    println!(
        "{crashes} crashes, {} apps, {} acknowledged readings, {} messages repeated: none lost, none twice",
        apps.len(),
        apps.iter().map(|app| app.acknowledged).sum::<u32>(),
        apps.iter().map(|app| app.repeats).sum::<u32>(),
    );
}
