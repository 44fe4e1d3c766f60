//! Reads a session's journal page by page. The store bounds the bytes of each page.

use porchlight_ports::{JournalEntry, Store, StoreResult};
use porchlight_schema::ids::SessionId;

/// The number of batches in a page for a computation over the whole journal. Few run at the same
/// time, each yields between two batches, and large pages need few reads.
pub(crate) const WHOLE_JOURNAL_BATCHES: usize = 256;
/// The number of batches in a page for a session's actor, which applies a page without answering
/// anything in between, and shares its thread with other sessions.
pub(crate) const ACTOR_BATCHES: usize = 64;

/// The rest of a session's journal.
pub(crate) struct Pages<'s> {
    store: &'s dyn Store,
    session_id: SessionId,
    /// The first `seq` of the next page.
    from_seq: u32,
}

/// Returns a session's journal from its first batch on.
pub(crate) fn pages(store: &dyn Store, session_id: SessionId) -> Pages<'_> {
    Pages {
        store,
        session_id,
        from_seq: 0,
    }
}

impl Pages<'_> {
    /// Returns the next page, which has at least one batch. Returns `None` at the end of the
    /// journal.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<Vec<JournalEntry>>> {
        let reading = self
            .store
            .read(self.session_id, self.from_seq, WHOLE_JOURNAL_BATCHES);
        let page = reading.await?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        self.from_seq = last.seq.saturating_add(1);
        Ok(Some(page))
    }

    /// Returns the `seq` after the last batch that was read.
    pub(crate) fn next_seq(&self) -> u32 {
        self.from_seq
    }
}
