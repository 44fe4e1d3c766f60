//! The delivery filter in an address.

use porchlight_ports::{DeliveryFilter, DeliveryStatus};
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::MessageEvent;

use super::super::list_query::ListQuery;

/// The fields that the API's retry by filter accepts.
const OF_RETRY: [&str; 4] = ["status", "event", "from", "to"];
/// The fields that narrow the list in addition to the status.
const NARROWING: [&str; 4] = ["event", "sessionId", "from", "to"];

/// Reads the filter fields of an address.
pub(super) fn asked(query: &str) -> ListQuery {
    ListQuery::of(query, &["status", "event", "sessionId", "from", "to"])
}

/// Returns the fields that the retry by filter accepts, as a query.
pub(super) fn of_retry(asked: &ListQuery) -> String {
    asked.only(&OF_RETRY)
}

/// Returns whether the address selects deliveries that can be retried by filter.
pub(super) fn may_be_retried(asked: &ListQuery) -> bool {
    let chosen = [
        DeliveryStatus::Failed,
        DeliveryStatus::Retrying,
        DeliveryStatus::Delivered,
    ];
    let status = asked.get("status");
    !asked.has(&["sessionId"]) && chosen.iter().any(|one| one.as_str() == status)
}

/// Returns whether the address selects only a part of its status.
pub(super) fn is_narrowed(asked: &ListQuery) -> bool {
    asked.has(&NARROWING)
}

/// Returns the filter, or a description of its fault as an error.
pub(super) fn read(asked: &ListQuery) -> Result<DeliveryFilter, String> {
    let session_id: Option<SessionId> = asked.get("sessionId").parse().ok();
    if session_id.is_none() && asked.has(&["sessionId"]) {
        return Err("This is not a session ID. A session ID begins with ses_.".into());
    }
    Ok(DeliveryFilter {
        status: asked.one_of("status", &DeliveryStatus::ALL, DeliveryStatus::as_str)?,
        event: asked.one_of("event", &MessageEvent::ALL, MessageEvent::as_str)?,
        session_id,
        from: asked.time("from")?,
        to: asked.time("to")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_filters_are_reported() {
        assert!(read(&asked("status=failed&event=&sessionId=")).is_ok());
        for query in [
            "status=x",
            "event=x",
            "sessionId=dlv_1",
            "from=yesterday",
            "to=x",
        ] {
            assert!(read(&asked(query)).is_err(), "{query}");
        }
    }
}
