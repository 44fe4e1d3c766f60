//! Values in payloads of apps, read leniently: a field of an unexpected type counts as absent,
//! because the customer cannot correct the pushes of a phone.

use std::borrow::Cow;
use std::fmt;

use porchlight_schema::sample::json::Scalar;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::push::PayloadError;

/// A number, or a text that contains a number; `None` for everything else.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Number(pub(super) Option<f64>);

/// A whole number of up to 64 bits, exact; `None` for everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Whole(pub(super) Option<i64>);

/// A text; `None` for everything else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Reads a value of another type to its end and returns the default.
macro_rules! default_of_other_types {
    ($name:ident) => {
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("any value")
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($name::default())
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($name::default())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($name::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($name::default())
        }
    };
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    default_of_other_types!(Number);

    fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
        Ok(Number(finite(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Number, E> {
        Ok(Number(value.trim().parse().ok().and_then(finite)))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct WholeVisitor;

impl<'de> Visitor<'de> for WholeVisitor {
    type Value = Whole;

    default_of_other_types!(Whole);

    fn visit_f64<E>(self, value: f64) -> Result<Whole, E> {
        let is_in_range = value.abs() < 9e18;
        Ok(Whole(is_in_range.then_some(value as i64)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Whole, E> {
        Ok(Whole(Some(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Whole, E> {
        Ok(Whole(i64::try_from(value).ok()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Whole, E> {
        Ok(Whole(value.trim().parse().ok()))
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    default_of_other_types!(Text);

    fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Borrowed(value))))
    }

    fn visit_str<E>(self, value: &str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(value.to_owned()))))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Text<'de> = deserializer.deserialize_any(TextVisitor)?;
        Ok(text)
    }
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Returns a number, even if it is written as a text.
pub(super) fn number_of(scalar: Scalar<'_>) -> Option<f64> {
    match scalar {
        Scalar::Number(number) => finite(number),
        Scalar::Text(text) => text.trim().parse().ok().and_then(finite),
        Scalar::Bool(_) | Scalar::Null => None,
    }
}

/// Returns a text; `None` for everything else.
pub(super) fn text_of(scalar: Scalar<'_>) -> Option<&str> {
    match scalar {
        Scalar::Text(text) => Some(text),
        _ => None,
    }
}

/// Parses a payload that a scanner does not read: with escapes, or with values of unexpected types.
pub(super) fn parsed(payload: &[u8]) -> Result<Value, PayloadError> {
    PayloadError::check_values(payload)?;
    porchlight_schema::json::parse_from_phone(payload, |text| serde_json::from_slice(text))
        .map_err(|error| PayloadError::Malformed(error.to_string()))
}

/// Returns a number of a parsed object, even if it is written as a text.
pub(super) fn number(object: &Value, name: &str) -> Option<f64> {
    match object.get(name)? {
        Value::Number(number) => number.as_f64().and_then(finite),
        Value::String(text) => text.trim().parse().ok().and_then(finite),
        _ => None,
    }
}

/// Returns a text of a parsed object.
pub(super) fn text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get(name)?.as_str()
}
