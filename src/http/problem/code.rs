//! The codes of all errors.

use actix_web::http::StatusCode;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $status:ident, $text:literal, $title:literal;)+) => {
        /// The kind of an error: the stable word in `code`. A code never changes its meaning or its
        /// status.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant),+ }

        impl Code {
            /// All problem codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the path of the documentation of the code on the same host.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!("/docs/errors#", $text)),+ }
            }

            /// Returns the title, the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            /// Returns the meaning, in a sentence or two.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }

            /// Returns the HTTP status.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }
        }
    };
}

codes! {
    /// The request is malformed in some part other than its body.
    BadRequest = BAD_REQUEST, "bad_request", "Bad request";
    /// The body ends early, or is not in the encoding that its header names.
    MalformedBody = BAD_REQUEST, "malformed_body", "Malformed body";
    /// The body is not JSON.
    MalformedJson = BAD_REQUEST, "malformed_json", "Malformed JSON";
    /// The body is not protobuf of the published schema.
    MalformedProtobuf = BAD_REQUEST, "malformed_protobuf", "Malformed protobuf";
    /// The request has no credential.
    CredentialMissing = UNAUTHORIZED, "credential_missing", "Credential missing";
    /// The credential is malformed, unknown, expired or revoked.
    CredentialInvalid = UNAUTHORIZED, "credential_invalid", "Credential invalid";
    /// The credential is valid, but the operation requires a secret key.
    SecretKeyRequired = FORBIDDEN, "secret_key_required", "Secret key required";
    /// The role of the secret key does not allow the operation.
    RoleForbidden = FORBIDDEN, "role_forbidden", "Role not sufficient";
    /// The credential is a session token, but the operation requires a key.
    KeyRequired = FORBIDDEN, "key_required", "Key required";
    /// The session token belongs to another session.
    OtherSession = FORBIDDEN, "other_session", "Token of another session";
    /// A privacy request forbids this courier to start sessions.
    Suppressed = FORBIDDEN, "suppressed", "Suppressed";
    /// The request is refused for a reason that has no code of its own.
    Forbidden = FORBIDDEN, "forbidden", "Forbidden";
    /// The path does not exist.
    NotFound = NOT_FOUND, "not_found", "Not found";
    /// The session does not exist in the credential's organization and environment.
    SessionNotFound = NOT_FOUND, "session_not_found", "Session not found";
    /// The session has no score yet, or could not be scored.
    NotScored = NOT_FOUND, "not_scored", "Not scored";
    /// The privacy request does not exist in the credential's organization and environment, or
    /// offers no download.
    PrivacyRequestNotFound = NOT_FOUND, "privacy_request_not_found", "Privacy request not found";
    /// The recorder does not exist in the credential's organization and environment.
    RecorderNotFound = NOT_FOUND, "recorder_not_found", "Recorder not found";
    /// The credential's organization and environment has no webhook.
    WebhookNotFound = NOT_FOUND, "webhook_not_found", "Webhook not found";
    /// No overlap of two webhook secrets is running.
    PreviousSecretNotFound = NOT_FOUND, "previous_secret_not_found", "Previous secret not found";
    /// The webhook delivery does not exist in the credential's organization and environment.
    DeliveryNotFound = NOT_FOUND, "delivery_not_found", "Delivery not found";
    /// The path does not support this method.
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed";
    /// `Accept` excludes every media type that the path can return.
    NotAcceptable = NOT_ACCEPTABLE, "not_acceptable", "Not acceptable";
    /// The body arrived too slowly.
    BodyTimeout = REQUEST_TIMEOUT, "body_timeout", "Body too slow";
    /// The session, courier or delivery is restricted: a privacy request froze it until it is
    /// released.
    Restricted = CONFLICT, "restricted", "Restricted";
    /// A legal hold protects a session of the subject. Release the hold before you request the
    /// erasure.
    LegalHold = CONFLICT, "legal_hold", "Legal hold";
    /// The organization has too many open privacy requests, or too many restrictions, suppressions
    /// and legal holds. Retry when requests have ended, or release some.
    PrivacyLimit = CONFLICT, "privacy_limit", "Privacy limit reached";
    /// The privacy request has started or has ended, and cannot be cancelled.
    NotPending = CONFLICT, "not_pending", "Not pending";
    /// Another request is changing the same object, or has changed it. Read it again and retry.
    Conflict = CONFLICT, "conflict", "Conflict";
    /// A webhook is already configured.
    WebhookExists = CONFLICT, "webhook_exists", "Webhook exists";
    /// The previous secret is still valid. `DELETE /v1/webhooks/previous-secret` ends it.
    OverlapRunning = CONFLICT, "overlap_running", "Overlap running";
    /// The delivery cannot be retried: it was superseded or cancelled, it has had 100 attempts, its
    /// payload is damaged, or no webhook is configured.
    NotRetryable = CONFLICT, "not_retryable", "Not retryable";
    /// Another body was acknowledged under this `seq`.
    SeqConflict = CONFLICT, "seq_conflict", "Sequence number taken";
    /// The session ended too long ago to accept telemetry, or to accept a proof of delivery.
    SessionCompleted = CONFLICT, "session_completed", "Session completed";
    /// The telemetry of the session was deleted because its retention has passed.
    TelemetryExpired = GONE, "telemetry_expired", "Telemetry expired";
    /// The body is larger than the path accepts, as sent or unpacked.
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body_too_large", "Body too large";
    /// The batch has too many samples.
    TooManySamples = PAYLOAD_TOO_LARGE, "too_many_samples", "Too many samples";
    /// The path does not accept this `Content-Type`.
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "Unsupported media type";
    /// The path does not accept this `Content-Encoding`.
    UnsupportedEncoding = UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", "Unsupported content encoding";
    /// The body is valid JSON, but its content is invalid; `errors` names each invalid field.
    InvalidBody = UNPROCESSABLE_ENTITY, "invalid_body", "Invalid body";
    /// A parameter in the query or a header is invalid; `errors` names it.
    InvalidParameter = UNPROCESSABLE_ENTITY, "invalid_parameter", "Invalid parameter";
    /// Another privacy request has this `requestId`.
    RequestIdReused = UNPROCESSABLE_ENTITY, "request_id_reused", "Request id reused";
    /// The `Idempotency-Key` was used with another body.
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY, "idempotency_key_reused", "Idempotency key reused";
    /// The path requires an upgrade to WebSocket.
    UpgradeRequired = UPGRADE_REQUIRED, "upgrade_required", "Upgrade required";
    /// The credential has sent more requests than its limit allows.
    RateLimited = TOO_MANY_REQUESTS, "rate_limited", "Rate limited";
    /// Too many batches of this session are in flight.
    SessionBusy = TOO_MANY_REQUESTS, "session_busy", "Session busy";
    /// The organization has too many request bytes in flight on one server.
    TenantInFlightBytes = TOO_MANY_REQUESTS, "tenant_in_flight_bytes", "Too many bytes in flight";
    /// The organization has too many requests in progress on one server.
    TenantRequests = TOO_MANY_REQUESTS, "tenant_requests", "Too many concurrent requests";
    /// The organization has too many open WebSockets on one server.
    TenantSockets = TOO_MANY_REQUESTS, "tenant_sockets", "Too many WebSockets";
    /// The organization has too many open event streams on one server.
    TenantEventStreams = TOO_MANY_REQUESTS, "tenant_event_streams", "Too many event streams";
    /// The organization has too many live sessions on one server.
    TenantLiveSessions = TOO_MANY_REQUESTS, "tenant_live_sessions", "Too many live sessions";
    /// The organization reads too many lists at a time on one server.
    TenantLists = TOO_MANY_REQUESTS, "tenant_lists", "Too many concurrent list requests";
    /// The organization starts too many sessions per second.
    TenantSessionStarts = TOO_MANY_REQUESTS, "tenant_session_starts", "Sessions started too fast";
    /// The organization replaces too many PoDs of completed sessions per second.
    TenantPodChanges = TOO_MANY_REQUESTS, "tenant_pod_changes", "PoDs replaced too fast";
    /// The organization stores more telemetry per second than one server accepts from it.
    TenantStoredBytes = TOO_MANY_REQUESTS, "tenant_stored_bytes", "Telemetry stored too fast";
    /// The session has too many open connections.
    TooManyStreams = TOO_MANY_REQUESTS, "too_many_streams", "Too many streams";
    /// The service failed in a way that has no code of its own.
    Internal = INTERNAL_SERVER_ERROR, "internal", "Internal error";
    /// The service has too much work.
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "Overloaded";
    /// The store cannot be reached.
    StoreUnavailable = SERVICE_UNAVAILABLE, "store_unavailable", "Store unavailable";
    /// The store's disk is nearly full. Reads and deletions continue, and writes are accepted again
    /// once space is freed.
    StoreFull = SERVICE_UNAVAILABLE, "store_full", "Store full";
    /// The server is shutting down. Retry after the time in `Retry-After`.
    Draining = SERVICE_UNAVAILABLE, "draining", "Draining";
}

impl Code {
    /// Returns the code for an error that has only a status.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        let general = [
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
        general
            .into_iter()
            .find(|code| code.status() == status)
            .unwrap_or(other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn code_names_are_unique_snake_case() {
        let words: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(words.iter().all(|word| {
            word.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        }));
        assert!(Code::ALL.iter().all(|code| code.status().as_u16() >= 400));
    }

    #[test]
    fn a_status_without_a_code_keeps_its_class() {
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
