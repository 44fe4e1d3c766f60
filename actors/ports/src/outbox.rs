//! Endpoints and their outboxes: the store interface of webhooks.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_core::webhook::{
    AttemptResult, Cause, Change, Lane, Listing, ManualRetry, Queued, State,
};
use porchlight_schema::added_field;
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, ShardSet};
#[cfg(doc)]
use porchlight_schema::limits::SECRETS_REMEMBERED_MAX;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use zeroize::Zeroizing;

use super::{Page, StoreResult};

/// A sealed secret, bound to its tenant, endpoint and number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    /// Number of the secret within its endpoint, from 1.
    pub number: u32,
    /// The sealed text, and the parameters for opening it.
    pub sealed: Vec<u8>,
}

/// A secret that was replaced by a newer one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// The sealed secret.
    pub secret: SealedSecret,
    /// The time at which the secret becomes invalid.
    pub expires_at: TimestampMs,
}

/// A customer's webhook configuration. The order of the fields is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Whether messages are sent; while it is false they are held.
    pub enabled: bool,
    /// The id; a deleted and recreated configuration gets a new one.
    pub id: EndpointId,
    /// The tenant that owns the endpoint.
    pub tenant: Tenant,
    /// The URL as the customer wrote it.
    pub url: Arc<str>,
    /// The time of creation.
    pub created_at: TimestampMs,
    /// The version, which each change increments.
    pub version: u64,
    /// The signing secret.
    pub secret: SealedSecret,
    /// The time at which the current secret was created.
    pub secret_made_at: TimestampMs,
    /// The previous secret, while an overlap runs.
    pub previous: Option<PreviousSecret>,
    /// The time at which the customer paused the webhook; `None` while it is enabled, and in rows
    /// of the first release.
    #[serde(deserialize_with = "added_field::or_default")]
    pub paused_at: Option<TimestampMs>,
    /// The remembered answers that showed a secret, each with its `Idempotency-Key`, oldest first;
    /// at most [`SECRETS_REMEMBERED_MAX`].
    #[serde(deserialize_with = "added_field::or_default")]
    pub remembered: Vec<RememberedSecret>,
}

/// The request that created a secret.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretRequest {
    /// `POST /v1/webhooks`.
    Create,
    /// `POST /v1/webhooks/rotate`.
    Rotate,
}

/// An answer that showed a secret, remembered for a repeat of its request. The secret is sealed,
/// like every stored secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedSecret {
    /// The request that created the secret; idempotency keys are remembered separately for each
    /// kind.
    pub request: SecretRequest,
    /// The value of the `Idempotency-Key` header.
    pub key: String,
    /// SHA-256 of the request's body.
    pub body_hash: [u8; 32],
    /// The time of the answer.
    pub answered_at: TimestampMs,
    /// The URL in the answer.
    pub url: Arc<str>,
    /// Whether the webhook was enabled in the answer.
    pub enabled: bool,
    /// The secret in the answer.
    pub secret: SealedSecret,
    /// The time until which the previous secret is valid, as in the answer.
    pub previous_expires_at: Option<TimestampMs>,
}

impl Endpoint {
    /// Returns the time since which the endpoint has been paused, or `None` while it is enabled. An
    /// endpoint that the first release paused counts as paused since its creation.
    #[must_use]
    pub fn paused_since(&self) -> Option<TimestampMs> {
        (!self.enabled).then(|| self.paused_at.unwrap_or(self.created_at))
    }

    /// Returns the previous secret if it is still valid at `now`.
    #[must_use]
    pub fn overlap(&self, now: TimestampMs) -> Option<&PreviousSecret> {
        self.previous
            .as_ref()
            .filter(|previous| now < previous.expires_at)
    }
}

/// Status of a message, as the deliveries API reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// The message waits for its first attempt.
    Pending,
    /// The message waits for a retry.
    Retrying,
    /// An attempt succeeded.
    Delivered,
    /// All attempts failed, or the body of the message cannot be read.
    Failed,
    /// A newer insight replaced the message.
    Superseded,
    /// The endpoint was deleted while it waited, or was paused for too long.
    Cancelled,
}

impl DeliveryStatus {
    /// All delivery statuses.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Retrying,
        Self::Delivered,
        Self::Failed,
        Self::Superseded,
        Self::Cancelled,
    ];

    /// Returns the name in answers and labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A message's row in the list of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryRow {
    /// The message and its state.
    pub queued: Queued,
    /// The endpoint for which the message was queued.
    pub endpoint_id: EndpointId,
    /// The reason why the last attempt failed.
    pub cause: Option<Cause>,
    /// The receiver's status code for the last attempt.
    pub status_code: Option<u16>,
    /// The time at which the message was first delivered.
    pub delivered_at: Option<TimestampMs>,
}

impl DeliveryRow {
    /// Creates the row of a message that enters the outbox of `endpoint_id`.
    #[must_use]
    pub fn new(queued: Queued, endpoint_id: EndpointId) -> Self {
        Self {
            queued,
            endpoint_id,
            cause: None,
            status_code: None,
            delivered_at: None,
        }
    }

    /// Returns the time at which the message was committed, according to its id.
    #[must_use]
    pub fn created_at(&self) -> TimestampMs {
        self.queued.id.made_at()
    }

    /// Returns the status for a tenant whose endpoint is `current`.
    #[must_use]
    pub fn status(&self, current: Option<EndpointId>) -> DeliveryStatus {
        match self.queued.state {
            State::Waiting | State::Held if current != Some(self.endpoint_id) => {
                DeliveryStatus::Cancelled
            }
            State::Waiting | State::Held if self.queued.attempts == 0 => DeliveryStatus::Pending,
            State::Waiting | State::Held => DeliveryStatus::Retrying,
            State::Cancelled => DeliveryStatus::Cancelled,
            State::Delivered => DeliveryStatus::Delivered,
            State::Failed => DeliveryStatus::Failed,
            State::Superseded => DeliveryStatus::Superseded,
        }
    }

    /// Returns the reason why a customer whose endpoint is `current` cannot request another
    /// attempt, or `None` if the customer can. A message that was cancelled because it was held for
    /// too long may be sent.
    #[must_use]
    pub fn retry_refusal(&self, current: Option<EndpointId>) -> Option<RetryRefusal> {
        let is_current = current == Some(self.endpoint_id);
        match self.queued.state {
            State::Superseded => Some(RetryRefusal::Superseded),
            State::Waiting | State::Held if !is_current => Some(RetryRefusal::WebhookDeleted),
            _ if !self.queued.has_attempts_left() => Some(RetryRefusal::AttemptsUsed),
            _ if current.is_none() => Some(RetryRefusal::NoWebhook),
            _ => None,
        }
    }

    /// Returns the row after the change that `report` caused. A failed manual attempt of a
    /// delivered message does not change the outcome of its delivery. A message that fails without
    /// an attempt fails because its body cannot be read.
    #[must_use]
    pub fn changed(mut self, after: Queued, report: Option<&AttemptResult>) -> Self {
        if report.is_none() && self.queued.is_waiting() && after.state == State::Failed {
            self.cause = Some(Cause::Internal);
            self.status_code = None;
        }
        self.queued = after;
        let undone =
            |report: &&AttemptResult| after.state == State::Delivered && report.cause.is_some();
        if let Some(report) = report.filter(|report| !undone(report)) {
            self.cause = report.cause;
            self.status_code = report.status_code;
            if report.cause.is_none() && self.delivered_at.is_none() {
                self.delivered_at = Some(report.ended_at());
            }
        }
        self
    }
}

/// A filter of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryFilter {
    /// Only deliveries with this status.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries of this event.
    pub event: Option<MessageEvent>,
    /// Only deliveries of this session.
    pub session_id: Option<SessionId>,
    /// The earliest creation time.
    pub from: Option<TimestampMs>,
    /// The time before which they were created.
    pub to: Option<TimestampMs>,
}

impl DeliveryFilter {
    /// Returns whether a row matches, for a tenant whose endpoint is `current`.
    #[must_use]
    pub fn matches(&self, row: &DeliveryRow, current: Option<EndpointId>) -> bool {
        self.status
            .is_none_or(|status| row.status(current) == status)
            && self.event.is_none_or(|event| row.queued.event == event)
            && self.session_id.is_none_or(|id| row.queued.session_id == id)
            && self.from.is_none_or(|from| row.created_at() >= from)
            && self.to.is_none_or(|to| row.created_at() < to)
    }
}

/// A delivery with its body and all attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryDetail {
    /// The delivery row.
    pub row: DeliveryRow,
    /// The status of the delivery.
    pub status: DeliveryStatus,
    /// The exact body, or `None` if the stored body is damaged or was removed as damaged.
    pub body: Option<Arc<str>>,
    /// The finished attempts, by number.
    pub attempts: Vec<(u32, AttemptResult)>,
}

/// The reason why a delivery cannot be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryRefusal {
    /// A newer insight replaced the message.
    Superseded,
    /// The endpoint for which the message waited was deleted.
    WebhookDeleted,
    /// The message has had
    /// [`DELIVERY_ATTEMPTS_MAX`](porchlight_schema::limits::DELIVERY_ATTEMPTS_MAX) attempts.
    AttemptsUsed,
    /// The body of the message is missing or damaged.
    BodyLost,
    /// The tenant has no endpoint.
    NoWebhook,
}

/// The outcome of a requested retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOutcome {
    /// The message will be retried.
    Requested,
    /// The delivery does not exist.
    Unknown,
    /// The delivery cannot be retried.
    Refused(RetryRefusal),
    /// The session of the message is restricted.
    Restricted,
}

impl RetryOutcome {
    /// Returns whether the delivery cannot be retried.
    #[must_use]
    pub fn is_refused(self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// The outcome of a requested bulk retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkRetry {
    /// The number of messages that will be retried, or would be.
    pub count: usize,
    /// Whether more messages match than one request may select.
    pub is_truncated: bool,
}

/// A tenant with messages to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// The tenant of the outbox.
    pub tenant: Tenant,
    /// The time at which the first message is due; in the past if it can be sent immediately.
    pub due_at: TimestampMs,
}

/// Fill levels of all outboxes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Messages that wait for their first attempt.
    pub pending: u64,
    /// Messages that wait for a retry.
    pub retrying: u64,
    /// Failed messages that are still stored.
    pub failed: u64,
    /// Endpoints whose previous secret is still valid.
    pub overlaps: u64,
}

/// Stores endpoints and their outboxes. Messages enter an outbox in the commit of their cause.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Returns a tenant's endpoint.
    async fn endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>>;

    /// Stores the tenant's first endpoint. Returns `false` if one exists.
    async fn create_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool>;

    /// Replaces the previous version of the endpoint with the same id. Returns `false` if it has
    /// changed or was deleted.
    async fn replace_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool>;

    /// Deletes a tenant's endpoint, which cancels its waiting messages. Returns `false` if none
    /// existed.
    async fn delete_endpoint(&self, tenant: Tenant) -> StoreResult<bool>;

    /// Returns all endpoints.
    async fn endpoints(&self) -> StoreResult<Vec<Endpoint>>;

    /// Lists parts of the outbox of a tenant's endpoint; see
    /// [`porchlight_core::webhook::ListingRequest`].
    async fn listing(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        manual: usize,
    ) -> StoreResult<Listing>;

    /// Reads a lane and, if given, the message of a requested retry, if the request is still open.
    async fn lane(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        manual: Option<ManualRetry>,
    ) -> StoreResult<Lane>;

    /// Returns the body of a message, or `None` if the message no longer has a body: its session
    /// was removed, or its row was damaged and removed.
    async fn body(&self, session_id: SessionId, number: u32) -> StoreResult<Option<Arc<str>>>;

    /// Commits a change of a lane and returns the lane's waiting messages, which may lack those
    /// that were queued after the lane was last read. Messages that changed since they were read
    /// stay as they are. Rows that still list a removed message are removed.
    async fn commit(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        change: Change,
    ) -> StoreResult<Vec<Queued>>;

    /// Returns a tenant's deliveries, newest first, at most `limit`, after `after` in the order of
    /// the list. A page may contain fewer and not be the last, because the number of examined rows
    /// is bounded.
    async fn deliveries(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: u32,
        after: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>>;

    /// Returns one of a tenant's deliveries.
    async fn delivery(&self, tenant: Tenant, id: MessageId) -> StoreResult<Option<DeliveryDetail>>;

    /// Requests a retry of one message.
    async fn request_retry(
        &self,
        tenant: Tenant,
        id: MessageId,
        at: TimestampMs,
    ) -> StoreResult<RetryOutcome>;

    /// Returns the first `limit` messages after `after` that match the filter and may be retried,
    /// oldest first; fewer only at the end of the list. Many rows may be read; when the caller stops
    /// waiting, the read ends.
    async fn retryable(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: usize,
        after: Option<MessageId>,
    ) -> StoreResult<Vec<DeliveryRow>>;

    /// Requests retries of these messages of a tenant and returns their number, which is 0 without
    /// an endpoint.
    async fn request_retries(
        &self,
        tenant: Tenant,
        chosen: Vec<DeliveryRow>,
        at: TimestampMs,
    ) -> StoreResult<usize>;

    /// Returns the queue depths of all outboxes. Each number is exact up to
    /// [`porchlight_schema::limits::DEPTH_COUNTED_MAX`], which means that many or more.
    async fn depth(&self, now: TimestampMs) -> StoreResult<Depth>;

    /// Returns the tenants of these shards whose endpoint has work before `until`: messages to send
    /// or, while it is paused, to hold or to cancel.
    async fn work(&self, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>>;
}

/// Seals endpoints' secrets for the store, and opens them.
pub trait SecretSeal: Send + Sync {
    /// Seals `secret` as the endpoint's secret number `number`; it can be opened only under that
    /// number. Returns `None` if the cipher refuses, which happens only for gigabytes of text.
    fn seal(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        number: u32,
        secret: &str,
    ) -> Option<SealedSecret>;

    /// Opens a secret. Returns `None` if no key opens it, or if it was not sealed for this
    /// endpoint.
    fn open(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        sealed: &SealedSecret,
    ) -> Option<Zeroizing<String>>;
}
