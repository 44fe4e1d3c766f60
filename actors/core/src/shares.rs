//! Limits the share of one node that a single tenant may use, and provides the token bucket that
//! bounds its rates.

use porchlight_schema::limits::{
    POD_CHANGES_BURST_FACTOR, SESSION_STARTS_BURST_FACTOR, TENANT_EVENT_STREAMS_MAX,
    TENANT_IN_FLIGHT_BYTES_MAX, TENANT_LISTS_AT_ONCE_MAX, TENANT_LIVE_SESSIONS_MAX,
    TENANT_POD_CHANGES_PER_SEC, TENANT_REQUESTS_MAX, TENANT_SESSION_STARTS_PER_SEC,
    TENANT_SOCKETS_MAX,
};

/// The largest part of one node that a tenant (an organization in one environment) may use. In
/// every field 0 means "no limit".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// Bytes of request bodies that have arrived and are not answered.
    pub in_flight_bytes: u64,
    /// Requests in flight.
    pub requests: u64,
    /// The number of open WebSockets.
    pub sockets: u64,
    /// Open event streams.
    pub event_streams: u64,
    /// Sessions in progress.
    pub live_sessions: u64,
    /// Lists that are being read.
    pub lists: u64,
    /// Sessions started per second, with a burst of [`SESSION_STARTS_BURST_FACTOR`] times as many.
    pub session_starts_per_sec: u32,
    /// PoDs of completed sessions replaced per second, with a burst of [`POD_CHANGES_BURST_FACTOR`]
    /// times as many: each causes a new insight.
    pub pod_changes_per_sec: u32,
}

impl Default for ShareLimits {
    fn default() -> Self {
        Self {
            in_flight_bytes: TENANT_IN_FLIGHT_BYTES_MAX,
            requests: TENANT_REQUESTS_MAX,
            sockets: TENANT_SOCKETS_MAX,
            event_streams: TENANT_EVENT_STREAMS_MAX,
            live_sessions: TENANT_LIVE_SESSIONS_MAX,
            lists: TENANT_LISTS_AT_ONCE_MAX,
            session_starts_per_sec: TENANT_SESSION_STARTS_PER_SEC,
            pod_changes_per_sec: TENANT_POD_CHANGES_PER_SEC,
        }
    }
}

impl ShareLimits {
    /// Returns the bucket of session starts, or `None` without a limit.
    #[must_use]
    pub fn session_starts(&self) -> Option<TokenBucket> {
        bucket(self.session_starts_per_sec, SESSION_STARTS_BURST_FACTOR)
    }

    /// Returns the bucket of replaced PoDs, or `None` without a limit.
    #[must_use]
    pub fn pod_changes(&self) -> Option<TokenBucket> {
        bucket(self.pod_changes_per_sec, POD_CHANGES_BURST_FACTOR)
    }
}

fn bucket(per_sec: u32, burst_factor: u32) -> Option<TokenBucket> {
    let burst = per_sec.saturating_mul(burst_factor);
    (per_sec > 0).then(|| TokenBucket::new(per_sec, burst))
}

/// A token bucket: it holds up to `burst` tokens and gains `per_sec` tokens a second.
///
/// Time is an argument, in milliseconds of a monotonic clock. A time that lies before the last one
/// counts as that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    per_sec: u64,
    burst_milli: u64,
    /// Thousandths of a token.
    level_milli: u64,
    at_ms: u64,
}

impl TokenBucket {
    /// Creates a full bucket.
    #[must_use]
    pub fn new(per_sec: u32, burst: u32) -> Self {
        let burst_milli = u64::from(burst) * 1_000;
        Self {
            per_sec: u64::from(per_sec),
            burst_milli,
            level_milli: burst_milli,
            at_ms: 0,
        }
    }

    /// Takes one token.
    ///
    /// # Errors
    ///
    /// Returns the time until the next token, in milliseconds, if the bucket is empty.
    pub fn take(&mut self, now_ms: u64) -> Result<(), u64> {
        let elapsed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let gained_milli = elapsed_ms.saturating_mul(self.per_sec);
        self.level_milli = self
            .level_milli
            .saturating_add(gained_milli)
            .min(self.burst_milli);
        if let Some(left_milli) = self.level_milli.checked_sub(1_000) {
            self.level_milli = left_milli;
            return Ok(());
        }
        let missing_milli = 1_000 - self.level_milli;
        Err(missing_milli.div_ceil(self.per_sec.max(1)))
    }
}

impl TokenBucket {
    /// Gives back a token that was taken.
    pub fn give_back(&mut self) {
        self.level_milli = (self.level_milli + 1_000).min(self.burst_milli);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_bucket_returns_the_time_until_the_next_token() {
        let mut bucket = TokenBucket::new(4, 2);
        assert_eq!(bucket.take(1_000), Ok(()));
        assert_eq!(bucket.take(1_000), Ok(()));
        assert_eq!(bucket.take(1_000), Err(250));
        assert_eq!(bucket.take(1_249), Err(1));
        assert_eq!(bucket.take(1_250), Ok(()));
        assert_eq!(bucket.take(900), Err(250), "time does not run backwards");
        assert_eq!(bucket.take(1_000_000), Ok(()));
        assert_eq!(bucket.take(1_000_000), Ok(()));
        assert!(
            bucket.take(1_000_000).is_err(),
            "it never holds more than its burst"
        );
    }

    proptest! {
        #[test]
        fn a_bucket_never_exceeds_its_burst_and_rate(
            per_sec in 1_u32..50,
            burst in 1_u32..20,
            steps_ms in proptest::collection::vec(0_u64..500, 1..200),
        ) {
            let mut bucket = TokenBucket::new(per_sec, burst);
            let (mut now_ms, mut taken) = (0, 0_u64);
            for step_ms in steps_ms {
                now_ms += step_ms;
                match bucket.take(now_ms) {
                    Ok(()) => taken += 1,
                    Err(wait_ms) => {
                        prop_assert!(wait_ms >= 1);
                        let mut later = bucket;
                        prop_assert_eq!(later.take(now_ms + wait_ms), Ok(()));
                    }
                }
                let most = u64::from(burst) + now_ms * u64::from(per_sec) / 1_000;
                prop_assert!(taken <= most);
            }
        }
    }
}
