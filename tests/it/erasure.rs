//! Tests erasures by a server that is killed, and the contents of its store's files afterwards.
//!
//! `PORCHLIGHT_ERASURE_KILLS=50` kills the server more often than the usual 4 times.

mod campaign;
mod on_cql;

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use porchlight_schema::sample::json::decode_batch;
use porchlight_support::files::found;
use serde_json::{Value, json};

use crate::opened::revealed;
use crate::phone::{Client, ServerUrl};
use crate::server::{Folder, Server, block_on, porchlight, successful};

const KILLS: u64 = 4;
const VARIABLES: [(&str, &str); 2] = [
    ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0"),
    ("PORCHLIGHT__PRIVACY__DELAY", "0s"),
];

/// Records sessions of one courier: starts them, sends data, and stops every second session.
async fn record(client: &Client, rider: &str, sessions: u64) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..sessions {
        let start = json!({
            "deliveryId": format!("order-of-{rider}-{number}"),
            "externalRiderId": rider,
            "address": {
                "line1": format!("{rider} Knochenhauergasse 17"), "city": "Hameln", "country": "DE",
                "lat": 52.1036, "lng": 9.3562,
            },
        });
        let start = start.to_string();
        let (status, session) = client
            .request(
                "/v1/sessions/start",
                Some(&start),
                Some(&format!("{rider}-{number}")),
            )
            .await;
        assert_eq!(status, 201, "{session}");
        let id = session["sessionId"].as_str().unwrap().to_owned();
        for seq in 0..4 {
            let path = format!("/v1/sessions/{id}/telemetry");
            let body = batch(rider, seq);
            let (status, _) = client.request(&path, Some(&body), None).await;
            assert_eq!(status, 202);
        }
        if number % 2 == 0 {
            let stop = json!({ "sessionId": id }).to_string();
            let (status, _) = client.request("/v1/sessions/stop", Some(&stop), None).await;
            assert_eq!(status, 200);
            client.insight(&id).await;
        }
        ids.push(id);
    }
    ids
}

/// Returns a batch with ten seconds on foot, and with a mark that names the courier.
fn batch(rider: &str, seq: u32) -> String {
    let position = |n: u32| {
        let t = seq * 10 + n;
        json!({ "kind": "location", "t": t, "lat": 52.1036 + f64::from(t) * 1e-5, "lng": 9.3562, "accuracyM": 5 })
    };
    let mut samples: Vec<Value> = (0..10).map(position).collect();
    samples.push(json!({ "kind": "mark", "t": seq * 10 + 9, "name": format!("{rider} {seq}") }));
    json!({ "seq": seq, "samples": samples }).to_string()
}

/// Returns every value by which a courier of these tests or its data can be recognised, with names.
fn known_values(rider: &str) -> Vec<(String, Vec<u8>)> {
    let packed = decode_batch(batch(rider, 2).as_bytes()).unwrap().batch;
    vec![
        ("courier".to_owned(), rider.as_bytes().to_vec()),
        ("positions as bytes".to_owned(), packed.as_bytes().to_vec()),
        (
            "address".to_owned(),
            format!("{rider} Knochenhauer").into_bytes(),
        ),
        (
            "delivery".to_owned(),
            format!("order-of-{rider}-").into_bytes(),
        ),
    ]
}

async fn submit(client: &Client, id: &str, rider: &str) {
    let body =
        json!({ "requestId": id, "type": "erasure", "subject": { "externalRiderId": rider } });
    let body = body.to_string();
    let (status, answer) = client
        .request("/v1/privacy/requests", Some(&body), None)
        .await;
    assert!(status.is_success(), "{answer}");
}

async fn show(client: &Client, id: &str) -> Value {
    let path = format!("/v1/privacy/requests/{id}");
    let (status, answer) = client.request(&path, None, None).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn completed(client: &Client, id: &str) -> Value {
    for _ in 0..1_200 {
        let answer = show(client, id).await;
        if answer["status"] == "completed" {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{}", show(client, id).await);
}

/// Returns the status of a session's insight.
async fn insight_status(client: &Client, id: &str) -> u16 {
    let path = format!("/v1/sessions/{id}/insights");
    let (status, _) = client.request(&path, None, None).await;
    status.as_u16()
}

/// Returns the insights of sessions as text.
async fn insights(client: &Client, ids: &[String]) -> Vec<String> {
    let mut insights = Vec::new();
    for id in ids {
        let path = format!("/v1/sessions/{id}/insights");
        let (_, insight) = client.request(&path, None, None).await;
        insights.push(insight.to_string());
    }
    insights
}

fn connect(server: &Server, key: &str) -> Client {
    let url: ServerUrl = Arc::new(RwLock::new(server.api.clone()));
    Client::new(&url, key)
}

#[test]
fn no_file_of_the_store_and_no_key_reveals_erased_data() {
    let folder = Folder::new();
    let server = Server::start(&folder, &VARIABLES);
    let client = connect(&server, &server.key("secret"));
    let (erased, kept) = ("Jonathan-Needle", "Rebecca-Stays");
    let needles = block_on(async {
        let ids = record(&client, erased, 6).await;
        let kept_ids = record(&client, kept, 4).await;
        let needles = known_values(erased);
        assert_eq!(found(&folder.store(), &needles), Vec::<String>::new());
        let before = folder.path().join("before");
        back_up(&folder, &before);
        assert_eq!(
            revealed(&before, &needles).await.len(),
            needles.len(),
            "the store holds the data, sealed"
        );
        let before_erasure = insights(&client, &kept_ids).await;
        submit(&client, "erasure-1", erased).await;
        let done = completed(&client, "erasure-1").await;
        assert_eq!(done["counts"]["sessions"], 6, "{done}");
        assert_eq!(done["counts"]["telemetry"], 24, "{done}");
        assert_eq!(done["counts"]["insights"], 3, "{done}");
        assert_eq!(done["counts"]["keys"], 6, "{done}");
        for id in &ids {
            assert_eq!(insight_status(&client, id).await, 404);
        }
        // Between reads, live sessions change only in their events, and there are no new events.
        assert_eq!(insights(&client, &kept_ids).await, before_erasure);
        needles
    });
    server.stop();
    let other = [("courier".to_owned(), kept.as_bytes().to_vec())];
    let no_keys = folder.path().join("before");
    replace_keys(&no_keys, &folder.store());
    for store in [folder.store(), no_keys] {
        assert_eq!(found(&store, &needles), Vec::<String>::new());
        assert_eq!(block_on(revealed(&store, &needles)), Vec::<String>::new());
        assert_eq!(
            block_on(revealed(&store, &other)).len(),
            1,
            "the data of the other courier stays"
        );
    }
}

/// Backs up the store of a running server.
fn back_up(folder: &Folder, to: &Path) {
    let backup = porchlight()
        .arg("backup")
        .arg(to)
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    successful(backup.unwrap());
}

/// Replaces the data keys of a backup by those of a store. The rows of the backup stay.
fn replace_keys(backup: &Path, store: &Path) {
    let (keys, current) = (backup.join("keys"), store.join("keys"));
    std::fs::remove_dir_all(&keys).unwrap();
    std::fs::create_dir(&keys).unwrap();
    for entry in std::fs::read_dir(current).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), keys.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_killed_erasure_ends_completely() {
    let kills =
        std::env::var("PORCHLIGHT_ERASURE_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let folder = Folder::new();
    let mut server = Server::start(&folder, &VARIABLES);
    let key = server.key("secret");
    let kept = block_on(record(&connect(&server, &key), "stays", 3));
    let mut chance = 0x5eed_u64;
    for number in 0..kills {
        let client = connect(&server, &key);
        let (rider, request) = (format!("rider-{number}"), format!("erasure-{number}"));
        let ids = block_on(record(&client, &rider, 4));
        block_on(submit(&client, &request, &rider));
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::park_timeout(Duration::from_millis((chance >> 33) % 2_500));
        server.kill();
        server = Server::start(&folder, &VARIABLES);
        let client = connect(&server, &key);
        block_on(async {
            let done = completed(&client, &request).await;
            assert_eq!(done["counts"]["sessions"], 4, "kill {number}: {done}");
            assert_eq!(done["counts"]["telemetry"], 16, "kill {number}: {done}");
            for id in &ids {
                assert_eq!(insight_status(&client, id).await, 404, "kill {number}");
            }
            for id in &kept {
                assert_eq!(insight_status(&client, id).await, 200, "kill {number}");
            }
        });
    }
    server.stop();
}
