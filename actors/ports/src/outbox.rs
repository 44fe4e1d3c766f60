//! Endpoints and their outboxes: what a store must offer to webhooks.

use std::sync::Arc;

use async_trait::async_trait;
use porchlight_core::webhook::{Cause, Change, HandRequest, Lane, Listing, Queued, Report, State};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId, ShardSet};
use porchlight_schema::later;
#[cfg(doc)]
use porchlight_schema::limits::SECRETS_REMEMBERED_MAX;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use zeroize::Zeroizing;

use super::{Page, StoreResult};

/// A secret as it is stored: encrypted, bound to its tenant, its endpoint and its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    /// Which secret of its endpoint, from 1.
    pub number: u32,
    /// The encrypted text, with what is needed to decrypt it.
    pub sealed: Vec<u8>,
}

/// A secret that another has replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// The secret.
    pub secret: SealedSecret,
    /// Until when it signs too.
    pub expires_at: TimestampMs,
}

/// A customer's webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Whether messages are sent; while it is false they are held. The first field: the store reads it without the rest.
    pub enabled: bool,
    /// The id; a configuration that is made anew has another one.
    pub id: EndpointId,
    /// Whose.
    pub tenant: Tenant,
    /// Where to, as the customer wrote it.
    pub url: Arc<str>,
    /// When it was made.
    pub created_at: TimestampMs,
    /// Rises with each change.
    pub version: u64,
    /// What signs.
    pub secret: SealedSecret,
    /// When that secret was made.
    pub secret_made_at: TimestampMs,
    /// What signs too, while an overlap runs.
    pub previous: Option<PreviousSecret>,
    /// When the customer paused it; none while it is enabled, and in rows of the first release.
    #[serde(deserialize_with = "later::or_default")]
    pub paused_at: Option<TimestampMs>,
    /// Answers with a secret, by their `Idempotency-Key`, oldest first; at most [`SECRETS_REMEMBERED_MAX`].
    #[serde(deserialize_with = "later::or_default")]
    pub remembered: Vec<RememberedSecret>,
}

/// What made a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecretRequest {
    /// `POST /v1/webhooks`.
    Create,
    /// `POST /v1/webhooks/rotate`.
    Rotate,
}

/// An answer that showed a secret, remembered for a repeat of its request. The secret is encrypted as all are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedSecret {
    /// What made the secret: keys are remembered for each on its own.
    pub request: SecretRequest,
    /// The `Idempotency-Key`.
    pub key: String,
    /// SHA-256 of the request's body.
    pub body_hash: [u8; 32],
    /// When it was answered.
    pub answered_at: TimestampMs,
    /// The URL in the answer.
    pub url: Arc<str>,
    /// Whether the webhook was enabled in the answer.
    pub enabled: bool,
    /// The secret in the answer.
    pub secret: SealedSecret,
    /// Until when the secret before it signs too, in the answer.
    pub previous_expires_at: Option<TimestampMs>,
}

impl Endpoint {
    /// Since when the endpoint has been paused; none while it is enabled. One that the first release paused counts as
    /// paused since it was made.
    #[must_use]
    pub fn paused_since(&self) -> Option<TimestampMs> {
        (!self.enabled).then(|| self.paused_at.unwrap_or(self.created_at))
    }

    /// The previous secret, if it still signs at `now`.
    #[must_use]
    pub fn overlap(&self, now: TimestampMs) -> Option<&PreviousSecret> {
        self.previous
            .as_ref()
            .filter(|previous| now < previous.expires_at)
    }
}

/// Where a message stands, as the deliveries API tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// It waits for its first try.
    Pending,
    /// It waits for a retry.
    Retrying,
    /// A try succeeded.
    Delivered,
    /// The schedule is used up.
    Failed,
    /// A newer one took its place.
    Superseded,
    /// The endpoint was deleted while it waited, or was paused for too long.
    Cancelled,
}

impl DeliveryStatus {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Retrying,
        Self::Delivered,
        Self::Failed,
        Self::Superseded,
        Self::Cancelled,
    ];

    /// The word in answers and labels.
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
    /// The message and how far it is.
    pub queued: Queued,
    /// The endpoint that it was queued for.
    pub endpoint_id: EndpointId,
    /// Why the last try failed.
    pub cause: Option<Cause>,
    /// What the receiver answered to the last try.
    pub status_code: Option<u16>,
    /// When it was delivered first.
    pub delivered_at: Option<TimestampMs>,
}

impl DeliveryRow {
    /// A message as it enters the outbox of `endpoint_id`.
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

    /// When the message was committed: its id says so.
    #[must_use]
    pub fn created_at(&self) -> TimestampMs {
        self.queued.id.made_at()
    }

    /// Where it stands, for a tenant whose endpoint is `current`.
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

    /// Whether a customer whose endpoint is `current` may ask for another attempt. What was cancelled because it was held
    /// for too long may be sent; what waited for an endpoint that was deleted may not.
    #[must_use]
    pub fn may_be_retried(&self, current: Option<EndpointId>) -> bool {
        match self.queued.state {
            State::Superseded => false,
            State::Waiting | State::Held => current == Some(self.endpoint_id),
            State::Delivered | State::Failed | State::Cancelled => true,
        }
    }

    /// The row after the change that `report` led to.
    #[must_use]
    pub fn changed(mut self, after: Queued, report: Option<&Report>) -> Self {
        self.queued = after;
        if let Some(report) = report {
            self.cause = report.cause;
            self.status_code = report.status_code;
            if report.cause.is_none() && self.delivered_at.is_none() {
                self.delivered_at = Some(report.ended_at());
            }
        }
        self
    }
}

/// Which deliveries to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryFilter {
    /// Only those that stand so.
    pub status: Option<DeliveryStatus>,
    /// Only of this event.
    pub event: Option<MessageEvent>,
    /// Only of this session.
    pub session_id: Option<SessionId>,
    /// Only those made at this time or later.
    pub from: Option<TimestampMs>,
    /// Only those made before this time.
    pub to: Option<TimestampMs>,
}

impl DeliveryFilter {
    /// Whether a row passes, for a tenant whose endpoint is `current`.
    #[must_use]
    pub fn takes(&self, row: &DeliveryRow, current: Option<EndpointId>) -> bool {
        self.status
            .is_none_or(|status| row.status(current) == status)
            && self.event.is_none_or(|event| row.queued.event == event)
            && self.session_id.is_none_or(|id| row.queued.session_id == id)
            && self.from.is_none_or(|from| row.created_at() >= from)
            && self.to.is_none_or(|to| row.created_at() < to)
    }
}

/// One delivery with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryDetail {
    /// The row.
    pub row: DeliveryRow,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// The exact body.
    pub body: Arc<str>,
    /// The tries that ended, by number.
    pub attempts: Vec<(u32, Report)>,
}

/// How a request for a try by hand went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskOutcome {
    /// It will be tried.
    Asked,
    /// There is no such delivery.
    Unknown,
    /// It is superseded or cancelled, or there is no endpoint to send it to.
    Refused,
}

/// How a request for tries by hand, by filter, went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AskedMany {
    /// How many will be tried, or would be.
    pub count: usize,
    /// Whether more would pass the filter than may be asked for at once.
    pub truncated: bool,
}

/// A tenant that has something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Whose.
    pub tenant: Tenant,
    /// When the first of it is due; in the past for what can go at once.
    pub due_at: TimestampMs,
}

/// How full all outboxes are together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Messages that wait for their first try.
    pub pending: u64,
    /// Messages that wait for a retry.
    pub retrying: u64,
    /// Messages that failed for good and are still kept.
    pub failed: u64,
    /// Endpoints whose previous secret still signs.
    pub overlaps: u64,
}

/// Endpoints and their outboxes. Messages enter an outbox in the commit of what causes them.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// A tenant's endpoint.
    async fn endpoint(&self, tenant: Tenant) -> StoreResult<Option<Endpoint>>;

    /// Stores the tenant's first endpoint. False: there is one.
    async fn create_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool>;

    /// Replaces the endpoint of the same id whose version is the one before. False: it has changed meanwhile, or is
    /// gone.
    async fn replace_endpoint(&self, endpoint: Endpoint) -> StoreResult<bool>;

    /// Removes a tenant's endpoint; what waits for it is cancelled thereby. False: there was none.
    async fn delete_endpoint(&self, tenant: Tenant) -> StoreResult<bool>;

    /// All endpoints.
    async fn endpoints(&self) -> StoreResult<Vec<Endpoint>>;

    /// Lists parts of the outbox of a tenant's endpoint; see [`porchlight_core::webhook::Effect::Load`].
    async fn listing(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        by_hand: usize,
    ) -> StoreResult<Listing>;

    /// Reads a lane and, where given, the message of a request for a try by hand, if the request still stands.
    async fn lane(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        hand: Option<HandRequest>,
    ) -> StoreResult<Lane>;

    /// The body of a message. None: its session was removed.
    async fn body(&self, session_id: SessionId, number: u32) -> StoreResult<Option<Arc<str>>>;

    /// Commits a change of a lane and gives the lane as it is then. What is no more as it was read stays as it is.
    async fn commit(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        session_id: SessionId,
        change: Change,
    ) -> StoreResult<Vec<Queued>>;

    /// A tenant's deliveries, newest first, at most `limit`, after `after` (in the order of the list). A page may
    /// hold fewer, and still not be the last: so many rows are looked at and no more.
    async fn deliveries(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        limit: u32,
        after: Option<MessageId>,
    ) -> StoreResult<Page<DeliveryRow, MessageId>>;

    /// One of a tenant's deliveries.
    async fn delivery(&self, tenant: Tenant, id: MessageId) -> StoreResult<Option<DeliveryDetail>>;

    /// Asks for one try by hand.
    async fn ask_by_hand(
        &self,
        tenant: Tenant,
        id: MessageId,
        at: TimestampMs,
    ) -> StoreResult<AskOutcome>;

    /// Asks for a try by hand of all that pass the filter and may be tried, oldest first, at most
    /// [`porchlight_schema::limits::RETRY_BY_FILTER_MAX`]; with `dry_run` only counts them.
    async fn ask_many_by_hand(
        &self,
        tenant: Tenant,
        filter: &DeliveryFilter,
        at: TimestampMs,
        dry_run: bool,
    ) -> StoreResult<AskedMany>;

    /// How full all outboxes are. Each number is exact up to
    /// [`porchlight_schema::limits::DEPTH_COUNTED_MAX`], and that where it is more.
    async fn depth(&self, now: TimestampMs) -> StoreResult<Depth>;

    /// Tenants of these shards whose endpoint has something to do before `until`: to send, or, while it is paused, to
    /// hold or to cancel.
    async fn work(&self, shards: ShardSet, until: TimestampMs) -> StoreResult<Vec<Work>>;
}

/// Encrypts endpoints' secrets for the store, and decrypts them.
pub trait SecretSeal: Send + Sync {
    /// Encrypts `secret`, the endpoint's secret number `number`, so that it can be read only as that. None: the
    /// cipher refuses, which it does for texts of gigabytes only.
    fn seal(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        number: u32,
        secret: &str,
    ) -> Option<SealedSecret>;

    /// Decrypts. None: no key fits, or it is not what was sealed for this endpoint.
    fn open(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        sealed: &SealedSecret,
    ) -> Option<Zeroizing<String>>;
}
