//! The operations on a tenant's webhook configuration, and their results.

use porchlight_core::webhook::signature::secret_text;
use porchlight_ports::{
    Endpoint, Idempotency, PreviousSecret, SealedSecret, SecretRequest, StoreError, UrlRefused,
};
use porchlight_schema::ids::EndpointId;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use zeroize::Zeroizing;

use super::{Webhooks, remembered};

/// The maximum number of attempts at a change that conflicts with other changes.
const CHANGES_MAX: u32 = 5;

/// The reason why a configuration was not created, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigureError {
    /// The tenant already has an endpoint.
    #[error("there is a webhook already")]
    Exists,
    /// The tenant has no endpoint.
    #[error("no webhook is registered")]
    None,
    /// The URL is refused.
    #[error("the URL is refused: {0}")]
    Url(UrlRefused),
    /// An overlap of two secrets is active.
    #[error("the previous secret is still valid")]
    OverlapRuns,
    /// No overlap of two secrets is active.
    #[error("no previous secret is valid")]
    NoOverlap,
    /// The `Idempotency-Key` was used with another body.
    #[error("the idempotency key was used with another body")]
    KeyReused,
    /// The limit of remembered answers with a secret is reached.
    #[error("too many secrets were made with an idempotency key")]
    TooManyRemembered,
    /// Too many other requests of this tenant wait for a receiver.
    #[error("too many URLs are being checked")]
    Busy,
    /// Concurrent changes kept conflicting with this one.
    #[error("the webhook was changed by others meanwhile")]
    Contended,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The secret cannot be sealed.
    #[error("the secret cannot be sealed")]
    Seal,
}

/// An endpoint and its newly made secret, which is shown only this once.
pub struct Made {
    /// The endpoint. In a repeated answer, URL and pause are those of the first answer.
    pub endpoint: Endpoint,
    /// The secret's text.
    pub secret: Zeroizing<String>,
    /// The time until which the previous secret signs too.
    pub previous_expires_at: Option<TimestampMs>,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made")
            .field("endpoint", &self.endpoint.id)
            .finish_non_exhaustive()
    }
}

impl Webhooks {
    /// Returns the wall clock's time.
    #[must_use]
    pub fn now(&self) -> TimestampMs {
        self.inner.clock.now()
    }

    /// Returns a tenant's endpoint.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigureError::None`] if there is no endpoint, or the store's error.
    pub async fn endpoint(&self, tenant: Tenant) -> Result<Endpoint, ConfigureError> {
        let endpoint = self.inner.outbox.endpoint(tenant).await?;
        endpoint.ok_or(ConfigureError::None)
    }

    /// Creates a tenant's endpoint with a new secret. A repeat with the same key in `repeat` gets
    /// the same answer for 24 hours.
    ///
    /// # Errors
    ///
    /// See [`ConfigureError`].
    pub async fn register(
        &self,
        tenant: Tenant,
        url: &str,
        repeat: Option<&Idempotency>,
    ) -> Result<Made, ConfigureError> {
        let request = SecretRequest::Create;
        if let Some(made) = self.repeated(tenant, request, repeat).await? {
            return Ok(made);
        }
        let url = normalized(url);
        match self.probe(tenant, &url).await {
            // Without a check of the URL, an existing webhook is the only fault that is known.
            Err(ConfigureError::Busy) if self.inner.outbox.endpoint(tenant).await?.is_some() => {
                let made = self.repeated(tenant, request, repeat).await?;
                return made.ok_or(ConfigureError::Exists);
            }
            probed => probed?,
        }
        let now = self.inner.clock.now();
        let id = EndpointId::new(now, self.inner.entropy.random());
        let (secret, sealed) = self.new_secret(tenant, id, 1)?;
        let mut endpoint = Endpoint {
            enabled: true,
            id,
            tenant,
            url: url.into(),
            created_at: now,
            version: 1,
            secret: sealed,
            secret_made_at: now,
            previous: None,
            paused_at: None,
            remembered: Vec::new(),
        };
        remembered::remember(&mut endpoint, now, request, repeat)?;
        if !self.inner.outbox.create_endpoint(endpoint.clone()).await? {
            // The same request may have created it first.
            let made = self.repeated(tenant, request, repeat).await?;
            return made.ok_or(ConfigureError::Exists);
        }
        self.endpoint_changed(tenant);
        Ok(Made {
            endpoint,
            secret,
            previous_expires_at: None,
        })
    }

    /// Changes the given fields of the endpoint.
    ///
    /// # Errors
    ///
    /// See [`ConfigureError`].
    pub async fn change(
        &self,
        tenant: Tenant,
        url: Option<&str>,
        enabled: Option<bool>,
    ) -> Result<Endpoint, ConfigureError> {
        let url = url.map(normalized);
        if let Some(url) = &url {
            self.probe(tenant, url).await?;
        }
        self.replace(tenant, |endpoint| {
            if let Some(url) = &url {
                endpoint.url = url.as_str().into();
            }
            if let Some(enabled) = enabled.filter(|&enabled| enabled != endpoint.enabled) {
                endpoint.enabled = enabled;
                endpoint.paused_at = (!enabled).then(|| self.inner.clock.now());
            }
            Ok(())
        })
        .await
    }

    /// Makes a new secret; the previous one signs too for `overlap_sec`. With 0, all older secrets
    /// end now; with another number, no overlap may be active already. A repeat with the same key
    /// in `repeat` gets the same answer for 24 hours.
    ///
    /// # Errors
    ///
    /// See [`ConfigureError`].
    pub async fn rotate(
        &self,
        tenant: Tenant,
        overlap_sec: u32,
        repeat: Option<&Idempotency>,
    ) -> Result<Made, ConfigureError> {
        let request = SecretRequest::Rotate;
        let (mut made, mut before) = (None, None);
        let endpoint = self
            .replace(tenant, |endpoint| {
                let now = self.inner.clock.now();
                before = remembered::answer(endpoint, now, request, repeat)?.cloned();
                if before.is_some() {
                    return Ok(());
                }
                if overlap_sec > 0 && endpoint.overlap(now).is_some() {
                    return Err(ConfigureError::OverlapRuns);
                }
                let number = endpoint.secret.number.saturating_add(1);
                let (secret, sealed) = self.new_secret(tenant, endpoint.id, number)?;
                let replaced = std::mem::replace(&mut endpoint.secret, sealed);
                endpoint.secret_made_at = now;
                endpoint.previous = (overlap_sec > 0).then(|| PreviousSecret {
                    secret: replaced,
                    expires_at: now.plus_ms(i64::from(overlap_sec) * 1000),
                });
                made = Some(secret);
                remembered::remember(endpoint, now, request, repeat)
            })
            .await?;
        if let Some(before) = before {
            return self.made_before(endpoint, before);
        }
        let secret = made.ok_or(ConfigureError::Seal)?;
        let previous = endpoint.previous.as_ref();
        Ok(Made {
            previous_expires_at: previous.map(|previous| previous.expires_at),
            endpoint,
            secret,
        })
    }

    /// Ends the active overlap: from now on only the current secret signs.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigureError::NoOverlap`] if no overlap is active; see [`ConfigureError`].
    pub async fn end_overlap(&self, tenant: Tenant) -> Result<(), ConfigureError> {
        let ended = self.replace(tenant, |endpoint| {
            if endpoint.overlap(self.inner.clock.now()).is_none() {
                return Err(ConfigureError::NoOverlap);
            }
            endpoint.previous = None;
            Ok(())
        });
        ended.await.map(drop)
    }

    /// Removes the endpoint and cancels its waiting messages.
    ///
    /// # Errors
    ///
    /// See [`ConfigureError`].
    pub async fn remove(&self, tenant: Tenant) -> Result<(), ConfigureError> {
        if !self.inner.outbox.delete_endpoint(tenant).await? {
            return Err(ConfigureError::None);
        }
        self.endpoint_changed(tenant);
        Ok(())
    }

    async fn probe(&self, tenant: Tenant, url: &str) -> Result<(), ConfigureError> {
        let _permit = self
            .inner
            .acquire_probe_permit(tenant)
            .ok_or(ConfigureError::Busy)?;
        let probed = self.inner.transport.probe(tenant, url).await;
        probed.map_err(ConfigureError::Url)
    }

    fn new_secret(
        &self,
        tenant: Tenant,
        id: EndpointId,
        number: u32,
    ) -> Result<(Zeroizing<String>, SealedSecret), ConfigureError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        for half in bytes.chunks_exact_mut(16) {
            half.copy_from_slice(&self.inner.entropy.random().to_be_bytes());
        }
        let secret = Zeroizing::new(secret_text(&bytes));
        let sealed = self.inner.seal.seal(tenant, id, number, &secret);
        Ok((secret, sealed.ok_or(ConfigureError::Seal)?))
    }

    /// Changes the endpoint with `change`, which is called again if another change came first.
    async fn replace(
        &self,
        tenant: Tenant,
        mut change: impl FnMut(&mut Endpoint) -> Result<(), ConfigureError>,
    ) -> Result<Endpoint, ConfigureError> {
        for _ in 0..CHANGES_MAX {
            let mut endpoint = self.endpoint(tenant).await?;
            let before = endpoint.clone();
            change(&mut endpoint)?;
            if endpoint == before {
                return Ok(endpoint);
            }
            endpoint.version = before.version + 1;
            if self.inner.outbox.replace_endpoint(endpoint.clone()).await? {
                self.endpoint_changed(tenant);
                return Ok(endpoint);
            }
        }
        Err(ConfigureError::Contended)
    }
}

/// Returns the URL with its scheme in lower case, as answers show it.
fn normalized(url: &str) -> String {
    match url.split_once(':') {
        Some((scheme, rest)) => format!("{}:{rest}", scheme.to_ascii_lowercase()),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scheme_is_normalized() {
        for (url, expected) in [
            ("HTTPS://Host.example/Path", "https://Host.example/Path"),
            ("Https://LOCALHOST:1/a:B", "https://LOCALHOST:1/a:B"),
            ("https://host.example/", "https://host.example/"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(normalized(url), expected);
        }
    }
}
