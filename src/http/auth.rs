//! Authenticates callers and checks their rights (contract section 1).
//!
//! A credential comes as `Service-Key: KEY` or as `Authorization: Bearer KEY`. If both headers are
//! present they must be equal, because the service cannot know which of two credentials was meant;
//! otherwise the request is refused with 401. The same holds for a duplicate header and for another
//! `Authorization` scheme.

mod cache;
mod rate;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use porchlight_keys::{self as keys, Tokens};
use porchlight_observe::error_text;
use porchlight_ports::Keys;
use porchlight_schema::ids::{KeyId, RecorderId, SessionId};
use porchlight_schema::key::{KeyKind, KeyRecord};
use porchlight_schema::limits::{LINK_REQUESTS_BURST, LINK_REQUESTS_PER_SEC, TOKEN_GRACE_MS};
use porchlight_schema::session::{SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;
use secrecy::{ExposeSecret, SecretString};

use super::problem::{Code, Problem};
use cache::{CachedKey, KeyCache};
use rate::RateLimit;
pub use rate::{Limited, RemainingRate};
use uses::KeyUses;

/// The service's own header.
const SERVICE_KEY: HeaderName = HeaderName::from_static("service-key");

/// The authenticated caller.
#[derive(Debug, Clone)]
pub enum Caller {
    /// The holder of this key.
    Key(Arc<KeyRecord>),
    /// The holder of this session's token.
    Session(SessionId),
}

impl Caller {
    /// Returns the tenant of a secret key.
    ///
    /// # Errors
    ///
    /// Returns 403 for any other credential.
    pub fn require_secret_key(&self) -> Result<Tenant, Problem> {
        match self {
            Self::Key(record) if record.kind == KeyKind::Secret => Ok(record.tenant),
            _ => Err(Problem::new(
                Code::SecretKeyRequired,
                "A secret key is required.",
            )),
        }
    }

    /// Returns the tenant of a key of any kind.
    ///
    /// # Errors
    ///
    /// Returns 403 for a session token.
    pub fn require_key(&self) -> Result<Tenant, Problem> {
        match self {
            Self::Key(record) => Ok(record.tenant),
            Self::Session(_) => Err(Problem::new(
                Code::KeyRequired,
                "A secret key or a client key is required.",
            )),
        }
    }

    /// Checks whether the credential may act on sessions at all: a client key may only start them,
    /// for it is shipped inside an app and can be read there.
    ///
    /// # Errors
    ///
    /// Returns 403 for a client key.
    pub fn check_may_act(&self) -> Result<(), Problem> {
        match self {
            Self::Key(record) if record.kind == KeyKind::Client => Err(Problem::new(
                Code::SecretKeyRequired,
                "A client key can only start sessions. Use the session's token, or a secret key.",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that the credential may act on this session: the session's own token, or a secret
    /// key.
    ///
    /// # Errors
    ///
    /// Returns 403 for a client key and for a token of another session. `session_id` is `None` if
    /// the session id in the request is invalid.
    pub fn check_may_act_on(&self, session_id: Option<SessionId>) -> Result<(), Problem> {
        self.check_may_act()?;
        match self {
            Self::Session(own) if session_id != Some(*own) => Err(Problem::new(
                Code::OtherSession,
                "The session token belongs to another session.",
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether the caller can see objects of `tenant`. Invisible objects answer 404, so
    /// that ids cannot be probed.
    #[must_use]
    pub fn can_see(&self, tenant: Tenant) -> bool {
        match self {
            Self::Key(record) => record.tenant == tenant,
            // The token names the session itself, and therefore its tenant.
            Self::Session(_) => true,
        }
    }

    /// Checks that a token is still valid at `now`, for a session with this end.
    ///
    /// # Errors
    ///
    /// Returns 401 for a token whose session ended more than 24 h ago.
    pub fn check_expiry(&self, end: Option<&SessionEnd>, now: TimestampMs) -> Result<(), Problem> {
        let expired = matches!(self, Self::Session(_))
            && end.is_some_and(|end| now.since_ms(end.completed_at) > TOKEN_GRACE_MS);
        if expired {
            Err(invalid("The session token has expired."))
        } else {
            Ok(())
        }
    }

    /// Returns the subject of the rate limit.
    fn subject(&self) -> [u8; 16] {
        match self {
            Self::Key(record) => record.id.to_bytes(),
            Self::Session(session_id) => session_id.to_bytes(),
        }
    }
}

/// The credential with which a connection was opened, for later checks.
#[derive(Debug)]
pub struct PresentedCredential(SecretString);

impl PresentedCredential {
    /// Extracts the credential from headers.
    ///
    /// # Errors
    ///
    /// Returns 401 if there is no credential, or more than one credential.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        presented(headers).map(|credential| Self(credential.into()))
    }
}

/// Authenticates requests.
pub struct Authenticator {
    keys: Arc<dyn Keys>,
    tokens: Tokens,
    cache: KeyCache,
    limiter: Option<RateLimit>,
    /// The rate of each signed link.
    links: Option<RateLimit>,
    uses: KeyUses,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").finish_non_exhaustive()
    }
}

impl Authenticator {
    /// Creates an authenticator. `rate_per_second` is the number of requests per key, with a burst
    /// of as many; 0 means no limit. `remembered` is the time for which a key lookup is cached, and
    /// so the longest time for which a key stays valid here after a revocation on another node.
    #[must_use]
    pub fn new(
        keys: Arc<dyn Keys>,
        tokens: Tokens,
        rate_per_second: u32,
        remembered: Duration,
    ) -> Self {
        Self {
            keys,
            tokens,
            cache: KeyCache::new(remembered),
            limiter: RateLimit::new(rate_per_second, rate_per_second),
            links: RateLimit::new(LINK_REQUESTS_PER_SEC, LINK_REQUESTS_BURST),
            uses: KeyUses::default(),
        }
    }

    /// Identifies the caller that sent these headers. Does not count the request against the
    /// credential's rate.
    ///
    /// # Errors
    ///
    /// Returns 401: no credential, or an invalid one; 503: the store is unavailable.
    pub async fn identify(&self, headers: &HeaderMap, now: TimestampMs) -> Result<Caller, Problem> {
        self.authenticate(presented(headers)?, now).await
    }

    /// Counts one request against the caller's rate. Returns the remaining rate, or `None` without
    /// a limit.
    ///
    /// # Errors
    ///
    /// Returns 429: the rate is used up.
    pub fn count(&self, caller: &Caller) -> Result<Option<RemainingRate>, Limited> {
        self.count_by(&caller.subject())
    }

    fn count_by(&self, subject: &[u8; 16]) -> Result<Option<RemainingRate>, Limited> {
        let counted = self.limiter.as_ref();
        counted.map(|limiter| limiter.count(subject)).transpose()
    }

    /// Returns whether an earlier credential is no longer valid. The call does not count against
    /// the rate limit. While the store is unavailable, the credential stays valid.
    pub async fn is_revoked(&self, presented: &PresentedCredential, now: TimestampMs) -> bool {
        let caller = self.authenticate(presented.0.expose_secret(), now).await;
        caller.is_err_and(|problem| problem.code() == Code::CredentialInvalid)
    }

    async fn authenticate(&self, credential: &str, now: TimestampMs) -> Result<Caller, Problem> {
        if Tokens::is_token(credential) {
            let session_id = self
                .tokens
                .check(credential)
                .map_err(|_| not_a_credential())?;
            Ok(Caller::Session(session_id))
        } else {
            self.key(credential, now).await
        }
    }

    /// Returns the token of a session.
    #[must_use]
    pub fn token(&self, session_id: SessionId) -> String {
        self.tokens.make(session_id)
    }

    /// Returns the token in the link of a recorder.
    #[must_use]
    pub fn recorder_token(&self, id: RecorderId) -> String {
        self.tokens.make_for_recorder(id)
    }

    /// Returns the recorder to which this token belongs. The recorder itself may have expired.
    ///
    /// # Errors
    ///
    /// Returns 401: not a token of this service; 429: too many requests with it.
    pub fn recorder(&self, token: &str) -> Result<RecorderId, Problem> {
        let id = self
            .tokens
            .check_recorder(token)
            .map_err(|_| invalid("The recording link is unknown or incomplete."))?;
        let counted = self.count_by(&id.to_bytes());
        counted.map_err(|limited| limited.problem)?;
        Ok(id)
    }

    /// Counts one request with the signed link to the object of this id, which is the only
    /// credential of the request.
    ///
    /// # Errors
    ///
    /// Returns 429: too many requests with it.
    pub fn count_link(&self, subject: &[u8; 16]) -> Result<(), Problem> {
        let Some(limiter) = &self.links else {
            return Ok(());
        };
        let counted = limiter.count(subject).map(drop);
        counted.map_err(|limited| limited.problem)
    }

    /// Evicts one key from the cache, so that its revocation on this node takes effect immediately.
    pub fn evict(&self, id: KeyId) {
        self.cache.evict(id);
    }

    /// Writes the hours in which keys were last used. Called periodically. If a write fails, the
    /// next use of the key repeats it.
    pub async fn write_uses(&self) {
        for (hash, hour) in self.uses.take() {
            if let Err(error) = self.keys.record_key_use(hash, hour).await {
                tracing::warn!(
                    error = error_text(&error),
                    "the last use of a key cannot be written"
                );
                return;
            }
        }
    }

    /// Removes rate-limit state of idle callers. Called periodically.
    pub fn clean_up(&self) {
        self.cache.clean_up();
        for limiter in [&self.limiter, &self.links].into_iter().flatten() {
            limiter.clean_up();
        }
    }

    /// Returns the valid key with this SHA-256, for console sign-ins. It counts against the key's
    /// rate limit.
    ///
    /// # Errors
    ///
    /// See [`Authenticator::identify`].
    pub async fn signed_in(
        &self,
        hash: [u8; 32],
        now: TimestampMs,
    ) -> Result<Arc<KeyRecord>, Problem> {
        let record = self.record(hash, now).await?;
        let counted = self.count(&Caller::Key(Arc::clone(&record)));
        counted.map_err(|limited| limited.problem)?;
        Ok(record)
    }

    /// Returns whether the key with this SHA-256, which has signed in to the console, is no longer
    /// valid. The call does not count against the rate limit. While the store is unavailable, the
    /// key stays valid.
    pub async fn is_key_revoked(&self, hash: [u8; 32], now: TimestampMs) -> bool {
        let record = self.record(hash, now).await;
        record.is_err_and(|problem| problem.code() == Code::CredentialInvalid)
    }

    async fn key(&self, credential: &str, now: TimestampMs) -> Result<Caller, Problem> {
        let read = keys::read(credential).ok_or_else(not_a_credential)?;
        let record = self.record(read.hash, now).await?;
        if record.kind != read.kind || record.tenant.env != read.env {
            return Err(not_a_credential());
        }
        Ok(Caller::Key(record))
    }

    async fn record(&self, hash: [u8; 32], now: TimestampMs) -> Result<Arc<KeyRecord>, Problem> {
        let found = match self.cache.get(&hash) {
            CachedKey::Found(record) => Some(record),
            CachedKey::Unknown => None,
            CachedKey::Missing => {
                let lookup = self.cache.begin_lookup(&hash).map_err(|wait_ms| {
                    let detail = "Too many requests with unknown keys. Retry later.";
                    Problem::new(Code::RateLimited, detail).retry_after_sec(wait_ms.div_ceil(1_000))
                })?;
                let found = self.keys.find_key(hash).await?.map(Arc::new);
                self.cache.put(hash, found.clone());
                drop(lookup);
                found
            }
        };
        let record = found.ok_or_else(not_a_credential)?;
        if !record.is_live(now) {
            return Err(invalid("The key was revoked, or has expired."));
        }
        self.uses.record(hash, &record, now);
        Ok(record)
    }
}

fn invalid(detail: &str) -> Problem {
    Problem::new(Code::CredentialInvalid, detail)
}

/// Returns the one answer for every invalid credential, so that the answer reveals nothing.
fn not_a_credential() -> Problem {
    invalid("The credential is not a key or token of this service.")
}

/// Returns the credential in these headers.
fn presented(headers: &HeaderMap) -> Result<&str, Problem> {
    let own = single(headers, &SERVICE_KEY)?;
    let bearer = match single(headers, &AUTHORIZATION)? {
        Some(value) => Some(
            bearer(value).ok_or_else(|| invalid("Authorization must use the scheme Bearer."))?,
        ),
        None => None,
    };
    match (own, bearer) {
        (Some(own), Some(bearer)) if own != bearer => Err(invalid(
            "Service-Key and Authorization contain different credentials.",
        )),
        (Some(credential), _) | (None, Some(credential)) => Ok(credential),
        (None, None) => Err(Problem::new(
            Code::CredentialMissing,
            "Missing credentials. Send a key as Service-Key, or as Authorization: Bearer.",
        )),
    }
}

/// Returns the value of a header that may occur once.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Problem> {
    let mut values = headers.get_all(name);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(invalid("A credential header appears twice."));
    }
    value.to_str().map(Some).map_err(|_| not_a_credential())
}

/// Returns the credential after the scheme, whose case does not matter (RFC 9110, section 11.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, credential) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| credential.trim_start_matches(' '))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn credential_of(headers: &[(&'static str, &'static str)]) -> Result<String, Code> {
        let mut map = HeaderMap::new();
        for &(name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        presented(&map)
            .map(str::to_owned)
            .map_err(|problem| problem.code())
    }

    #[test]
    fn both_header_forms_are_read_and_must_agree() {
        let good = [
            &[("service-key", "a")][..],
            &[("authorization", "Bearer a")],
            &[("authorization", "bEARER   a")],
            &[("service-key", "a"), ("authorization", "Bearer a")],
        ];
        for headers in good {
            assert_eq!(credential_of(headers), Ok("a".into()), "{headers:?}");
        }
        let bad = [
            &[("service-key", "a"), ("authorization", "Bearer b")][..],
            &[("service-key", "a"), ("service-key", "a")],
            &[("service-key", "a"), ("authorization", "Basic a")],
            &[("authorization", "Bearer")],
            &[("authorization", "a")],
        ];
        for headers in bad {
            assert_eq!(
                credential_of(headers),
                Err(Code::CredentialInvalid),
                "{headers:?}"
            );
        }
        assert_eq!(credential_of(&[]), Err(Code::CredentialMissing));
    }
}
