//! Determines which learned rows are removed together with a session.

use porchlight_schema::ids::SessionId;
use serde::Deserialize;

/// The first byte of the key of a place. Its row is shared knowledge of several couriers, and stays
/// when a session is removed.
pub const PLACE_ROW: u8 = 1;
/// The first byte of the key of a trace. Its row holds the fingerprint of one session's trace.
pub const TRACE_ROW: u8 = 2;

/// The part of a trace's row that names its session.
#[derive(Deserialize)]
struct OfSession {
    session_id: SessionId,
}

/// Returns whether the row under this key belongs to one session.
#[must_use]
pub fn is_of_one_session(key: &[u8; 32]) -> bool {
    key.first() == Some(&TRACE_ROW)
}

/// Returns whether a learned row is removed together with this session, which once wrote the row.
/// Another session may have written it since. A trace that cannot be decoded is of no use to any
/// session, and goes too.
#[must_use]
pub fn belongs_to_session(session_id: SessionId, key: &[u8; 32], data: &[u8]) -> bool {
    let owner = serde_json::from_slice::<OfSession>(data);
    is_of_one_session(key) && owner.map_or(true, |owner| owner.session_id == session_id)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::time::TimestampMs;

    use super::*;

    fn key(kind: u8) -> [u8; 32] {
        let mut key = [7; 32];
        key[0] = kind;
        key
    }

    #[test]
    fn a_trace_is_removed_with_its_session_and_a_place_stays() {
        let [own, other] = [1, 2].map(|number| SessionId::new(TimestampMs(5), number));
        let trace = format!(r#"{{"session_id":"{own}","fingerprint":{{"slots":[1]}}}}"#);
        assert!(belongs_to_session(own, &key(TRACE_ROW), trace.as_bytes()));
        assert!(!belongs_to_session(
            other,
            &key(TRACE_ROW),
            trace.as_bytes()
        ));
        assert!(belongs_to_session(other, &key(TRACE_ROW), b"?"));
        assert!(!belongs_to_session(own, &key(PLACE_ROW), trace.as_bytes()));
    }
}
