//! Limits the share of one node that a single tenant may use, and provides the token bucket that
//! bounds its rates.

use porchlight_schema::limits::{
    POD_CHANGES_BURST_FACTOR, SESSION_STARTS_BURST_FACTOR, STORED_BYTES_BURST_SEC,
    TENANT_EVENT_STREAMS_MAX, TENANT_IN_FLIGHT_BYTES_MAX, TENANT_LISTS_AT_ONCE_MAX,
    TENANT_LIVE_SESSIONS_MAX, TENANT_POD_CHANGES_PER_SEC, TENANT_REQUESTS_MAX,
    TENANT_SESSION_STARTS_PER_SEC, TENANT_SOCKETS_MAX, TENANT_STORED_BYTES_PER_SEC,
};

/// The largest part of one node that a tenant (an organization in one environment) may use. In
/// every field 0 means "no limit".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// The number of bytes of request bodies that have arrived and are not answered.
    pub in_flight_bytes: u64,
    /// The number of requests in flight.
    pub requests: u64,
    /// The number of open WebSockets.
    pub sockets: u64,
    /// The number of open event streams.
    pub event_streams: u64,
    /// The number of sessions in progress.
    pub live_sessions: u64,
    /// The number of lists that are being read.
    pub lists: u64,
    /// The number of sessions started per second, with a burst of [`SESSION_STARTS_BURST_FACTOR`]
    /// times as many.
    pub session_starts_per_sec: u32,
    /// The number of PoDs of completed sessions replaced per second, with a burst of
    /// [`POD_CHANGES_BURST_FACTOR`] times as many: each causes a new insight.
    pub pod_changes_per_sec: u32,
    /// The number of bytes of telemetry stored per second, with a burst of
    /// [`STORED_BYTES_BURST_SEC`] seconds.
    pub stored_bytes_per_sec: u64,
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
            stored_bytes_per_sec: TENANT_STORED_BYTES_PER_SEC,
        }
    }
}

impl ShareLimits {
    /// Returns the bucket of session starts, or `None` without a limit.
    #[must_use]
    pub fn session_starts(&self) -> Option<TokenBucket> {
        bucket(
            self.session_starts_per_sec.into(),
            SESSION_STARTS_BURST_FACTOR.into(),
        )
    }

    /// Returns the bucket of replaced PoDs, or `None` without a limit.
    #[must_use]
    pub fn pod_changes(&self) -> Option<TokenBucket> {
        bucket(
            self.pod_changes_per_sec.into(),
            POD_CHANGES_BURST_FACTOR.into(),
        )
    }

    /// Returns the bucket of stored bytes, or `None` without a limit.
    #[must_use]
    pub fn stored_bytes(&self) -> Option<TokenBucket> {
        bucket(self.stored_bytes_per_sec, STORED_BYTES_BURST_SEC)
    }
}

fn bucket(per_sec: u64, burst_factor: u64) -> Option<TokenBucket> {
    let burst = per_sec.saturating_mul(burst_factor);
    (per_sec > 0).then(|| TokenBucket::new(per_sec, burst))
}

/// A token bucket: it holds up to `burst` tokens and gains `per_sec` tokens a second.
///
/// Callers either take one token before they act, or, if an amount is known only afterwards, check
/// that a token is left and spend the amount later. Such an amount may exceed the tokens that are
/// left; the bucket is then in debt until time has paid it.
///
/// Time is an argument, in milliseconds of a monotonic clock. A time before the last one counts as
/// the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    per_sec: i64,
    burst_milli: i64,
    /// Thousandths of a token; negative for a debt.
    level_milli: i64,
    at_ms: u64,
}

/// A token, in thousandths.
const TOKEN_MILLI: i64 = 1_000;

fn milli(tokens: u64) -> i64 {
    i64::try_from(tokens)
        .unwrap_or(i64::MAX)
        .saturating_mul(TOKEN_MILLI)
}

impl TokenBucket {
    /// Creates a full bucket.
    #[must_use]
    pub fn new(per_sec: u64, burst: u64) -> Self {
        Self {
            per_sec: i64::try_from(per_sec).unwrap_or(i64::MAX),
            burst_milli: milli(burst),
            level_milli: milli(burst),
            at_ms: 0,
        }
    }

    /// Takes one token.
    ///
    /// # Errors
    ///
    /// Returns the time until the next token, in milliseconds, if the bucket has none.
    pub fn take(&mut self, now_ms: u64) -> Result<(), u64> {
        self.require(now_ms, TOKEN_MILLI)?;
        self.level_milli -= TOKEN_MILLI;
        Ok(())
    }

    /// Gives back a token that was taken.
    pub fn give_back(&mut self) {
        let level_milli = self.level_milli.saturating_add(TOKEN_MILLI);
        self.level_milli = level_milli.min(self.burst_milli);
    }

    /// Checks that something is left, even if it is less than a token.
    ///
    /// # Errors
    ///
    /// Returns the time until something is left, in milliseconds.
    pub fn check(&mut self, now_ms: u64) -> Result<(), u64> {
        self.require(now_ms, 1)
    }

    /// Spends tokens, even if fewer are left.
    pub fn spend(&mut self, now_ms: u64, tokens: u64) {
        self.gain(now_ms);
        self.level_milli = self.level_milli.saturating_sub(milli(tokens));
    }

    fn require(&mut self, now_ms: u64, least_milli: i64) -> Result<(), u64> {
        self.gain(now_ms);
        if self.level_milli >= least_milli {
            return Ok(());
        }
        let missing_milli = least_milli.saturating_sub(self.level_milli).unsigned_abs();
        Err(missing_milli.div_ceil(self.per_sec.unsigned_abs().max(1)))
    }

    fn gain(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let gained_milli = i64::try_from(elapsed_ms)
            .unwrap_or(i64::MAX)
            .saturating_mul(self.per_sec);
        let level_milli = self.level_milli.saturating_add(gained_milli);
        self.level_milli = level_milli.min(self.burst_milli);
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

    #[test]
    fn a_debt_is_paid_by_time() {
        let mut bucket = TokenBucket::new(1_000, 2_000);
        assert_eq!(bucket.check(0), Ok(()));
        bucket.spend(0, 5_000);
        assert_eq!(bucket.check(0), Err(3_001));
        assert_eq!(bucket.check(3_000), Err(1));
        assert_eq!(bucket.check(3_001), Ok(()));
        // A quiet tenant saves up no more than the burst.
        bucket.spend(1_000_000, 2_000);
        assert_eq!(bucket.check(1_000_000), Err(1));
        // Time does not run backwards.
        assert_eq!(bucket.check(0), Err(1));
    }

    proptest! {
        #[test]
        fn a_bucket_is_exceeded_by_one_amount_at_most(
            per_sec in 1_u64..1_000,
            burst_sec in 1_u64..20,
            steps in proptest::collection::vec((0_u64..500, 0_u64..5_000), 1..200),
        ) {
            let mut bucket = TokenBucket::new(per_sec, per_sec * burst_sec);
            let (mut now_ms, mut spent) = (0, 0_u64);
            for (step_ms, amount) in steps {
                now_ms += step_ms;
                match bucket.check(now_ms) {
                    Ok(()) => {
                        let most = per_sec * burst_sec + now_ms * per_sec / 1_000;
                        prop_assert!(spent <= most);
                        bucket.spend(now_ms, amount);
                        spent += amount;
                    }
                    Err(wait_ms) => {
                        let (mut later, mut earlier) = (bucket, bucket);
                        prop_assert_eq!(later.check(now_ms + wait_ms), Ok(()));
                        prop_assert!(earlier.check(now_ms + wait_ms - 1).is_err());
                    }
                }
            }
        }

        #[test]
        fn a_bucket_never_exceeds_its_burst_and_rate(
            per_sec in 1_u32..50,
            burst in 1_u32..20,
            steps_ms in proptest::collection::vec(0_u64..500, 1..200),
        ) {
            let mut bucket = TokenBucket::new(per_sec.into(), burst.into());
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
