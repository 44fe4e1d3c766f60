//! Decides whether a webhook may be sent to an address: public addresses, and addresses that the
//! operator allows. The decision is a pure function.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A block of addresses, such as `10.0.0.0/8` or `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    prefix_bits: u8,
}

/// The error of a text that is not a block of addresses, or has bits set after its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a block of addresses such as 10.0.0.0/8 (no bit set behind the prefix)")]
pub struct CidrError;

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (base, prefix) = match text.split_once('/') {
            Some((base, prefix)) => (base, Some(prefix)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().map_err(|_| CidrError)?;
        let width = width_bits(base);
        let prefix_bits = match prefix {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| CidrError)?
            }
            Some(_) => return Err(CidrError),
            None => width,
        };
        let behind = width.checked_sub(prefix_bits).ok_or(CidrError)?;
        if bits(base) & low_bits(u32::from(behind)) != 0 {
            return Err(CidrError);
        }
        Ok(Self { base, prefix_bits })
    }
}

fn width_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn low_bits(count: u32) -> u128 {
    u128::MAX.checked_shr(128 - count).unwrap_or(0)
}

impl Cidr {
    /// Returns whether the block contains the address. An address of the other family never
    /// matches, even if it embeds one of this family.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let behind = u32::from(width_bits(self.base) - self.prefix_bits);
        width_bits(self.base) == width_bits(address)
            && (bits(self.base) ^ bits(address)) & !low_bits(behind) == 0
    }
}

/// IPv4 blocks that are not public: IANA's special-purpose registry (RFC 6890 and updates),
/// multicast (RFC 5771), reserved class E with broadcast, former 6to4 relays (RFC 7526), and the
/// address at which one cloud's machines reach their host.
const REFUSED_V4: [(Ipv4Addr, u32); 18] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 31, 196, 0), 24),
    (Ipv4Addr::new(192, 52, 193, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(192, 175, 48, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast, class E and broadcast.
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// IPv6 blocks within 2000::/3 that are not public: IETF protocol assignments with Teredo and
/// ORCHID (RFC 2928), documentation (RFC 3849, RFC 9637), 6to4 (RFC 3056), the closed 6bone (RFC
/// 3701), AS112 (RFC 7534).
const REFUSED_V6: [(Ipv6Addr, u32); 6] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0x0db8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    (Ipv6Addr::new(0x2620, 0x004f, 0x8000, 0, 0, 0, 0, 0), 48),
];

/// Returns whether the address is public. IPv4 inside IPv6 is never public: mapped, compatible,
/// translated, NAT64, 6to4, Teredo, ISATAP.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let address = u32::from(address);
            !REFUSED_V4
                .iter()
                .any(|&(base, prefix)| (address ^ u32::from(base)) >> (32 - prefix) == 0)
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            // Interface identifiers of ISATAP (RFC 5214) embed an IPv4 address after this prefix.
            let isatap = matches!(segments[4], 0 | 0x0200) && segments[5] == 0x5efe;
            let bits = u128::from(address);
            segments[0] & 0xe000 == 0x2000
                && !isatap
                && !REFUSED_V6
                    .iter()
                    .any(|&(base, prefix)| (bits ^ u128::from(base)) >> (128 - prefix) == 0)
        }
    }
}

/// The origin of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The address is a literal in the URL.
    Literal,
    /// The address is the result of resolving a name.
    Resolved,
}

/// Returns whether a webhook may go to this address (contract section 6): a literal only if it is
/// allowed explicitly, a resolved address also if it is public.
#[must_use]
pub fn is_permitted(address: IpAddr, origin: Origin, allowed: &[Cidr]) -> bool {
    allowed.iter().any(|block| block.contains(address))
        || (origin == Origin::Resolved && is_public(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "it is a table")]
    fn public_and_private_addresses_are_distinguished() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "168.63.129.17",
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00::1",
            "2003::1",
            "3ffd::1",
            "3fff:1000::1",
        ];
        let private = [
            // "This network", private, CGNAT, loopback, link-local with metadata, benchmarking.
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "168.63.129.16",
            // Protocol assignments, documentation, relays, multicast, class E, broadcast.
            "192.0.0.0",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "198.51.100.7",
            "203.0.113.9",
            "192.31.196.1",
            "192.52.193.1",
            "192.175.48.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            // Unspecified, loopback, unique local with metadata, link-local, site-local, multicast.
            "::",
            "::1",
            "fc00::1",
            "fd00:ec2::254",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
            "ff0e::1",
            "100::1",
            "4000::1",
            "5f00::1",
            "1fff::1",
            // IPv4 inside: compatible, mapped, translated, NAT64 of both kinds, 6to4, Teredo,
            // ISATAP.
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:100.64.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "2001::1",
            "2001:0:808:808::1",
            "2606:4700::5efe:808:808",
            "2606:4700::200:5efe:808:808",
            // Documentation, ORCHID, benchmarking, the 6bone, AS112.
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "3ffe::1",
            "2620:4f:8000::1",
        ];
        for text in public {
            assert!(is_public(text.parse().unwrap()), "{text} is public");
        }
        for text in private {
            assert!(!is_public(text.parse().unwrap()), "{text} is not public");
        }
    }

    #[test]
    fn address_blocks_are_parsed_strictly() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "127.0.0.1",
            "127.0.0.1/32",
            "::/0",
            "fd00::/8",
            "::1/128",
        ] {
            assert!(text.parse::<Cidr>().is_ok(), "{text}");
        }
        for text in [
            "",
            "/",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10/8",
            "fd00::1/8",
            "::/129",
            "localhost",
            "10.0.0.0/8/8",
            "0x7f.0.0.1/32",
            "10.0.0.0/256",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError), "{text}");
        }
    }

    #[test]
    fn an_allowed_block_permits_only_its_own_addresses() {
        let allowed: Vec<Cidr> = ["127.0.0.0/8", "fd12::/16"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let permitted = |text: &str, origin| is_permitted(text.parse().unwrap(), origin, &allowed);
        for (text, literal, resolved) in [
            ("127.0.0.1", true, true),
            ("127.255.0.1", true, true),
            ("126.0.0.1", false, true),
            ("8.8.8.8", false, true),
            ("10.0.0.1", false, false),
            ("fd12::1", true, true),
            ("fd13::1", false, false),
            ("::1", false, false),
            ("::ffff:127.0.0.1", false, false),
            ("2606:4700::1111", false, true),
        ] {
            assert_eq!(
                permitted(text, Origin::Literal),
                literal,
                "{text} as a literal"
            );
            assert_eq!(
                permitted(text, Origin::Resolved),
                resolved,
                "{text} behind a name"
            );
        }
        let all = ["0.0.0.0/0".parse().unwrap()];
        assert!(is_permitted(
            "10.1.2.3".parse().unwrap(),
            Origin::Literal,
            &all
        ));
        assert!(!is_permitted("::1".parse().unwrap(), Origin::Literal, &all));
    }
}
