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
    let started = client.until_answered("/v1/sessions/start", Some(&body), None);
    started.await.1["sessionId"].as_str().unwrap().to_owned()
}

/// Returns the remaining life of the session's row in seconds.
async fn life_sec(keyspace: &str, session: &str) -> i32 {
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

#[test]
fn a_hold_and_a_restriction_renew_the_rows_of_their_sessions() {
    let folder = Folder::new();
    let Some(variables) = variables(folder.path()) else {
        return;
    };
    let keyspace = variables[2].1.clone();
    let serve = |retention: &str| {
        let mut variables = variables.clone();
        variables.push(("PORCHLIGHT__STORE__RETENTION", retention.to_owned()));
        Server::start(&folder, &borrowed(&variables))
    };
    let connect = |server: &Server, key: &str| {
        let place = Arc::new(RwLock::new(server.api.clone()));
        Client::new(&place, key)
    };
    let first = serve("3d");
    let key = first.key("secret");
    let ids = block_on(async {
        let client = connect(&first, &key);
        let mut ids = Vec::new();
        for rider in ["held", "restricted", "other"] {
            ids.push(start(&client, rider).await);
        }
        ids
    });
    first.stop();
    // To the new server, less than half of the life is left to the rows.
    let second = serve("90d");
    let client = connect(&second, &key);
    block_on(async {
        let hold = format!("{}/v1/sessions/{}/hold", second.api, ids[0]);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let held = http.put(hold).header("Service-Key", &key).send().await;
        assert_eq!(held.unwrap().status(), 200);
        let subject = json!({"externalRiderId": "restricted"});
        let request = json!({"requestId": "r", "type": "restriction", "subject": subject});
        let request = request.to_string();
        let path = "/v1/privacy/requests";
        let (status, answer) = client.until_answered(path, Some(&request), None).await;
        assert!(status.is_success(), "{answer}");
        loop {
            let (_, answer) = client
                .until_answered("/v1/privacy/requests/r", None, None)
                .await;
            if answer["status"] == "completed" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut lives = Vec::new();
        for id in &ids {
            lives.push(life_sec(&keyspace, id).await / DAY_SEC);
        }
        assert!(
            lives[0] >= 90 && lives[1] >= 90 && lives[2] < 5,
            "{lives:?}"
        );
    });
    second.stop();
}
