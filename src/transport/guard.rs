//! Names to addresses that were checked. Whoever dials gets its addresses from here and from nowhere else.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;

use super::address::{Cidr, Origin, is_permitted};

/// Names whose last answer is remembered; beyond, all that is no longer fresh is forgotten.
const NAMES_MAX: usize = 1_024;

/// Looks names up.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// All addresses of a name.
    ///
    /// # Errors
    ///
    /// When there is none, or when it can't be said.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// What the system's resolver says.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let addresses = tokio::net::lookup_host((name, 0)).await?;
        Ok(addresses.map(|address| address.ip()).collect())
    }
}

/// Why a name leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameRefused {
    /// It does not resolve.
    #[error("the name does not resolve")]
    Unresolved,
    /// It resolves to an address that is not permitted, alone or among others.
    #[error("the name resolves to an address that is not permitted")]
    Address,
}

type Verdict = Result<Arc<[IpAddr]>, NameRefused>;

struct LookUp {
    ended: watch::Receiver<Option<(Instant, Verdict)>>,
}

impl LookUp {
    fn is_usable(&self, fresh_for: Duration) -> bool {
        match &*self.ended.borrow() {
            Some((at, _)) => at.elapsed() < fresh_for,
            // Under way; or its task is gone, which only happens when all ends.
            None => self.ended.has_changed().is_ok(),
        }
    }
}

/// Resolves and checks. All attempts that ask for the same name at once share one look-up, so that a name whose
/// look-up hangs holds one thread and no more.
pub struct Guard {
    resolver: Arc<dyn Resolver>,
    allowed: Arc<[Cidr]>,
    fresh_for: Duration,
    look_ups: Mutex<HashMap<String, LookUp>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard that lets through what is public and what is `allowed`. A verdict counts for `fresh_for`: long enough
    /// to be shared by the attempts of a burst, too short to be of use to who changes a name between them.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>, allowed: Arc<[Cidr]>, fresh_for: Duration) -> Self {
        Self {
            resolver,
            allowed,
            fresh_for,
            look_ups: Mutex::default(),
        }
    }

    /// What is permitted beside the public addresses.
    #[must_use]
    pub fn allowed(&self) -> &[Cidr] {
        &self.allowed
    }

    /// The addresses of a name, every one of them permitted. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// When there is none, or when one of them is not permitted.
    pub async fn addresses(&self, name: &str) -> Verdict {
        let mut ended = self.look_up(name);
        let result = ended.wait_for(Option::is_some).await;
        match result.as_deref() {
            Ok(Some((_, verdict))) => verdict.clone(),
            // The task that looks up is gone: the runtime is ending.
            Ok(None) | Err(_) => Err(NameRefused::Unresolved),
        }
    }

    fn look_up(&self, name: &str) -> watch::Receiver<Option<(Instant, Verdict)>> {
        let mut look_ups = self.look_ups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(look_up) = look_ups.get(name)
            && look_up.is_usable(self.fresh_for)
        {
            return look_up.ended.clone();
        }
        if look_ups.len() >= NAMES_MAX {
            look_ups.retain(|_, look_up| look_up.is_usable(self.fresh_for));
        }
        let (end, ended) = watch::channel(None);
        let (resolver, allowed) = (Arc::clone(&self.resolver), Arc::clone(&self.allowed));
        let owned = name.to_owned();
        tokio::spawn(async move {
            let verdict = judge(resolver.look_up(&owned).await, &allowed);
            end.send_replace(Some((Instant::now(), verdict)));
        });
        let look_up = LookUp {
            ended: ended.clone(),
        };
        look_ups.insert(name.to_owned(), look_up);
        ended
    }
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

/// The guard as the HTTP client's resolver: it has no other.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolve(pub(super) Arc<Guard>);

impl reqwest::dns::Resolve for GuardedResolve {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = guard.addresses(name.as_str()).await?;
            // The client puts the URL's port in place of 0.
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

    fn guard(answers: Vec<&'static [&'static str]>, fresh_for: Duration) -> Guard {
        let asked = AtomicUsize::new(0);
        let allowed = Arc::new(["127.0.0.0/8".parse().unwrap()]);
        Guard::new(Arc::new(Scripted { answers, asked }), allowed, fresh_for)
    }

    #[tokio::test]
    async fn one_address_that_is_refused_refuses_the_name() {
        let guard = guard(
            vec![
                &["1.1.1.1", "127.0.0.1"],
                &["1.1.1.1", "10.0.0.1"],
                &["::ffff:1.1.1.1"],
                &[],
            ],
            Duration::ZERO,
        );
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
    async fn those_who_ask_at_once_share_a_look_up() {
        let guard = guard(vec![&["1.1.1.1"], &["10.0.0.1"]], Duration::ZERO);
        let (one, two) = tokio::join!(guard.addresses("a.example"), guard.addresses("a.example"));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(
            guard.addresses("a.example").await,
            Err(NameRefused::Address)
        );
    }

    #[tokio::test]
    async fn a_verdict_is_used_again_while_it_is_fresh() {
        let guard = guard(vec![&["1.1.1.1"]], Duration::from_secs(3600));
        for _ in 0..3 {
            assert!(guard.addresses("a.example").await.is_ok());
        }
        assert!(guard.addresses("b.example").await.is_err());
    }
}
