//! Cuts the power of a disk with a volatile write cache, again and again, while phones send. After
//! each cut the server starts on the data that the disk kept, and every acknowledged batch is
//! there. On a disk whose `fdatasync` does nothing, acknowledged batches are lost: the test would
//! notice.
//!
//! The disk is `power_cut/volatile_disk.c`, preloaded into the real server.
//! `PORCHLIGHT_POWER_CUTS=300` cuts more often than the default of 5 times; `PORCHLIGHT_SEED`
//! repeats a campaign.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use porchlight_ports::Journal;
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::json::decode_batch;
use serde_json::{Value, json};

use crate::opened::open_store;
use crate::server::{Folder, Server, block_on, http};

const CUTS: u64 = 5;
const PHONES: u64 = 6;
/// The seed of a run that names none.
const SEED: u64 = 20_261_122;
/// The unit in which a disk writes.
const PAGE_BYTES: usize = 4096;

/// A small deterministic generator (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Compiles the library that simulates the disk, and returns its path.
fn library() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/power_cut/volatile_disk.c");
    let name = format!(
        "volatile-disk-{}-{}.so",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let library = std::env::temp_dir().join(name);
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl")
        .status()
        .unwrap();
    assert!(built.success(), "the volatile disk does not compile");
    library
}

/// A folder on a disk with a volatile write cache.
struct Disk {
    folder: Folder,
    library: PathBuf,
    ignores_sync: bool,
}

impl Disk {
    fn new(ignores_sync: bool) -> Self {
        let folder = Folder::new();
        fs::create_dir(folder.store()).unwrap();
        Self {
            folder,
            library: library(),
            ignores_sync,
        }
    }

    fn shadow(&self) -> PathBuf {
        self.folder.path().join("shadow")
    }

    fn start(&self) -> Server {
        let shadow = self.shadow();
        drop(fs::remove_dir_all(&shadow));
        for kind in ["f", "d"] {
            fs::create_dir_all(shadow.join(kind)).unwrap();
        }
        let store = self.folder.store();
        let mut variables = vec![
            ("PORCHLIGHT__SERVER__RATE_LIMIT_PER_SECOND", "0"),
            ("LD_PRELOAD", self.library.to_str().unwrap()),
            ("VOLATILE_ROOT", store.to_str().unwrap()),
            ("VOLATILE_SHADOW", shadow.to_str().unwrap()),
        ];
        if self.ignores_sync {
            variables.push(("VOLATILE_LIES", "1"));
        }
        Server::start(&self.folder, &variables)
    }

    /// Replaces the store's folder by the data that the disk kept: the synced data, and of each
    /// file a random beginning of the data that was not synced.
    fn cut(&self, server: Server, chance: &mut Chance) {
        server.kill();
        let (store, shadow) = (self.folder.store(), self.shadow());
        let kept = self.folder.path().join("kept");
        let root = fs::read_to_string(shadow.join("root")).unwrap();
        let mut written = BTreeMap::new();
        inodes(&store, &mut written);
        rebuild(&shadow, &root, &kept, &written, chance);
        fs::remove_dir_all(&store).unwrap();
        fs::rename(&kept, &store).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.library));
    }
}

/// Collects the files below a folder by inode.
fn inodes(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
    use std::os::unix::fs::DirEntryExt;
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            inodes(&entry.path(), found);
        } else {
            found.insert(entry.ino().to_string(), entry.path());
        }
    }
}

fn rebuild(
    shadow: &Path,
    inode: &str,
    folder: &Path,
    written: &BTreeMap<String, PathBuf>,
    chance: &mut Chance,
) {
    fs::create_dir(folder).unwrap();
    let entries = fs::read_to_string(shadow.join("d").join(inode)).unwrap_or_default();
    for entry in entries.lines() {
        let mut parts = entry.splitn(3, ' ');
        let (kind, inode, name) = (
            parts.next().unwrap(),
            parts.next().unwrap(),
            parts.next().unwrap(),
        );
        let path = folder.join(name);
        if kind == "d" {
            rebuild(shadow, inode, &path, written, chance);
            continue;
        }
        let synced = fs::read(shadow.join("f").join(inode)).unwrap_or_default();
        let live = written.get(inode).map(|path| fs::read(path).unwrap());
        fs::write(path, survivor(synced, live.as_deref(), chance)).unwrap();
    }
}

/// Returns the content of a file after a cut: the synced content, and perhaps the first pages of
/// later writes.
fn survivor(mut synced: Vec<u8>, live: Option<&[u8]>, chance: &mut Chance) -> Vec<u8> {
    let Some(live) = live.filter(|_| chance.below(2) == 0) else {
        return synced;
    };
    let same = synced.iter().zip(live).take_while(|(a, b)| a == b).count();
    let pages = (live.len() - same).div_ceil(PAGE_BYTES) as u64;
    // Most cuts hit the first unsynced pages: the rest of a preallocated file has none.
    let most = [pages, 4][chance.below(2) as usize].min(pages);
    let end = live
        .len()
        .min((same / PAGE_BYTES + chance.below(most + 1) as usize) * PAGE_BYTES);
    if end > same {
        synced.resize(synced.len().max(end), 0);
        synced[same..end].copy_from_slice(&live[same..end]);
    }
    synced
}

/// The acknowledged batches of a session.
type Acknowledged = (SessionId, Vec<(u32, String)>);

/// The progress of a round, which the phones share.
#[derive(Default)]
struct Round {
    /// The number of acknowledged batches so far.
    acknowledged: AtomicU64,
    is_cut: AtomicBool,
}

/// The timeout of the first acknowledged batches of a round. Generous, for a busy machine.
const FIRST_BATCHES_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends small batches of one session until the server is gone. Returns the acknowledged batches.
async fn phone(
    api: String,
    key: String,
    number: u64,
    in_round: Arc<Round>,
) -> Option<Acknowledged> {
    let http = http();
    let post = |path: String, body: String| {
        http.post(format!("{api}{path}"))
            .header("Service-Key", &key)
            .header("Content-Type", "application/json")
            .body(body)
            .send()
    };
    let start = json!({
        "deliveryId": format!("d{number}"), "externalRiderId": "r",
        "address": { "line1": "1 Main St", "city": "Town", "country": "XX", "lat": 1.0, "lng": 2.0 },
    });
    let started = post("/v1/sessions/start".into(), start.to_string()).await;
    let started: Value = serde_json::from_str(&started.ok()?.text().await.ok()?).ok()?;
    let id = started["sessionId"].as_str()?.to_owned();
    let mut acknowledged = Vec::new();
    for seq in 0_u32.. {
        let t = f64::from(seq);
        let fix = json!({ "kind": "location", "t": t, "lat": 1.0 + t * 1e-6, "lng": 2.0 });
        let body = json!({ "seq": seq, "samples": [fix] }).to_string();
        let sent = post(format!("/v1/sessions/{id}/telemetry"), body.clone()).await;
        let Ok(answer) = sent else { break };
        assert_eq!(answer.status(), 202);
        acknowledged.push((seq, body));
        in_round.acknowledged.fetch_add(1, Ordering::Relaxed);
        if in_round.is_cut.load(Ordering::Relaxed) {
            break;
        }
    }
    Some((id.parse().unwrap(), acknowledged))
}

/// Lets phones send for a random time from their first acknowledged batches on, and cuts the power
/// in the middle. Returns the acknowledged batches.
fn send_and_cut(disk: &Disk, round: u64, chance: &mut Chance) -> Vec<Acknowledged> {
    let server = disk.start();
    let (api, key) = (server.api.clone(), server.key("secret"));
    let this_round = Arc::<Round>::default();
    let in_round = Arc::clone(&this_round);
    let phones = std::thread::spawn(move || {
        let one = |n| {
            phone(
                api.clone(),
                key.clone(),
                round * PHONES + n,
                Arc::clone(&in_round),
            )
        };
        block_on(futures_util::future::join_all((0..PHONES).map(one)))
    });
    let began = Instant::now();
    while this_round.acknowledged.load(Ordering::Relaxed) < PHONES
        && began.elapsed() < FIRST_BATCHES_TIMEOUT
    {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    std::thread::park_timeout(Duration::from_millis(300 + chance.below(1_200)));
    disk.cut(server, chance);
    this_round.is_cut.store(true, Ordering::Relaxed);
    phones.join().unwrap().into_iter().flatten().collect()
}

/// Returns the number of acknowledged batches that the store does not have. Panics if it has
/// another body. A store that refuses to open has lost all of them.
fn missing(disk: &Disk, sent: &[Acknowledged]) -> usize {
    let all = sent.iter().map(|(_, batches)| batches.len()).sum();
    let store = match open_store(&disk.folder.store()) {
        Ok(store) => store,
        Err(refused) => {
            println!("the store refuses to open: {refused:?}");
            return all;
        }
    };
    let mut missing = 0;
    for (id, batches) in sent {
        let mut journal = BTreeMap::new();
        loop {
            let from = journal.last_key_value().map_or(0, |(seq, _)| *seq + 1);
            let page = block_on(Journal::read(&*store, *id, from, 500)).unwrap();
            if page.is_empty() {
                break;
            }
            journal.extend(page.into_iter().map(|entry| (entry.seq, entry.batch)));
        }
        for (seq, body) in batches {
            let expected = decode_batch(body.as_bytes()).unwrap().batch;
            match journal.get(seq) {
                Some(found) => assert_eq!(found.as_bytes(), expected.as_bytes(), "{id} {seq}"),
                None => missing += 1,
            }
        }
    }
    block_on(store.close());
    missing
}

#[test]
fn a_power_cut_loses_nothing_acknowledged() {
    let cuts = number("PORCHLIGHT_POWER_CUTS", CUTS);
    let seed = number("PORCHLIGHT_SEED", SEED);
    let (disk, mut chance) = (Disk::new(false), Chance(seed));
    let mut sent = Vec::new();
    for round in 0..cuts {
        sent.extend(send_and_cut(&disk, round, &mut chance));
        assert_eq!(missing(&disk, &sent), 0, "cut {round} of seed {seed}");
    }
    // The server starts once more, and has all sessions.
    let server = disk.start();
    let key = server.key("secret");
    drop(key);
    server.stop();
    let batches: usize = sent.iter().map(|(_, batches)| batches.len()).sum();
    println!("{cuts} power cuts, seed {seed}: {batches} acknowledged batches, none lost");
    assert!(batches > 0, "no phone was answered");
}

#[test]
fn a_disk_that_ignores_fdatasync_loses_acknowledged_batches() {
    let (disk, mut chance) = (Disk::new(true), Chance(SEED));
    // A single cut may come right after the engine synced its journal for another reason.
    let lost = (0..3).any(|round| {
        let sent = send_and_cut(&disk, round, &mut chance);
        let lost = missing(&disk, &sent);
        println!("lost {lost} acknowledged batches");
        lost > 0
    });
    assert!(lost, "the test does not notice lost batches");
}
