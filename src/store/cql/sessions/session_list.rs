//! The lists of a tenant's sessions.

use porchlight_ports::SessionFilter;
use porchlight_schema::session::SessionStart;
use sha2::{Digest, Sha256};

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// A list of a tenant's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cql) enum List {
    /// All sessions.
    All,
    /// The sessions of a delivery, by the hash of its id.
    Delivery([u8; 32]),
    /// The sessions of a courier, by the hash of the courier's id.
    Rider([u8; 32]),
}

impl List {
    /// Returns the lists that contain a session.
    pub(in crate::cql) fn of(start: &SessionStart) -> [Self; 3] {
        [
            Self::All,
            Self::Delivery(hash(&start.delivery_id)),
            Self::Rider(hash(&start.external_rider_id)),
        ]
    }

    /// Returns the shortest list that contains all sessions of a filter.
    pub(super) fn of_filter(filter: &SessionFilter) -> Self {
        match (&filter.delivery_id, &filter.external_rider_id) {
            (Some(delivery_id), _) => Self::Delivery(hash(delivery_id)),
            (None, Some(rider_id)) => Self::Rider(hash(rider_id)),
            (None, None) => Self::All,
        }
    }

    /// Returns the list as part of a key.
    pub(in crate::cql) fn key(self) -> Vec<u8> {
        let (letter, hash) = match self {
            Self::All => (b'a', [].as_slice()),
            Self::Delivery(ref hash) => (b'd', hash.as_slice()),
            Self::Rider(ref hash) => (b'r', hash.as_slice()),
        };
        [&[letter], hash].concat()
    }
}
