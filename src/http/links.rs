//! Signed links to path images and to archives of personal data.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use hmac::{Hmac, KeyInit, Mac};
use porchlight_keys::keyring::SecretKeys;
use porchlight_schema::hex;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use sha2::Sha256;

/// Purpose of the derived signing key.
const PURPOSE: &str = "path image link, version 1";
/// The size of a signature in bytes: 128 of the HMAC's 256 bits.
const SIGNATURE_BYTES: usize = 16;
type HmacSha256 = Hmac<Sha256>;

/// Begins the signed bytes of a link to an archive. They are longer than a session id, so a
/// signature of one never fits the other.
const ARCHIVE_DOMAIN: &[u8] = b"access archive link, version 1";

/// A link to the archive that answers an access request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLink<'a> {
    /// The owner of the request.
    pub tenant: Tenant,
    /// The caller's id of the request.
    pub request_id: &'a str,
    /// The time at which the link expires.
    pub expires_at: TimestampMs,
}

impl ArchiveLink<'_> {
    /// Returns the signed bytes. Only the last part has a variable length, so two links never have
    /// the same bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = ARCHIVE_DOMAIN.to_vec();
        bytes.extend(self.tenant.organization_id.to_bytes());
        bytes.push(self.tenant.env as u8);
        bytes.extend(self.expires_at.0.to_be_bytes());
        bytes.extend(self.request_id.as_bytes());
        bytes
    }
}

/// Converts a listening address to an address to dial: the unspecified address (all addresses of
/// the machine) becomes the loopback address.
#[must_use]
pub fn dial_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Creates and verifies links to path images and to archives.
pub struct SignedLinks {
    /// Prepared HMACs; the first one signs, all verify.
    macs: Vec<HmacSha256>,
    /// The start of all links: the configured public URL, or else the address on which the service
    /// listens. Never the host that a request names, because any client can set it.
    base: OnceLock<String>,
}

impl std::fmt::Debug for SignedLinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignedLinks").finish_non_exhaustive()
    }
}

impl SignedLinks {
    /// Creates links that are signed with keys derived from the service's secrets: the first key
    /// signs, all verify.
    #[must_use]
    pub fn of(secrets: &SecretKeys, public_url: &str) -> Self {
        let keys = secrets.reading().map(|secret| secret.derive(PURPOSE));
        Self::new(keys.map(|key| *key.bytes()), public_url)
    }

    /// Creates links that are signed with dedicated keys: the first signs, all verify.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = [u8; 32]>, public_url: &str) -> Self {
        // HMAC accepts keys of any length (RFC 2104), so none is left out.
        let keyed = |key: [u8; 32]| HmacSha256::new_from_slice(&key).ok();
        let base = match public_url.trim_end_matches('/') {
            "" => OnceLock::new(),
            url => OnceLock::from(url.to_owned()),
        };
        Self {
            macs: keys.into_iter().filter_map(keyed).collect(),
            base,
        }
    }

    /// Makes links begin with the address that the service listens on, unless a public URL is
    /// configured.
    pub fn listening_at(&self, address: SocketAddr) {
        let address = dial_address(address);
        self.base.get_or_init(|| format!("http://{address}"));
    }

    /// Returns the link to a session's picture, or `None` before the service knows its address.
    #[must_use]
    pub fn image_url(&self, session_id: SessionId) -> Option<String> {
        let base = self.base.get()?;
        let signature = self.sign(&session_id.to_bytes())?;
        Some(format!(
            "{base}/v1/sessions/{session_id}/path.png?signature={signature}"
        ))
    }

    /// Returns the link to the archive of an access request, or `None` before the service knows its
    /// address.
    #[must_use]
    pub fn archive_url(&self, link: &ArchiveLink<'_>) -> Option<String> {
        let base = self.base.get()?;
        let signature = self.sign(&link.bytes())?;
        let (id, expires) = (link.request_id, link.expires_at.0);
        let (organization, environment) = (link.tenant.organization_id, link.tenant.env.as_str());
        Some(format!(
            "{base}/v1/privacy/requests/{id}/archive?organizationId={organization}&environment={environment}&expires={expires}&signature={signature}"
        ))
    }

    /// Signs bytes with the first key. The signature is lower-case hex.
    fn sign(&self, bytes: &[u8]) -> Option<String> {
        let mac = self.macs.first()?.clone();
        let tag = mac.chain_update(bytes).finalize().into_bytes();
        Some(hex::encode(tag.get(..SIGNATURE_BYTES)?))
    }

    /// Returns the address that links start with, without a slash at the end, or `None` before the
    /// service listens.
    #[must_use]
    pub fn base(&self) -> Option<&str> {
        self.base.get().map(String::as_str)
    }

    /// Verifies the signature of a session in constant time.
    #[must_use]
    pub fn is_image_signed(&self, session_id: SessionId, signature: &str) -> bool {
        self.verify(&session_id.to_bytes(), signature)
    }

    /// Verifies the signature of a link to an archive in constant time. Does not check whether the
    /// link has expired.
    #[must_use]
    pub fn is_archive_signed(&self, link: &ArchiveLink<'_>, signature: &str) -> bool {
        self.verify(&link.bytes(), signature)
    }

    fn verify(&self, bytes: &[u8], signature: &str) -> bool {
        let Some(tag) = decode_signature(signature) else {
            return false;
        };
        self.macs.iter().any(|mac| {
            let mac = mac.clone().chain_update(bytes);
            mac.verify_truncated_left(&tag).is_ok()
        })
    }
}

/// Decodes a signature from lower-case hex; `None` for any other text.
fn decode_signature(text: &str) -> Option<[u8; SIGNATURE_BYTES]> {
    let has_upper_case = text.bytes().any(|byte| byte.is_ascii_uppercase());
    hex::decode(text.as_bytes()).filter(|_| !has_upper_case)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;

    use super::*;

    #[test]
    fn a_link_is_valid_for_its_session_under_any_configured_key() {
        let session_id = SessionId::new(TimestampMs(1_763_636_100_000), 7);
        let other = SessionId::new(TimestampMs(1_763_636_100_000), 8);
        let old = SignedLinks::new([[1; 32]], "https://api.example.com/");
        let url = old.image_url(session_id).unwrap();
        let (before, signature) = url.split_once("?signature=").unwrap();
        assert_eq!(
            before,
            format!("https://api.example.com/v1/sessions/{session_id}/path.png")
        );
        let both = SignedLinks::new([[2; 32], [1; 32]], "");
        assert_eq!(
            both.image_url(session_id),
            None,
            "the listening address is unknown"
        );
        both.listening_at("0.0.0.0:8080".parse().unwrap());
        let url = both.image_url(session_id).unwrap();
        assert!(
            url.starts_with("http://127.0.0.1:8080/v1/sessions/"),
            "{url}"
        );
        old.listening_at("127.0.0.1:1".parse().unwrap());
        assert!(
            old.image_url(session_id)
                .unwrap()
                .starts_with("https://api.example.com/")
        );
        for links in [&old, &both] {
            assert!(links.is_image_signed(session_id, signature));
            assert!(!links.is_image_signed(other, signature));
            for place in 0..signature.len() {
                let mut wrong = signature.to_owned();
                let digit = if &wrong[place..=place] == "0" {
                    "1"
                } else {
                    "0"
                };
                wrong.replace_range(place..=place, digit);
                assert!(!links.is_image_signed(session_id, &wrong), "{wrong}");
            }
            for wrong in [
                "",
                "0",
                &signature[1..],
                &format!("{signature}0"),
                &signature.to_uppercase(),
            ] {
                let is_same = wrong == signature;
                assert!(
                    is_same || !links.is_image_signed(session_id, wrong),
                    "{wrong}"
                );
            }
        }
        assert!(!SignedLinks::new([[2; 32]], "").is_image_signed(session_id, signature));
    }
    /// Stored messages and insights of customers contain links.
    #[test]
    fn the_links_of_a_secret_key_never_change() {
        let keys = SecretKeys::of_bytes([7; 32], &[]);
        let links = SignedLinks::of(&keys, "https://api.example.com");
        let at = TimestampMs(1_763_636_100_000);
        let archive = ArchiveLink {
            tenant: Tenant {
                organization_id: OrganizationId::new(at, 7),
                env: Env::Production,
            },
            request_id: "request-1",
            expires_at: at,
        };
        let urls = [
            links.image_url(SessionId::new(at, 7)),
            links.archive_url(&archive),
        ];
        let signatures = urls.map(|url| url.unwrap().rsplit_once('=').unwrap().1.to_owned());
        assert_eq!(
            signatures,
            [
                "ae1c34cf415ff3a31cd8b49ab46ce4c6",
                "031bb01232b16744799855dfcf5835ad"
            ]
        );
    }
}
