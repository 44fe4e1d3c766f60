//! Shares purges of the store among the requests that wait for one.

/// Counts the purges that began and the last one that succeeded.
///
/// A request may rely on a purge of another request only if that purge began after the request had
/// removed its rows, and succeeded.
#[derive(Debug, Default)]
pub struct Purges {
    begun: u64,
    succeeded: u64,
}

impl Purges {
    /// Returns the number of the last purge that began.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns whether a purge has succeeded that began after the purge of this number.
    #[must_use]
    pub fn succeeded_after(&self, begun_before: u64) -> bool {
        self.succeeded > begun_before
    }

    /// Begins a purge and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Records that the purge of this number has succeeded.
    pub fn succeed(&mut self, number: u64) {
        self.succeeded = self.succeeded.max(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_request_shares_a_later_purge_only_if_it_succeeds() {
        let mut purges = Purges::default();
        // The first request purges; two others wait meanwhile.
        let first = purges.begin();
        let waiting = purges.begun();
        purges.succeed(first);
        assert!(!purges.succeeded_after(waiting), "it began too early");
        // The purge of the second request fails, so the third one must purge itself.
        let _failed = purges.begin();
        assert!(!purges.succeeded_after(waiting));
        let third = purges.begin();
        purges.succeed(third);
        assert!(purges.succeeded_after(waiting));
        assert!(!purges.succeeded_after(purges.begun()));
    }
}
