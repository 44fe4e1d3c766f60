//! The secret that all nodes of a cluster share, and the authentication based on it.
//!
//! A node answers a request only if the sender knows the secret and made the request for this node.
//! A node accepts an answer only if it was made for its request. Bodies are not encrypted, so nodes
//! need a private network.

use std::path::Path;

use anyhow::Context;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::config::Cluster;

/// The minimum length of the secret in bytes, without surrounding white space. 32 hex characters
/// carry 128 bits.
const SECRET_BYTES_MIN: usize = 32;
/// The prefixes of authenticated messages. They prevent a tag made for one purpose from being valid
/// for another.
const REQUEST: &[u8] = b"porchlight peer request 1";
const ANSWER: &[u8] = b"porchlight peer answer 1";

/// Random bytes, unique to each request.
pub(super) type Nonce = [u8; 16];
/// An HMAC-SHA256 tag, which only holders of the secret can compute.
pub(super) type Tag = [u8; 32];

/// The reason why a secret could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("the file cannot be read")]
    File(#[from] std::io::Error),
    /// The secret is too short.
    #[error("a secret has at least {SECRET_BYTES_MIN} characters")]
    Short,
}

/// A shared secret.
#[derive(Clone)]
pub struct PeerSecret {
    mac: Hmac<Sha256>,
}

impl std::fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerSecret").finish_non_exhaustive()
    }
}

/// The secrets of a node. It signs requests with the first and accepts requests signed with any of
/// them, so that the secret of a cluster can be changed node by node.
#[derive(Debug, Clone)]
pub struct PeerSecrets {
    first: PeerSecret,
    accepted: Vec<PeerSecret>,
}

impl From<PeerSecret> for PeerSecrets {
    fn from(first: PeerSecret) -> Self {
        Self {
            first,
            accepted: Vec::new(),
        }
    }
}

impl PeerSecrets {
    /// Loads the secrets that the configuration names.
    ///
    /// # Errors
    ///
    /// Returns the [`SecretError`] of a secret, with its setting and file.
    pub fn of(config: &Cluster) -> anyhow::Result<Self> {
        let read = |key: &str, file: &Path| {
            PeerSecret::read(file).with_context(|| format!("{key}: {}", file.display()))
        };
        let first = read("cluster.secret_file", &config.secret_file)?;
        let accepted = config.accepted_secret_files.iter();
        let accepted = accepted.map(|file| read("cluster.accepted_secret_files", file));
        Ok(Self {
            first,
            accepted: accepted.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Adds a secret that other nodes may use.
    #[must_use]
    pub fn accepting(mut self, secret: PeerSecret) -> Self {
        self.accepted.push(secret);
        self
    }

    /// Returns the secret with which this node signs requests.
    pub(super) fn signing(&self) -> &PeerSecret {
        &self.first
    }

    /// Returns the secret that signed a request, or `None` if no known secret did.
    pub(super) fn verify_request(&self, given: &Tag, head: &Head<'_>) -> Option<&PeerSecret> {
        let mut all = std::iter::once(&self.first).chain(&self.accepted);
        all.find(|secret| is_equal(given, &secret.request(head)))
    }
}

/// The parts of a request that are authenticated before its body is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    /// The name of the node that the request is addressed to.
    pub(super) node: &'a str,
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) nonce: &'a Nonce,
    /// The SHA-256 of the body.
    pub(super) digest: &'a [u8; 32],
}

/// Computes the SHA-256 of a body.
pub(super) fn digest(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

impl PeerSecret {
    /// Creates a secret from bytes, without surrounding white space.
    ///
    /// # Errors
    ///
    /// Returns [`SecretError::Short`] if the secret is too short.
    pub fn new(bytes: &[u8]) -> Result<Self, SecretError> {
        let bytes = bytes.trim_ascii();
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(SecretError::Short);
        }
        // HMAC accepts keys of any length.
        let mac = Hmac::new_from_slice(bytes).map_err(|_| SecretError::Short)?;
        Ok(Self { mac })
    }

    /// Reads the secret from a file.
    ///
    /// # Errors
    ///
    /// Returns a [`SecretError`] if the secret cannot be loaded.
    pub fn read(file: &Path) -> Result<Self, SecretError> {
        let bytes = Zeroizing::new(std::fs::read(file)?);
        Self::new(&bytes)
    }

    pub(super) fn request(&self, head: &Head<'_>) -> Tag {
        let Head {
            node,
            method,
            path,
            nonce,
            digest,
        } = *head;
        self.tag(&[
            REQUEST,
            node.as_bytes(),
            method.as_bytes(),
            path.as_bytes(),
            nonce,
            digest,
        ])
    }

    pub(super) fn answer(&self, nonce: &Nonce, status: u16, body: &[u8]) -> Tag {
        self.tag(&[ANSWER, nonce, &status.to_be_bytes(), body])
    }

    /// Computes the tag. Each part is preceded by its length, so that different lists of parts
    /// never form one message.
    fn tag(&self, parts: &[&[u8]]) -> Tag {
        let mut mac = self.mac.clone();
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

/// Compares two tags in constant time.
pub(super) fn is_equal(a: &Tag, b: &Tag) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> PeerSecret {
        PeerSecret::new(text.as_bytes()).unwrap()
    }

    fn request_head<'a>(nonce: &'a Nonce, digest: &'a [u8; 32]) -> Head<'a> {
        Head {
            node: "a:1",
            method: "POST",
            path: "/peer/v1/live",
            nonce,
            digest,
        }
    }

    #[test]
    fn a_tag_covers_secret_node_path_request_and_body() {
        let (nonce, body) = ([1; 16], digest(b"body"));
        let head = request_head(&nonce, &body);
        let ours = secret("0123456789abcdef0123456789abcdef");
        let tag = ours.request(&head);
        assert!(is_equal(&tag, &ours.request(&head)));
        let with_line_end = secret("0123456789abcdef0123456789abcdef\n");
        assert!(is_equal(&tag, &with_line_end.request(&head)));
        let other = secret("0123456789abcdef0123456789abcdeF");
        assert!(!is_equal(&tag, &other.request(&head)));
        let (other_nonce, other_body) = ([2; 16], digest(b"Body"));
        for changed in [
            Head {
                node: "b:1",
                ..head
            },
            Head {
                method: "GET",
                ..head
            },
            Head {
                path: "/peer/v1/told",
                ..head
            },
            // The same characters, divided into different parts.
            Head {
                node: "a:1P",
                method: "OST",
                ..head
            },
            Head {
                nonce: &other_nonce,
                ..head
            },
            Head {
                digest: &other_body,
                ..head
            },
        ] {
            assert!(!is_equal(&tag, &ours.request(&changed)), "{changed:?}");
        }
        let answer = ours.answer(&nonce, 200, b"body");
        assert!(!is_equal(&answer, &ours.answer(&other_nonce, 200, b"body")));
        assert!(!is_equal(&answer, &ours.answer(&nonce, 401, b"body")));
        assert!(!is_equal(&answer, &ours.answer(&nonce, 200, b"bod")));
    }

    #[test]
    fn requests_verify_under_any_secret_and_are_signed_by_the_first() {
        let texts = ["0", "1", "2"].map(|digit| digit.repeat(32));
        let [old, new, strange] = texts.each_ref().map(|text| secret(text));
        let (nonce, body) = ([1; 16], digest(b"body"));
        let head = request_head(&nonce, &body);
        let changing = PeerSecrets::from(new.clone()).accepting(old.clone());
        assert!(is_equal(
            &changing.signing().request(&head),
            &new.request(&head)
        ));
        for known in [&old, &new] {
            let found = changing
                .verify_request(&known.request(&head), &head)
                .unwrap();
            let answer = found.answer(&nonce, 200, b"body");
            assert!(is_equal(&answer, &known.answer(&nonce, 200, b"body")));
        }
        assert!(
            changing
                .verify_request(&strange.request(&head), &head)
                .is_none()
        );
        let changed = PeerSecrets::from(new);
        assert!(changed.verify_request(&old.request(&head), &head).is_none());
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert!(matches!(
            PeerSecret::new(b"  0123456789abcdef0123456789abcde  \n"),
            Err(SecretError::Short)
        ));
    }
    /// Nodes of two releases verify each other's messages during an upgrade.
    #[test]
    fn the_tags_of_a_secret_never_change() {
        let (nonce, body) = ([1; 16], digest(b"body"));
        let ours = secret("0123456789abcdef0123456789abcdef");
        let tags = [
            ours.request(&request_head(&nonce, &body)),
            ours.answer(&nonce, 200, b"body"),
        ];
        let [request, answer] = tags.map(|tag| porchlight_schema::hex::encode(&tag));
        assert_eq!(
            [request, answer],
            [
                "69a1a3484c04919c94727a9602ce291fb156c0b16c30c5cc61d7fc38c5e0ce73",
                "71b459c4533d051ae6f933afbf325249b40d2c0e3423a408755871a8df821bca"
            ]
        );
    }
}
