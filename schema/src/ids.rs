//! Ids: 128 bits after a prefix that names the kind of object. The upper 48 bits are the creation
//! time in milliseconds, so ids sort by time, as bytes and as text. The other bits are random or
//! derived from the object.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::TimestampMs;

/// Crockford's base 32 in lower case: no i, l, o, u, and in ASCII order, so that the text sorts
/// like the number.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Number of base-32 digits for 128 bits.
const DIGITS: usize = 26;

/// The error for a text that is not an id of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this kind")]
pub struct IdError;

fn write_digits(value: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut digits = [0_u8; DIGITS];
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = ALPHABET[((value >> (5 * place)) & 31) as usize];
    }
    f.write_str(std::str::from_utf8(&digits).unwrap_or_default())
}

fn parse_digits(text: &str) -> Result<u128, IdError> {
    if text.len() != DIGITS {
        return Err(IdError);
    }
    let mut value: u128 = 0;
    for (place, byte) in text.bytes().enumerate() {
        let digit = ALPHABET
            .iter()
            .position(|&letter| letter == byte)
            .ok_or(IdError)?;
        if place == 0 && digit > 7 {
            return Err(IdError);
        }
        value = (value << 5) | digit as u128;
    }
    Ok(value)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;

            /// Creates an id with creation time `at` and the lower 80 bits of `tail`.
            #[must_use]
            pub fn new(at: TimestampMs, tail: u128) -> Self {
                let time = u128::from(at.0.max(0) as u64 & 0xffff_ffff_ffff);
                Self((time << 80) | (tail & ((1 << 80) - 1)))
            }

            /// Returns the id as 16 bytes, which sort like the id.
            #[must_use]
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// Returns the id with these 16 bytes.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }

            /// Returns the creation time.
            #[must_use]
            pub fn made_at(self) -> TimestampMs {
                TimestampMs((self.0 >> 80) as i64)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Self::PREFIX)?;
                write_digits(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_digits(text.strip_prefix(Self::PREFIX).ok_or(IdError)?).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    serializer.serialize_u128(self.0)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
                } else {
                    u128::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

id!(
    /// Id of a session: one recorded delivery.
    SessionId, "ses_"
);
id!(
    /// Id of a customer's webhook configuration.
    EndpointId, "whk_"
);
id!(
    /// Id of a webhook message; the public API calls it a webhook delivery.
    MessageId, "dlv_"
);
id!(
    /// Id of an organization, which is a customer.
    OrganizationId, "org_"
);
id!(
    /// Id of a recorder: a link by which an app on a stock phone records deliveries.
    RecorderId, "rec_"
);
id!(
    /// Public name of a key, by which it is listed and revoked; never the key itself.
    KeyId, "key_"
);

impl MessageId {
    /// Derives the id of message `number` of `session`, created at `at`. The result is always the
    /// same. Messages that a session creates within one millisecond sort by number.
    #[must_use]
    pub fn derived(at: TimestampMs, session: SessionId, number: u32) -> Self {
        use sha2::{Digest, Sha256};
        let digest = Sha256::new()
            .chain_update(session.to_bytes())
            .chain_update(number.to_be_bytes())
            .finalize();
        let mut tail = [0_u8; 16];
        tail[8..].copy_from_slice(&digest[..8]);
        let place = u128::from(number.min(u32::from(u16::MAX)));
        Self::new(at, (place << 64) | u128::from_be_bytes(tail))
    }
}

/// One of the fixed slices of sessions and endpoints; see [`crate::limits::SHARDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard(pub u8);

/// A set of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSet([u64; 4]);

impl ShardSet {
    /// The set of all shards.
    pub const ALL: Self = Self([u64::MAX; 4]);
    /// The empty set.
    pub const NONE: Self = Self([0; 4]);

    fn bit(shard: Shard) -> (usize, u64) {
        (usize::from(shard.0 >> 6), 1 << (shard.0 & 63))
    }

    /// Returns whether the set contains `shard`.
    #[must_use]
    pub fn contains(&self, shard: Shard) -> bool {
        let (word, bit) = Self::bit(shard);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds `shard` to the set.
    pub fn insert(&mut self, shard: Shard) {
        let (word, bit) = Self::bit(shard);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    /// Removes `shard` from the set.
    pub fn remove(&mut self, shard: Shard) {
        let (word, bit) = Self::bit(shard);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Returns the number of shards in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns the shards of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        (0..=u8::MAX)
            .map(Shard)
            .filter(move |&shard| self.contains(shard))
    }
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Shard>>(shards: I) -> Self {
        let mut set = Self::NONE;
        for shard in shards {
            set.insert(shard);
        }
        set
    }
}

/// Multiplier of Fibonacci hashing (2^64 divided by the golden ratio), which spreads ids that
/// differ in few bits.
const FIBONACCI: u64 = 0x9e37_79b9_7f4a_7c15;

impl SessionId {
    /// Returns the shard of this session, which never changes.
    #[must_use]
    pub fn shard(self) -> Shard {
        shard_of(self.0)
    }
}

impl OrganizationId {
    /// Returns the shard of this organization's webhooks, which never changes.
    #[must_use]
    pub fn shard(self) -> Shard {
        shard_of(self.0)
    }
}

fn shard_of(id: u128) -> Shard {
    let folded = (id as u64) ^ ((id >> 64) as u64);
    Shard((folded.wrapping_mul(FIBONACCI) >> 56) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_round_trip_and_sort_by_time() {
        let early = SessionId::new(TimestampMs(1_763_636_100_000), u128::MAX);
        let late = SessionId::new(TimestampMs(1_763_636_100_001), 0);
        assert!(
            early < late
                && early.to_string() < late.to_string()
                && early.to_bytes() < late.to_bytes()
        );
        for id in [early, late] {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(SessionId::from_bytes(id.to_bytes()), id);
        }
        assert_eq!(late.made_at(), TimestampMs(1_763_636_100_001));
    }

    #[test]
    fn messages_of_one_millisecond_sort_by_their_numbers() {
        let at = TimestampMs(1_763_636_100_000);
        for tail in [0, 7, u128::MAX] {
            let session = SessionId::new(at, tail);
            let ids: Vec<_> = [0, 1, 2, 300, 70_000]
                .map(|number| MessageId::derived(at, session, number))
                .into();
            assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
            assert_eq!(ids[1], MessageId::derived(at, session, 1));
        }
        let [one, other] = [1, 2].map(|tail| SessionId::new(at, tail));
        assert_ne!(
            MessageId::derived(at, one, 0),
            MessageId::derived(at, other, 0)
        );
    }

    #[test]
    fn a_wrong_prefix_length_or_letter_is_refused() {
        let id = SessionId::new(TimestampMs(1), 1).to_string();
        for text in [
            "",
            "ses_",
            &id[..id.len() - 1],
            &id.replace("ses_", "org_"),
            &id.to_uppercase(),
            &format!("{id}0"),
        ] {
            assert_eq!(text.parse::<SessionId>(), Err(IdError), "{text}");
        }
        assert_eq!(
            format!("ses_8{}", "0".repeat(25)).parse::<SessionId>(),
            Err(IdError)
        );
    }

    #[test]
    fn shards_are_filled_evenly() {
        let mut counts = [0_u32; 256];
        for n in 0..25_600_u128 {
            counts[usize::from(
                SessionId::new(TimestampMs(1_763_636_100_000 + n as i64), n * 7919)
                    .shard()
                    .0,
            )] += 1;
        }
        assert!(
            counts.iter().all(|&count| count > 40 && count < 180),
            "{counts:?}"
        );
    }
    /// Nodes of two releases share sessions, and stored rows contain derived ids.
    #[test]
    fn shards_and_derived_ids_never_change() {
        let at = TimestampMs(1_763_636_100_000);
        let shards = [0, 1, 2, 3, 7, 250, 65_536, 1 << 40, 1 << 70, u128::MAX]
            .map(|tail| SessionId::new(at, tail).shard().0);
        assert_eq!(shards, [247, 149, 52, 210, 75, 121, 113, 66, 133, 142]);
        let organizations = [0, 1, 2].map(|tail| OrganizationId::new(at, tail).shard().0);
        assert_eq!(organizations, [247, 149, 52]);
        let session = SessionId::new(at, 7);
        assert_eq!(
            MessageId::derived(at, session, 3).to_string(),
            "dlv_01kageeex0001q3a724de1as9r"
        );
    }
}
