//! Tests that a legal hold and a restriction keep the rows of their sessions on a real CQL server,
//! which deletes other rows after `store.retention`.

use std::fmt::Write as _;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use porchlight_schema::ids::SessionId;
use scylla::client::session_builder::SessionBuilder;
use serde_json::json;

use crate::cql_process::{borrowed, variables};
use crate::cql_server::CqlServer;
use crate::phone::Client;
use crate::server::{Folder, Server, block_on};

const DAY_SEC: i32 = 86_400;

async fn start(client: &Client, rider: &str) -> String {
    let body = json!({"deliveryId": format!("order-of-{rider}"), "externalRiderId": rider,
        "address": {"line1": "a", "city": "b", "country": "c", "lat": 1.0, "lng": 2.0}});
    let body = body.to_string();
    let started = client.request("/v1/sessions/start", Some(&body), None);
    started.await.1["sessionId"].as_str().unwrap().to_owned()
}

/// Returns the remaining time to live of the session's row in seconds.
async fn ttl_sec(keyspace: &str, session: &str) -> i32 {
    let id: SessionId = session.parse().unwrap();
    let key = id.to_bytes().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let nodes = &CqlServer::get().unwrap().nodes;
    let database = SessionBuilder::new().known_nodes(nodes).build().await;
    let query = format!("SELECT TTL(data) FROM {keyspace}.sessions WHERE session = 0x{key}");
    let rows = database.unwrap().query_unpaged(query, ()).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    rows.first_row::<(i32,)>().unwrap().0
}

/// Places a session under a legal hold.
async fn hold(server: &Server, key: &str, session: &str) {
    let hold = format!("{}/v1/sessions/{session}/hold", server.api);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let held = http.put(hold).header("Service-Key", key).send().await;
    assert_eq!(held.unwrap().status(), 200);
}

/// A keyspace whose servers have different retentions.
struct Keyspace {
    folder: Folder,
    variables: Vec<(&'static str, String)>,
}

impl Keyspace {
    /// Returns `None` if there is no CQL server.
    fn new() -> Option<Self> {
        let folder = Folder::new();
        let variables = variables(folder.path())?;
        Some(Self { folder, variables })
    }

    fn name(&self) -> &str {
        &self.variables[2].1
    }

    fn serve(&self, retention: &str) -> Server {
        let mut variables = self.variables.clone();
        variables.push(("PORCHLIGHT__STORE__RETENTION", retention.to_owned()));
        Server::start(&self.folder, &borrowed(&variables))
    }

    /// Returns the remaining times to live of sessions' rows in days.
    async fn ttls_days(&self, sessions: &[String]) -> Vec<i32> {
        let mut ttls = Vec::new();
        for session in sessions {
            ttls.push(ttl_sec(self.name(), session).await / DAY_SEC);
        }
        ttls
    }
}

fn connect(server: &Server, key: &str) -> Client {
    let url = Arc::new(RwLock::new(server.api.clone()));
    Client::new(&url, key)
}

/// Starts a session for each courier.
async fn start_all(client: &Client, riders: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for rider in riders {
        ids.push(start(client, rider).await);
    }
    ids
}

#[test]
fn the_periodic_pass_renews_sessions_under_a_hold() {
    let Some(keyspace) = Keyspace::new() else {
        return;
    };
    let first = keyspace.serve("3d");
    let key = first.key("secret");
    let ids = block_on(async {
        let ids = start_all(&connect(&first, &key), &["held", "other"]).await;
        hold(&first, &key, &ids[0]).await;
        ids
    });
    first.stop();
    let before = block_on(keyspace.ttls_days(&ids));
    assert!(before.iter().all(|&days| days < 5), "{before:?}");
    // By the retention of the new server, less than half of the rows' time to live is left. Its
    // first pass is after ten seconds.
    let second = keyspace.serve("90d");
    let ttls = block_on(async {
        loop {
            let ttls = keyspace.ttls_days(&ids).await;
            if ttls[0] >= 90 {
                return ttls;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    assert!(ttls[1] < 5, "{ttls:?}");
    second.stop();
}

#[test]
fn a_hold_and_a_restriction_renew_the_rows_of_their_sessions() {
    let Some(keyspace) = Keyspace::new() else {
        return;
    };
    let first = keyspace.serve("3d");
    let key = first.key("secret");
    let riders = ["held", "restricted", "other"];
    let ids = block_on(start_all(&connect(&first, &key), &riders));
    first.stop();
    // By the retention of the new server, less than half of the rows' time to live is left.
    let second = keyspace.serve("90d");
    let client = connect(&second, &key);
    block_on(async {
        hold(&second, &key, &ids[0]).await;
        let subject = json!({"externalRiderId": "restricted"});
        let request = json!({"requestId": "r", "type": "restriction", "subject": subject});
        let request = request.to_string();
        let path = "/v1/privacy/requests";
        let (status, answer) = client.request(path, Some(&request), None).await;
        assert!(status.is_success(), "{answer}");
        loop {
            let (_, answer) = client.request("/v1/privacy/requests/r", None, None).await;
            if answer["status"] == "completed" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let ttls = keyspace.ttls_days(&ids).await;
        assert!(ttls[0] >= 90 && ttls[1] >= 90 && ttls[2] < 5, "{ttls:?}");
    });
    second.stop();
}
