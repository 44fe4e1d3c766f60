//! Keys: who may do what (contract section 1).

use serde::{Deserialize, Serialize};

use crate::ids::KeyId;
use crate::later;
use crate::session::Tenant;
use crate::time::TimestampMs;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// Everything of its organization in its environment: `sk_…`.
    Secret,
    /// What a mobile app needs: `pk_…`.
    Client,
}

impl KeyKind {
    /// What a key of this kind begins with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Secret => "sk",
            Self::Client => "pk",
        }
    }
}

/// A key as it is stored: never the key itself, only its SHA-256 (by which it is found) and what may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The public name.
    pub id: KeyId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it may do.
    pub kind: KeyKind,
    /// The last four characters of the key.
    pub last4: String,
    /// When it was made.
    pub created_at: TimestampMs,
    /// From when on it is refused.
    pub expires_at: Option<TimestampMs>,
    /// When it was revoked.
    pub revoked_at: Option<TimestampMs>,
    /// A name by which people tell it from others.
    #[serde(deserialize_with = "later::or_default")]
    pub name: Option<String>,
    /// The hour in which it was last used, as far as it was written.
    #[serde(deserialize_with = "later::or_default")]
    pub last_used_at: Option<TimestampMs>,
}

impl KeyRecord {
    /// Whether the key is good at `now`.
    #[must_use]
    pub fn is_live(&self, now: TimestampMs) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// What the key begins with, to be shown: `sk_live_`.
    #[must_use]
    pub fn shown_prefix(&self) -> String {
        format!("{}_{}_", self.kind.prefix(), self.tenant.env.key_word())
    }
}
