//! Receipts: signed statements of the data that an erasure removed, which can be checked offline.
//!
//! A receipt is a JWS in compact form (RFC 7515) with the algorithm EdDSA over Ed25519 (RFC 8037).
//! Its key is derived from the key that seals stored secrets, so no additional key has to be
//! stored. When that key is replaced, the receipts' key changes too; the header's `kid` identifies
//! the signing key.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ed25519_dalek::{PUBLIC_KEY_LENGTH, Signature, Signer, SigningKey, VerifyingKey};
use porchlight_schema::hex;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::keyring::{SecretKey, SecretKeys};

/// The purpose of the derived key.
const PURPOSE: &str = "erasure receipts";
/// The type in a receipt's header.
const TYPE: &str = "porchlight-receipt+jws";
/// The domain of the hash of a subject, which distinguishes it from other hashes of the same text.
const SUBJECT_DOMAIN: &[u8] = b"porchlight receipt subject 1";
/// The size of the salt of a subject's hash, in bytes.
pub const SALT_BYTES: usize = 16;
/// The maximum size of a receipt, in bytes. A statement of some 10,000 key ids fits.
pub const RECEIPT_BYTES_MAX: usize = 1024 * 1024;

/// The kind of a person's or delivery's identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectKind {
    /// A courier, identified by the customer's id.
    ExternalRiderId,
    /// A delivery, identified by the customer's id.
    DeliveryId,
    /// A single session.
    SessionId,
}

impl SubjectKind {
    /// Returns the name of the field that contains the identifier.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExternalRiderId => "externalRiderId",
            Self::DeliveryId => "deliveryId",
            Self::SessionId => "sessionId",
        }
    }
}

/// A subject as SHA-256 of salt, kind and identifier. It is recognisable only with knowledge of its
/// identifier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HashedSubject {
    /// The kind of the identifier.
    pub kind: SubjectKind,
    /// The salt in base64url, random and unique to this statement.
    pub salt: String,
    /// The hash in hexadecimal digits.
    pub hash: String,
}

impl HashedSubject {
    /// Hashes an identifier with this salt, which must be random.
    #[must_use]
    pub fn new(kind: SubjectKind, identifier: &str, salt: [u8; SALT_BYTES]) -> Self {
        Self {
            kind,
            salt: BASE64.encode(salt),
            hash: subject_hash(kind, identifier, &salt),
        }
    }

    /// Returns whether this is the subject with that identifier.
    #[must_use]
    pub fn matches(&self, identifier: &str) -> bool {
        let salt = BASE64.decode(&self.salt);
        salt.is_ok_and(|salt| subject_hash(self.kind, identifier, &salt) == self.hash)
    }
}

fn subject_hash(kind: SubjectKind, identifier: &str, salt: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in [
        SUBJECT_DOMAIN,
        salt,
        kind.as_str().as_bytes(),
        identifier.as_bytes(),
    ] {
        // The length of each part precedes it, so that no two lists of parts produce the same
        // bytes.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize())
}

/// Returns whether a count is zero; serde then leaves the field out.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The number of objects of each class that an erasure removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErasureCounts {
    /// The number of sessions.
    pub sessions: u64,
    /// The number of telemetry batches.
    pub telemetry: u64,
    /// The number of insights with their evidence.
    pub insights: u64,
    /// The number of path images.
    pub images: u64,
    /// The number of webhook deliveries with their attempts.
    pub messages: u64,
    /// The number of contributions to the knowledge of places.
    pub places: u64,
    /// The number of recorders and idempotency keys.
    pub keys: u64,
}

/// The statement that a receipt signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    /// The caller's id for the request.
    pub request_id: String,
    /// The type of the request: `erasure`.
    #[serde(rename = "type")]
    pub request_type: String,
    /// The subject whose data was removed.
    pub subject: HashedSubject,
    /// The number of removed objects.
    pub counts: ErasureCounts,
    /// The time at which the last data was removed.
    pub completed_at: TimestampMs,
    /// The numbers of the destroyed data keys of the sessions, such as `7` or `12-15`. Empty for a
    /// store that does not seal.
    pub key_ids: Vec<String>,
    /// The number of destroyed data keys that `key_ids` leaves out, because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_keys: u64,
}

/// The header of a receipt.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: String,
    typ: String,
    kid: String,
}

/// The reason why a receipt is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// The receipt is not a JWS of the kind that Porchlight writes.
    #[error("this is not a receipt")]
    Malformed,
    /// The receipt was signed with another key.
    #[error("the receipt was signed with another key")]
    OtherKey,
    /// The receipt's text does not match its signature.
    #[error("the signature does not match: the receipt was changed")]
    Signature,
    /// The statement is too large to sign.
    #[error("the statement has more than {RECEIPT_BYTES_MAX} bytes")]
    TooLarge,
}

/// The error of a text that is not a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not a public key: 43 characters of base64url are expected, or a JWK of the type OKP"
)]
pub struct PublicKeyError;

/// The public key that checks receipts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// A public key as a JSON Web Key (RFC 8037).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// The type of the key: `OKP`.
    pub kty: String,
    /// The curve of the key: `Ed25519`.
    pub crv: String,
    /// The key in base64url.
    pub x: String,
    /// The id of the key: its thumbprint (RFC 7638).
    #[serde(default)]
    pub kid: String,
}

/// A JSON Web Key Set (RFC 7517). Its keys may be of any type.
#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

impl PublicKey {
    /// Parses a key: base64url of its 32 bytes, or a JWK.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is neither.
    pub fn parse(text: &str) -> Result<Self, PublicKeyError> {
        let text = text.trim();
        let jwk: Option<Jwk> = serde_json::from_str(text).ok();
        if jwk
            .as_ref()
            .is_some_and(|jwk| (jwk.kty.as_str(), jwk.crv.as_str()) != ("OKP", "Ed25519"))
        {
            return Err(PublicKeyError);
        }
        let x = jwk.as_ref().map_or(text, |jwk| &jwk.x);
        let bytes = BASE64.decode(x).map_err(|_| PublicKeyError)?;
        let bytes: [u8; PUBLIC_KEY_LENGTH] = bytes.try_into().map_err(|_| PublicKeyError)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| PublicKeyError)?;
        Ok(Self(key))
    }

    /// Parses one or more keys: a JSON Web Key Set, or a key per line. Keys of other types in a set
    /// are left out (RFC 7517, section 5).
    ///
    /// # Errors
    ///
    /// Returns an error if a line is not a key, or if there is no key.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, PublicKeyError> {
        let keys: Vec<Self> = if let Ok(set) = serde_json::from_str::<JwkSet>(text) {
            let keys = set.keys.iter();
            keys.filter_map(|jwk| Self::parse(&jwk.to_string()).ok())
                .collect()
        } else if let Ok(key) = Self::parse(text) {
            vec![key]
        } else {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            lines.map(Self::parse).collect::<Result<_, _>>()?
        };
        if keys.is_empty() {
            return Err(PublicKeyError);
        }
        Ok(keys)
    }

    /// Returns the key as a JWK.
    #[must_use]
    pub fn jwk(&self) -> Jwk {
        Jwk {
            kty: "OKP".to_owned(),
            crv: "Ed25519".to_owned(),
            x: self.to_string(),
            kid: self.id(),
        }
    }

    /// Returns the key's thumbprint (RFC 7638): SHA-256 of its required members, in base64url.
    #[must_use]
    pub fn id(&self) -> String {
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{self}"}}"#);
        BASE64.encode(Sha256::digest(members))
    }
}

/// Formats the key as base64url of its 32 bytes.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0.as_bytes()))
    }
}

/// Signs receipts with the key derived from the writing key.
pub struct ReceiptSigner {
    key: SigningKey,
}

impl fmt::Debug for ReceiptSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiptSigner")
    }
}

fn signing_key(key: &SecretKey) -> SigningKey {
    SigningKey::from_bytes(key.derive(PURPOSE).bytes())
}

/// Returns the public keys of a key ring. The first key checks current receipts, the others check
/// earlier receipts.
#[must_use]
pub fn public_keys(keys: &SecretKeys) -> Vec<PublicKey> {
    keys.reading()
        .map(|key| PublicKey(signing_key(key).verifying_key()))
        .collect()
}

impl ReceiptSigner {
    /// Creates a signer with the key ring's writing key.
    #[must_use]
    pub fn new(keys: &SecretKeys) -> Self {
        Self {
            key: signing_key(keys.writing()),
        }
    }

    /// Returns the public key that checks this signer's receipts.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.key.verifying_key())
    }

    /// Signs a statement. The same statement always produces the same receipt.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::TooLarge`] if the statement is too large.
    pub fn sign(&self, statement: &Statement) -> Result<String, ReceiptError> {
        let header = Header {
            alg: "EdDSA".to_owned(),
            typ: TYPE.to_owned(),
            kid: self.public_key().id(),
        };
        // Neither has a map with keys that are not text, so both can be serialized.
        let part = |json: serde_json::Result<Vec<u8>>| {
            json.map(|json| BASE64.encode(json))
                .map_err(|_| ReceiptError::Malformed)
        };
        let header = part(serde_json::to_vec(&header))?;
        let payload = part(serde_json::to_vec(statement))?;
        let mut text = format!("{header}.{payload}");
        let signature = self.key.sign(text.as_bytes());
        text.push('.');
        text.push_str(&BASE64.encode(signature.to_bytes()));
        if text.len() > RECEIPT_BYTES_MAX {
            return Err(ReceiptError::TooLarge);
        }
        Ok(text)
    }
}

/// Checks a receipt and returns its statement.
///
/// # Errors
///
/// See [`ReceiptError`].
pub fn verify(receipt: &str, key: &PublicKey) -> Result<Statement, ReceiptError> {
    if receipt.len() > RECEIPT_BYTES_MAX {
        return Err(ReceiptError::Malformed);
    }
    let (signed, signature) = receipt.rsplit_once('.').ok_or(ReceiptError::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(ReceiptError::Malformed)?;
    let decoded = |part: &str| BASE64.decode(part).map_err(|_| ReceiptError::Malformed);
    let header: Header =
        serde_json::from_slice(&decoded(header)?).map_err(|_| ReceiptError::Malformed)?;
    if header.alg != "EdDSA" || header.typ != TYPE {
        return Err(ReceiptError::Malformed);
    }
    if header.kid != key.id() {
        return Err(ReceiptError::OtherKey);
    }
    let signature =
        Signature::from_slice(&decoded(signature)?).map_err(|_| ReceiptError::Malformed)?;
    // The strict check also refuses keys and signatures that match several texts.
    key.0
        .verify_strict(signed.as_bytes(), &signature)
        .map_err(|_| ReceiptError::Signature)?;
    serde_json::from_slice(&decoded(payload)?).map_err(|_| ReceiptError::Malformed)
}

/// Checks a receipt with the one of these keys that signed it, and returns its statement.
///
/// # Errors
///
/// Returns [`ReceiptError::OtherKey`] if none of the keys signed it; see also [`verify`].
pub fn verify_any(receipt: &str, keys: &[PublicKey]) -> Result<Statement, ReceiptError> {
    let checked = keys.iter().map(|key| verify(receipt, key));
    let mut of_signer = checked.filter(|checked| *checked != Err(ReceiptError::OtherKey));
    of_signer.next().unwrap_or(Err(ReceiptError::OtherKey))
}

#[cfg(test)]
mod tests;
