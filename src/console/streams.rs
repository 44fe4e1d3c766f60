//! Limits the number of pages that watch live sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of streams per node; each holds a connection and polls once a second.
const STREAMS_MAX: usize = 512;

/// The number of open streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams(Arc<AtomicUsize>);

/// One open stream, counted until it is dropped.
pub(crate) struct Open(Arc<AtomicUsize>);

impl Streams {
    pub(crate) fn open(&self) -> Option<Open> {
        let open = Open(Arc::clone(&self.0));
        (self.0.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX).then_some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
