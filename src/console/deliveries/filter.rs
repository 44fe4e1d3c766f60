//! The delivery filter in an address.

use porchlight_ports::{DeliveryFilter, DeliveryStatus};
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::MessageEvent;

use super::super::list_query::ListQuery;

/// The fields that the API's retry by filter accepts.
const RETRY_FIELDS: [&str; 4] = ["status", "event", "from", "to"];
/// The fields that narrow the list in addition to the status.
const NARROWING: [&str; 4] = ["event", "sessionId", "from", "to"];

/// Reads the filter fields of an address.
pub(super) fn parse(text: &str) -> ListQuery {
    ListQuery::of(text, &["status", "event", "sessionId", "from", "to"])
}

/// Returns the fields that the retry by filter accepts, as a query.
pub(super) fn retry_query(query: &ListQuery) -> String {
    query.only(&RETRY_FIELDS)
}

/// Returns whether the address selects deliveries that can be retried by filter.
pub(super) fn is_retryable(query: &ListQuery) -> bool {
    let chosen = [
        DeliveryStatus::Failed,
        DeliveryStatus::Retrying,
        DeliveryStatus::Delivered,
    ];
    let status = query.get("status");
    !query.has(&["sessionId"]) && chosen.iter().any(|one| one.as_str() == status)
}

/// Returns whether the address selects only a part of its status.
pub(super) fn is_narrowed(query: &ListQuery) -> bool {
    query.has(&NARROWING)
}

/// Returns the filter, or a description of its fault as an error.
pub(super) fn read(query: &ListQuery) -> Result<DeliveryFilter, String> {
    let session_id: Option<SessionId> = query.get("sessionId").parse().ok();
    if session_id.is_none() && query.has(&["sessionId"]) {
        return Err("This is not a session ID. A session ID begins with ses_.".into());
    }
    Ok(DeliveryFilter {
        status: query.one_of("status", &DeliveryStatus::ALL, DeliveryStatus::as_str)?,
        event: query.one_of("event", &MessageEvent::ALL, MessageEvent::as_str)?,
        session_id,
        from: query.time("from")?,
        to: query.time("to")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_filters_are_reported() {
        assert!(read(&parse("status=failed&event=&sessionId=")).is_ok());
        for query in [
            "status=x",
            "event=x",
            "sessionId=dlv_1",
            "from=yesterday",
            "to=x",
        ] {
            assert!(read(&parse(query)).is_err(), "{query}");
        }
    }
}
