//! What a list's page is asked for, in its address: every view can be kept, and sent to somebody.

use porchlight_http::query::Query;
use porchlight_schema::ids::SessionId;
use porchlight_schema::time::TimestampMs;

use super::form::encode;

/// The field of the page's beginning.
pub(super) const CURSOR: &str = "cursor";

/// The fields of an address that a page knows.
pub(super) struct Asked(Vec<(&'static str, String)>);

impl Asked {
    /// Of a query string, or of a form's fields as one; `names` are those that are known.
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

    /// A field; empty where it is not asked for.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| *field == name);
        field.map_or("", |(_, value)| value)
    }

    /// The same address with one field changed, or taken out where `value` is empty. Another view begins at its first
    /// page.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let kept = self.fields();
        let kept = kept.filter(|(field, _)| *field != name && *field != CURSOR);
        let changed = (!value.is_empty()).then_some((name, value));
        encode(kept.chain(changed))
    }

    /// The address with these fields only.
    pub(super) fn only(&self, names: &[&str]) -> String {
        encode(self.fields().filter(|(field, _)| names.contains(field)))
    }

    /// Whether any of these fields is asked for.
    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.fields().any(|(field, _)| names.contains(&field))
    }

    /// After which row the page begins.
    pub(super) fn after(&self) -> Option<SessionId> {
        let cursor = encode(std::iter::once((CURSOR, self.get(CURSOR))));
        Query::of(&cursor).cursor()
    }

    /// A time as the browser's own field takes it.
    pub(super) fn local(&self, name: &str) -> String {
        let Some(time) = read_time(self.get(name)) else {
            return String::new();
        };
        let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or_default();
        time.strftime("%Y-%m-%dT%H:%M").to_string()
    }

    /// A time; Err: it is none.
    pub(super) fn time(&self, name: &str) -> Result<Option<TimestampMs>, String> {
        match self.get(name) {
            "" => Ok(None),
            text => read_time(text)
                .map(Some)
                .ok_or_else(|| format!("“{name}” is not a time such as 2026-11-20T10:55.")),
        }
    }

    /// One of a closed list; Err: it is none of them.
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
                let fault = || format!("The address asks for a {name} that there is not.");
                found.map(Some).ok_or_else(fault)
            }
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(field, value)| (*field, value.as_str()))
    }
}

/// A time as the API writes it, or as the browser's own field does, which is taken as UTC.
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
    fn an_address_is_read_and_changed() {
        let query = "status=failed&event=&from=2026-11-20T10%3A55&cursor=x&other=1";
        let asked = Asked::of(query, &["status", "event", "from"]);
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
        assert!(Asked::of("from=yesterday", &["from"]).time("from").is_err());
    }
}
