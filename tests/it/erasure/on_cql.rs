//! Erases a courier on CQL, and then again from rows that were saved before the erasure.

use porchlight_support::files::find_needles;

use crate::cql_process::{borrowed, variables};
use crate::cql_server::CqlServer;
use crate::released::cql_rows::{self, Rows};

use super::*;

const ERASED: &str = "Jonathan-Needle";
const KEPT: &str = "Rebecca-Stays";
const KEYSPACE: &str = "PORCHLIGHT__STORE__CQL__KEYSPACE";

/// Returns the names of the needles that any row contains, as text or in a blob.
fn revealed_by(rows: &Rows, needles: &[(String, Vec<u8>)]) -> Vec<String> {
    let in_blobs = needles.iter().map(|(name, needle)| {
        let hex = porchlight_schema::hex::encode(needle);
        (name.clone(), hex.into_bytes())
    });
    let forms: Vec<_> = needles.iter().cloned().chain(in_blobs).collect();
    let mut names = Vec::new();
    for row in rows.values().flatten() {
        find_needles(row.to_string().as_bytes(), &forms, &mut names);
    }
    names
}

/// Runs a command with these variables, and returns its output.
fn run(folder: &Folder, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let command = porchlight()
        .args(arguments)
        .envs(variables.iter().copied())
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    successful(command.unwrap())
}

#[test]
fn no_row_on_cql_reveals_erased_data_and_a_saved_log_erases_restored_rows() {
    let folder = Folder::new();
    let Some(mut variables) = variables(folder.path()) else {
        return;
    };
    variables.extend(VARIABLES.map(|(name, value)| (name, value.to_owned())));
    // Insights name the server in the URLs of images.
    let public_url = "https://api.example.com".to_owned();
    variables.push(("PORCHLIGHT__SERVER__PUBLIC_URL", public_url));
    let (_, keyspace) = variables
        .iter()
        .find(|(name, _)| *name == KEYSPACE)
        .unwrap();
    let keyspace = keyspace.clone();
    let server = Server::start(&folder, &borrowed(&variables));
    let key = server.key("secret");
    let client = connect(&server, &key);
    let (needles, saved, kept, before) = block_on(async {
        record(&client, ERASED, 4).await;
        let kept = record(&client, KEPT, 2).await;
        let needles = known_values(ERASED);
        let before = insights(&client, &kept).await;
        let saved = cql_rows::read(&keyspace).await;
        assert_eq!(revealed_by(&saved, &needles).len(), needles.len());
        submit(&client, "erasure-1", ERASED).await;
        let done = completed(&client, "erasure-1").await;
        assert_eq!(done["counts"]["sessions"], 4, "{done}");
        assert_eq!(insights(&client, &kept).await, before);
        (needles, saved, kept, before)
    });
    let others = known_values(KEPT);
    let check = |keyspace: &str| {
        let rows = block_on(cql_rows::read(keyspace));
        assert_eq!(revealed_by(&rows, &needles), Vec::<String>::new());
        assert_eq!(revealed_by(&rows, &others).len(), others.len());
    };
    check(&keyspace);
    let log = folder.path().join("erasures");
    // The log can be read while the server runs.
    let printed = run(&folder, &borrowed(&variables), &["erasures", "list"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    std::fs::write(&log, printed).unwrap();
    server.stop();

    let restored = CqlServer::fresh_keyspace();
    for (name, value) in &mut variables {
        if *name == KEYSPACE {
            value.clone_from(&restored);
        }
    }
    let rows = block_on(async {
        cql_rows::restore(&restored, &saved).await;
        cql_rows::read(&restored).await
    });
    assert_eq!(revealed_by(&rows, &needles).len(), needles.len());
    let apply = ["erasures", "apply", log.to_str().unwrap()];
    let done = run(&folder, &borrowed(&variables), &apply);
    assert_eq!(done, "1 erasure applied, 4 sessions erased\n");
    check(&restored);
    let done = run(&folder, &borrowed(&variables), &apply);
    assert_eq!(done, "1 erasure applied, 0 sessions erased\n");
    let server = Server::start(&folder, &borrowed(&variables));
    let client = connect(&server, &key);
    // The session that has not ended is built again from its journal, with another time of change.
    assert_eq!(block_on(insights(&client, &kept[..1])), before[..1]);
    server.stop();
}
