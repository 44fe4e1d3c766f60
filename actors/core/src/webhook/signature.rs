//! Signs requests to prove their origin, with the signature of the contract's section 6 and with
//! that of the Standard Webhooks specification 1.0.0.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use porchlight_schema::hex;
use porchlight_schema::ids::MessageId;
use porchlight_schema::time::TimestampMs;
use sha2::Sha256;

/// The prefix of every secret.
pub const SECRET_PREFIX: &str = "whsec_";

/// The error for a text that is not `whsec_` followed by base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a webhook secret")]
pub struct SecretError;

/// Returns the text of a secret, as held by the customer, for its 32 random bytes.
#[must_use]
pub fn secret_text(bytes: &[u8; 32]) -> String {
    format!("{SECRET_PREFIX}{}", BASE64.encode(bytes))
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Option<[u8; 32]> {
    // HMAC takes keys of any length; the fallible signature exists for other MACs.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in parts {
        mac.update(part);
    }
    Some(mac.finalize().into_bytes().into())
}

/// Returns the value of `X-Service-Signature` and `X-Service-Signature-Previous`: `sha256=` and the
/// lowercase hex of HMAC-SHA256 over the body, keyed with the whole text of the secret, including
/// the prefix.
#[must_use]
pub fn service_signature(secret: &str, body: &[u8]) -> String {
    let digest = hmac_sha256(secret.as_bytes(), &[body]).unwrap_or_default();
    format!("sha256={}", hex::encode(&digest))
}

/// Returns the value of `webhook-timestamp`: whole seconds since 1970.
#[must_use]
pub fn standard_timestamp(at: TimestampMs) -> i64 {
    at.0.div_euclid(1000)
}

/// Returns the value of `webhook-signature`: for every secret, `v1,` and the base64 of HMAC-SHA256
/// over `id.timestamp.body`, keyed with the bytes encoded in the secret's text. Signatures keep the
/// given order, which should be newest first.
///
/// # Errors
///
/// Returns an error if a secret is not `whsec_` followed by base64.
pub fn standard_signature<'s>(
    secrets: impl IntoIterator<Item = &'s str>,
    id: MessageId,
    at: TimestampMs,
    body: &[u8],
) -> Result<String, SecretError> {
    let head = format!("{id}.{}.", standard_timestamp(at));
    let mut text = String::new();
    for secret in secrets {
        let encoded = secret.strip_prefix(SECRET_PREFIX).ok_or(SecretError)?;
        let key = BASE64.decode(encoded).map_err(|_| SecretError)?;
        let digest = hmac_sha256(&key, &[head.as_bytes(), body]).ok_or(SecretError)?;
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str("v1,");
        BASE64.encode_string(digest, &mut text);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected values were computed with another implementation (Python's hmac module).
    const BODY: &[u8] = br#"{"event":"session.started"}"#;
    const AT: TimestampMs = TimestampMs(1_763_636_100_999);

    fn secret() -> String {
        secret_text(&std::array::from_fn(|place| place as u8))
    }

    fn id() -> MessageId {
        MessageId::new(TimestampMs(1_763_636_100_000), 7)
    }

    #[test]
    fn the_service_signature_is_keyed_with_the_whole_text() {
        let encoded = secret().split_off(SECRET_PREFIX.len());
        assert_eq!(encoded, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        assert_eq!(
            service_signature(&secret(), BODY),
            "sha256=30bf48e8eaed8b2ecf89799096fe23e5e92897c177cadba4386d78f80af004eb"
        );
    }

    #[test]
    fn the_standard_signature_is_keyed_with_the_bytes_and_covers_id_and_time() {
        assert_eq!(id().to_string(), "dlv_01kageeex00000000000000007");
        let one = standard_signature([secret().as_str()], id(), AT, BODY).unwrap();
        assert_eq!(one, "v1,6r87WFQF05b3eILift6BBEq/UYfIXpE107uVneu3ejk=");
        let other = format!("{SECRET_PREFIX}aGVsbG8=");
        let two = standard_signature([secret().as_str(), other.as_str()], id(), AT, BODY).unwrap();
        assert_eq!(
            two,
            format!("{one} v1,pVPFrhk61W4S1d6gejGqTy26q2Z/QPzUoBtZSMJxXzI=")
        );
    }

    #[test]
    fn invalid_secrets_are_refused() {
        for text in ["", "whsec_*", "AAEC", "whsecAAEC"] {
            assert_eq!(standard_signature([text], id(), AT, BODY), Err(SecretError));
        }
    }
}
