//! API keys and their rights (contract section 1).

use serde::{Deserialize, Serialize};

use crate::added_field;
use crate::ids::KeyId;
use crate::session::Tenant;
use crate::time::TimestampMs;

/// The kind of a key.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// A secret key, `sk_…`, which may do everything that its [`Role`] allows in its organization
    /// and environment.
    Secret,
    /// A client key, `pk_…`, which is shipped inside an app.
    Client,
}

impl KeyKind {
    /// All kinds of keys.
    pub const ALL: [Self; 2] = [Self::Secret, Self::Client];

    /// Returns the name on the command line and in lists.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Client => "client",
        }
    }

    /// Returns the prefix of keys of this kind.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Secret => "sk",
            Self::Client => "pk",
        }
    }
}

/// A kind of action that a role may allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Reads data and changes nothing.
    Read,
    /// Sends a webhook delivery again.
    RetryDelivery,
    /// Changes anything else.
    Change,
}

/// The role of a secret key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Role {
    /// The role may do everything.
    #[default]
    Admin,
    /// The role may read, and retry webhook deliveries.
    Support,
    /// The role may only read.
    Viewer,
}

impl Role {
    /// All roles, the most powerful one first.
    pub const ALL: [Self; 3] = [Self::Admin, Self::Support, Self::Viewer];

    /// Returns the role's name on the command line and in lists.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Support => "support",
            Self::Viewer => "viewer",
        }
    }

    /// Returns the role of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Returns whether this role has a permission.
    #[must_use]
    pub fn may(self, permission: Permission) -> bool {
        match (self, permission) {
            (Self::Admin, _) | (_, Permission::Read) => true,
            (Self::Support, Permission::RetryDelivery) => true,
            (Self::Support | Self::Viewer, _) => false,
        }
    }
}

/// Stores a role as one byte.
impl Serialize for Role {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(match self {
            Self::Admin => 0,
            Self::Support => 1,
            Self::Viewer => 2,
        })
    }
}

/// Reads a stored role. An unknown byte, which a later version may have written, is read as the
/// role with the fewest permissions.
impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match u8::deserialize(deserializer)? {
            0 => Self::Admin,
            1 => Self::Support,
            _ => Self::Viewer,
        })
    }
}

/// A stored key: never the key itself, only the fields that may be shown. It is found by the key's
/// SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The public name.
    pub id: KeyId,
    /// The tenant of the key.
    pub tenant: Tenant,
    /// The kind of the key.
    pub kind: KeyKind,
    /// The last four characters of the key.
    pub last4: String,
    /// The time of creation.
    pub created_at: TimestampMs,
    /// The time of expiry.
    pub expires_at: Option<TimestampMs>,
    /// The time of revocation.
    pub revoked_at: Option<TimestampMs>,
    /// A name by which people recognise the key.
    #[serde(deserialize_with = "added_field::or_default")]
    pub name: Option<String>,
    /// The hour in which the key was last used, as of the last write.
    #[serde(deserialize_with = "added_field::or_default")]
    pub last_used_at: Option<TimestampMs>,
    /// The role. Keys that were stored without one are administrators. It has no meaning for a
    /// client key.
    #[serde(deserialize_with = "added_field::or_default")]
    pub role: Role,
}

impl KeyRecord {
    /// Returns whether the key is valid at `now`.
    #[must_use]
    pub fn is_live(&self, now: TimestampMs) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expires_at| now < expires_at)
    }

    /// Returns whether the key has this permission. Client keys have no role: their permissions do
    /// not depend on it.
    #[must_use]
    pub fn may(&self, permission: Permission) -> bool {
        self.kind == KeyKind::Client || self.role.may(permission)
    }

    /// Returns the beginning of the key, for display: `sk_live_`.
    #[must_use]
    pub fn shown_prefix(&self) -> String {
        format!("{}_{}_", self.kind.prefix(), self.tenant.env.key_word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permissions_of_a_role_match_the_contract() {
        let allowed = |role: Role| {
            [
                Permission::Read,
                Permission::RetryDelivery,
                Permission::Change,
            ]
            .map(|permission| role.may(permission))
        };
        assert_eq!(allowed(Role::Admin), [true, true, true]);
        assert_eq!(allowed(Role::Support), [true, true, false]);
        assert_eq!(allowed(Role::Viewer), [true, false, false]);
    }

    #[test]
    fn a_stored_role_is_read_and_an_unknown_one_may_only_read() {
        for role in Role::ALL {
            let bytes = postcard::to_allocvec(&role).unwrap();
            assert_eq!(postcard::from_bytes(&bytes), Ok(role));
            assert_eq!(Role::of_name(role.as_str()), Some(role));
        }
        assert_eq!(postcard::from_bytes(&[9]), Ok(Role::Viewer));
        assert_eq!(Role::of_name("owner"), None);
    }
}
