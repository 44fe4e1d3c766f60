//! The rate limit of one credential, and the header fields that report it: `RateLimit-Policy` and
//! `RateLimit` (draft-ietf-httpapi-ratelimit-headers).

use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::problem::{Code, Problem};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The window of the policy in seconds.
const WINDOW_SEC: u32 = 1;

/// Limits the requests of each credential per second, with a burst.
pub(super) struct RateLimit {
    quota: NonZeroU32,
    limiter: DefaultKeyedRateLimiter<[u8; 16], StateInformationMiddleware>,
}

/// The remaining rate of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemainingRate {
    quota: u32,
    remaining: u32,
    reset_sec: u32,
}

/// A request beyond the credential's rate.
#[derive(Debug)]
pub struct Limited {
    /// The problem to answer with.
    pub problem: Problem,
    /// The values for the rate headers.
    pub remaining_rate: RemainingRate,
}

impl RateLimit {
    /// Creates a limit of `per_second` requests with a burst of `burst`; `None` if one of them is
    /// 0.
    pub(super) fn new(per_second: u32, burst: u32) -> Option<Self> {
        let (quota, burst) = (NonZeroU32::new(per_second)?, NonZeroU32::new(burst)?);
        let rate = Quota::per_second(quota).allow_burst(burst);
        let limiter = RateLimiter::dashmap(rate).with_middleware();
        Some(Self { quota, limiter })
    }

    /// Counts one request of the credential with this id.
    ///
    /// # Errors
    ///
    /// Returns an error if the rate is used up.
    pub(super) fn count(&self, subject: &[u8; 16]) -> Result<RemainingRate, Limited> {
        let remaining_rate = |remaining, reset_sec| RemainingRate {
            quota: self.quota.get(),
            remaining,
            reset_sec,
        };
        match self.limiter.check_key(subject) {
            // The bucket refills evenly and is full again after at most one window.
            Ok(state) => Ok(remaining_rate(state.remaining_burst_capacity(), WINDOW_SEC)),
            Err(not_until) => {
                let wait = not_until.wait_time_from(DefaultClock::default().now());
                let wait_sec = whole_seconds(wait);
                let problem = Problem::new(
                    Code::RateLimited,
                    "Rate limit exceeded: this credential sent too many requests within a second.",
                );
                Err(Limited {
                    problem: problem.retry_after_sec(u64::from(wait_sec)),
                    remaining_rate: remaining_rate(0, wait_sec),
                })
            }
        }
    }

    /// Evicts credentials whose rate is unused.
    pub(super) fn clean_up(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}

/// Rounds a wait up to whole seconds, at least one.
fn whole_seconds(wait: Duration) -> u32 {
    wait.as_secs_f64().ceil().max(1.0) as u32
}

impl RemainingRate {
    /// Sets the two header fields of an answer.
    pub fn write(self, headers: &mut HeaderMap) {
        let policy = format!("\"default\";q={};w={WINDOW_SEC}", self.quota);
        let limit = format!("\"default\";r={};t={}", self.remaining, self.reset_sec);
        for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, limit)] {
            // Digits, letters and punctuation are always a valid value.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::SessionId;

    use super::super::Caller;
    use super::*;

    #[test]
    fn the_remaining_rate_is_reported_until_it_is_exhausted() {
        assert!(RateLimit::new(0, 0).is_none());
        let limit = RateLimit::new(2, 2).unwrap();
        let caller = Caller::Session(SessionId::from_bytes([1; 16]));
        let mut headers = HeaderMap::new();
        limit.count(&caller.subject()).unwrap().write(&mut headers);
        assert_eq!(
            headers.get("ratelimit-policy").unwrap(),
            "\"default\";q=2;w=1"
        );
        assert_eq!(headers.get("ratelimit").unwrap(), "\"default\";r=1;t=1");
        assert_eq!(limit.count(&caller.subject()).unwrap().remaining, 0);
        let limited = limit.count(&caller.subject()).unwrap_err();
        assert_eq!(limited.problem.code(), Code::RateLimited);
        limited.remaining_rate.write(&mut headers);
        assert_eq!(headers.get("ratelimit").unwrap(), "\"default\";r=0;t=1");
        let other = Caller::Session(SessionId::from_bytes([2; 16]));
        assert!(
            limit.count(&other.subject()).is_ok(),
            "each credential has its own rate"
        );
    }
}
