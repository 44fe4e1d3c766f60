//! Parsers for single settings, with helpful errors.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de};

use super::StoreKind;

/// The word is not a kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be \"embedded\" or \"cql\"")]
pub struct StoreKindError;

impl TryFrom<String> for StoreKind {
    type Error = StoreKindError;

    fn try_from(word: String) -> Result<Self, StoreKindError> {
        match word.as_str() {
            "embedded" => Ok(Self::Embedded),
            "cql" => Ok(Self::Cql),
            _ => Err(StoreKindError),
        }
    }
}

/// An address to listen on. Host names are refused, because they may have several addresses.
pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse()
        .map_err(|_| de::Error::custom("not an address and a port such as 127.0.0.1:8080"))
}
