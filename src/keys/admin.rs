//! Creates, lists and revokes keys, for a running server and for commands that open the store.

use std::fmt;
use std::sync::Arc;

use porchlight_ports::{Entropy, Keys, Organization, StoreError};
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::key::{KeyKind, KeyRecord, Role};
use porchlight_schema::limits::{KEY_NAME_CHARS_MAX, TENANT_LIVE_KEYS_MAX, TEXT_CHARS_MAX};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use porchlight_world::SystemEntropy;

/// Administers keys.
#[derive(Clone)]
pub struct KeyAdmin {
    keys: Arc<dyn Keys>,
}

impl fmt::Debug for KeyAdmin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyAdmin").finish_non_exhaustive()
    }
}

/// A request to create a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateKeyRequest {
    /// The organization's name; a new one is created if needed.
    pub organization: String,
    /// `sandbox` or `live`.
    pub env: String,
    /// `secret` or `client`.
    pub kind: String,
    /// A name by which people recognise the key.
    #[serde(default)]
    pub name: Option<String>,
    /// The validity of the key in milliseconds; `None`: until revoked.
    #[serde(default)]
    pub expires_ms: Option<i64>,
    /// `admin`, `support` or `viewer`, for a secret key; `None`: `admin`.
    #[serde(default)]
    pub role: Option<String>,
}

impl CreateKeyRequest {
    /// Creates a request for a key without a name that is valid until it is revoked.
    #[must_use]
    pub fn new(organization: &str, env: &str, kind: &str) -> Self {
        Self {
            organization: organization.to_owned(),
            env: env.to_owned(),
            kind: kind.to_owned(),
            name: None,
            expires_ms: None,
            role: None,
        }
    }
}

/// A new key, shown only once.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedKey {
    /// The id for listing and revoking.
    pub id: String,
    /// The text of the key.
    pub key: String,
    /// The id of the organization.
    pub organization_id: String,
    /// `sandbox` or `live`.
    pub env: String,
    /// `secret` or `client`.
    pub kind: String,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The public facts about a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedKey {
    /// The id for revoking.
    pub id: String,
    /// The first characters of the key.
    pub prefix: String,
    /// The last characters of the key.
    pub last4: String,
    /// The id of the organization.
    pub organization_id: String,
    /// The organization's name.
    pub organization: String,
    /// `sandbox` or `live`.
    pub env: String,
    /// `secret` or `client`.
    pub kind: String,
    /// The time of creation.
    pub created_at: TimestampMs,
    /// The time of expiry.
    pub expires_at: Option<TimestampMs>,
    /// The time of revocation.
    pub revoked_at: Option<TimestampMs>,
    /// A name by which people recognise the key.
    #[serde(default)]
    pub name: Option<String>,
    /// The hour in which the key was last used.
    #[serde(default)]
    pub last_used_at: Option<TimestampMs>,
    /// `admin`, `support` or `viewer`; `None` for a client key.
    #[serde(default)]
    pub role: Option<String>,
}

/// Formats a key as one line.
impl fmt::Display for ListedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}  {}…{}  {}  created {}",
            self.id, self.prefix, self.last4, self.organization, self.created_at
        )?;
        if let Some(role) = &self.role {
            write!(f, "  role {role}")?;
        }
        if let Some(name) = &self.name {
            write!(f, "  “{name}”")?;
        }
        match self.last_used_at {
            Some(hour) => write!(f, "  last used in the hour from {hour}")?,
            None => write!(f, "  never used")?,
        }
        if let Some(expires_at) = self.expires_at {
            write!(f, "  expires {expires_at}")?;
        }
        if let Some(revoked_at) = self.revoked_at {
            write!(f, "  revoked {revoked_at}")?;
        }
        Ok(())
    }
}

/// The reason why a key was not created or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyAdminError {
    /// The request is invalid.
    #[error("{field} {detail}")]
    Invalid {
        /// The field of [`CreateKeyRequest`].
        field: &'static str,
        /// The expected value.
        detail: String,
    },
    /// The organization has as many valid keys as it may.
    #[error(
        "the organization already has {TENANT_LIVE_KEYS_MAX} valid keys in this environment; revoke some first"
    )]
    TooMany,
    /// No key has this id.
    #[error("the key does not exist")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl KeyAdmin {
    /// Administers the keys of a store.
    #[must_use]
    pub fn new(keys: Arc<dyn Keys>) -> Self {
        Self { keys }
    }

    /// Creates a key at `now`.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown word or an empty organization name, if the organization has
    /// too many valid keys, or if the store fails.
    pub async fn create(
        &self,
        order: &CreateKeyRequest,
        now: TimestampMs,
    ) -> Result<CreatedKey, KeyAdminError> {
        let invalid = |field, detail: &str| KeyAdminError::Invalid {
            field,
            detail: detail.to_owned(),
        };
        let env = Env::ALL.into_iter().find(|env| env.key_word() == order.env);
        let env = env.ok_or_else(|| invalid("env", "must be sandbox or live"))?;
        let kind = KeyKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == order.kind);
        let kind = kind.ok_or_else(|| invalid("kind", "must be secret or client"))?;
        let role =
            role_of(kind, order.role.as_deref()).map_err(|detail| invalid("role", detail))?;
        let name = order.organization.trim();
        if name.is_empty()
            || name.chars().count() > TEXT_CHARS_MAX
            || name.contains(char::is_control)
        {
            return Err(invalid(
                "organization",
                &format!(
                    "must have 1 to {TEXT_CHARS_MAX} characters, none of them a control character"
                ),
            ));
        }
        if order.expires_ms.is_some_and(|expires_ms| expires_ms <= 0) {
            return Err(invalid("expiresMs", "must be longer than 0"));
        }
        let candidate = Organization {
            id: OrganizationId::new(now, SystemEntropy.random()),
            name: name.to_owned(),
            created_at: now,
        };
        let organization = self.keys.organization(candidate).await?;
        let tenant = Tenant {
            organization_id: organization.id,
            env,
        };
        let expires_at = order.expires_ms.map(|expires_ms| now.plus_ms(expires_ms));
        let label = order.name.as_deref().map(str::trim);
        let is_named = |label: &str| {
            (1..=KEY_NAME_CHARS_MAX).contains(&label.chars().count())
                && !label.contains(char::is_control)
        };
        if label.is_some_and(|label| !is_named(label)) {
            return Err(invalid(
                "name",
                &format!(
                    "must have 1 to {KEY_NAME_CHARS_MAX} characters, none of them a control character"
                ),
            ));
        }
        self.create_for(tenant, kind, role, label, expires_at, now)
            .await
    }

    /// Creates a key of an existing organization at `now`. Keys that are created at the same time
    /// may exceed [`TENANT_LIVE_KEYS_MAX`] by their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the organization has too many valid keys, or if the store fails.
    pub async fn create_for(
        &self,
        tenant: Tenant,
        kind: KeyKind,
        role: Role,
        name: Option<&str>,
        expires_at: Option<TimestampMs>,
        now: TimestampMs,
    ) -> Result<CreatedKey, KeyAdminError> {
        let own = self.list_of(tenant).await?;
        if own.iter().filter(|record| record.is_live(now)).count() >= TENANT_LIVE_KEYS_MAX {
            return Err(KeyAdminError::TooMany);
        }
        let made = super::make(kind, tenant.env, porchlight_world::fill_random);
        let record = KeyRecord {
            id: KeyId::new(now, SystemEntropy.random()),
            tenant,
            kind,
            last4: made.last4,
            created_at: now,
            expires_at,
            revoked_at: None,
            name: name.map(str::to_owned),
            last_used_at: None,
            role,
        };
        let id = record.id.to_string();
        self.keys.put_key(made.hash, record).await?;
        Ok(CreatedKey {
            id,
            key: made.text.expose_secret().to_owned(),
            organization_id: tenant.organization_id.to_string(),
            env: tenant.env.key_word().to_owned(),
            kind: kind.as_str().to_owned(),
        })
    }

    /// Returns the keys of an organization in one environment, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn list_of(&self, tenant: Tenant) -> Result<Vec<KeyRecord>, KeyAdminError> {
        let mut records = self.keys.list_keys(Some(tenant.organization_id)).await?;
        records.retain(|record| record.tenant == tenant);
        Ok(records)
    }

    /// Revokes a key of this organization and environment at `now`. An earlier revocation is kept.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such key, or if the store fails.
    pub async fn revoke_of(
        &self,
        tenant: Tenant,
        id: KeyId,
        now: TimestampMs,
    ) -> Result<KeyRecord, KeyAdminError> {
        let own = self.list_of(tenant).await?;
        if !own.iter().any(|record| record.id == id) {
            return Err(KeyAdminError::NotFound);
        }
        let revoked = self.keys.revoke_key(id, now).await?;
        revoked.ok_or(KeyAdminError::NotFound)
    }

    /// Returns all keys, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn list(&self) -> Result<Vec<ListedKey>, KeyAdminError> {
        let organizations = self.keys.organizations().await?;
        let records = self.keys.list_keys(None).await?;
        Ok(records
            .iter()
            .map(|record| listed(record, &organizations))
            .collect())
    }

    /// Returns the name of an organization; `None` if it is unknown.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn organization(&self, id: OrganizationId) -> Result<Option<String>, StoreError> {
        let all = self.keys.organizations().await?;
        let found = all.into_iter().find(|organization| organization.id == id);
        Ok(found.map(|organization| organization.name))
    }

    /// Makes the cheapest read that reaches the store, to check that the store answers.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn probe(&self) -> Result<(), StoreError> {
        // The hash of a key that does not exist.
        self.keys.find_key([0; 32]).await.map(drop)
    }

    /// Revokes a key at `now`. An earlier revocation is kept.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such key, or if the store fails.
    pub async fn revoke(&self, id: &str, now: TimestampMs) -> Result<ListedKey, KeyAdminError> {
        let id: KeyId = id.parse().map_err(|_| KeyAdminError::NotFound)?;
        let record = self
            .keys
            .revoke_key(id, now)
            .await?
            .ok_or(KeyAdminError::NotFound)?;
        let organizations = self.keys.organizations().await?;
        Ok(listed(&record, &organizations))
    }
}

fn listed(record: &KeyRecord, organizations: &[Organization]) -> ListedKey {
    let organization = organizations
        .iter()
        .find(|organization| organization.id == record.tenant.organization_id);
    ListedKey {
        id: record.id.to_string(),
        prefix: record.shown_prefix(),
        last4: record.last4.clone(),
        organization_id: record.tenant.organization_id.to_string(),
        organization: organization
            .map(|organization| organization.name.clone())
            .unwrap_or_default(),
        env: record.tenant.env.key_word().to_owned(),
        kind: record.kind.as_str().to_owned(),
        created_at: record.created_at,
        expires_at: record.expires_at,
        revoked_at: record.revoked_at,
        name: record.name.clone(),
        last_used_at: record.last_used_at,
        role: (record.kind == KeyKind::Secret).then(|| record.role.as_str().to_owned()),
    }
}

/// Returns the role that a request names for a key of this kind.
fn role_of(kind: KeyKind, name: Option<&str>) -> Result<Role, &'static str> {
    match name {
        None => Ok(Role::default()),
        Some(_) if kind == KeyKind::Client => Err("is for secret keys only"),
        Some(name) => Role::of_name(name).ok_or("must be admin, support or viewer"),
    }
}

#[cfg(test)]
mod tests {
    use porchlight_store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn the_valid_keys_of_a_tenant_are_bounded() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let key_admin = KeyAdmin::new(Arc::clone(&store) as _);
        let now = TimestampMs(1_763_636_100_000);
        let order = |env| CreateKeyRequest::new("acme", env, "secret");
        let first = key_admin.create(&order("sandbox"), now).await.unwrap();
        let found = store.list_keys(None).await.unwrap().remove(0);
        for number in 1..TENANT_LIVE_KEYS_MAX as u32 {
            let record = KeyRecord {
                id: KeyId::new(now, u128::from(number)),
                ..found.clone()
            };
            let mut hash = [0; 32];
            hash[..4].copy_from_slice(&number.to_be_bytes());
            store.put_key(hash, record).await.unwrap();
        }
        let refused = key_admin.create(&order("sandbox"), now).await;
        assert!(
            matches!(refused, Err(KeyAdminError::TooMany)),
            "{refused:?}"
        );
        key_admin.create(&order("live"), now).await.unwrap();
        let other = CreateKeyRequest::new("other", "sandbox", "secret");
        key_admin.create(&other, now).await.unwrap();
        key_admin.revoke(&first.id, now).await.unwrap();
        key_admin.create(&order("sandbox"), now).await.unwrap();
    }

    #[tokio::test]
    async fn a_line_of_the_list_says_that_the_use_is_known_to_the_hour() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let key_admin = KeyAdmin::new(Arc::clone(&store) as _);
        let now = TimestampMs(1_763_636_100_000);
        let order = CreateKeyRequest::new("acme", "sandbox", "secret");
        key_admin.create(&order, now).await.unwrap();
        let mut found = store.list_keys(None).await.unwrap().remove(0);
        assert!(listed(&found, &[]).to_string().ends_with("never used"));
        found.last_used_at = Some(TimestampMs(1_763_632_800_000));
        let line = listed(&found, &[]).to_string();
        assert!(
            line.ends_with("last used in the hour from 2025-11-20T10:00:00.000Z"),
            "{line}"
        );
    }
}
