//! The data key that seals a row.

use porchlight_ports::DocumentKind;

use crate::engine::Space;

/// The owner of the data key that seals a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyOwner {
    /// The row holds no positions, addresses or ids of couriers, and is not sealed.
    None,
    /// The session with these bytes of its id. All of its rows have one key.
    Session([u8; 16]),
    /// The row, whose key is replaced whenever the row is, because the new content may lack some of
    /// the old one.
    Row,
    /// The row, whose key stays until the row is removed. Its content is about the same subject all
    /// the time.
    LastingRow,
}

/// The lifetime of a data key that belongs to a single row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKeyLifetime {
    /// Each version of the row has a new key.
    OneVersion,
    /// The row has one key until it is removed.
    UntilRemoval,
}

/// Returns the owner of a row's data key, by the letter of its table.
pub(super) fn key_owner(space: Space, key: &[u8]) -> KeyOwner {
    let Some((table, rest)) = key.split_first() else {
        return KeyOwner::None;
    };
    let of_session = match space {
        Space::Journal => *table == b'j',
        // Starts, proofs of delivery, snapshots, insights, reviews and messages.
        Space::State => matches!(table, b's' | b'p' | b'a' | b'v' | b'V' | b'm'),
    };
    if of_session {
        return rest
            .first_chunk::<16>()
            .map_or(KeyOwner::None, |id| KeyOwner::Session(*id));
    }
    let of_row = match (space, table) {
        // A recorder holds a courier and an address. Each of its messages replaces the row.
        (Space::State, b'R') => return KeyOwner::LastingRow,
        // Attempts quote the receiver's answer. Learned places hold positions.
        (Space::State, b'A' | b'w') => true,
        // Requests name their subject until they are completed.
        (Space::State, b'#') => rest.first().is_some_and(|kind| {
            [
                DocumentKind::PrivacyRequest,
                DocumentKind::OpenPrivacyRequest,
            ]
            .iter()
            .any(|sealed| *sealed as u8 == *kind)
        }),
        _ => false,
    };
    if of_row {
        KeyOwner::Row
    } else {
        KeyOwner::None
    }
}

/// Returns the key of the row of a session's start, which exists as long as the session.
pub(super) fn start_key(session: [u8; 16]) -> Vec<u8> {
    let mut key = vec![b's'];
    key.extend_from_slice(&session);
    key
}

/// Returns whether a row is the start of a session.
pub(super) fn is_start(space: Space, key: &[u8]) -> bool {
    space == Space::State && key.first() == Some(&b's')
}
