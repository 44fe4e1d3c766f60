//! Tests the creation of a key before the first start of the server, and while it starts.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use porchlight_store::{EmbeddedStore, OpenError};

use crate::phone::Client;
use crate::server::{Folder, Server, block_on, porchlight, successful};

const CREATE: [&str; 8] = [
    "keys", "create", "--org", "acme", "--env", "sandbox", "--kind", "secret",
];

fn status(server: &Server, key: &str) -> u16 {
    let client = Client::new(&Arc::new(RwLock::new(server.api.clone())), key);
    block_on(client.request("/v1/sessions", None, None))
        .0
        .as_u16()
}

#[test]
fn a_key_may_be_created_before_the_first_start_of_a_configured_server() {
    let folder = Folder::new();
    let file = folder.path().join("porchlight.toml");
    let text = format!("[store]\npath = {:?}\n", folder.store());
    std::fs::write(&file, text).unwrap();
    let mut create = porchlight();
    let made = create.args(CREATE).arg("--config").arg(&file).output();
    let key = successful(made.unwrap());
    assert_eq!(key.lines().count(), 1, "{key}");
    let server = Server::start(&folder, &[]);
    assert_eq!(status(&server, key.trim()), 200);
    server.stop();
}

/// Without a configuration, a running server may use the default folder of another working
/// directory, so a key in a new store would be useless.
#[test]
fn a_key_is_not_created_in_a_default_folder_without_a_store() {
    let folder = Folder::new();
    let create = || {
        let mut command = porchlight();
        command.args(CREATE).current_dir(folder.path());
        command
    };
    let refused = create().output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--init"));
    assert!(!folder.path().join("porchlight-data").exists());
    successful(create().arg("--init").output().unwrap());
}

#[test]
fn a_starting_server_waits_for_a_command_that_has_the_store_open() {
    let folder = Folder::new();
    let open = EmbeddedStore::open_for_command(&folder.store()).unwrap();
    let command = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(500));
        drop(open);
    });
    let server = Server::start(&folder, &[]);
    command.join().unwrap();
    assert_eq!(status(&server, &server.key("secret")), 200);
    server.stop();
}

/// If several processes open a new store at the same time, one gets it and the others are refused.
#[test]
fn a_first_start_in_progress_does_not_count_as_interrupted() {
    for _ in 0..20 {
        let folder = Folder::new();
        let path = folder.store();
        let opened: Vec<_> = std::thread::scope(|scope| {
            let open = || EmbeddedStore::open_for_command(&path);
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        });
        let (mut open, mut refused) = (Vec::new(), Vec::new());
        for result in opened {
            match result {
                Ok(store) => open.push(store),
                Err(error) => refused.push(error),
            }
        }
        assert_eq!(open.len(), 1, "{refused:?}");
        let is_locked = |error: &OpenError| matches!(error, OpenError::Locked(_));
        assert!(refused.iter().all(is_locked), "{refused:?}");
    }
}
