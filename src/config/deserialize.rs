//! Parsers for single settings, with helpful errors. They are strict about the type of a value: the
//! `config` crate would turn `true` and `0.4` into whole numbers, and numbers into texts.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::StoreKind;

/// The error for a word that is not a kind of store.
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

/// Reads an address to listen on. Host names are refused, because they may have several addresses.
pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse()
        .map_err(|_| de::Error::custom("not an address and a port such as 127.0.0.1:8080"))
}

/// Reads a whole number. It may be written as a text, because variables are texts.
pub(super) fn whole_number<'de, N, D>(from: D) -> Result<N, D::Error>
where
    N: TryFrom<u64>,
    D: Deserializer<'de>,
{
    let number = from.deserialize_any(WholeNumber)?;
    let bits = 8 * size_of::<N>() as u32;
    let most = u64::MAX >> u64::BITS.saturating_sub(bits);
    N::try_from(number)
        .map_err(|_| de::Error::custom(format!("{number} is too large; at most {most} is allowed")))
}

struct WholeNumber;

impl Visitor<'_> for WholeNumber {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, 0 or more")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        text.parse()
            .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads `true` or `false`, also as a text in letters of either case, because variables are texts.
pub(super) fn boolean<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    from.deserialize_any(Boolean)
}

struct Boolean;

impl Visitor<'_> for Boolean {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<bool, E> {
        Ok(truth)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<bool, E> {
        let parsed = text.to_ascii_lowercase().parse();
        parsed.map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads a text, or the name of a file.
pub(super) fn text<'de, T: From<String>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Text::deserialize(from).map(|text| text.0)
}

/// Reads a list of texts.
pub(super) fn texts<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: From<String>,
    D: Deserializer<'de>,
{
    let texts = Vec::<Text<T>>::deserialize(from)?;
    Ok(texts.into_iter().map(|text| text.0).collect())
}

struct Text<T>(T);

impl<'de, T: From<String>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor(PhantomData)).map(Self)
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: From<String>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Ok(text.to_owned().into())
    }
}
