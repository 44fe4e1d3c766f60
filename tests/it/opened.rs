//! Opens the store of a stopped server, and searches its rows.

use std::path::Path;
use std::sync::Arc;

use porchlight::config::Config;
use porchlight::key_guard::unlock;
use porchlight_store::EmbeddedStore;
use porchlight_store::engine::{KeyRange, Order, Space};
use porchlight_store::txn::Scan;
use porchlight_support::files::find_needles;

/// Opens and unlocks a store with the key next to it.
pub(crate) fn open_store(path: &Path) -> anyhow::Result<Arc<EmbeddedStore>> {
    let store = EmbeddedStore::open_for_command(path)?;
    unlock(&Config::default(), path, &store)?;
    Ok(store)
}

/// Returns the names of the needles that any readable row of the store contains. The store is
/// opened with the keys next to it.
pub(crate) async fn revealed(path: &Path, needles: &[(String, Vec<u8>)]) -> Vec<String> {
    let store = open_store(path).unwrap();
    let mut names = Vec::new();
    for space in Space::ALL {
        let everything = Scan {
            space,
            range: KeyRange {
                from: Vec::new(),
                to: Vec::new(),
            },
            order: Order::Ascending,
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
            keys_only: false,
        };
        let rows = store.read_rows(move |read| read.rows(&everything));
        for row in rows.await.unwrap() {
            find_needles(&row.payload, needles, &mut names);
            find_needles(&row.key, needles, &mut names);
        }
    }
    store.close().await;
    names
}
