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
    /// Bytes of telemetry stored per second, with a burst of [`STORED_BYTES_BURST_SEC`] seconds.
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
        bucket(self.session_starts_per_sec, SESSION_STARTS_BURST_FACTOR)
    }

    /// Returns the bucket of replaced PoDs, or `None` without a limit.
    #[must_use]
    pub fn pod_changes(&self) -> Option<TokenBucket> {
        bucket(self.pod_changes_per_sec, POD_CHANGES_BURST_FACTOR)
    }

    /// Returns the allowance of stored bytes, or `None` without a limit.
    #[must_use]
    pub fn stored_bytes(&self) -> Option<Allowance> {
        let per_sec = self.stored_bytes_per_sec;
        (per_sec > 0).then(|| Allowance::new(per_sec, STORED_BYTES_BURST_SEC))
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

/// Bounds a rate of amounts that are known only after they were spent.
///
/// An amount may exceed what is left. Nothing more may be spent until the time has paid that debt.
/// Time is an argument, as for [`TokenBucket`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    per_sec: i64,
    burst_milli: i64,
    /// Thousandths of a unit; negative for a debt.
    left_milli: i64,
    at_ms: u64,
}

impl Allowance {
    /// Creates an allowance of `per_sec` units a second, which holds those of `burst_sec` seconds.
    #[must_use]
    pub fn new(per_sec: u64, burst_sec: u64) -> Self {
        let per_sec = i64::try_from(per_sec).unwrap_or(i64::MAX);
        let burst_milli = per_sec
            .saturating_mul(1_000)
            .saturating_mul(i64::try_from(burst_sec).unwrap_or(i64::MAX));
        Self {
            per_sec,
            burst_milli,
            left_milli: burst_milli,
            at_ms: 0,
        }
    }

    /// Checks that something is left.
    ///
    /// # Errors
    ///
    /// Returns the time until something is left, in milliseconds.
    pub fn check(&mut self, now_ms: u64) -> Result<(), u64> {
        self.gain(now_ms);
        if self.left_milli > 0 {
            return Ok(());
        }
        let debt_milli = self.left_milli.unsigned_abs().saturating_add(1);
        Err(debt_milli.div_ceil(self.per_sec.unsigned_abs().max(1)))
    }

    /// Spends an amount, even if less is left.
    pub fn spend(&mut self, now_ms: u64, amount: u64) {
        self.gain(now_ms);
        let amount_milli = amount.saturating_mul(1_000);
        let amount_milli = i64::try_from(amount_milli).unwrap_or(i64::MAX);
        self.left_milli = self.left_milli.saturating_sub(amount_milli);
    }

    fn gain(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let gained_milli = i64::try_from(elapsed_ms)
            .unwrap_or(i64::MAX)
            .saturating_mul(self.per_sec);
        let left_milli = self.left_milli.saturating_add(gained_milli);
        self.left_milli = left_milli.min(self.burst_milli);
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
        let mut allowance = Allowance::new(1_000, 2);
        assert_eq!(allowance.check(0), Ok(()));
        allowance.spend(0, 5_000);
        assert_eq!(allowance.check(0), Err(3_001));
        assert_eq!(allowance.check(3_000), Err(1));
        assert_eq!(allowance.check(3_001), Ok(()));
        // A quiet tenant saves up no more than the burst.
        allowance.spend(1_000_000, 2_000);
        assert_eq!(allowance.check(1_000_000), Err(1));
        // Time does not run backwards.
        assert_eq!(allowance.check(0), Err(1));
    }

    proptest! {
        #[test]
        fn an_allowance_is_exceeded_by_one_amount_at_most(
            per_sec in 1_u64..1_000,
            burst_sec in 1_u64..20,
            steps in proptest::collection::vec((0_u64..500, 0_u64..5_000), 1..200),
        ) {
            let mut allowance = Allowance::new(per_sec, burst_sec);
            let (mut now_ms, mut spent) = (0, 0_u64);
            for (step_ms, amount) in steps {
                now_ms += step_ms;
                match allowance.check(now_ms) {
                    Ok(()) => {
                        let most = per_sec * burst_sec + now_ms * per_sec / 1_000;
                        prop_assert!(spent <= most);
                        allowance.spend(now_ms, amount);
                        spent += amount;
                    }
                    Err(wait_ms) => {
                        let (mut later, mut earlier) = (allowance, allowance);
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
