//! The messages of the stream: `id`, `event` and one line of JSON.

use std::io::Write;

use porchlight_actors::service::NumberedChange;
use porchlight_ports::StoredInsight;
use porchlight_schema::event::WireEvent;
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::InsightView;
use porchlight_schema::session::{SessionEnd, SessionStart, SessionStatus};
use porchlight_schema::time::TimestampMs;
use serde::Serialize;

/// An event, and the id that connects its opening and its closing.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventView<'a> {
    event_id: String,
    #[serde(flatten)]
    event: WireEvent<'a>,
}

/// The last message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndView {
    session_id: SessionId,
    status: SessionStatus,
    ended_at: TimestampMs,
}

fn put(out: &mut Vec<u8>, id: u32, name: &str, data: &impl Serialize) {
    // Writing to a vector cannot fail, and plain data always becomes JSON, which has no line
    // breaks.
    let _written = write!(out, "id: {id}\nevent: {name}\ndata: ");
    let _written = serde_json::to_writer(&mut *out, data);
    out.extend_from_slice(b"\n\n");
}

/// Appends the opening or closing of an event. Its id consists of the session and the event's
/// position.
pub(super) fn event(out: &mut Vec<u8>, id: u32, session_id: SessionId, change: &NumberedChange) {
    let session = session_id.to_string();
    let session = session.strip_prefix(SessionId::PREFIX).unwrap_or_default();
    let view = EventView {
        event_id: format!("evt_{session}_{:04}", change.index),
        event: change.event.wire(),
    };
    put(out, id, "event", &view);
}

/// Appends the insight, as REST returns it.
pub(super) fn insight(
    out: &mut Vec<u8>,
    id: u32,
    start: &SessionStart,
    insight: &StoredInsight,
    image: Option<String>,
) {
    let view = InsightView::scored(start, &insight.record, image);
    put(out, id, "insight", &view);
}

/// Appends the end.
pub(super) fn end(out: &mut Vec<u8>, id: u32, start: &SessionStart, end: &SessionEnd) {
    let view = EndView {
        session_id: start.session_id,
        status: SessionStatus::Completed,
        ended_at: end.ended_at,
    };
    put(out, id, "end", &view);
}

#[cfg(test)]
mod tests {
    use porchlight_schema::event::{Confidence, Event, EventType, Metadata};

    use super::*;

    #[test]
    fn an_event_has_its_id_and_the_fields_of_the_contract() {
        let event = Event {
            event_type: EventType::Gate,
            t_start_ms: 61_500,
            t_end_ms: None,
            confidence: Confidence::from_probability(0.5),
            metadata: Metadata::Gate { wait_sec: 12 },
        };
        let change = NumberedChange {
            number: 6,
            index: 3,
            event,
        };
        let mut out = Vec::new();
        super::event(&mut out, 7, SessionId::new(TimestampMs(0), 1), &change);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "id: 7\nevent: event\ndata: {\"eventId\":\"evt_00000000000000000000000001_0003\",\"type\":\"GATE\",\"tStart\":61.5,\"tEnd\":null,\"confidence\":0.5,\"metadata\":{\"waitSec\":12}}\n\n"
        );
    }
}
