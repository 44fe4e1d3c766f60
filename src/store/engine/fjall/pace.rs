//! Slows down a compaction of everything, so that other threads find a processor.
//!
//! fjall has no limit for the speed of a compaction. It calls a compaction filter for each row, and
//! the filter of this module pauses there. It keeps every row.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use fjall::Keyspace;
use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};

/// The time after which a compaction pauses. The scheduler of Linux lets a thread keep its
/// processor for about 3 ms.
const WORK: Duration = Duration::from_micros(300);
/// The length of a pause.
const PAUSE: Duration = Duration::from_micros(600);
/// The number of rows between two reads of the clock.
const ROWS: u32 = 16;

thread_local! {
    /// The keyspaces of the database whose compactions on this thread are paced.
    static PACED: RefCell<Option<[Keyspace; 2]>> = const { RefCell::new(None) };
}

/// Runs `work`, and paces the compactions that it runs on this thread.
pub(super) fn paced<T>(keyspaces: [&Keyspace; 2], work: impl FnOnce() -> T) -> T {
    PACED.replace(Some(keyspaces.map(Clone::clone)));
    let result = work();
    PACED.take();
    result
}

/// Makes the filter of each compaction.
pub(super) struct Pacing;

impl Factory for Pacing {
    fn name(&self) -> &'static str {
        "pacing"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Pace {
            paced: PACED.with_borrow(Clone::clone),
            rows: 0,
            resumed_at: Instant::now(),
        })
    }
}

struct Pace {
    paced: Option<[Keyspace; 2]>,
    /// The number of rows since the last read of the clock.
    rows: u32,
    resumed_at: Instant,
}

impl Pace {
    /// Returns whether the compaction has worked for long enough and no memtable waits for it. A
    /// major compaction blocks fjall's worker, so memtables wait, and with four of them writes
    /// wait, too.
    fn may_pause(&self) -> bool {
        let may_pause = |keyspaces: &[Keyspace; 2]| {
            let is_free = |keyspace: &Keyspace| keyspace.sealed_memtable_count() == 0;
            self.resumed_at.elapsed() >= WORK && keyspaces.iter().all(is_free)
        };
        self.paced.as_ref().is_some_and(may_pause)
    }
}

impl CompactionFilter for Pace {
    fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        self.rows += 1;
        if self.rows >= ROWS {
            self.rows = 0;
            if self.may_pause() {
                std::thread::park_timeout(PAUSE);
                self.resumed_at = Instant::now();
            }
        }
        Ok(Verdict::Keep)
    }
}
