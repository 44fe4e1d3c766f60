//! Measures the cost of an append, in processor time. Not part of a test run: `cargo test --release
//! --test store -- --ignored --nocapture measure`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use porchlight_ports::{Sessions, Store};
use porchlight_store::MemoryStore;

use crate::fixtures::{Folder, T0, big_batch, new_session, open, session_id, start, tenant};

/// Returns the processor time of this process, user and system, in microseconds.
fn processor_us() -> u64 {
    // Fields 14 and 15 are in ticks of 10 ms; the second field contains no space here.
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = |n: usize| stat.split(' ').nth(n).unwrap().parse::<u64>().unwrap();
    (ticks(13) + ticks(14)) * 10_000
}

/// Runs `writers` concurrent writers; each appends its next batch once the previous one is
/// acknowledged.
async fn appends(store: Arc<dyn Store>, writers: u32, each: u32) {
    let bodies: Arc<Vec<_>> = Arc::new((0..64).map(big_batch).collect());
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, bodies) = (Arc::clone(&store), Arc::clone(&bodies));
            tokio::spawn(async move {
                let ids: Vec<_> = (0..16).map(|_| session_id(T0)).collect();
                for n in 0..each {
                    let body = bodies[n as usize % bodies.len()].clone();
                    let id = ids[n as usize % ids.len()];
                    store.append(id, n / 16, body, T0).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap()
        .split_whitespace()
        .skip(1)
        .collect::<Vec<_>>()
        .join(" ")
}

fn report(what: &str, count: u32, cpu: u64, begun: Instant, extra: &str) {
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what:<28} {:>8.2} us cpu each, {:>8.0}/s, {extra}",
        cpu as f64 / f64::from(count),
        f64::from(count) / seconds
    );
}

fn acknowledged(folder: &Folder) -> u64 {
    let bytes = fs::read(folder.path().join("acknowledged")).unwrap();
    [0, 4096]
        .map(|at: usize| u64::from_be_bytes(bytes[at + 4..at + 12].try_into().unwrap()))
        .into_iter()
        .max()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn measure_appends() {
    println!("batch: {} bytes", big_batch(0).as_bytes().len());
    for (writers, total) in [(1, 4_000), (32, 60_000), (256, 120_000)] {
        let each = total / writers;
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (cpu, begun) = (processor_us(), Instant::now());
        appends(store, writers, each).await;
        let cpu = processor_us() - cpu;
        report(
            &format!("memory, {writers} writers"),
            writers * each,
            cpu,
            begun,
            "",
        );

        let folder = Folder::new();
        let store = open(folder.path()).unwrap();
        let first = acknowledged(&folder);
        let (cpu, begun) = (processor_us(), Instant::now());
        appends(store, writers, each).await;
        let cpu = processor_us() - cpu;
        let groups = (acknowledged(&folder) - first) as f64;
        let group = format!("{:.1} in a group", f64::from(writers * each) / groups);
        report(
            &format!("embedded, {writers} writers"),
            writers * each,
            cpu,
            begun,
            &group,
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn measure_bare_syncs() {
    for group in [1_u32, 32, 256] {
        let folder = Folder::new();
        let mut file = File::create(folder.path().join("log")).unwrap();
        file.set_len(64 * 1024 * 1024).unwrap();
        let record = vec![7_u8; 1_024];
        let groups = (20_000 / group).clamp(100, 2_000);
        let (cpu, begun) = (processor_us(), Instant::now());
        for _ in 0..groups {
            for _ in 0..group {
                file.write_all(&record).unwrap();
            }
            file.sync_data().unwrap();
        }
        let cpu = processor_us() - cpu;
        report(
            &format!("bare log, group {group}"),
            groups * group,
            cpu,
            begun,
            "",
        );
        file.write_at(&[1], 0).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn measure_reads_and_reopening() {
    let folder = Folder::new();
    let store = open(folder.path()).unwrap();
    let tenant = tenant();
    let starts: Vec<_> = (0..20_000).map(|n| start(tenant, T0.plus_ms(n))).collect();
    let begun = Instant::now();
    for part in starts.chunks(200) {
        let all = part.iter().map(|start| store.start(new_session(start)));
        futures_util::future::join_all(all).await;
    }
    println!("20,000 starts in {:?}", begun.elapsed());
    let megabytes: u32 = std::env::var("STORE_MEGABYTES").map_or(256, |text| text.parse().unwrap());
    for quarter in 1..=4 {
        let begun = Instant::now();
        appends(Arc::clone(&store) as _, 256, megabytes).await;
        let took = begun.elapsed();
        println!(
            "quarter {quarter} of {megabytes} MB in {took:?}, {}",
            resident()
        );
    }
    let begun = Instant::now();
    for start in &starts {
        assert!(store.find(start.session_id).await.unwrap().is_some());
    }
    println!(
        "find, not in memory yet: {:?} each",
        begun.elapsed() / starts.len() as u32
    );
    let begun = Instant::now();
    for start in &starts {
        assert!(store.find(start.session_id).await.unwrap().is_some());
    }
    println!(
        "find, again: {:?} each",
        begun.elapsed() / starts.len() as u32
    );
    let begun = Instant::now();
    store.flush_tables().unwrap();
    println!("flushed in {:?}, {}", begun.elapsed(), resident());
    drop(store);
    let begun = Instant::now();
    let store = open(folder.path()).unwrap();
    println!("reopened in {:?}, {}", begun.elapsed(), resident());
    let copy = Folder::new();
    fs::remove_dir(copy.path()).unwrap();
    let begun = Instant::now();
    let report = store.backup(copy.path(), &[]).unwrap();
    println!(
        "backup of {} MB in {:?}",
        report.bytes / 1_000_000,
        begun.elapsed()
    );
}
