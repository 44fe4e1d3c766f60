//! Small documents of management data, such as privacy requests, grouped in collections.

use async_trait::async_trait;
use porchlight_schema::session::Tenant;

use super::StoreResult;

/// The kind of documents in a collection. The number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DocumentKind {
    /// Privacy requests of a tenant, by the hash of the request's id.
    PrivacyRequest = 1,
    /// Privacy requests of all tenants that are not finished, by tenant and hash of the request's
    /// id.
    OpenPrivacyRequest = 2,
    /// Restrictions, suppressions and running erasures of all tenants, by tenant and hash of the
    /// subject.
    PrivacyMark = 3,
    /// Privacy requests of a tenant, newest first.
    PrivacyRequestByTime = 4,
    /// Erasures of all tenants, in order of time.
    ErasureLog = 5,
    /// Groups of lines of a tenant's audit log, by the group's number. The kind is in parts.
    AuditGroup = 6,
    /// The end of a tenant's audit log.
    AuditHead = 7,
    /// Salted hashes of the ids of a tenant's erased sessions, by the hash of the request's id.
    ErasedSessions = 8,
    /// Retention that tenants have chosen, by tenant, and the time of the last sweep.
    Retention = 9,
}

/// A group of documents: one kind, of one tenant or of the whole service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Collection {
    kind: DocumentKind,
    tenant: Option<Tenant>,
    part: Option<u64>,
}

impl Collection {
    /// Returns the documents of this kind that belong to one tenant.
    #[must_use]
    pub fn of_tenant(kind: DocumentKind, tenant: Tenant) -> Self {
        Self {
            kind,
            tenant: Some(tenant),
            part: None,
        }
    }

    /// Returns a numbered part of a tenant's documents of this kind, which would be too many for
    /// one collection. A kind is in parts always or never.
    #[must_use]
    pub fn part_of_tenant(kind: DocumentKind, tenant: Tenant, part: u64) -> Self {
        Self {
            part: Some(part),
            ..Self::of_tenant(kind, tenant)
        }
    }

    /// Returns the documents of this kind that belong to the whole service.
    #[must_use]
    pub fn of_service(kind: DocumentKind) -> Self {
        Self {
            kind,
            tenant: None,
            part: None,
        }
    }

    /// Splits a stored key into the collection, as bytes, and the document's key. Returns `None` if
    /// the kind is unknown or the key is too short.
    #[must_use]
    pub fn split_key(key: &[u8]) -> Option<(&[u8], &[u8])> {
        const KIND_BYTES: usize = 1;
        const TENANT_BYTES: usize = 17;
        const PART_BYTES: usize = 8;
        let kinds = [
            (DocumentKind::PrivacyRequest, KIND_BYTES + TENANT_BYTES),
            (DocumentKind::OpenPrivacyRequest, KIND_BYTES),
            (DocumentKind::PrivacyMark, KIND_BYTES),
            (
                DocumentKind::PrivacyRequestByTime,
                KIND_BYTES + TENANT_BYTES,
            ),
            (DocumentKind::ErasureLog, KIND_BYTES),
            (
                DocumentKind::AuditGroup,
                KIND_BYTES + TENANT_BYTES + PART_BYTES,
            ),
            (DocumentKind::AuditHead, KIND_BYTES + TENANT_BYTES),
            (DocumentKind::ErasedSessions, KIND_BYTES + TENANT_BYTES),
            (DocumentKind::Retention, KIND_BYTES),
        ];
        let first = key.first()?;
        let (_, bytes) = kinds.into_iter().find(|(kind, _)| *kind as u8 == *first)?;
        key.split_at_checked(bytes)
    }

    /// Returns the collection's key: the kind, then the tenant's 16 bytes and one for its
    /// environment, then the part's number. No key is a prefix of another one of its kind.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let mut key = vec![self.kind as u8];
        if let Some(tenant) = self.tenant {
            key.extend_from_slice(&tenant.to_bytes());
        }
        if let Some(part) = self.part {
            key.extend_from_slice(&part.to_be_bytes());
        }
        key
    }
}

/// A stored document and its key within its collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The key, which orders the collection.
    pub key: Vec<u8>,
    /// The content of the document.
    pub data: Vec<u8>,
}

/// Stores small documents. A write is durable when its future is ready.
#[async_trait]
pub trait Documents: Send + Sync {
    /// Returns the document under `key`.
    async fn document(&self, collection: Collection, key: Vec<u8>) -> StoreResult<Option<Vec<u8>>>;

    /// Replaces the document under `key` with `data` if its current content is `expected`. In both
    /// places, `None` represents an absent document. Returns `false` and changes nothing if the
    /// content differs from `expected`.
    ///
    /// After a lost answer, a repeated call may return `false` although the first call succeeded.
    async fn replace_document(
        &self,
        collection: Collection,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool>;

    /// Returns up to `limit` documents in order of their keys: those after `after`, or from the
    /// first one on.
    async fn documents(
        &self,
        collection: Collection,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<Document>>;
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn collections_of_different_kinds_and_tenants_have_different_keys() {
        let tenant = |n, env| Tenant {
            organization_id: OrganizationId::new(TimestampMs(n), 0),
            env,
        };
        let keys = [
            Collection::of_tenant(DocumentKind::PrivacyRequest, tenant(1, Env::Sandbox)).key(),
            Collection::of_tenant(DocumentKind::PrivacyRequest, tenant(1, Env::Production)).key(),
            Collection::of_tenant(DocumentKind::PrivacyRequest, tenant(2, Env::Sandbox)).key(),
            Collection::of_tenant(DocumentKind::PrivacyRequestByTime, tenant(1, Env::Sandbox))
                .key(),
            Collection::of_service(DocumentKind::OpenPrivacyRequest).key(),
            Collection::of_tenant(DocumentKind::ErasedSessions, tenant(1, Env::Sandbox)).key(),
            Collection::of_service(DocumentKind::Retention).key(),
            Collection::part_of_tenant(DocumentKind::AuditGroup, tenant(1, Env::Sandbox), 0).key(),
            Collection::part_of_tenant(DocumentKind::AuditGroup, tenant(1, Env::Sandbox), 1).key(),
        ];
        for key in &keys {
            let full = [key.as_slice(), b"document"].concat();
            assert_eq!(
                Collection::split_key(&full),
                Some((key.as_slice(), b"document".as_slice()))
            );
        }
        for (position, key) in keys.iter().enumerate() {
            assert!(!keys[position + 1..].contains(key));
        }
    }
}
