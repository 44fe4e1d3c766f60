//! Limits sign-in attempts. A key has 178 random bits and cannot be guessed; this limit prevents a
//! faulty script, or a search for keys, from causing lookups.
//!
//! Many people may share one address, for example behind a proxy that is not configured as trusted.
//! So that one of them cannot lock the others out, an address that has used up its attempts may
//! still try keys that are well formed: each key a few times a minute, and all of them together at
//! a bounded rate.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

/// The number of attempts per address, both as a burst and per minute.
const ADDRESS_ATTEMPTS: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// The number of attempts per key, for an address that has used up its own.
const KEY_ATTEMPTS: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// The number of such attempts per second, all keys together.
const EXTRA_ATTEMPTS: NonZeroU32 = NonZeroU32::new(50).unwrap();

/// Counts the attempts by address, and then by key.
pub(super) struct Throttle {
    addresses: DefaultKeyedRateLimiter<IpAddr>,
    keys: DefaultKeyedRateLimiter<[u8; 32]>,
    extra: DefaultDirectRateLimiter,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self {
            addresses: RateLimiter::dashmap(Quota::per_minute(ADDRESS_ATTEMPTS)),
            keys: RateLimiter::dashmap(Quota::per_minute(KEY_ATTEMPTS)),
            extra: RateLimiter::direct(Quota::per_second(EXTRA_ATTEMPTS)),
        }
    }

    /// Admits an attempt from `address` with the key of this hash (`None`: the text is no key), or
    /// returns the number of seconds to wait as an error.
    pub(super) fn admit(&self, address: Option<IpAddr>, key: Option<[u8; 32]>) -> Result<(), u64> {
        let Err(not_until) = self.addresses.check_key(&network(address)) else {
            return Ok(());
        };
        let may_try = |key| self.extra.check().is_ok() && self.keys.check_key(&key).is_ok();
        if key.is_some_and(may_try) {
            return Ok(());
        }
        let wait = not_until.wait_time_from(DefaultClock::default().now());
        Err(wait.as_secs_f64().ceil().max(1.0) as u64)
    }

    /// Removes addresses and keys without recent attempts.
    pub(super) fn clean_up(&self) {
        self.addresses.retain_recent();
        self.addresses.shrink_to_fit();
        self.keys.retain_recent();
        self.keys.shrink_to_fit();
    }
}

/// Returns the unit of counting: an IPv4 address, or the /64 of one IPv6 customer.
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
        let admitted = (0..60)
            .filter(|_| throttle.admit(one, None).is_ok())
            .count();
        assert_eq!(admitted, 20);
        assert!(
            throttle
                .admit(one, None)
                .is_err_and(|wait| (1..=3).contains(&wait))
        );
        assert!(
            throttle
                .admit(Some("192.0.2.1".parse().unwrap()), None)
                .is_ok()
        );
    }

    #[test]
    fn a_key_holder_is_admitted_from_a_throttled_address() {
        let throttle = Throttle::new();
        let shared = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        for number in 0..30 {
            // This holds regardless of the attempts of others.
            let _refused = throttle.admit(shared, Some([number; 32]));
            let _refused = throttle.admit(shared, None);
        }
        let mine = *b"the key of somebody who has one.";
        assert!(throttle.admit(shared, Some(mine)).is_ok());
        let again = (0..20).filter(|_| throttle.admit(shared, Some(mine)).is_ok());
        assert!(again.count() < 20, "each key is limited");
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let network = |text: &str| network(Some(text.parse().unwrap()));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
    }
}
