//! Query parameters, and list cursors.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use porchlight_schema::ids::{MessageId, SessionId};
use porchlight_schema::limits::{CURSOR_CHARS_MAX, FAULTS_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use porchlight_schema::time::TimestampMs;

use super::problem::{Fault, Problem, UNKNOWN_NAME_CHARS_MAX};

/// The parameters of one request. [`Query::finish`] refuses every parameter that was not read.
#[derive(Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
    faults: Vec<Fault>,
}

impl Query {
    /// Parses a query string like a form: `+` is a space.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let pairs = actix_web::web::Query::<Vec<(String, String)>>::from_query(text);
        Self {
            pairs: pairs
                .map(actix_web::web::Query::into_inner)
                .unwrap_or_default(),
            known: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Reads a parameter with `read`; records `detail` as the error if that returns none or the
    /// parameter occurs twice.
    pub fn read<T>(
        &mut self,
        parameter: &'static str,
        detail: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.known.push(parameter);
        let mut values = self
            .pairs
            .iter()
            .filter(|(name, _)| name == parameter)
            .map(|(_, value)| value);
        let value = values.next()?;
        let (read, detail) = if values.next().is_some() {
            (None, "must not be given more than once")
        } else {
            (read(value), detail)
        };
        if read.is_none() {
            self.faults.push(Fault::Parameter {
                parameter: parameter.into(),
                detail: detail.to_owned(),
            });
        }
        read
    }

    /// Returns the value of a parameter that is `true` or `false`.
    pub fn flag(&mut self, parameter: &'static str) -> Option<bool> {
        self.closed(parameter, &[("true", true), ("false", false)])
    }

    /// Returns a text of 1 to `chars_max` characters.
    pub fn text(&mut self, parameter: &'static str, chars_max: usize) -> Option<String> {
        let detail = format!("must have 1 to {chars_max} characters");
        self.read(parameter, &detail, |value| {
            (1..=chars_max)
                .contains(&value.chars().count())
                .then(|| value.to_owned())
        })
    }

    /// Returns an RFC 3339 time that bounds a list, rounded up to milliseconds. A form decodes + as
    /// a space; within a time, a space can only be the unescaped + of an offset, which many clients
    /// send.
    pub fn time(&mut self, parameter: &'static str) -> Option<TimestampMs> {
        self.read(
            parameter,
            "must be an RFC 3339 time such as 2026-11-20T10:55:00.000Z",
            |value| TimestampMs::parse_bound(&value.replace(' ', "+")).ok(),
        )
    }

    /// Returns a name from a closed list.
    pub fn closed<T: Copy>(&mut self, parameter: &'static str, names: &[(&str, T)]) -> Option<T> {
        let words: Vec<_> = names.iter().map(|(word, _)| *word).collect();
        let detail = format!("must be one of {}", words.join(", "));
        self.read(parameter, &detail, |value| {
            names
                .iter()
                .find(|(word, _)| *word == value)
                .map(|(_, one)| *one)
        })
    }

    /// Returns the parameter `limit`, the maximum number of rows of a page.
    pub fn limit(&mut self) -> u32 {
        let detail = format!("must be a whole number from 1 to {PAGE_ROWS_MAX}");
        let plain = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
        let read = |value: &str| {
            value
                .parse()
                .ok()
                .filter(|limit| plain(value) && (1..=PAGE_ROWS_MAX).contains(limit))
        };
        self.read("limit", &detail, read)
            .unwrap_or(PAGE_ROWS_DEFAULT)
    }

    /// Returns the parameter `cursor` as the session after which the page begins.
    pub fn cursor(&mut self) -> Option<SessionId> {
        self.read("cursor", "must be a nextCursor of this list", read_cursor)
    }

    /// Returns the parameter `cursor` of a list of deliveries as the delivery after which the page
    /// begins.
    pub fn delivery_cursor(&mut self) -> Option<MessageId> {
        let detail = "must be a nextCursor of this list";
        self.read("cursor", detail, read_delivery_cursor)
    }

    /// Checks that every parameter was read, and that each had a valid value.
    ///
    /// # Errors
    ///
    /// Returns 422 with every invalid and every unknown parameter, the latter at most
    /// [`FAULTS_MAX`].
    pub fn finish(mut self) -> Result<(), Problem> {
        let known = &self.known;
        let unknown = self
            .pairs
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()));
        self.faults
            .extend(unknown.take(FAULTS_MAX).map(|(name, _)| {
                Fault::Parameter {
                    parameter: name
                        .chars()
                        .take(UNKNOWN_NAME_CHARS_MAX)
                        .collect::<String>()
                        .into(),
                    detail: "is not a parameter of this path".to_owned(),
                }
            }));
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(Problem::invalid_parameters(self.faults))
        }
    }
}

/// The first byte of a place in a list of deliveries.
const DELIVERIES: u8 = b'd';

/// Returns the cursor after this session.
#[must_use]
pub fn cursor(after: SessionId) -> String {
    cursor_of(&after.to_bytes())
}

fn read_cursor(text: &str) -> Option<SessionId> {
    let bytes = cursor_bytes(text)?;
    bytes.try_into().ok().map(SessionId::from_bytes)
}

/// Returns the cursor after this delivery. It differs from the cursor of a list of sessions.
#[must_use]
pub fn delivery_cursor(after: MessageId) -> String {
    let mut position = vec![DELIVERIES];
    position.extend(after.to_bytes());
    cursor_of(&position)
}

fn read_delivery_cursor(text: &str) -> Option<MessageId> {
    let position = cursor_bytes(text)?;
    let (DELIVERIES, id) = position.split_first().map(|(list, id)| (*list, id))? else {
        return None;
    };
    id.try_into().ok().map(MessageId::from_bytes)
}

/// Returns the cursor after a position in a list, opaque so that its form may change.
#[must_use]
pub fn cursor_of(position: &[u8]) -> String {
    let mut bytes = position.to_vec();
    bytes.extend(crc32fast::hash(position).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Percent-encodes every byte except the unreserved characters (RFC 3986, section 2.3).
#[must_use]
pub fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}

/// Returns the position in a list that a cursor names; `None` for a text that is not a cursor.
#[must_use]
pub fn cursor_bytes(text: &str) -> Option<Vec<u8>> {
    if text.len() > CURSOR_CHARS_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (position, sum) = bytes.split_last_chunk::<4>()?;
    // The checksum is not protection; it only distinguishes a cursor from other decodable text.
    (*sum == crc32fast::hash(position).to_be_bytes()).then(|| position.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips_and_other_texts_are_refused() {
        let session_id = SessionId::new(TimestampMs(1_763_636_100_000), 42);
        let cursor = cursor(session_id);
        assert_eq!(read_cursor(&cursor), Some(session_id));
        for text in [
            "",
            "x",
            &cursor[1..],
            &cursor.to_lowercase(),
            &format!("{cursor}A"),
            &"A".repeat(300),
        ] {
            assert_eq!(read_cursor(text), None, "{text}");
        }
        let id = MessageId::from_bytes(session_id.to_bytes());
        let of_deliveries = delivery_cursor(id);
        assert_eq!(read_delivery_cursor(&of_deliveries), Some(id));
        assert_eq!(read_delivery_cursor(&cursor), None);
        assert_eq!(read_cursor(&of_deliveries), None);
    }

    #[test]
    fn each_fault_is_reported() {
        let mut query = Query::of(
            "limit=0&from=yesterday&from=today&cursor=x&other=1&to=2026-11-20T10%3A55%3A00Z",
        );
        assert_eq!(
            (query.limit(), query.time("from"), query.cursor()),
            (PAGE_ROWS_DEFAULT, None, None)
        );
        assert!(query.time("to").is_some());
        assert_eq!(query.faults.len(), 3);
        assert!(query.finish().is_err());
        let same = ["Z", "%2B00:00", "+00:00", "-00:00"].map(|offset| {
            let mut query = Query::of(&format!("from=2026-11-20T10:55:00{offset}"));
            query.time("from").unwrap()
        });
        assert!(same.iter().all(|time| *time == same[0]));
        for time in [
            "2026-11-20 10:55:00Z",
            "+2026-11-20T10:55:00Z",
            "2026-11-20T10:55:00Z+",
        ] {
            let mut query = Query::of(&format!("from={time}"));
            assert_eq!(query.time("from"), None, "{time}");
        }
        for limit in ["", "+1", "1.0", "201", "-1", "99999999999"] {
            let mut query = Query::of(&format!("limit={}", limit.replace('+', "%2B")));
            query.limit();
            assert_eq!(query.faults.len(), 1, "{limit}");
        }
        let mut query = Query::of("limit=200");
        assert_eq!(query.limit(), 200);
        assert!(query.finish().is_ok());
    }

    #[test]
    fn an_unknown_parameter_is_refused_by_name() {
        let mut query = Query::of("limit=1&events=a&foo=b");
        query.limit();
        let problem = query.finish().unwrap_err().to_json();
        for name in ["events", "foo"] {
            let fault =
                format!(r#"{{"parameter":"{name}","detail":"is not a parameter of this path"}}"#);
            assert!(problem.contains(&fault), "{problem}");
        }
        assert!(!problem.contains("limit"));
        let many: String = (0..10_000).map(|number| format!("p{number}=1&")).collect();
        assert!(Query::of(&many).finish().unwrap_err().to_json().len() < 20_000);
        let long = "x".repeat(5_000);
        assert!(Query::of(&long).finish().unwrap_err().to_json().len() < 1_000);
    }
}
