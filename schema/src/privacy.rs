//! Defines privacy requests as the API and the store represent them: erasure, access, restriction
//! and release.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex;
use crate::ids::SessionId;
use crate::limits::PRIVACY_REQUEST_ID_CHARS_MAX;

/// The type of a privacy request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestType {
    /// Removes all data about the subject.
    Erasure,
    /// Collects all data about the subject in one file.
    Access,
    /// Freezes the subject's sessions: nothing is shown, changed, sent or deleted.
    Restriction,
    /// Lifts the restriction and the suppression of the subject.
    Release,
}

/// The status of a privacy request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// No work was done yet, and the request can be cancelled.
    Pending,
    /// The service is performing the request.
    InProgress,
    /// All work was done.
    Completed,
    /// The customer cancelled the request.
    Cancelled,
    /// The request cannot be completed.
    Failed,
}

impl RequestType {
    /// All request types, with their names in the API.
    pub const ALL: [(&'static str, Self); 4] = [
        ("erasure", Self::Erasure),
        ("access", Self::Access),
        ("restriction", Self::Restriction),
        ("release", Self::Release),
    ];
}

impl RequestStatus {
    /// All request statuses, with their names in the API.
    pub const ALL: [(&'static str, Self); 5] = [
        ("pending", Self::Pending),
        ("in_progress", Self::InProgress),
        ("completed", Self::Completed),
        ("cancelled", Self::Cancelled),
        ("failed", Self::Failed),
    ];
}

/// Returns whether a text is a valid id of a request: it fits into a path without being escaped.
#[must_use]
pub fn is_request_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:~@-".contains(&byte);
    (1..=PRIVACY_REQUEST_ID_CHARS_MAX).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(is_allowed)
}

/// The domain of the hash of a subject, which distinguishes it from other hashes of the same text.
/// Receipts use the same hash.
pub const HASH_DOMAIN: &[u8] = b"porchlight receipt subject 1";

/// The person or object that a request concerns, by the customer's own id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subject {
    /// The subject is all sessions of a courier.
    ExternalRiderId(String),
    /// The subject is all sessions of a delivery.
    DeliveryId(String),
    /// The subject is a single session.
    SessionId(SessionId),
}

impl Subject {
    /// Returns the name of the id's field, and the id.
    #[must_use]
    pub fn parts(&self) -> (&'static str, String) {
        match self {
            Self::ExternalRiderId(id) => ("externalRiderId", id.clone()),
            Self::DeliveryId(id) => ("deliveryId", id.clone()),
            Self::SessionId(id) => ("sessionId", id.to_string()),
        }
    }

    /// Returns the SHA-256 of domain, salt, kind and identifier, each with its length before it.
    #[must_use]
    pub fn hash(&self, salt: &[u8]) -> [u8; 32] {
        let (kind, id) = self.parts();
        let mut hash = Sha256::new();
        for part in [HASH_DOMAIN, salt, kind.as_bytes(), id.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Returns the SHA-256 of the subject, under which the store keeps its marks.
    #[must_use]
    pub fn key(&self) -> [u8; 32] {
        self.hash(&[])
    }

    /// Hashes the subject with this salt. The hash is recognisable only with knowledge of the
    /// subject.
    #[must_use]
    pub fn hashed(&self, salt: [u8; 16]) -> HashedSubject {
        HashedSubject {
            kind: self.parts().0.to_owned(),
            salt: hex::encode(&salt),
            hash: hex::encode(&self.hash(&salt)),
        }
    }
}

/// A subject as a salted hash: SHA-256 over [`HASH_DOMAIN`], the salt, the name of the id's field
/// and the id, each preceded by its length as eight bytes, the most significant first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashedSubject {
    /// The name of the id's field.
    pub kind: String,
    /// The salt in lowercase hex.
    pub salt: String,
    /// The hash in lowercase hex.
    pub hash: String,
}

impl HashedSubject {
    /// Returns whether this is the hash of `subject`.
    #[must_use]
    pub fn matches(&self, subject: &Subject) -> bool {
        hex::decode(self.salt.as_bytes()).is_some_and(|salt| subject.hashed(salt).hash == self.hash)
    }
}

/// The number of objects that a request affected, by class of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of telemetry batches.
    pub telemetry: u64,
    /// The number of insights with their evidence.
    pub insights: u64,
    /// The number of path images.
    pub images: u64,
    /// The number of webhook messages with their bodies and attempts.
    pub messages: u64,
    /// The number of contributions to the knowledge of places, plus fingerprints of traces.
    pub places: u64,
    /// The number of recorders and idempotency keys.
    pub keys: u64,
}

impl Counts {
    /// Adds `other` to these counts.
    pub fn add(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.telemetry += other.telemetry;
        self.insights += other.insights;
        self.images += other.images;
        self.messages += other.messages;
        self.places += other.places;
        self.keys += other.keys;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hashed_subject_matches_only_its_own_identifier() {
        let rider = Subject::ExternalRiderId("rider-7".into());
        let hashed = rider.hashed([7; 16]);
        assert!(hashed.matches(&rider));
        assert!(!hashed.matches(&Subject::DeliveryId("rider-7".into())));
        assert!(!hashed.matches(&Subject::ExternalRiderId("rider-8".into())));
        assert_ne!(rider.hashed([8; 16]).hash, hashed.hash);
        assert_ne!(hashed.hash, hex::encode(&rider.key()));
    }

    #[test]
    fn a_subject_has_one_named_field() {
        let subject = Subject::DeliveryId("d1".into());
        let text = serde_json::to_string(&subject).unwrap();
        assert_eq!(text, r#"{"deliveryId":"d1"}"#);
    }
}
