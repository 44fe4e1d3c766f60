//! Resolves names to checked addresses. The HTTP client gets its addresses only from this module.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use porchlight_observe::resolver::{PermitPoolKind, ResolverMetrics};
use porchlight_schema::limits::{LOOK_UP_PERMIT_MS_MAX, NODE_LOOK_UPS_MAX, TENANT_LOOK_UPS_MAX};
use porchlight_schema::session::Tenant;
use tokio::sync::watch;

use super::address::{Cidr, Origin, is_permitted};
pub use super::permits::Holder;
use super::permits::PermitPool;

tokio::task_local! {
    /// The tenant for whose attempt a connection is opened.
    pub(super) static CONNECTING_TENANT: Tenant;
}

/// A resolver of host names.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a name, at least one, for the tenant that `holder` names.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address, or if the lookup failed.
    async fn look_up(&self, holder: Holder, name: &str) -> Result<Vec<IpAddr>, NameRefused>;
}

/// The reason why a name cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameRefused {
    /// The name does not exist.
    #[error("the name does not exist")]
    NoSuchName,
    /// The name exists but has no address.
    #[error("the name has no address")]
    NoAddress,
    /// The name servers of the name's domain do not answer.
    #[error("the name servers of the domain do not answer")]
    NoAnswer,
    /// The name resolves to an address that is not permitted, alone or among others.
    #[error("the name resolves to an address that is not permitted")]
    Address,
    /// The resolver of the service is unavailable.
    #[error("the DNS resolver of the service does not answer")]
    ResolverUnavailable,
    /// The tenant, or all tenants together, have too many lookups in flight.
    #[error("too many names are being looked up")]
    Busy,
}

type Verdict = Result<Arc<[IpAddr]>, NameRefused>;

/// A receiver of the verdict of a lookup in flight.
type PendingVerdict = watch::Receiver<Option<Verdict>>;

/// The lookups in flight.
type LookUps = Arc<Mutex<HashMap<(Holder, String), PendingVerdict>>>;

/// Resolves and checks names. No verdict outlives its lookup: each attempt resolves and checks
/// again. Concurrent requests of a tenant for one name share a lookup. A lookup counts towards the
/// tenant's share until it has ended, even if no request waits for its result any longer.
pub struct Guard {
    resolver: Arc<dyn Resolver>,
    allowed: Arc<[Cidr]>,
    look_ups: LookUps,
    permits: PermitPool,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// Creates a guard that permits public addresses and the addresses in `allowed`.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>, allowed: Arc<[Cidr]>) -> Self {
        Self {
            resolver,
            allowed,
            look_ups: Arc::default(),
            permits: PermitPool::new(
                NODE_LOOK_UPS_MAX,
                TENANT_LOOK_UPS_MAX,
                ResolverMetrics::get().in_use(PermitPoolKind::LookUps),
            ),
        }
    }

    /// Returns the addresses that are permitted in addition to public ones.
    #[must_use]
    pub fn allowed(&self) -> &[Cidr] {
        &self.allowed
    }

    /// Returns the addresses of a name, all permitted. Requires a tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address, or if one of the addresses is not permitted.
    pub async fn addresses(&self, holder: Holder, name: &str) -> Verdict {
        let mut verdict = self.look_up(holder, name);
        let result = verdict.wait_for(Option::is_some).await;
        match result.as_deref() {
            Ok(Some(verdict)) => verdict.clone(),
            // The lookup's task is gone because the runtime is ending.
            Ok(None) | Err(_) => Err(NameRefused::ResolverUnavailable),
        }
    }

    fn look_up(&self, holder: Holder, name: &str) -> PendingVerdict {
        let key = (holder, name.to_owned());
        let mut look_ups = lock(&self.look_ups);
        if let Some(pending) = look_ups.get(&key)
            && pending.has_changed().is_ok()
        {
            return pending.clone();
        }
        let (publish, pending) = watch::channel(None);
        look_ups.insert(key.clone(), pending.clone());
        let (resolver, allowed) = (Arc::clone(&self.resolver), Arc::clone(&self.allowed));
        let (in_flight, permits) = (Arc::clone(&self.look_ups), self.permits.clone());
        tokio::spawn(async move {
            let timeout = Duration::from_millis(LOOK_UP_PERMIT_MS_MAX);
            let verdict = match permits.acquire(holder, timeout).await {
                Some(_permit) => verdict_of(resolver.look_up(holder, &key.1).await, &allowed),
                None => {
                    ResolverMetrics::get().on_refused(PermitPoolKind::LookUps);
                    Err(NameRefused::Busy)
                }
            };
            // The entry is removed before the verdict is published, so that later requests look up
            // again.
            lock(&in_flight).remove(&key);
            publish.send_replace(Some(verdict));
        });
        pending
    }
}

fn lock<T>(look_ups: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    look_ups.lock().unwrap_or_else(PoisonError::into_inner)
}

fn verdict_of(addresses: Result<Vec<IpAddr>, NameRefused>, allowed: &[Cidr]) -> Verdict {
    let addresses = addresses?;
    if addresses.is_empty() {
        return Err(NameRefused::NoAddress);
    }
    let permitted = |address: &IpAddr| is_permitted(*address, Origin::Resolved, allowed);
    if !addresses.iter().all(permitted) {
        return Err(NameRefused::Address);
    }
    Ok(addresses.into())
}

/// Adapts the guard as the HTTP client's only resolver.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolve(pub(super) Arc<Guard>);

impl reqwest::dns::Resolve for GuardedResolve {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let guard = Arc::clone(&self.0);
        // A connection may be opened for an attempt that has already ended.
        let holder = CONNECTING_TENANT.try_with(|tenant| *tenant).ok();
        Box::pin(async move {
            let addresses = guard.addresses(holder, name.as_str()).await?;
            // The client replaces port 0 with the URL's port.
            let addresses: Vec<_> = addresses
                .iter()
                .map(|&address| SocketAddr::new(address, 0))
                .collect();
            let addresses: reqwest::dns::Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Scripted {
        answers: Vec<&'static [&'static str]>,
        asked: AtomicUsize,
    }

    #[async_trait]
    impl Resolver for Scripted {
        async fn look_up(&self, _: Holder, _name: &str) -> Result<Vec<IpAddr>, NameRefused> {
            let asked = self.asked.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let answer = self.answers.get(asked).ok_or(NameRefused::NoSuchName)?;
            Ok(answer.iter().map(|text| text.parse().unwrap()).collect())
        }
    }

    fn guard(answers: Vec<&'static [&'static str]>) -> Guard {
        let asked = AtomicUsize::new(0);
        let allowed = Arc::new(["127.0.0.0/8".parse().unwrap()]);
        Guard::new(Arc::new(Scripted { answers, asked }), allowed)
    }

    #[tokio::test]
    async fn one_refused_address_refuses_the_whole_name() {
        let guard = guard(vec![
            &["1.1.1.1", "127.0.0.1"],
            &["1.1.1.1", "10.0.0.1"],
            &["::ffff:1.1.1.1"],
            &[],
        ]);
        assert_eq!(guard.addresses(None, "a.example").await.unwrap().len(), 2);
        assert_eq!(
            guard.addresses(None, "a.example").await,
            Err(NameRefused::Address)
        );
        assert_eq!(
            guard.addresses(None, "a.example").await,
            Err(NameRefused::Address)
        );
        assert_eq!(
            guard.addresses(None, "a.example").await,
            Err(NameRefused::NoAddress)
        );
        assert_eq!(
            guard.addresses(None, "a.example").await,
            Err(NameRefused::NoSuchName)
        );
    }

    #[tokio::test]
    async fn concurrent_requests_share_a_lookup() {
        let guard = guard(vec![&["1.1.1.1"], &["10.0.0.1"]]);
        let (one, two) = tokio::join!(
            guard.addresses(None, "a.example"),
            guard.addresses(None, "a.example")
        );
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(
            guard.addresses(None, "a.example").await,
            Err(NameRefused::Address)
        );
    }

    #[tokio::test]
    async fn verdicts_are_neither_reused_nor_stored() {
        let guard = guard(vec![&["1.1.1.1"], &["1.1.1.1"], &["10.0.0.1"]]);
        for _ in 0..2 {
            assert!(guard.addresses(None, "a.example").await.is_ok());
        }
        assert_eq!(
            guard.addresses(None, "a.example").await,
            Err(NameRefused::Address),
            "a name that was changed counts at the next attempt"
        );
        assert!(lock(&guard.look_ups).is_empty());
    }
}
