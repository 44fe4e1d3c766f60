//! The free space on the store's disk, as the writer measures it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use porchlight_core::disk_space::{DiskSpace, DiskUsage, SpaceLevel, WriteOrigin};

/// The minimum time between two measurements. It is short because another process can fill a disk
/// in less than a second, and a measurement costs a microsecond.
const MEASURE_INTERVAL: Duration = Duration::from_millis(5);

/// Measures the usage of a disk; returns `None` if it is unknown.
type Measure = Box<dyn Fn() -> Option<DiskUsage> + Send>;

/// The level that all callers see, without a lock.
#[derive(Debug, Clone)]
pub(super) struct SharedLevel(Arc<AtomicU8>);

impl SharedLevel {
    fn new(level: SpaceLevel) -> Self {
        Self(Arc::new(AtomicU8::new(level as u8)))
    }

    fn set(&self, level: SpaceLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }

    /// Returns the level of the last measurement.
    pub(super) fn get(&self) -> SpaceLevel {
        let stored = self.0.load(Ordering::Relaxed);
        let is_stored = |level: &SpaceLevel| *level as u8 == stored;
        // Only the values of levels are stored.
        let found = SpaceLevel::ALL.into_iter().find(is_stored);
        found.unwrap_or(SpaceLevel::Exhausted)
    }
}

/// A disk with a reserve.
pub(crate) struct Disk {
    measure: Measure,
    space: DiskSpace,
    shared: SharedLevel,
    measured_at: Option<Instant>,
}

impl Disk {
    /// Returns the disk of `folder`; a reserve of 0 refuses nothing.
    pub(crate) fn of(folder: &Path, reserve_bytes: u64) -> Self {
        let folder = folder.to_path_buf();
        Self::measured_by(Box::new(move || usage(&folder)), reserve_bytes)
    }

    /// Returns the state without a disk: everything is accepted.
    pub(crate) fn unlimited() -> Self {
        Self::measured_by(Box::new(|| None), 0)
    }

    /// Returns a disk with this measurement.
    pub(crate) fn measured_by(measure: Measure, reserve_bytes: u64) -> Self {
        let space = DiskSpace::new(reserve_bytes);
        Self {
            measure,
            shared: SharedLevel::new(space.level()),
            space,
            measured_at: None,
        }
    }

    /// Returns the level of the last measurement.
    pub(crate) fn level(&self) -> SpaceLevel {
        self.space.level()
    }

    pub(super) fn shared(&self) -> SharedLevel {
        self.shared.clone()
    }

    /// Shows the level of the last measurement to other threads.
    pub(crate) fn publish(&self) {
        self.shared.set(self.level());
    }

    /// Returns whether the last measurement leaves room for a write.
    pub(super) fn accepts(&self, origin: WriteOrigin) -> bool {
        self.level().accepts(origin)
    }

    /// Measures the disk unless that was done moments ago. A disk that cannot be measured keeps its
    /// level. Other threads see the new level after [`Disk::publish`].
    pub(crate) fn measure(&mut self, unflushed_bytes: u64) -> SpaceLevel {
        let now = Instant::now();
        let is_recent = |at: Instant| now.duration_since(at) < MEASURE_INTERVAL;
        if self.measured_at.is_some_and(is_recent) {
            return self.level();
        }
        self.measured_at = Some(now);
        let Some(usage) = (self.measure)() else {
            return self.level();
        };
        let before = self.level();
        let level = self.space.measure(usage, unflushed_bytes);
        if level != before {
            let free_bytes = usage.free_bytes;
            match level {
                SpaceLevel::Plenty => {
                    tracing::info!(free_bytes, "the disk has space: writes are accepted");
                }
                SpaceLevel::Low => {
                    tracing::error!(
                        free_bytes,
                        "the disk is nearly full: clients' writes are refused"
                    );
                }
                SpaceLevel::Exhausted => {
                    tracing::error!(free_bytes, "the disk is full: all writes are refused");
                }
            }
        }
        level
    }
}

/// Returns the usage of the file system that holds `folder`.
fn usage(folder: &Path) -> Option<DiskUsage> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(DiskUsage {
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
    })
}
