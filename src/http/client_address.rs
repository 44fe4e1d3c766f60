//! Determines the address of the client behind trusted proxies.

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::http::header::{FORWARDED, HeaderMap, HeaderName};

/// The older header, which most proxies write.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The maximum number of addresses read from one header.
const HOPS_MAX: usize = 16;

/// The proxies whose headers are trusted.
#[derive(Clone)]
pub struct TrustedProxies(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl std::fmt::Debug for TrustedProxies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TrustedProxies")
    }
}

impl Default for TrustedProxies {
    /// Trusts no headers.
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl TrustedProxies {
    /// Trusts the headers of the proxies at the addresses for which `is_trusted` returns true.
    pub fn new(is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_trusted))
    }

    /// Returns the client address of a request from `peer`: the last address in `Forwarded` or
    /// `X-Forwarded-For` that is not a trusted proxy. Returns the peer's own address if it is not a
    /// trusted proxy, or if the headers name no client or contradict each other.
    #[must_use]
    pub fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer.map(|peer| peer.to_canonical())?;
        if !(self.0)(peer) {
            return Some(peer);
        }
        let forwarded = self.last_untrusted(headers, &FORWARDED, forwarded_address);
        let older = self.last_untrusted(headers, &X_FORWARDED_FOR, |hop| address(hop.trim()));
        let client = match (forwarded, older) {
            // A proxy that writes one of the headers passes the other on as the client sent it.
            (Some(one), Some(other)) if one != other => None,
            (one, other) => one.or(other),
        };
        Some(client.unwrap_or(peer))
    }

    /// Returns the last address in a list that is not a trusted proxy. A malformed entry ends the
    /// search: the entries before it may be forged.
    fn last_untrusted(
        &self,
        headers: &HeaderMap,
        name: &HeaderName,
        read: impl Fn(&str) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        let values: Vec<&str> = headers
            .get_all(name)
            .map(|value| value.to_str().unwrap_or_default())
            .collect();
        let hops = values.iter().rev().flat_map(|value| value.rsplit(','));
        for hop in hops.take(HOPS_MAX) {
            let hop = read(hop)?;
            if !(self.0)(hop) {
                return Some(hop);
            }
        }
        None
    }
}

/// Parses the `for` of one element of `Forwarded` (RFC 7239).
fn forwarded_address(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(value.trim().trim_matches('"'))
}

/// Parses an address with or without a port; an IPv6 address with a port is in brackets.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    if let Ok(socket) = text.parse::<std::net::SocketAddr>() {
        return Some(socket.ip().to_canonical());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(inner.parse::<IpAddr>().ok()?.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let proxies = TrustedProxies::new(|address| {
            address.is_loopback() || address.to_string().starts_with("10.")
        });
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let client = proxies.client(Some(peer.parse().unwrap()), &map);
        client.unwrap().to_string()
    }

    #[test]
    fn headers_count_only_from_trusted_proxies() {
        let forged = [
            ("x-forwarded-for", "192.0.2.9"),
            ("forwarded", "for=192.0.2.9"),
        ];
        assert_eq!(client("203.0.113.1", &forged), "203.0.113.1");
        assert_eq!(client("127.0.0.1", &forged), "192.0.2.9");
        assert_eq!(client("::ffff:127.0.0.1", &forged), "192.0.2.9");
        let nobody = TrustedProxies::default();
        let peer = "127.0.0.1".parse().unwrap();
        assert_eq!(nobody.client(Some(peer), &HeaderMap::new()), Some(peer));
    }

    #[test]
    fn the_last_address_that_is_not_a_proxy_counts() {
        for (headers, expected) in [
            // The client's entries precede the entries that the proxies added.
            (
                vec![("x-forwarded-for", "198.51.100.7, 192.0.2.1, 10.0.0.2")],
                "192.0.2.1",
            ),
            (
                vec![
                    ("x-forwarded-for", "198.51.100.7"),
                    ("x-forwarded-for", "192.0.2.1"),
                ],
                "192.0.2.1",
            ),
            (vec![("x-forwarded-for", "192.0.2.1:4711")], "192.0.2.1"),
            (
                vec![(
                    "forwarded",
                    "for=198.51.100.7, for=\"[2001:db8::1]:4711\";proto=https",
                )],
                "2001:db8::1",
            ),
            (
                vec![("forwarded", "proto=https;For=192.0.2.1, for=10.1.2.3")],
                "192.0.2.1",
            ),
            (vec![], "127.0.0.1"),
            (vec![("x-forwarded-for", "10.0.0.1")], "127.0.0.1"),
            (vec![("x-forwarded-for", "192.0.2.1, unknown")], "127.0.0.1"),
            (vec![("forwarded", "for=_hidden")], "127.0.0.1"),
            (
                vec![
                    ("x-forwarded-for", "192.0.2.1"),
                    ("forwarded", "for=192.0.2.2"),
                ],
                "127.0.0.1",
            ),
        ] {
            assert_eq!(client("127.0.0.1", &headers), expected, "{headers:?}");
        }
    }
}
