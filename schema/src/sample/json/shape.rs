//! Reads JSON of any form into types that keep only a part of it, without a tree of the whole text.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value that is neither an array nor an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scalar<'a> {
    Null,
    Flag(bool),
    Number(f64),
    Text(&'a str),
}

/// A type that can be read from any JSON value. By default, an array or an object is checked and
/// not kept.
pub(super) trait Shape<'de>: Sized {
    /// Returns the value of a scalar.
    fn scalar(scalar: Scalar<'_>) -> Self;

    /// Returns the value of an array or an object whose content is not kept.
    fn other() -> Self;

    /// Reads an array.
    fn array<A: SeqAccess<'de>>(mut elements: A) -> Result<Self, A::Error> {
        while elements.next_element::<Shaped<Ignored>>()?.is_some() {}
        Ok(Self::other())
    }

    /// Reads an object.
    fn object<A: MapAccess<'de>>(mut members: A) -> Result<Self, A::Error> {
        while members
            .next_entry::<Shaped<Ignored>, Shaped<Ignored>>()?
            .is_some()
        {}
        Ok(Self::other())
    }
}

/// Deserializes a [`Shape`].
pub(super) struct Shaped<T>(pub(super) T);

impl<'de, T: Shape<'de>> Deserialize<'de> for Shaped<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(ShapeVisitor(PhantomData))
            .map(Self)
    }
}

struct ShapeVisitor<T>(PhantomData<T>);

impl<'de, T: Shape<'de>> Visitor<'de> for ShapeVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::scalar(Scalar::Null))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        Ok(T::scalar(Scalar::Flag(flag)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Ok(T::scalar(Scalar::Number(number as f64)))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        Ok(T::scalar(Scalar::Number(number as f64)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Ok(T::scalar(Scalar::Number(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::scalar(Scalar::Text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<T, A::Error> {
        T::array(elements)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::object(members)
    }
}

/// A value of which only the syntax is checked. Unlike `serde::de::IgnoredAny`, it also checks
/// escapes in strings.
pub(super) struct Ignored;

impl<'de> Shape<'de> for Ignored {
    fn scalar(_: Scalar<'_>) -> Self {
        Self
    }

    fn other() -> Self {
        Self
    }
}

/// A number, or `None` for any other value.
pub(super) struct Number(pub(super) Option<f64>);

impl<'de> Shape<'de> for Number {
    fn scalar(scalar: Scalar<'_>) -> Self {
        Self(match scalar {
            Scalar::Number(number) => Some(number),
            _ => None,
        })
    }

    fn other() -> Self {
        Self(None)
    }
}

/// A string, or `None` for any other value.
pub(super) struct Text(pub(super) Option<String>);

impl<'de> Shape<'de> for Text {
    fn scalar(scalar: Scalar<'_>) -> Self {
        Self(match scalar {
            Scalar::Text(text) => Some(text.to_owned()),
            _ => None,
        })
    }

    fn other() -> Self {
        Self(None)
    }
}
