//! Reading a JSON body field by field, so that each fault is told with its pointer, and all of them at once.
//!
//! An unknown field is ignored; a known one of a wrong type or out of range is a fault; null means absent.

use std::fmt::Display;
use std::ops::RangeInclusive;

use porchlight_schema::limits::FAULTS_MAX;
use porchlight_schema::session::Point;
use serde_json::{Map, Value};

use super::problem::{Code, Fault, Problem};

/// Characters of an unknown name that an error repeats.
const UNKNOWN_NAME_CHARS_MAX: usize = 64;

/// The faults of one body.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Notes one; beyond [`FAULTS_MAX`] they are only known to exist.
    pub fn add(&mut self, pointer: String, detail: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(Fault::Field {
                pointer,
                detail: detail.into(),
            });
        }
    }

    /// `read`, if nothing was wrong.
    ///
    /// # Errors
    ///
    /// 422 with all that was. What could not be read left a fault, so a missing value is never without one.
    pub fn none<T>(self, read: Option<T>) -> Result<T, Problem> {
        match read {
            Some(read) if self.0.is_empty() => Ok(read),
            _ => Err(Problem::invalid_body(self.0)),
        }
    }
}

/// The JSON in `body`.
///
/// # Errors
///
/// 400 where it is none.
pub fn parse(body: &[u8]) -> Result<Value, Problem> {
    porchlight_schema::json::parse(body).map_err(|error| {
        Problem::new(
            Code::MalformedJson,
            format!("The body is not JSON: {error}."),
        )
    })
}

/// An object, and where it stands in the body.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'v> {
    object: &'v Map<String, Value>,
    /// The way to here.
    parent: Option<(&'v Fields<'v>, Step<'v>)>,
}

/// One step of a pointer. The names are ours and hold nothing that RFC 6901 would escape.
#[derive(Debug, Clone, Copy)]
enum Step<'v> {
    Name(&'v str),
    Place(&'v str, usize),
}

impl<'v> Fields<'v> {
    /// The body's root.
    ///
    /// # Errors
    ///
    /// 422 where it is no object.
    pub fn root(value: &'v Value) -> Result<Self, Problem> {
        let object = value
            .as_object()
            .ok_or_else(|| Problem::invalid_field("", "must be an object"))?;
        Ok(Self {
            object,
            parent: None,
        })
    }

    /// The pointer to the field `name` of this object.
    #[must_use]
    pub fn pointer(&self, name: &str) -> String {
        match self.parent {
            None => format!("/{name}"),
            Some((parent, Step::Name(own))) => format!("{}/{name}", parent.pointer(own)),
            Some((parent, Step::Place(own, place))) => {
                format!("{}/{place}/{name}", parent.pointer(own))
            }
        }
    }

    /// Adds a fault for each field of this object that is not in `names`.
    pub fn only(&self, names: &[&str], faults: &mut Faults) {
        let unknown = self.object.keys().filter(|name| {
            let name = name.as_str();
            !names.contains(&name)
        });
        for name in unknown {
            let short: String = name.chars().take(UNKNOWN_NAME_CHARS_MAX).collect();
            // RFC 6901, section 3.
            let escaped = short.replace('~', "~0").replace('/', "~1");
            faults.add(self.pointer(&escaped), "is not a field of this object");
        }
    }

    /// Whether the field is there and not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<&'v Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// `value`, or the fault that it must be there.
    pub fn need<T>(&self, name: &str, value: Option<T>, faults: &mut Faults) -> Option<T> {
        if value.is_none() && !self.has(name) {
            faults.add(self.pointer(name), "is required");
        }
        value
    }

    /// A value by `read`; a fault with `detail` where it gives none.
    pub fn read<T>(
        &self,
        name: &str,
        detail: impl Display,
        faults: &mut Faults,
        read: impl FnOnce(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(name)?;
        let read = read(value);
        if read.is_none() {
            faults.add(self.pointer(name), detail.to_string());
        }
        read
    }

    /// A string whose length, in characters, lies in `chars`.
    pub fn text(
        &self,
        name: &str,
        chars: RangeInclusive<usize>,
        faults: &mut Faults,
    ) -> Option<&'v str> {
        let detail = format!(
            "must be a string of {} to {} characters",
            chars.start(),
            chars.end()
        );
        self.read(name, detail, faults, |value| {
            value
                .as_str()
                .filter(|text| chars.contains(&text.chars().count()))
        })
    }

    /// A number in `range`.
    pub fn number(
        &self,
        name: &str,
        range: RangeInclusive<f64>,
        faults: &mut Faults,
    ) -> Option<f64> {
        let detail = format!("must be a number from {} to {}", range.start(), range.end());
        self.read(name, detail, faults, |value| {
            value.as_f64().filter(|number| range.contains(number))
        })
    }

    /// A whole number in `range`; `3.0` is one (as in JSON Schema).
    pub fn whole<N>(&self, name: &str, range: RangeInclusive<N>, faults: &mut Faults) -> Option<N>
    where
        N: Copy + PartialOrd + Display + TryFrom<i64>,
    {
        let detail = format!(
            "must be a whole number from {} to {}",
            range.start(),
            range.end()
        );
        let read = |value: &Value| {
            let exact = |number: f64| {
                (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
            };
            let number = value.as_i64().or_else(|| value.as_f64().and_then(exact))?;
            N::try_from(number)
                .ok()
                .filter(|number| range.contains(number))
        };
        self.read(name, detail, faults, read)
    }

    /// One of a closed list of names.
    pub fn closed<T: Copy>(
        &self,
        name: &str,
        names: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<T> {
        let words: Vec<_> = names.iter().map(|(word, _)| *word).collect();
        let read = |value: &Value| {
            let text = value.as_str()?;
            names
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(_, one)| *one)
        };
        self.read(
            name,
            format!("must be one of {}", words.join(", ")),
            faults,
            read,
        )
    }

    /// An RFC 3339 time.
    pub fn time(
        &self,
        name: &str,
        faults: &mut Faults,
    ) -> Option<porchlight_schema::time::TimestampMs> {
        let detail = "must be an RFC 3339 time such as 2026-11-20T10:55:00.000Z";
        self.read(name, detail, faults, |value| value.as_str()?.parse().ok())
    }

    /// An object.
    pub fn object<'s>(&'s self, name: &'s str, faults: &mut Faults) -> Option<Fields<'s>> {
        let object = self.read(name, "must be an object", faults, Value::as_object)?;
        Some(Fields {
            object,
            parent: Some((self, Step::Name(name))),
        })
    }

    /// An array of at most `max` elements.
    pub fn array(&self, name: &str, max: usize, faults: &mut Faults) -> Option<&'v [Value]> {
        let detail = format!("must be an array of at most {max} elements");
        self.read(name, detail, faults, |value| {
            value
                .as_array()
                .map(Vec::as_slice)
                .filter(|array| array.len() <= max)
        })
    }

    /// A place `{lat, lng}`.
    pub fn point(&self, name: &str, faults: &mut Faults) -> Option<Point> {
        self.object(name, faults)?.lat_lng(faults)
    }

    /// Places `[{lat, lng}]`, at most `max`; empty where the field is absent.
    pub fn points(&self, name: &str, max: usize, faults: &mut Faults) -> Vec<Point> {
        let values = self.array(name, max, faults).unwrap_or_default();
        let mut point = |(place, value): (usize, &Value)| match value.as_object() {
            Some(object) => Fields {
                object,
                parent: Some((self, Step::Place(name, place))),
            }
            .lat_lng(faults),
            None => {
                faults.add(
                    format!("{}/{place}", self.pointer(name)),
                    "must be an object",
                );
                None
            }
        };
        values.iter().enumerate().filter_map(&mut point).collect()
    }

    /// `lat` and `lng` of this object, both required.
    pub fn lat_lng(&self, faults: &mut Faults) -> Option<Point> {
        let lat = self.number("lat", -90.0..=90.0, faults);
        let lat = self.need("lat", lat, faults);
        let lng = self.number("lng", -180.0..=180.0, faults);
        let lng = self.need("lng", lng, faults);
        Some(Point {
            lat: lat?,
            lng: lng?,
        })
    }
}
