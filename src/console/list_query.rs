//! The filter fields in the address of a list page, so that every view can be bookmarked and
//! shared.

use porchlight_http::query::Query;
use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

use super::form::encode;

/// The name of the field that holds the cursor.
pub(super) const CURSOR: &str = "cursor";

/// The fields of an address that a page accepts.
pub(super) struct ListQuery(Vec<(&'static str, String)>);

impl ListQuery {
    /// Reads the fields of a query string, or of a form encoded as one; `names` are the accepted
    /// fields.
    pub(super) fn of(query: &str, names: &[&'static str]) -> Self {
        let mut query = Query::of(query);
        let mut fields = Vec::new();
        for &name in names.iter().chain(&[CURSOR]) {
            let value = query.read(name, "", |value| Some(value.trim().to_owned()));
            let value = value.filter(|value| !value.is_empty());
            fields.extend(value.map(|value| (name, value)));
        }
        Self(fields)
    }

    /// Returns a field, or an empty string if it is not set.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| *field == name);
        field.map_or("", |(_, value)| value)
    }

    /// Returns the same address with one field changed, or removed if `value` is empty. The new
    /// view starts at its first page.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let kept = self.fields();
        let kept = kept.filter(|(field, _)| *field != name && *field != CURSOR);
        let changed = (!value.is_empty()).then_some((name, value));
        encode(kept.chain(changed))
    }

    /// Returns the address with only these fields.
    pub(super) fn only(&self, names: &[&str]) -> String {
        encode(self.fields().filter(|(field, _)| names.contains(field)))
    }

    /// Returns whether any of these fields is set.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.fields().any(|(field, _)| names.contains(&field))
    }

    /// Returns the row after which the page begins.
    pub(super) fn after(&self) -> Option<SessionId> {
        let cursor = encode(std::iter::once((CURSOR, self.get(CURSOR))));
        Query::of(&cursor).cursor()
    }

    /// Formats a time for the browser's own input field.
    pub(super) fn local(&self, name: &str) -> String {
        let Some(time) = read_time(self.get(name)) else {
            return String::new();
        };
        let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or_default();
        time.strftime("%Y-%m-%dT%H:%M").to_string()
    }

    /// Reads a time; returns an error if the field is not a time.
    pub(super) fn time(&self, name: &str) -> Result<Option<TimestampMs>, String> {
        match self.get(name) {
            "" => Ok(None),
            text => read_time(text)
                .map(Some)
                .ok_or_else(|| format!("“{name}” is not a time such as 2026-11-20T10:55.")),
        }
    }

    /// Reads one of a closed list of values. Returns an error if the field has another value.
    pub(super) fn one_of<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, String> {
        match self.get(name) {
            "" => Ok(None),
            text => {
                let found = all.iter().copied().find(|&one| word(one) == text);
                let fault = || format!("The page address contains an unknown value for “{name}”.");
                found.map(Some).ok_or_else(fault)
            }
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(field, value)| (*field, value.as_str()))
    }
}

/// Parses a time as the API writes it, or as the browser's own input field does, which is taken as
/// UTC.
fn read_time(text: &str) -> Option<TimestampMs> {
    let of = |text: &str| text.parse().ok();
    of(text)
        .or_else(|| of(&format!("{text}Z")))
        .or_else(|| of(&format!("{text}:00Z")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_query_is_parsed_and_changed() {
        let query = "status=failed&event=&from=2026-11-20T10%3A55&cursor=x&other=1";
        let asked = ListQuery::of(query, &["status", "event", "from"]);
        assert_eq!(asked.time("from"), Ok("2026-11-20T10:55:00Z".parse().ok()));
        assert_eq!(asked.local("from"), "2026-11-20T10:55");
        assert_eq!(asked.with("status", ""), "from=2026-11-20T10%3A55");
        assert_eq!(
            asked.with(CURSOR, "c"),
            "status=failed&from=2026-11-20T10%3A55&cursor=c"
        );
        assert_eq!(asked.only(&["status"]), "status=failed");
        assert!(asked.has(&["status"]) && !asked.has(&["event"]));
        assert_eq!(
            asked.one_of("status", &["failed"], |word| word),
            Ok(Some("failed"))
        );
        assert!(asked.one_of("status", &["x"], |word| word).is_err());
        assert!(
            ListQuery::of("from=yesterday", &["from"])
                .time("from")
                .is_err()
        );
    }
}
