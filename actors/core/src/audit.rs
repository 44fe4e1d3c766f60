//! The audit log: the actor, action and object of each access, in a chain that reveals removed and
//! changed lines.
//!
//! Each tenant has a chain of lines. A line's hash covers the hash of the line before it and the
//! line's own JSON, so that the customer can check the chain from the answers of the API alone: see
//! [`line_hash`].
//!
//! Lines are stored in groups, one group for each commit. Groups are numbered from 0 without gaps,
//! and the store takes each number once: of two nodes that append at the same time one is refused
//! and appends behind the other.

mod kind;
mod queue;
mod stored;
mod verify;

use std::net::IpAddr;

use porchlight_schema::hex;
use porchlight_schema::ids::{KeyId, OrganizationId};
use porchlight_schema::limits::{AUDIT_GROUP_LINES_MAX, AUDIT_SWEEP_MS_MAX};
use porchlight_schema::privacy::RequestType;
use porchlight_schema::session::Env;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use kind::ActorKind;
pub use queue::{Flush, LineQueue};
pub use stored::{DecodeError, decode, encode};
pub use verify::{Fault, Verified, Verifier};

/// The hash of a line.
pub type Hash = [u8; 32];

/// The hash before the first line of a chain.
pub const FIRST_HASH: Hash = [0; 32];

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal;)+) => {
        /// An action that the audit log records. The names are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action { $($(#[doc = $doc])+ $variant),+ }

        impl Action {
            /// All audited actions.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name in answers.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

actions! {
    /// Sessions with their addresses were listed.
    ListSessions = "session.list";
    /// A session with its address was read.
    ReadSession = "session.read";
    /// An insight was read.
    ReadInsight = "insight.read";
    /// The evidence of an insight was read.
    ReadEvidence = "evidence.read";
    /// The explanation of a decision was read.
    ReadExplanation = "explanation.read";
    /// The stream of a session's events was opened.
    ReadEvents = "events.read";
    /// The image of a path was read.
    ReadImage = "image.read";
    /// A recorder and its link were read.
    ReadRecorder = "recorder.read";
    /// A recorder was created.
    CreateRecorder = "recorder.create";
    /// A recorder was deleted.
    DeleteRecorder = "recorder.delete";
    /// A webhook delivery with its payload was read.
    ReadDelivery = "delivery.read";
    /// A webhook delivery was retried.
    RetryDelivery = "delivery.retry";
    /// All webhook deliveries that match a filter were retried.
    RetryDeliveries = "delivery.retry_all";
    /// The webhook was registered.
    CreateWebhook = "webhook.create";
    /// The webhook was changed, paused or resumed.
    UpdateWebhook = "webhook.update";
    /// The webhook was deleted.
    DeleteWebhook = "webhook.delete";
    /// The secret of the webhook was rotated.
    RotateSecret = "webhook.rotate";
    /// The overlap of two secrets was ended.
    EndOverlap = "webhook.end_overlap";
    /// A test event was sent.
    TestWebhook = "webhook.test";
    /// A decision was reviewed.
    WriteReview = "review.write";
    /// A legal hold was placed on a session.
    PlaceHold = "hold.place";
    /// The legal hold of a session was released.
    ReleaseHold = "hold.release";
    /// The retention of the organization's data was chosen.
    ChooseRetention = "retention.choose";
    /// A page of the console with personal data was opened.
    ViewConsole = "console.view";
    /// A key was created.
    CreateKey = "key.create";
    /// A key was revoked.
    RevokeKey = "key.revoke";
    /// A privacy request, such as an erasure, was made.
    CreatePrivacyRequest = "privacy.create";
    /// A privacy request was cancelled.
    CancelPrivacyRequest = "privacy.cancel";
    /// Privacy requests were read.
    ReadPrivacyRequest = "privacy.read";
    /// The archive of an access request was downloaded.
    DownloadExport = "export.download";
    /// The service has erased a subject's data.
    EraseSubject = "subject.erase";
    /// The service has collected a subject's data and offers it as an archive.
    ExportSubject = "subject.export";
    /// The service has restricted a subject's sessions.
    RestrictSubject = "subject.restrict";
    /// The service has lifted the restriction and the suppression of a subject.
    ReleaseSubject = "subject.release";
}

impl Action {
    /// Returns the action of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|action| action.as_str() == name);
        found.copied()
    }

    /// Returns the action that the service has performed when a privacy request of this type is
    /// completed.
    #[must_use]
    pub const fn completing(request_type: RequestType) -> Self {
        match request_type {
            RequestType::Erasure => Self::EraseSubject,
            RequestType::Access => Self::ExportSubject,
            RequestType::Restriction => Self::RestrictSubject,
            RequestType::Release => Self::ReleaseSubject,
        }
    }
}

/// Stores an action under its name.
impl Serialize for Action {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The actor that performed an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// The kind of caller.
    pub kind: ActorKind,
    /// The id of its key.
    pub id: Option<KeyId>,
    /// The name that was given to the key.
    pub name: Option<String>,
}

impl Actor {
    /// Returns a caller without a key.
    #[must_use]
    pub fn of_kind(kind: ActorKind) -> Self {
        Self {
            kind,
            id: None,
            name: None,
        }
    }
}

/// One line of the log, as the customer reads it, without its hash. The order of the fields is part
/// of the hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The time of the action. Times never decrease within a chain.
    pub at: TimestampMs,
    /// The actor that performed the action.
    pub actor: Actor,
    /// The name of the action; see [`Action`].
    pub action: String,
    /// The id of the object; `None` for an action on several.
    pub object: Option<String>,
    /// The network address of the actor.
    pub from: Option<IpAddr>,
}

/// A line and its hash, as the customer reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HashedLine {
    /// The line itself.
    #[serde(flatten)]
    pub line: Line,
    /// The hash of the line in hexadecimal digits.
    pub hash: String,
}

/// Returns the hash of a line: SHA-256 of the previous line's hash in hexadecimal digits, a line
/// feed, and the line's compact JSON. The fields of the JSON are `at`, `actor` (`kind`, `id`,
/// `name`), `action`, `object` and `from`, in this order.
#[must_use]
pub fn line_hash(previous: &Hash, line: &Line) -> Hash {
    // A line contains no map and no number that JSON cannot represent.
    let json = serde_json::to_string(line).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(hex::encode(previous));
    hash.update("\n");
    hash.update(json);
    hash.finalize().into()
}

/// Returns the time up to which a sweep at `now` removes groups, if the chain keeps lines for
/// `kept_ms` and its oldest group ends at `oldest`; `None` if no group has expired.
#[must_use]
pub fn expires_until(oldest: TimestampMs, kept_ms: i64, now: TimestampMs) -> Option<TimestampMs> {
    let expired = now.plus_ms(-kept_ms);
    (oldest <= expired).then(|| expired.min(oldest.plus_ms(AUDIT_SWEEP_MS_MAX)))
}

/// A line as it is stored, with its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredLine {
    at: TimestampMs,
    kind: ActorKind,
    key: Option<[u8; 16]>,
    name: Option<String>,
    action: String,
    object: Option<String>,
    from: Option<IpAddr>,
    hash: Hash,
}

/// The lines of one commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number of the group within its chain, from 0.
    pub number: u64,
    /// The hash of the line before the first one.
    previous: Hash,
    /// The time of the line before the first one.
    previous_at: TimestampMs,
    lines: Vec<StoredLine>,
}

/// The end of a chain, behind which the next group is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The number of the next group.
    pub next: u64,
    /// The hash of the last line.
    pub hash: Hash,
    /// The time of the last line.
    pub at: TimestampMs,
}

impl Head {
    /// The head of an empty chain.
    pub const EMPTY: Self = Self {
        next: 0,
        hash: FIRST_HASH,
        at: TimestampMs(0),
    };
}

impl Group {
    /// Appends at most [`AUDIT_GROUP_LINES_MAX`] lines behind `head`. A line that is older than the
    /// one before it gets its time, so that times never go back.
    #[must_use]
    pub fn append(head: &Head, lines: &[Line]) -> Self {
        let (mut hash, mut at) = (head.hash, head.at);
        let stored = lines.iter().take(AUDIT_GROUP_LINES_MAX).map(|line| {
            at = at.max(line.at);
            let line = Line { at, ..line.clone() };
            hash = line_hash(&hash, &line);
            StoredLine {
                at,
                kind: line.actor.kind,
                key: line.actor.id.map(KeyId::to_bytes),
                name: line.actor.name,
                action: line.action,
                object: line.object,
                from: line.from,
                hash,
            }
        });
        Self {
            number: head.next,
            previous: head.hash,
            previous_at: head.at,
            lines: stored.collect(),
        }
    }

    /// Returns the head of the chain whose last group this is.
    #[must_use]
    pub fn head(&self) -> Head {
        let last = self.lines.last();
        Head {
            next: self.number.saturating_add(1),
            hash: last.map_or(self.previous, |line| line.hash),
            at: last.map_or(self.previous_at, |line| line.at),
        }
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns whether the group has no line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the line at `index`, with its hash.
    #[must_use]
    pub fn line(&self, index: usize) -> Option<HashedLine> {
        self.lines.get(index).map(StoredLine::hashed)
    }

    /// Returns the line at `index` like [`Self::line`], if it passes the filter.
    #[must_use]
    pub fn line_if(&self, index: usize, filter: &Filter) -> Option<HashedLine> {
        let stored = self.lines.get(index)?;
        filter.matches(stored).then(|| stored.hashed())
    }

    /// Encodes the group.
    ///
    /// # Errors
    ///
    /// Never fails in practice: every field can be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        stored::encode(self)
    }

    /// Reads a group.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        stored::decode_group(bytes)
    }
}

impl StoredLine {
    fn hashed(&self) -> HashedLine {
        HashedLine {
            line: self.line(),
            hash: hex::encode(&self.hash),
        }
    }

    fn line(&self) -> Line {
        Line {
            at: self.at,
            actor: Actor {
                kind: self.kind.clone(),
                id: self.key.map(KeyId::from_bytes),
                name: self.name.clone(),
            },
            action: self.action.clone(),
            object: self.object.clone(),
            from: self.from,
        }
    }
}

/// Selects the lines to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Selects lines from this time on.
    pub from: Option<TimestampMs>,
    /// Selects lines before this time.
    pub to: Option<TimestampMs>,
    /// Selects lines with this action.
    pub action: Option<Action>,
    /// Selects lines about this object.
    pub object: Option<String>,
}

impl Filter {
    /// Returns whether a line passes the filter.
    fn matches(&self, line: &StoredLine) -> bool {
        self.from.is_none_or(|from| line.at >= from)
            && self.to.is_none_or(|to| line.at < to)
            && self
                .action
                .is_none_or(|action| line.action == action.as_str())
            && self
                .object
                .as_ref()
                .is_none_or(|object| line.object.as_ref() == Some(object))
    }

    /// Returns whether no line of this group or of an earlier one can pass.
    #[must_use]
    pub fn is_past(&self, group: &Group) -> bool {
        self.from.is_some_and(|from| group.head().at < from)
    }
}

/// The position of a line: its group, and its number within the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinePosition {
    /// The group's number.
    pub group: u64,
    /// The index of the line in the group.
    pub line: u32,
}

/// The name of a chain, for reports: the organization and its environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainName {
    /// The id of the organization.
    pub organization_id: OrganizationId,
    /// The environment of the tenant.
    pub env: Env,
}

#[cfg(test)]
mod tests;
