//! Reads a JSON body field by field and reports every error with its pointer.
//!
//! Unknown fields are ignored unless the caller refuses them with [`Fields::only`]. A known field
//! with a wrong type or value is an error, and null means absent.

use std::fmt::Display;
use std::ops::RangeInclusive;

use porchlight_schema::limits::FAULTS_MAX;
use porchlight_schema::session::Point;
use porchlight_schema::time::TimestampMs;
use serde_json::{Map, Value};

use super::problem::{Code, Fault, Problem, UNKNOWN_NAME_CHARS_MAX};

const TIME: &str = "must be an RFC 3339 time such as 2026-11-20T10:55:00.000Z";

/// The errors of one body.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds an error; beyond [`FAULTS_MAX`] only their existence is recorded.
    pub fn add(&mut self, pointer: String, detail: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(Fault::Field {
                pointer,
                detail: detail.into(),
            });
        }
    }

    /// Returns `read` if there was no error.
    ///
    /// # Errors
    ///
    /// Returns 422 with all errors. A missing value always has an error.
    pub fn into_result<T>(self, read: Option<T>) -> Result<T, Problem> {
        match read {
            Some(read) if self.0.is_empty() => Ok(read),
            _ => Err(Problem::invalid_body(self.0)),
        }
    }
}

/// Parses a JSON body.
///
/// # Errors
///
/// Returns 400 if it is not JSON.
pub fn parse(body: &[u8]) -> Result<Value, Problem> {
    porchlight_schema::json::parse(body).map_err(|error| {
        Problem::new(
            Code::MalformedJson,
            format!("The body is not JSON: {error}."),
        )
    })
}

/// An object and its position in the body.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'v> {
    object: &'v Map<String, Value>,
    /// The parent object and the step to this one.
    parent: Option<(&'v Fields<'v>, Step<'v>)>,
}

/// A step of a pointer. The names are constants without characters that RFC 6901 escapes.
#[derive(Debug, Clone, Copy)]
enum Step<'v> {
    Name(&'v str),
    Index(&'v str, usize),
}

impl<'v> Fields<'v> {
    /// Returns the body's root.
    ///
    /// # Errors
    ///
    /// Returns 422 if the body is not an object.
    pub fn root(value: &'v Value) -> Result<Self, Problem> {
        let object = value
            .as_object()
            .ok_or_else(|| Problem::invalid_field("", "must be an object"))?;
        Ok(Self {
            object,
            parent: None,
        })
    }

    /// Returns the pointer to the field `name` of this object.
    #[must_use]
    pub fn pointer(&self, name: &str) -> String {
        match self.parent {
            None => format!("/{name}"),
            Some((parent, Step::Name(own))) => format!("{}/{name}", parent.pointer(own)),
            Some((parent, Step::Index(own, index))) => {
                format!("{}/{index}/{name}", parent.pointer(own))
            }
        }
    }

    /// Adds a fault for each field of these positions that is not `lat` or `lng`: of one position
    /// under `name`, or of an array of them.
    pub fn only_positions(&self, name: &str, faults: &mut Faults) {
        let positions: &[Value] = match self.value(name) {
            Some(Value::Array(positions)) => positions,
            Some(position) => std::slice::from_ref(position),
            None => return,
        };
        let is_array = self.value(name).is_some_and(Value::is_array);
        for (index, position) in positions.iter().enumerate() {
            let step = if is_array {
                Step::Index(name, index)
            } else {
                Step::Name(name)
            };
            if let Some(object) = position.as_object() {
                let parent = Some((self, step));
                Fields { object, parent }.only(&["lat", "lng"], faults);
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
            // RFC 6901, section 3, escapes these two characters in a pointer.
            let escaped = short.replace('~', "~0").replace('/', "~1");
            faults.add(self.pointer(&escaped), "is not a known field");
        }
    }

    /// Returns whether the field is present and not null.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<&'v Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Returns `value`, or records that the field is required.
    pub fn need<T>(&self, name: &str, value: Option<T>, faults: &mut Faults) -> Option<T> {
        if value.is_none() && !self.has(name) {
            faults.add(self.pointer(name), "is required");
        }
        value
    }

    /// Reads a value with `read`; records `detail` as the error if that returns none.
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

    /// Returns a string whose length in characters lies in `chars`.
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

    /// Returns a number in `range`.
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

    /// Returns an integer in `range`; `3.0` counts, as in JSON Schema.
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

    /// Returns a name from a closed list.
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

    /// Returns an RFC 3339 time.
    pub fn time(&self, name: &str, faults: &mut Faults) -> Option<TimestampMs> {
        self.read(name, TIME, faults, |value| value.as_str()?.parse().ok())
    }

    /// Returns an RFC 3339 time that bounds a list, rounded up to milliseconds.
    pub fn time_bound(&self, name: &str, faults: &mut Faults) -> Option<TimestampMs> {
        self.read(name, TIME, faults, |value| {
            TimestampMs::parse_bound(value.as_str()?).ok()
        })
    }

    /// Returns the fields of an object.
    pub fn object<'s>(&'s self, name: &'s str, faults: &mut Faults) -> Option<Fields<'s>> {
        let object = self.read(name, "must be an object", faults, Value::as_object)?;
        Some(Fields {
            object,
            parent: Some((self, Step::Name(name))),
        })
    }

    /// Returns an array with at most `max` elements.
    pub fn array(&self, name: &str, max: usize, faults: &mut Faults) -> Option<&'v [Value]> {
        let detail = format!("must be an array of at most {max} elements");
        self.read(name, detail, faults, |value| {
            value
                .as_array()
                .map(Vec::as_slice)
                .filter(|array| array.len() <= max)
        })
    }

    /// Returns a position `{lat, lng}`.
    pub fn point(&self, name: &str, faults: &mut Faults) -> Option<Point> {
        self.object(name, faults)?.lat_lng(faults)
    }

    /// Returns at most `max` positions `[{lat, lng}]`; empty if the field is absent.
    pub fn points(&self, name: &str, max: usize, faults: &mut Faults) -> Vec<Point> {
        let values = self.array(name, max, faults).unwrap_or_default();
        let mut point = |(index, value): (usize, &Value)| match value.as_object() {
            Some(object) => Fields {
                object,
                parent: Some((self, Step::Index(name, index))),
            }
            .lat_lng(faults),
            None => {
                faults.add(
                    format!("{}/{index}", self.pointer(name)),
                    "must be an object",
                );
                None
            }
        };
        values.iter().enumerate().filter_map(&mut point).collect()
    }

    /// Returns the position in `lat` and `lng` of this object, both required.
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
