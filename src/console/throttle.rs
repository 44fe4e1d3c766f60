//! Limits sign-in attempts. A key has 178 random bits and cannot be guessed; this limit keeps a
//! faulty script, or a search, from causing lookups.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

/// The number of attempts per address, both as a burst and per minute.
const TRIES: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// Counts the attempts by address.
pub(super) struct Throttle(DefaultKeyedRateLimiter<IpAddr>);

impl Throttle {
    pub(super) fn new() -> Self {
        Self(RateLimiter::dashmap(Quota::per_minute(TRIES)))
    }

    /// Admits an attempt from `address`, or returns the number of seconds to wait as an error.
    pub(super) fn admit(&self, address: Option<IpAddr>) -> Result<(), u64> {
        self.0.check_key(&network(address)).map_err(|not_until| {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            wait.as_secs_f64().ceil().max(1.0) as u64
        })
    }

    /// Removes addresses without recent attempts.
    pub(super) fn tidy(&self) {
        self.0.retain_recent();
        self.0.shrink_to_fit();
    }
}

/// The unit of counting: an IPv4 address, or the /64 of one IPv6 customer.
fn network(address: Option<IpAddr>) -> IpAddr {
    match address {
        Some(IpAddr::V6(address)) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        Some(address) => address,
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_failing_address_is_throttled() {
        let throttle = Throttle::new();
        let one = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let admitted = (0..60).filter(|_| throttle.admit(one).is_ok()).count();
        assert_eq!(admitted, 20);
        assert!(
            throttle
                .admit(one)
                .is_err_and(|wait| (1..=3).contains(&wait))
        );
        assert!(throttle.admit(Some("192.0.2.1".parse().unwrap())).is_ok());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let network = |text: &str| network(Some(text.parse().unwrap()));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }
}
