//! The check value of the secret key that a store depends on.

use async_trait::async_trait;
use porchlight_schema::hex;

use super::StoreResult;

/// A value derived from a secret key. It identifies the key and reveals nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCheckValue(pub [u8; 32]);

impl KeyCheckValue {
    /// Returns the first eight hexadecimal digits, by which a person recognises the key.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let Self([first, second, third, fourth, ..]) = *self;
        hex::encode(&[first, second, third, fourth])
    }
}

/// Stores the check value of the secret key with which the service last started.
#[async_trait]
pub trait KeyCheck: Send + Sync {
    /// Returns the stored check value; `None` if no start has stored one.
    async fn key_check(&self) -> StoreResult<Option<KeyCheckValue>>;

    /// Replaces the check value if it is still `expected`. Returns false, and changes nothing, if
    /// another process has replaced it.
    async fn replace_key_check(
        &self,
        expected: Option<KeyCheckValue>,
        next: KeyCheckValue,
    ) -> StoreResult<bool>;
}
