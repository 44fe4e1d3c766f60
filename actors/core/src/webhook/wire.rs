//! The parts of a message sent over the wire in addition to its signatures: the request's headers,
//! and the body of messages that an earlier release stored.

use std::borrow::Cow;

use porchlight_schema::ids::MessageId;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::signature::standard_timestamp;

/// The fields of a summary that the first release sent in `insight.updated` and the contract does
/// not have.
const FIELDS_REMOVED: [&str; 2] = ["\"totalDurationSec\":", "\"attemptCycles\":"];
/// The beginning of the summary in a body.
const SUMMARY: &str = "\"summary\":";

/// Returns the headers of an attempt made at `at`, without the signatures. They follow from the
/// message and the attempt, so the log of attempts need not store them.
#[must_use]
pub fn request_headers(
    event: MessageEvent,
    session: &str,
    id: MessageId,
    sequence: u32,
    attempt: u32,
    at: TimestampMs,
) -> Vec<(&'static str, String)> {
    vec![
        ("x-service-event", event.as_str().to_owned()),
        ("x-service-delivery", session.to_owned()),
        ("x-service-delivery-id", id.to_string()),
        ("x-service-attempt", attempt.to_string()),
        ("x-service-sequence", sequence.to_string()),
        ("webhook-id", id.to_string()),
        ("webhook-timestamp", standard_timestamp(at).to_string()),
    ]
}

/// Returns the body to send for a stored body. The first release stored `insight.updated` with a
/// summary of nine fields, or with `null`: two fields are removed, and `null` is left out. Other
/// bodies stay as they are, byte for byte.
#[must_use]
pub fn body_to_send(event: MessageEvent, stored: &str) -> Cow<'_, str> {
    let unchanged = Cow::Borrowed(stored);
    if event != MessageEvent::InsightUpdated {
        return unchanged;
    }
    // Within a text the quotes would be escaped.
    let Some((before, summary)) = stored.split_once(SUMMARY) else {
        return unchanged;
    };
    if let Some(after) = summary.strip_prefix("null,") {
        return Cow::Owned(format!("{before}{after}"));
    }
    let inner = summary.strip_prefix('{');
    let Some((fields, after)) = inner.and_then(|inner| inner.split_once('}')) else {
        return unchanged;
    };
    // The values are numbers, `true`, `false` and `null`, so that a comma always separates fields.
    let is_removed = |field: &&str| FIELDS_REMOVED.iter().any(|name| field.starts_with(name));
    if !fields.split(',').any(|field| is_removed(&field)) {
        return unchanged;
    }
    let kept: Vec<_> = fields
        .split(',')
        .filter(|field| !is_removed(field))
        .collect();
    let kept = kept.join(",");
    Cow::Owned(format!("{before}{SUMMARY}{{{kept}}}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_summary_loses_the_two_fields_that_the_contract_does_not_have() {
        let head = r#"{"event":"insight.updated","data":{"deliveryId":"a\"summary\":{b","status":"ready","#;
        let tail = r#""reasonCodes":["FULL_ATTEMPT"],"events":[{"metadata":{}}]}}"#;
        let seven = r#""summary":{"rightDoorstep":true,"fraudScore":0.001,"elevatorUsed":null},"#;
        let nine = r#""summary":{"rightDoorstep":true,"fraudScore":0.001,"elevatorUsed":null,"totalDurationSec":252.8,"attemptCycles":1},"#;
        let sent = format!("{head}{seven}{tail}");
        let event = MessageEvent::InsightUpdated;
        assert_eq!(body_to_send(event, &format!("{head}{nine}{tail}")), sent);
        assert!(matches!(body_to_send(event, &sent), Cow::Borrowed(_)));
        let without = format!("{head}{tail}");
        assert_eq!(
            body_to_send(event, &format!("{head}\"summary\":null,{tail}")),
            without
        );
        assert!(matches!(body_to_send(event, &without), Cow::Borrowed(_)));
        let other = body_to_send(MessageEvent::SessionStopped, nine);
        assert_eq!(other, nine, "only insights have a summary");
        let cut_off = body_to_send(event, "\"summary\":{\"attemptCycles\":1");
        assert_eq!(cut_off, "\"summary\":{\"attemptCycles\":1");
    }
}
