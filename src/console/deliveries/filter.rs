//! Which deliveries are asked for, in the address: every view can be kept and sent to somebody.

use porchlight_actors::ports::{DeliveryFilter, DeliveryStatus};
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::super::form::encode;
use crate::api::query::Query;

/// The fields of the address that are kept from one page to the next.
const KEPT: [&str; 6] = ["status", "event", "sessionId", "from", "to", "cursor"];

/// What an address asks for.
pub(super) struct Asked(Vec<(&'static str, String)>);

impl Asked {
    /// Of a query string, or of a form's fields as one.
    pub(super) fn of(query: &str) -> Self {
        let mut query = Query::of(query);
        let mut fields = Vec::new();
        for name in KEPT {
            let value = query.read(name, "", |value| Some(value.trim().to_owned()));
            fields.extend(
                value
                    .filter(|value| !value.is_empty())
                    .map(|value| (name, value)),
            );
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
        let kept = self.0.iter().map(|(field, value)| (*field, value.as_str()));
        let kept = kept.filter(|(field, _)| *field != name && *field != "cursor");
        let changed = (!value.is_empty()).then_some((name, value));
        encode(kept.chain(changed))
    }

    /// What the API's retry by filter knows of it.
    pub(super) fn retry_query(&self) -> String {
        let fields = self.0.iter().map(|(field, value)| (*field, value.as_str()));
        encode(fields.filter(|(field, _)| !matches!(*field, "cursor" | "sessionId")))
    }

    /// Whether it is for such deliveries as are tried again by filter: those that failed, or wait for a retry.
    pub(super) fn may_be_retried(&self) -> bool {
        let status = self.get("status");
        let chosen = [
            DeliveryStatus::Failed,
            DeliveryStatus::Retrying,
            DeliveryStatus::Delivered,
        ];
        self.get("sessionId").is_empty() && chosen.iter().any(|one| one.as_str() == status)
    }

    /// Whether it is for less than all, the status apart.
    pub(super) fn is_narrowed_beyond_status(&self) -> bool {
        ["event", "sessionId", "from", "to"]
            .iter()
            .any(|name| !self.get(name).is_empty())
    }

    /// Whether it is for less than all.
    pub(super) fn is_narrowed(&self) -> bool {
        !self.get("status").is_empty() || self.is_narrowed_beyond_status()
    }

    /// After which delivery the page begins.
    pub(super) fn after(&self) -> Option<SessionId> {
        let cursor = encode(std::iter::once(("cursor", self.get("cursor"))));
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

    /// The filter; Err: what is wrong with it.
    pub(super) fn filter(&self) -> Result<DeliveryFilter, String> {
        let known = |name: &str, found: bool| {
            if found || self.get(name).is_empty() {
                Ok(())
            } else {
                Err(format!("The address asks for a {name} that there is not."))
            }
        };
        let status = DeliveryStatus::ALL
            .into_iter()
            .find(|one| one.as_str() == self.get("status"));
        known("status", status.is_some())?;
        let event = MessageEvent::ALL
            .into_iter()
            .find(|one| one.as_str() == self.get("event"));
        known("event", event.is_some())?;
        let session_id: Option<SessionId> = self.get("sessionId").parse().ok();
        if session_id.is_none() && !self.get("sessionId").is_empty() {
            return Err("That is no session's id: it begins with ses_.".into());
        }
        let (from, to) = (read_time(self.get("from")), read_time(self.get("to")));
        known("from", from.is_some())?;
        known("to", to.is_some())?;
        Ok(DeliveryFilter {
            status,
            event,
            session_id,
            from,
            to,
        })
    }
}

/// A time as the API writes it, or as the browser's own field does, which is taken as UTC.
pub(crate) fn read_time(text: &str) -> Option<TimestampMs> {
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
        let asked = Asked::of("status=failed&event=&from=2026-11-20T10%3A55&cursor=x&other=1");
        let filter = asked.filter().unwrap();
        assert_eq!(filter.status, Some(DeliveryStatus::Failed));
        assert_eq!(filter.event, None);
        assert_eq!(filter.from, "2026-11-20T10:55:00Z".parse().ok());
        assert_eq!(asked.local("from"), "2026-11-20T10:55");
        assert_eq!(asked.with("status", ""), "from=2026-11-20T10%3A55");
        assert_eq!(
            asked.with("cursor", "c"),
            "status=failed&from=2026-11-20T10%3A55&cursor=c"
        );
        assert_eq!(asked.retry_query(), "status=failed&from=2026-11-20T10%3A55");
    }

    #[test]
    fn what_can_not_be_meant_is_told() {
        for query in [
            "status=x",
            "event=x",
            "sessionId=dlv_1",
            "from=yesterday",
            "to=x",
        ] {
            assert!(Asked::of(query).filter().is_err(), "{query}");
        }
    }
}
