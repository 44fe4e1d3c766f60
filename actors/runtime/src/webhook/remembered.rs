//! Answers that showed a secret, remembered for 24 hours by their `Idempotency-Key`.
//!
//! They are stored in the endpoint's own row, so that a secret and its remembered answer are
//! committed together and removed with the endpoint.

use porchlight_ports::{Endpoint, Idempotency, RememberedSecret, SecretRequest};
use porchlight_schema::limits::{IDEMPOTENCY_MS, SECRETS_REMEMBERED_MAX};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{ConfigureError, Made, Webhooks};

fn is_fresh(answer: &RememberedSecret, now: TimestampMs) -> bool {
    now < answer.answered_at.plus_ms(IDEMPOTENCY_MS)
}

/// Returns the earlier answer to the same request, if it is remembered.
///
/// # Errors
///
/// Returns [`ConfigureError::KeyReused`] if the earlier request had another body.
pub(super) fn answer<'e>(
    endpoint: &'e Endpoint,
    now: TimestampMs,
    request: SecretRequest,
    repeat: Option<&Idempotency>,
) -> Result<Option<&'e RememberedSecret>, ConfigureError> {
    let Some(repeat) = repeat else {
        return Ok(None);
    };
    let found = endpoint.remembered.iter().find(|answer| {
        answer.request == request && answer.key == repeat.key && is_fresh(answer, now)
    });
    match found {
        Some(answer) if answer.body_hash != repeat.body_hash => Err(ConfigureError::KeyReused),
        found => Ok(found),
    }
}

/// Remembers the answer that shows the endpoint's current secret.
///
/// # Errors
///
/// Returns [`ConfigureError::TooManyRemembered`] if the limit is reached.
pub(super) fn remember(
    endpoint: &mut Endpoint,
    now: TimestampMs,
    request: SecretRequest,
    repeat: Option<&Idempotency>,
) -> Result<(), ConfigureError> {
    endpoint.remembered.retain(|answer| is_fresh(answer, now));
    let Some(repeat) = repeat else {
        return Ok(());
    };
    if endpoint.remembered.len() >= SECRETS_REMEMBERED_MAX {
        return Err(ConfigureError::TooManyRemembered);
    }
    let previous = endpoint.previous.as_ref();
    endpoint.remembered.push(RememberedSecret {
        request,
        key: repeat.key.clone(),
        body_hash: repeat.body_hash,
        answered_at: now,
        url: endpoint.url.clone(),
        enabled: endpoint.enabled,
        secret: endpoint.secret.clone(),
        previous_expires_at: previous.map(|previous| previous.expires_at),
    });
    Ok(())
}

impl Webhooks {
    /// Returns the earlier answer to the same request, if there is an endpoint that remembers it.
    ///
    /// # Errors
    ///
    /// See [`ConfigureError`].
    pub(super) async fn repeated(
        &self,
        tenant: Tenant,
        request: SecretRequest,
        repeat: Option<&Idempotency>,
    ) -> Result<Option<Made>, ConfigureError> {
        if repeat.is_none() {
            return Ok(None);
        }
        let Some(endpoint) = self.inner.outbox.endpoint(tenant).await? else {
            return Ok(None);
        };
        let now = self.inner.clock.now();
        let before = answer(&endpoint, now, request, repeat)?.cloned();
        before
            .map(|before| self.made_before(endpoint, before))
            .transpose()
    }

    /// Rebuilds an earlier answer as it was given.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigureError::Seal`] if no configured key opens the secret.
    pub(super) fn made_before(
        &self,
        mut endpoint: Endpoint,
        before: RememberedSecret,
    ) -> Result<Made, ConfigureError> {
        let (tenant, id) = (endpoint.tenant, endpoint.id);
        let secret = self.inner.seal.open(tenant, id, &before.secret);
        endpoint.url = before.url;
        endpoint.enabled = before.enabled;
        Ok(Made {
            endpoint,
            secret: secret.ok_or(ConfigureError::Seal)?,
            previous_expires_at: before.previous_expires_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use porchlight_ports::{PreviousSecret, SealedSecret};
    use porchlight_schema::ids::{EndpointId, OrganizationId};
    use porchlight_schema::session::Env;

    use super::*;

    const NOW: TimestampMs = TimestampMs(1_763_636_100_000);

    fn endpoint() -> Endpoint {
        let organization_id = OrganizationId::new(NOW, 1);
        Endpoint {
            enabled: true,
            id: EndpointId::new(NOW, 1),
            tenant: Tenant {
                organization_id,
                env: Env::Sandbox,
            },
            url: "https://example.com/".into(),
            created_at: NOW,
            version: 1,
            secret: SealedSecret {
                number: 1,
                sealed: vec![1],
            },
            secret_made_at: NOW,
            previous: Some(PreviousSecret {
                secret: SealedSecret {
                    number: 0,
                    sealed: vec![0],
                },
                expires_at: NOW.plus_ms(5),
            }),
            paused_at: None,
            remembered: Vec::new(),
        }
    }

    fn repeat(key: &str, body: u8) -> Idempotency {
        Idempotency {
            key: key.to_owned(),
            body_hash: [body; 32],
        }
    }

    #[test]
    fn a_response_is_remembered_by_key_and_body_for_a_day() {
        let (mut endpoint, one) = (endpoint(), repeat("one", 1));
        let rotate = SecretRequest::Rotate;
        remember(&mut endpoint, NOW, rotate, Some(&one)).unwrap();
        let at = |after_ms| NOW.plus_ms(after_ms);
        let found = answer(&endpoint, at(1), rotate, Some(&one))
            .unwrap()
            .unwrap();
        assert_eq!(found.previous_expires_at, Some(at(5)));
        let create = answer(&endpoint, at(1), SecretRequest::Create, Some(&one));
        assert_eq!(create.unwrap(), None);
        let other = answer(&endpoint, at(1), rotate, Some(&repeat("one", 2)));
        assert!(matches!(other, Err(ConfigureError::KeyReused)));
        let over = answer(&endpoint, at(IDEMPOTENCY_MS), rotate, Some(&one));
        assert_eq!(over.unwrap(), None);
    }

    #[test]
    fn remembered_responses_are_bounded_and_old_ones_expire() {
        let (mut endpoint, rotate) = (endpoint(), SecretRequest::Rotate);
        for number in 0..SECRETS_REMEMBERED_MAX {
            let key = repeat(&number.to_string(), 1);
            remember(&mut endpoint, NOW, rotate, Some(&key)).unwrap();
        }
        let more = repeat("more", 1);
        let full = remember(&mut endpoint, NOW, rotate, Some(&more));
        assert!(matches!(full, Err(ConfigureError::TooManyRemembered)));
        remember(&mut endpoint, NOW, rotate, None).unwrap();
        let later = NOW.plus_ms(IDEMPOTENCY_MS);
        remember(&mut endpoint, later, rotate, Some(&more)).unwrap();
        assert_eq!(endpoint.remembered.len(), 1);
    }
}
