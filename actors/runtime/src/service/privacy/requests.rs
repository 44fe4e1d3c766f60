//! Stores privacy requests as documents.
//!
//! A request is stored in three places: under its id, in the tenant's list, and among the open
//! requests of all tenants. The entry among the open requests is written first, so that it
//! exists for each open request.

use porchlight_core::privacy::{Begin, NotPending, OpenKey, PrivacyRequest, RecordedSubject, Room};
use porchlight_observe::error_text;
use porchlight_ports::{Collection, DocumentKind, StoreError, StoreResult};
use porchlight_schema::hex;
use porchlight_schema::limits::{
    LIST_SCANNED_ROWS_MAX, PRIVACY_ABSENT_MS_MAX, PRIVACY_REQUESTS_SCANNED_MAX,
};
use porchlight_schema::privacy::{RequestStatus, RequestType, Subject};
use porchlight_schema::session::Tenant;
use sha2::{Digest, Sha256};

use super::super::Service;
use super::{erase, measure};
use crate::document_form::encode;
use crate::privacy::tenant_key;
use crate::rounds::Rounds;

/// A request as a caller submits it.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// The caller's id for the request.
    pub request_id: String,
    /// The type of the request.
    pub request_type: RequestType,
    /// The subject of the request.
    pub subject: Subject,
    /// Whether the subject is prevented from starting sessions from now on.
    pub suppress: bool,
    /// The caller's reason.
    pub reason: Option<String>,
}

/// The outcome of submitting a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The request is new.
    New(Box<PrivacyRequest>),
    /// An identical request with this id exists.
    Repeated(Box<PrivacyRequest>),
    /// Another request has this id.
    Differs,
    /// A legal hold protects a session of the subject, so it cannot be erased.
    Held,
    /// The tenant has too many open requests, or too many marks.
    NoRoom,
}

/// A page of a tenant's requests, newest first.
#[derive(Debug, Clone)]
pub struct RequestPage {
    /// The requests of the page.
    pub requests: Vec<PrivacyRequest>,
    /// The position after which the next page begins; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// The length of a position, in bytes.
const POSITION_BYTES: usize = 40;

/// Returns whether bytes have the form of a position of [`RequestPage::next`].
#[must_use]
pub fn is_position(bytes: &[u8]) -> bool {
    bytes.len() == POSITION_BYTES
}

/// The privacy requests of one tenant, created by [`Service::privacy`].
#[derive(Debug, Clone, Copy)]
pub struct TenantPrivacy<'s> {
    pub(super) service: &'s Service,
    pub(super) tenant: Tenant,
}

pub(super) fn open_requests() -> Collection {
    Collection::of_service(DocumentKind::OpenPrivacyRequest)
}

pub(super) fn id_hash(request_id: &str) -> [u8; 32] {
    Sha256::digest(request_id.as_bytes()).into()
}

/// Returns the tenant and the hash of the id in the key of an open request.
pub(super) fn parse_open_key(key: &[u8]) -> Option<OpenKey> {
    let (tenant, rest) = Tenant::split_from(key)?;
    let id_hash = rest.try_into().ok()?;
    Some(OpenKey { tenant, id_hash })
}

/// Returns the key of a request in its tenant's list; the newest request sorts first.
fn list_key(request: &PrivacyRequest) -> Vec<u8> {
    let age = u64::MAX - request.received_at.0.unsigned_abs();
    let mut key = age.to_be_bytes().to_vec();
    key.extend(id_hash(&request.request_id));
    key
}

fn decode(bytes: &[u8]) -> StoreResult<PrivacyRequest> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Damaged(format!("a privacy request: {error}")))
}

impl NewRequest {
    /// Hashes everything that distinguishes two requests with the same id.
    fn body_hash(&self, salt: [u8; 16]) -> String {
        let mut hash = Sha256::new();
        hash.update(salt);
        let body = (
            &self.request_type,
            &self.subject,
            self.suppress,
            &self.reason,
        );
        // Plain data always serializes.
        hash.update(serde_json::to_vec(&body).unwrap_or_default());
        hex::encode(&hash.finalize())
    }
}

impl TenantPrivacy<'_> {
    fn collection(&self) -> Collection {
        Collection::of_tenant(DocumentKind::PrivacyRequest, self.tenant)
    }

    fn list_collection(&self) -> Collection {
        Collection::of_tenant(DocumentKind::PrivacyRequestByTime, self.tenant)
    }

    /// Submits a request. Repeating the call returns the current state of the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails; the request may or may not have been stored.
    pub async fn submit(&self, new: NewRequest) -> StoreResult<Submitted> {
        let store = self.service.store();
        let hash = id_hash(&new.request_id);
        if let Some(stored) = self.find(&new.request_id).await? {
            return self.repeated(&new, stored).await;
        }
        let mark = self.service.privacy.marks.of(self.tenant, &new.subject);
        if !self
            .room()
            .has_request(new.request_type, new.suppress, &mark)
        {
            return Ok(Submitted::NoRoom);
        }
        let is_erasure = new.request_type == RequestType::Erasure;
        if is_erasure && self.has_hold(&new.subject, self.service.now()).await? {
            return Ok(Submitted::Held);
        }
        let salt = self
            .service
            .registry()
            .ports()
            .entropy
            .random()
            .to_be_bytes();
        let begin = Begin {
            request_id: new.request_id.clone(),
            request_type: new.request_type,
            body_hash: new.body_hash(salt),
            subject: new.subject.clone(),
            suppress: new.suppress,
            reason: new.reason.clone(),
            salt,
            delay_ms: self.service.privacy_settings().erasure_delay_ms,
        };
        let request = PrivacyRequest::new(begin, self.service.now());
        self.add_open(hash).await?;
        let data = Some(encode(&request)?);
        let key = hash.to_vec();
        if !store
            .replace_document(self.collection(), key, None, data)
            .await?
        {
            let stored = self.find(&new.request_id).await?;
            let stored = stored.ok_or(StoreError::Overloaded)?;
            return self.repeated(&new, stored).await;
        }
        if self.service.now().since_ms(request.received_at) >= PRIVACY_ABSENT_MS_MAX / 2 {
            // The owner may have removed the entry while this process was suspended.
            self.add_open(hash).await?;
        }
        self.list(&request).await?;
        self.service.privacy.on_submitted();
        Ok(Submitted::New(Box::new(request)))
    }

    /// Adds a request to the tenant's list if its submission was interrupted before.
    pub(super) async fn complete_submission(&self, request: &PrivacyRequest) -> StoreResult<()> {
        let (store, key) = (self.service.store(), list_key(request));
        if request.began_at.is_none()
            && store.document(self.list_collection(), key).await?.is_none()
        {
            self.list(request).await?;
        }
        Ok(())
    }

    /// Returns the numbers of the tenant's marks and open requests.
    pub(super) fn room(&self) -> Room {
        let privacy = &self.service.privacy;
        Room {
            marks: privacy.marks.count(self.tenant),
            open_requests: privacy.open_count(self.tenant),
        }
    }

    fn open_key(&self, hash: [u8; 32]) -> Vec<u8> {
        let mut key = tenant_key(self.tenant);
        key.extend(hash);
        key
    }

    /// Adds a request to the open requests. The call may be repeated.
    async fn add_open(&self, hash: [u8; 32]) -> StoreResult<()> {
        let (store, key) = (self.service.store(), self.open_key(hash));
        let added = store.replace_document(open_requests(), key, None, Some(Vec::new()));
        added.await.map(drop)
    }

    /// Removes a request from the open requests. The call may be repeated.
    pub(super) async fn remove_open(&self, hash: [u8; 32]) -> StoreResult<()> {
        let (store, key) = (self.service.store(), self.open_key(hash));
        let removed = store.replace_document(open_requests(), key, Some(Vec::new()), None);
        removed.await.map(drop)
    }

    async fn repeated(&self, new: &NewRequest, stored: PrivacyRequest) -> StoreResult<Submitted> {
        if new.body_hash(stored.salt) != stored.body_hash {
            return Ok(Submitted::Differs);
        }
        // The first attempt may have been interrupted before the request was listed.
        self.list(&stored).await?;
        Ok(Submitted::Repeated(Box::new(stored)))
    }

    /// Adds a request to the tenant's list. The call may be repeated.
    async fn list(&self, request: &PrivacyRequest) -> StoreResult<()> {
        let (key, data) = (list_key(request), request.request_id.clone().into_bytes());
        let store = self.service.store();
        store
            .replace_document(self.list_collection(), key, None, Some(data))
            .await
            .map(drop)
    }

    /// Returns a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn find(&self, request_id: &str) -> StoreResult<Option<PrivacyRequest>> {
        self.find_by(id_hash(request_id)).await
    }

    pub(super) async fn find_by(&self, hash: [u8; 32]) -> StoreResult<Option<PrivacyRequest>> {
        let store = self.service.store();
        let stored = store.document(self.collection(), hash.to_vec()).await?;
        stored.as_deref().map(decode).transpose()
    }

    /// Replaces a request. Returns `false` if it has changed since it was read.
    pub(super) async fn replace(
        &self,
        before: &PrivacyRequest,
        after: &PrivacyRequest,
    ) -> StoreResult<bool> {
        let key = id_hash(&before.request_id).to_vec();
        let (before, after) = (encode(before)?, encode(after)?);
        let (store, collection) = (self.service.store(), self.collection());
        let is_replaced = store
            .replace_document(collection, key.clone(), Some(before), Some(after.clone()))
            .await?;
        // The answer to the first attempt may have been lost.
        Ok(is_replaced || store.document(collection, key).await?.as_ref() == Some(&after))
    }

    /// Returns at most `limit` requests with this status, newest first. A page may be short and
    /// still have a successor.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn page(
        &self,
        status: Option<RequestStatus>,
        limit: usize,
        after: Option<Vec<u8>>,
    ) -> StoreResult<RequestPage> {
        let (store, mut after) = (self.service.store(), after);
        let (mut requests, mut scanned) = (Vec::new(), 0);
        loop {
            let rows = store
                .documents(
                    self.list_collection(),
                    after.clone(),
                    limit.saturating_add(1),
                )
                .await?;
            let (count, is_last) = (rows.len(), rows.len() <= limit);
            for (index, row) in rows.into_iter().enumerate() {
                let request_id = String::from_utf8_lossy(&row.data).into_owned();
                let request = self.find(&request_id).await?;
                after = Some(row.key);
                scanned += 1;
                let matching =
                    request.filter(|one| status.is_none_or(|status| one.status == status));
                requests.extend(matching);
                if requests.len() >= limit {
                    let is_end = is_last && index + 1 == count;
                    return Ok(RequestPage {
                        requests,
                        next: after.filter(|_| !is_end),
                    });
                }
            }
            if is_last {
                after = None;
            }
            if is_last || scanned >= LIST_SCANNED_ROWS_MAX {
                return Ok(RequestPage {
                    requests,
                    next: after,
                });
            }
        }
    }

    /// Returns the readable requests among the next ones in order of their keys, and the key after
    /// which to continue; `None` at the end. A tenant may have any number of requests, so they are
    /// read page by page.
    pub(super) async fn scan(
        &self,
        after: Option<Vec<u8>>,
    ) -> StoreResult<(Vec<PrivacyRequest>, Option<Vec<u8>>)> {
        let store = self.service.store();
        let page = store.documents(self.collection(), after, PRIVACY_REQUESTS_SCANNED_MAX);
        let page = page.await?;
        let is_last = page.len() < PRIVACY_REQUESTS_SCANNED_MAX;
        let next = page.last().map(|document| document.key.clone());
        let requests = page.iter().filter_map(|row| decode(&row.data).ok());
        Ok((requests.collect(), next.filter(|_| !is_last)))
    }

    /// Replaces an erased subject by its salted hash in all requests that are over. Requests about
    /// a session or a delivery that no longer exists are included. May be repeated.
    pub(super) async fn hash_subject_in_requests(&self, erased: &Subject) -> StoreResult<()> {
        let mut after = None;
        loop {
            let (page, next) = self.scan(after).await?;
            for before in page {
                self.hash_subject_in_request(before, erased).await?;
            }
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
    }

    async fn hash_subject_in_request(
        &self,
        before: PrivacyRequest,
        erased: &Subject,
    ) -> StoreResult<()> {
        let RecordedSubject::Clear(subject) = &before.subject else {
            return Ok(());
        };
        if before.is_over() && (subject == erased || self.is_gone(subject).await?) {
            let mut after = before.clone();
            after.hash_subject();
            // A request that is over changes only here.
            self.replace(&before, &after).await?;
        }
        Ok(())
    }

    /// Returns whether a subject is a session or a delivery of which nothing is stored.
    async fn is_gone(&self, subject: &Subject) -> StoreResult<bool> {
        let store = self.service.store().as_ref();
        let until = self.service.now();
        match subject {
            Subject::ExternalRiderId(_) => Ok(false),
            Subject::SessionId(_) | Subject::DeliveryId(_) => {
                erase::is_gone(store, self.tenant, subject, until).await
            }
        }
    }

    /// Cancels a request. Returns `None` if there is no such request, and [`NotPending`] if it has
    /// begun or has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn cancel(&self, request_id: &str) -> StoreResult<Option<Result<(), NotPending>>> {
        let mut rounds = Rounds::new();
        loop {
            let Some(stored) = self.find(request_id).await? else {
                return Ok(None);
            };
            let mut cancelled = stored.clone();
            if let Err(error) = cancelled.cancel(self.service.now()) {
                return Ok(Some(Err(error)));
            }
            if self.replace(&stored, &cancelled).await? {
                self.close_cancelled(&cancelled).await;
                return Ok(Some(Ok(())));
            }
            rounds.on_lost().await?;
        }
    }

    /// Removes a cancelled request from the open requests. If that fails, its owner removes it at
    /// the time at which it would have begun.
    async fn close_cancelled(&self, cancelled: &PrivacyRequest) {
        let close = async {
            self.complete_submission(cancelled).await?;
            self.remove_open(id_hash(&cancelled.request_id)).await
        };
        match close.await {
            Ok(()) => measure::on_ended(cancelled),
            Err(error) => {
                tracing::warn!(
                    error = error_text(&error),
                    "a cancelled privacy request stays open until it is due"
                );
            }
        }
    }
}
