//! The encoding of messages between nodes: one byte for the format, then postcard, as in the store.

use porchlight_core::timeline::NumberedChange;
use porchlight_observe::peer::PeerRoute;
use porchlight_schema::event::Event;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};

/// The number of the format. A node that uses another number gets an error; the batches that it
/// forwarded are found in the journal.
const FORMAT: u8 = 1;

/// The header with the request's random bytes, in hex.
pub(super) const NONCE: &str = "porchlight-nonce";
/// The header with the body's SHA-256, in hex.
pub(super) const DIGEST: &str = "porchlight-digest";
/// The header of requests and answers with the authentication tag, in hex.
pub(super) const TAG: &str = "porchlight-tag";

/// Returns the path of a route.
pub(super) const fn path(route: PeerRoute) -> &'static str {
    match route {
        PeerRoute::Forwarded => "/peer/v1/hand-over",
        PeerRoute::Nudge => "/peer/v1/nudge",
        PeerRoute::Messages => "/peer/v1/messages",
        PeerRoute::Live => "/peer/v1/live",
        PeerRoute::Changes => "/peer/v1/told",
    }
}

/// An error for a message that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a message of this format")]
pub(super) struct WireError;

/// A durable batch that is forwarded to the owner of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ForwardedBatch<'a> {
    pub(super) session_id: SessionId,
    pub(super) seq: u32,
    /// The packed batch.
    #[serde(borrow, serialize_with = "as_bytes")]
    pub(super) batch: &'a [u8],
}

fn as_bytes<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Sessions and tenants that the receiver should reconcile. The answer is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Nudges {
    pub(super) sessions: Vec<SessionId>,
    pub(super) tenants: Vec<Tenant>,
    /// Whether the sender released shards, so that the receiver should read the owners.
    pub(super) has_released: bool,
}

/// Sessions with a new message in the outbox of their tenant. The answer is empty.
pub(super) type Messages = Vec<(Tenant, SessionId)>;

/// A query for the changes of a live session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangesQuery {
    pub(super) session_id: SessionId,
    pub(super) number: u32,
    pub(super) limit: u32,
}

/// The answer to a query about a live session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply<T> {
    Answer(T),
    /// The node does not own the session.
    NotOwner,
    /// The node owns the session but cannot answer now.
    Unavailable,
}

/// The events so far, and the time of their last change.
pub(super) type Live = (Vec<Event>, Option<TimestampMs>);
/// Changes as tuples of number, position of the event, and event.
pub(super) type Changes = Vec<(u32, u32, Event)>;

pub(super) fn changes(numbered: Vec<NumberedChange>) -> Changes {
    let change = |one: NumberedChange| (one.number, one.index, one.event);
    numbered.into_iter().map(change).collect()
}

pub(super) fn numbered(changes: Changes) -> Vec<NumberedChange> {
    let change = |(number, index, event)| NumberedChange {
        number,
        index,
        event,
    };
    changes.into_iter().map(change).collect()
}

pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>, WireError> {
    postcard::to_extend(message, vec![FORMAT]).map_err(|_| WireError)
}

/// Decodes a message that may borrow from `bytes`. Trailing bytes are an error.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    let Some((&FORMAT, rest)) = bytes.split_first() else {
        return Err(WireError);
    };
    match postcard::take_from_bytes(rest) {
        Ok((message, [])) => Ok(message),
        _ => Err(WireError),
    }
}

/// Decodes a message that owns its data. Trailing bytes are an error.
pub(super) fn decode_owned<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    decode(bytes)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::event::{Confidence, Direction, EventType, Metadata};
    use porchlight_schema::hex;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use proptest::prelude::*;

    use super::*;

    fn event(t_start_ms: u32, metadata: Metadata) -> Event {
        Event {
            event_type: EventType::Stairs,
            t_start_ms,
            t_end_ms: t_start_ms.is_multiple_of(2).then_some(t_start_ms + 1),
            confidence: Confidence::from_probability(0.5),
            metadata,
        }
    }

    #[test]
    fn messages_round_trip() {
        let session_id = SessionId::new(TimestampMs(5), 7);
        let batches = vec![
            ForwardedBatch {
                session_id,
                seq: 3,
                batch: b"abc",
            },
            ForwardedBatch {
                session_id,
                seq: u32::MAX,
                batch: &[],
            },
        ];
        let bytes = encode(&batches).unwrap();
        assert_eq!(decode::<Vec<ForwardedBatch<'_>>>(&bytes), Ok(batches));
        let tenant = Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), 2),
            env: Env::Production,
        };
        let nudges = Nudges {
            sessions: vec![session_id],
            tenants: vec![tenant],
            has_released: true,
        };
        assert_eq!(decode_owned(&encode(&nudges).unwrap()), Ok(nudges));
        let messages: Messages = vec![(tenant, session_id)];
        assert_eq!(decode_owned(&encode(&messages).unwrap()), Ok(messages));
        let climb = Metadata::Climb {
            floors: Some(3),
            direction: Direction::Down,
            height_cm: None,
        };
        for metadata in [Metadata::None, climb, Metadata::Gate { wait_sec: 9 }] {
            let reply = Reply::Answer((vec![event(4, metadata)], Some(TimestampMs(9))));
            assert_eq!(
                decode_owned::<Reply<Live>>(&encode(&reply).unwrap()),
                Ok(reply)
            );
            let all = vec![NumberedChange {
                number: 1,
                index: 0,
                event: event(5, metadata),
            }];
            let reply = Reply::Answer(changes(all.clone()));
            let Ok(Reply::Answer(read)) = decode_owned(&encode(&reply).unwrap()) else {
                panic!("not understood");
            };
            assert_eq!(numbered(read), all);
        }
    }

    /// The name and the bytes of each message of the test below, in hexadecimal digits.
    const MESSAGES: [(&str, &str); 9] = [
        ("batches", "01018780808080808080808080280303616263"),
        (
            "nudges",
            "0101878080808080808080808028018280808080808080808080080101",
        ),
        (
            "messages",
            "010182808080808080808080800801878080808080808080808028",
        ),
        ("session", "01878080808080808080808028"),
        ("live events", "01000107040105f403010103010184070112"),
        ("query for changes", "01878080808080808080808028ac0209"),
        ("changes", "0100010100070500f4030309"),
        ("not the owner", "0101"),
        ("unavailable", "0102"),
    ];

    /// Nodes of two releases exchange messages during an upgrade.
    #[test]
    fn the_messages_and_paths_of_this_format_never_change() {
        let session_id = SessionId::new(TimestampMs(5), 7);
        let tenant = Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), 2),
            env: Env::Production,
        };
        let batch = ForwardedBatch {
            session_id,
            seq: 3,
            batch: b"abc",
        };
        let nudges = Nudges {
            sessions: vec![session_id],
            tenants: vec![tenant],
            has_released: true,
        };
        let query = ChangesQuery {
            session_id,
            number: 300,
            limit: 9,
        };
        let climb = Metadata::Climb {
            floors: Some(3),
            direction: Direction::Down,
            height_cm: Some(900),
        };
        let live: Live = (vec![event(4, climb)], Some(TimestampMs(9)));
        let changes: Changes = vec![(1, 0, event(5, Metadata::Gate { wait_sec: 9 }))];
        let messages = [
            encode(&vec![batch]),
            encode(&nudges),
            encode(&vec![(tenant, session_id)]),
            encode(&session_id),
            encode(&Reply::Answer(live)),
            encode(&query),
            encode(&Reply::Answer(changes)),
            encode(&Reply::<Changes>::NotOwner),
            encode(&Reply::<Changes>::Unavailable),
        ];
        assert_eq!(messages.len(), MESSAGES.len());
        for (message, (name, expected)) in messages.into_iter().zip(MESSAGES) {
            assert_eq!(
                hex::encode(&message.unwrap()),
                expected,
                "{name}: a node of the previous release cannot read this; see \"Releases side by side\" in CONTRIBUTING.md"
            );
        }
        let routes = [
            (PeerRoute::Forwarded, "/peer/v1/hand-over"),
            (PeerRoute::Nudge, "/peer/v1/nudge"),
            (PeerRoute::Messages, "/peer/v1/messages"),
            (PeerRoute::Live, "/peer/v1/live"),
            (PeerRoute::Changes, "/peer/v1/told"),
        ];
        for (route, expected) in routes {
            assert_eq!(path(route), expected);
        }
    }

    #[test]
    fn unknown_formats_and_longer_messages_are_refused() {
        let mut bytes = encode(&Reply::<()>::NotOwner).unwrap();
        assert_eq!(decode_owned::<Reply<()>>(&bytes), Ok(Reply::NotOwner));
        bytes.push(0);
        assert_eq!(decode_owned::<Reply<()>>(&bytes), Err(WireError));
        bytes.pop();
        bytes[0] = FORMAT + 1;
        assert_eq!(decode_owned::<Reply<()>>(&bytes), Err(WireError));
        assert_eq!(decode_owned::<Reply<()>>(&[]), Err(WireError));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            bytes.insert(0, FORMAT);
            let _read = decode::<Vec<ForwardedBatch<'_>>>(&bytes);
            let _read = decode_owned::<Nudges>(&bytes);
            let _read = decode_owned::<ChangesQuery>(&bytes);
            let _read = decode_owned::<Reply<Live>>(&bytes);
            let _read = decode_owned::<Reply<Changes>>(&bytes);
        }

        #[test]
        fn hex_round_trips(bytes in any::<[u8; 16]>()) {
            prop_assert_eq!(hex::decode::<16>(hex::encode(&bytes).as_bytes()), Some(bytes));
            prop_assert_eq!(hex::decode::<15>(hex::encode(&bytes).as_bytes()), None);
        }
    }
}
