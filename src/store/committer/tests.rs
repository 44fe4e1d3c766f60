//! Tests the writer on a disk that has space again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use porchlight_core::disk_space::DiskUsage;

use super::*;
use crate::engine::memory::MemoryEngine;
use crate::engine::{KeyRange, Order, Space, Visit, Write};

/// An engine that records the level which other threads see while it resumes.
struct Resuming {
    inner: MemoryEngine,
    shared: SharedLevel,
    level_at_resume: OnceLock<SpaceLevel>,
}

impl Engine for Resuming {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.inner.get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        range: &KeyRange,
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        self.inner.scan(space, range, order, visit)
    }

    fn apply(&self, writes: Vec<Write>, durability: Durability) -> Result<(), EngineError> {
        self.inner.apply(writes, durability)
    }

    fn acknowledge(&self, group_number: u64) -> Result<(), EngineError> {
        self.inner.acknowledge(group_number)
    }

    fn rotate(&self) -> Result<(), EngineError> {
        self.inner.rotate()
    }

    fn resume(&self) -> Result<(), EngineError> {
        self.level_at_resume.get_or_init(|| self.shared.get());
        Ok(())
    }

    fn purge(&self) -> Result<(), EngineError> {
        self.inner.purge()
    }

    fn close(&self) -> Result<(), EngineError> {
        self.inner.close()
    }
}

#[test]
fn other_threads_see_space_only_after_the_engine_has_resumed() {
    let free_bytes = Arc::new(AtomicU64::new(0));
    let measured = Arc::clone(&free_bytes);
    let measure = move || {
        Some(DiskUsage {
            free_bytes: measured.load(Ordering::Relaxed),
            total_bytes: 1 << 40,
        })
    };
    let mut disk = Disk::measured_by(Box::new(measure), 1 << 30);
    assert_eq!(disk.measure(0), SpaceLevel::Exhausted);
    disk.publish();
    let engine = Arc::new(Resuming {
        inner: MemoryEngine::new(),
        shared: disk.shared(),
        level_at_resume: OnceLock::new(),
    });
    let on_fatal: OnFatal = Arc::new(|reason| panic!("{reason}"));
    let committer = Committer::start(
        Arc::clone(&engine) as _,
        0,
        disk,
        Arc::new(|_, _| {}),
        on_fatal,
    )
    .unwrap();
    free_bytes.store(1 << 31, Ordering::Relaxed);
    for _ in 0..600 {
        if committer.space() == SpaceLevel::Plenty {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    assert_eq!(committer.space(), SpaceLevel::Plenty);
    let seen = engine.level_at_resume.get();
    assert_eq!(seen, Some(&SpaceLevel::Exhausted));
}
