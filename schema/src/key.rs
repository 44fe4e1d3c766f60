//! API keys and their rights (contract section 1).

use serde::{Deserialize, Serialize};

use crate::ids::KeyId;
use crate::later;
use crate::session::Tenant;
use crate::time::TimestampMs;

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// A secret key, `sk_…`: full access to its organization in its environment.
    Secret,
    /// A client key, `pk_…`, which is shipped inside an app.
    Client,
}

impl KeyKind {
    /// The prefix of keys of this kind.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Secret => "sk",
            Self::Client => "pk",
        }
    }
}

/// A stored key: never the key itself, only the fields that may be shown. It is found by the key's
/// SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The public name.
    pub id: KeyId,
    /// The tenant.
    pub tenant: Tenant,
    /// The kind.
    pub kind: KeyKind,
    /// The last four characters of the key.
    pub last4: String,
    /// When it was created.
    pub created_at: TimestampMs,
    /// When it expires.
    pub expires_at: Option<TimestampMs>,
    /// When it was revoked.
    pub revoked_at: Option<TimestampMs>,
    /// A name that distinguishes the key for people.
    #[serde(deserialize_with = "later::or_default")]
    pub name: Option<String>,
    /// The hour in which it was last used, as far as it was written.
    #[serde(deserialize_with = "later::or_default")]
    pub last_used_at: Option<TimestampMs>,
}

impl KeyRecord {
    /// Whether the key is valid at `now`.
    #[must_use]
    pub fn is_live(&self, now: TimestampMs) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// The beginning of the key, for display: `sk_live_`.
    #[must_use]
    pub fn shown_prefix(&self) -> String {
        format!("{}_{}_", self.kind.prefix(), self.tenant.env.key_word())
    }
}
