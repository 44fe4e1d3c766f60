//! The codes of all errors.

use actix_web::http::StatusCode;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $status:ident, $text:literal, $title:literal;)+) => {
        /// What kind of error it is: the stable word in `code`. A code never changes its meaning or its status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant),+ }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Where it is explained: a path on the same host.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!("/docs/errors#", $text)),+ }
            }

            /// The same few words for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            /// What it means, in a sentence or two.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }

            /// The status that it is answered with.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }
        }
    };
}

codes! {
    /// HTTP that can't be understood, beside the body.
    BadRequest = BAD_REQUEST, "bad_request", "Bad request";
    /// A body that ends early, or is not in the coding that its header says.
    MalformedBody = BAD_REQUEST, "malformed_body", "Malformed body";
    /// A body that is not JSON.
    MalformedJson = BAD_REQUEST, "malformed_json", "Malformed JSON";
    /// A body that is not protobuf of the published schema.
    MalformedProtobuf = BAD_REQUEST, "malformed_protobuf", "Malformed protobuf";
    /// No credential.
    CredentialMissing = UNAUTHORIZED, "credential_missing", "Credential missing";
    /// A credential that is malformed, unknown, expired or revoked.
    CredentialInvalid = UNAUTHORIZED, "credential_invalid", "Credential invalid";
    /// A good credential that is not a secret key, where one is needed.
    SecretKeyRequired = FORBIDDEN, "secret_key_required", "Secret key required";
    /// A session token where a key is needed.
    KeyRequired = FORBIDDEN, "key_required", "Key required";
    /// A session token for another session's act.
    OtherSession = FORBIDDEN, "other_session", "Token of another session";
    /// Refused for a reason that has no code of its own.
    Forbidden = FORBIDDEN, "forbidden", "Forbidden";
    /// No such path.
    NotFound = NOT_FOUND, "not_found", "Not found";
    /// No such session in the credential's organization and environment.
    SessionNotFound = NOT_FOUND, "session_not_found", "Session not found";
    /// The session is not scored yet, or can't be.
    NotScored = NOT_FOUND, "not_scored", "Not scored";
    /// No webhook is configured in the credential's organization and environment.
    WebhookNotFound = NOT_FOUND, "webhook_not_found", "Webhook not found";
    /// No such delivery in the credential's organization and environment.
    DeliveryNotFound = NOT_FOUND, "delivery_not_found", "Delivery not found";
    /// The path does not take this method.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed";
    /// `Accept` excludes all that the path can give.
    NotAcceptable = NOT_ACCEPTABLE, "not_acceptable", "Not acceptable";
    /// The body came too slowly.
    BodyTimeout = REQUEST_TIMEOUT, "body_timeout", "Body too slow";
    /// The same thing as the request, or another in its place, is there already.
    Conflict = CONFLICT, "conflict", "Conflict";
    /// A webhook is configured already.
    WebhookExists = CONFLICT, "webhook_exists", "Webhook exists";
    /// The secret before still signs; `overlapSec` 0 ends it.
    OverlapRunning = CONFLICT, "overlap_running", "Overlap running";
    /// A delivery that is superseded or cancelled, or has no webhook to go to.
    NotRetryable = CONFLICT, "not_retryable", "Not retryable";
    /// Another body was acknowledged under this `seq`.
    SeqConflict = CONFLICT, "seq_conflict", "Sequence number taken";
    /// The session ended longer ago than telemetry is taken for.
    SessionCompleted = CONFLICT, "session_completed", "Session completed";
    /// The body is larger than the path takes, as sent or unpacked.
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body_too_large", "Body too large";
    /// More samples than a batch may have.
    TooManySamples = PAYLOAD_TOO_LARGE, "too_many_samples", "Too many samples";
    /// The path does not take this `Content-Type`.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported media type";
    /// The path does not take this `Content-Encoding`.
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", "Unsupported content encoding";
    /// JSON, but not what is asked for; `errors` says where.
    InvalidBody = UNPROCESSABLE_ENTITY, "invalid_body", "Invalid body";
    /// A parameter in the query or a header; `errors` says which.
    InvalidParameter = UNPROCESSABLE_ENTITY, "invalid_parameter", "Invalid parameter";
    /// An `Idempotency-Key` that was used with another body.
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY, "idempotency_key_reused", "Idempotency key reused";
    /// The path speaks WebSocket.
    UpgradeRequired = UPGRADE_REQUIRED, "upgrade_required", "Upgrade required";
    /// More requests with this credential than are served in a second.
    RateLimited = TOO_MANY_REQUESTS, "rate_limited", "Rate limited";
    /// More batches of this session in flight than are taken at once.
    SessionBusy = TOO_MANY_REQUESTS, "session_busy", "Session busy";
    /// More connections open than one organization, or one session, may have.
    TooManyStreams = TOO_MANY_REQUESTS, "too_many_streams", "Too many streams";
    /// A fault that has no code of its own.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Internal error";
    /// Too much to do.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "Overloaded";
    /// The store can't be reached.
    StoreUnavailable = SERVICE_UNAVAILABLE, "store_unavailable", "Store unavailable";
    /// The node is stopping; another one, or the next one, takes the request.
    Draining = SERVICE_UNAVAILABLE, "draining", "Draining";
}

impl Code {
    /// The code for an error that came with nothing but its status.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        let bare = [
            Self::CredentialInvalid,
            Self::Forbidden,
            Self::NotFound,
            Self::MethodNotAllowed,
            Self::NotAcceptable,
            Self::BodyTimeout,
            Self::Conflict,
            Self::BodyTooLarge,
            Self::UnsupportedMediaType,
            Self::InvalidBody,
            Self::UpgradeRequired,
            Self::RateLimited,
            Self::Overloaded,
        ];
        let other = if status.is_server_error() {
            Self::Internal
        } else {
            Self::BadRequest
        };
        bare.into_iter()
            .find(|code| code.status() == status)
            .unwrap_or(other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_stable_in_form_and_used_once() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(words.iter().all(|word| {
            word.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        }));
        assert!(Code::ALL.iter().all(|code| code.status().as_u16() >= 400));
    }

    #[test]
    fn a_bare_status_keeps_its_class() {
        for status in (400..600).filter_map(|number| StatusCode::from_u16(number).ok()) {
            let code = Code::of_status(status);
            assert_eq!(
                code.status().is_server_error(),
                status.is_server_error(),
                "{status}"
            );
        }
    }
}
