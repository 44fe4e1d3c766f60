//! Resolves names to checked addresses. The HTTP client gets its addresses from here only.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use super::address::{Cidr, Origin, is_permitted};

/// A resolver of host names.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Looks up all addresses of a name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address, or if the lookup failed.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let addresses = tokio::net::lookup_host((name, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// Why a name cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameRefused {
    /// The name does not resolve.
    #[error("the name does not resolve")]
    Unresolved,
    /// The name resolves to an address that is not permitted, alone or among others.
    #[error("the name resolves to an address that is not permitted")]
    Address,
}

type Verdict = Result<Arc<[IpAddr]>, NameRefused>;

/// A receiver of the verdict of a lookup in flight.
type UnderWay = watch::Receiver<Option<Verdict>>;

/// Resolves and checks names. No verdict outlives its lookup: each attempt resolves and checks
/// again. Concurrent requests for one name share a lookup, so that a hanging lookup holds only one
/// thread.
pub struct Guard {
    resolver: Arc<dyn Resolver>,
    allowed: Arc<[Cidr]>,
    look_ups: Arc<Mutex<HashMap<String, UnderWay>>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// Creates a guard that permits public addresses and those in `allowed`.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>, allowed: Arc<[Cidr]>) -> Self {
        Self {
            resolver,
            allowed,
            look_ups: Arc::default(),
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
    /// Returns an error if there is no address, or if one of them is not permitted.
    pub async fn addresses(&self, name: &str) -> Verdict {
        let mut ended = self.look_up(name);
        let result = ended.wait_for(Option::is_some).await;
        match result.as_deref() {
            Ok(Some(verdict)) => verdict.clone(),
            // The lookup's task is gone because the runtime is ending.
            Ok(None) | Err(_) => Err(NameRefused::Unresolved),
        }
    }

    fn look_up(&self, name: &str) -> UnderWay {
        let mut look_ups = lock(&self.look_ups);
        if let Some(ended) = look_ups.get(name)
            && ended.has_changed().is_ok()
        {
            return ended.clone();
        }
        let (end, ended) = watch::channel(None);
        look_ups.insert(name.to_owned(), ended.clone());
        let (resolver, allowed) = (Arc::clone(&self.resolver), Arc::clone(&self.allowed));
        let (known, owned) = (Arc::clone(&self.look_ups), name.to_owned());
        tokio::spawn(async move {
            let verdict = judge(resolver.look_up(&owned).await, &allowed);
            // The entry is removed before the verdict is published, so that later requests look up
            // again.
            lock(&known).remove(&owned);
            end.send_replace(Some(verdict));
        });
        ended
    }
}

fn lock(
    look_ups: &Mutex<HashMap<String, UnderWay>>,
) -> std::sync::MutexGuard<'_, HashMap<String, UnderWay>> {
    look_ups.lock().unwrap_or_else(PoisonError::into_inner)
}

fn judge(addresses: io::Result<Vec<IpAddr>>, allowed: &[Cidr]) -> Verdict {
    let addresses = addresses.map_err(|_| NameRefused::Unresolved)?;
    if addresses.is_empty() {
        return Err(NameRefused::Unresolved);
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
        Box::pin(async move {
            let addresses = guard.addresses(name.as_str()).await?;
            // The client replaces port 0 by the URL's port.
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
        async fn look_up(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
            let asked = self.asked.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let answer = self.answers.get(asked).ok_or(io::ErrorKind::NotFound)?;
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
        assert_eq!(guard.addresses("a.example").await.unwrap().len(), 2);
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Address)
        );
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Address)
        );
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Unresolved)
        );
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Unresolved)
        );
    }

    #[tokio::test]
    async fn concurrent_requests_share_a_lookup() {
        let guard = guard(vec![&["1.1.1.1"], &["10.0.0.1"]]);
        let (one, two) = tokio::join!(guard.addresses("a.example"), guard.addresses("a.example"));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Address)
        );
    }

    #[tokio::test]
    async fn verdicts_are_neither_reused_nor_stored() {
        let guard = guard(vec![&["1.1.1.1"], &["1.1.1.1"], &["10.0.0.1"]]);
        for _ in 0..2 {
            assert!(guard.addresses("a.example").await.is_ok());
        }
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Address),
            "a name that was changed counts at the next attempt"
        );
        assert!(lock(&guard.look_ups).is_empty());
    }
}
