//! Lists of erased sessions, with which a customer finds its own copies. The ids are kept as salted
//! hashes only: a holder of a copy of a session knows its id and can recognise it.

use porchlight_core::privacy::{PrivacyRequest, RecordedSubject};
use porchlight_ports::{Collection, DocumentKind, StoreResult};
use porchlight_schema::hex;
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::{RequestType, Subject};
use sha2::{Digest, Sha256};

use super::TenantPrivacy;
use super::requests::id_hash;

/// The size of a hash in bytes.
const HASH_BYTES: usize = 32;
/// The number of lists read per query.
const LISTS_AT_ONCE: usize = 200;

impl TenantPrivacy<'_> {
    fn erased_collection(&self) -> Collection {
        Collection::of_tenant(DocumentKind::ErasedSessions, self.tenant)
    }

    /// Stores the hashes of the sessions that an erasure is about to remove. May be repeated.
    pub(super) async fn record_erased(
        &self,
        request: &PrivacyRequest,
        page: &[SessionId],
    ) -> StoreResult<()> {
        let hash = |id: &SessionId| Subject::SessionId(*id).hash(&request.salt);
        let hashes: Vec<u8> = page.iter().flat_map(hash).collect();
        let mut key = id_hash(&request.request_id).to_vec();
        key.extend(Sha256::digest(&hashes));
        let (store, collection) = (self.service.store(), self.erased_collection());
        let written = store.replace_document(collection, key, None, Some(hashes));
        // The list of a repeated step exists already.
        written.await.map(drop)
    }

    /// Returns the sessions that earlier erasures of the subject of an access request removed, each
    /// as `sha256:SALT:HASH`. The hash is that of a [`Subject::SessionId`].
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn erased_sessions(&self, request: &PrivacyRequest) -> StoreResult<Vec<String>> {
        let mut found = Vec::new();
        let RecordedSubject::Clear(subject) = &request.subject else {
            return Ok(found);
        };
        let mut after = None;
        loop {
            let (page, next) = self.scan(after).await?;
            for earlier in page {
                let is_same = matches!(&earlier.subject, RecordedSubject::Hashed(hashed) if hashed.matches(subject));
                if is_same && earlier.request_type == RequestType::Erasure {
                    self.add_erased(&earlier, &mut found).await?;
                }
            }
            if next.is_none() {
                return Ok(found);
            }
            after = next;
        }
    }

    async fn add_erased(
        &self,
        erasure: &PrivacyRequest,
        found: &mut Vec<String>,
    ) -> StoreResult<()> {
        let of_request = id_hash(&erasure.request_id).to_vec();
        let salt = hex::encode(&erasure.salt);
        let mut after = Some(of_request.clone());
        loop {
            let store = self.service.store();
            let lists = store.documents(self.erased_collection(), after, LISTS_AT_ONCE);
            let lists = lists.await?;
            let is_last = lists.len() < LISTS_AT_ONCE;
            after = lists.last().map(|list| list.key.clone());
            for list in lists {
                if !list.key.starts_with(&of_request) {
                    return Ok(());
                }
                let hashes = list.data.chunks_exact(HASH_BYTES);
                found.extend(hashes.map(|hash| format!("sha256:{salt}:{}", hex::encode(hash))));
            }
            if is_last {
                return Ok(());
            }
        }
    }
}
