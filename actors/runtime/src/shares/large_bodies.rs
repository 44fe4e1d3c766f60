//! Permits for work on large bodies.
//!
//! Unpacking and decoding a large body takes milliseconds of processor time. A tenant works on one
//! of them at a time and the node on few, so they delay other requests little. A tenant that sends
//! many together completes one after the other instead of unpacking a part of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use porchlight_observe::shares::Share;
use porchlight_schema::limits::{
    LARGE_BODY_PERMIT_MS_MAX, LARGE_BODY_PROCESSORS, NODE_LARGE_BODIES_AT_ONCE_MIN,
    RETRY_AFTER_SEC, TENANT_LARGE_BODIES_AT_ONCE_MAX,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ShareExceeded, exceeded};

/// The permits of one tenant and of the node.
#[derive(Debug)]
pub(super) struct LargeBodies {
    tenant: Arc<Semaphore>,
    node: Arc<Semaphore>,
    /// The number of the tenant's bodies that are being worked on.
    in_work: Arc<AtomicUsize>,
}

/// A permit to work on one large body, which is returned when dropped.
#[derive(Debug)]
pub struct LargeBodyPermit {
    in_work: Arc<AtomicUsize>,
    _tenant: OwnedSemaphorePermit,
    _node: OwnedSemaphorePermit,
}

/// The reason why a large body got no permit within [`LARGE_BODY_PERMIT_MS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LargeBodyRefused {
    /// The node works on another large body of the tenant: it has too many bytes in flight.
    Tenant(ShareExceeded),
    /// The node works on the large bodies of other tenants only.
    Node,
}

/// Returns the number of large bodies that the node works on at the same time.
#[must_use]
pub fn large_bodies_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / LARGE_BODY_PROCESSORS).max(NODE_LARGE_BODIES_AT_ONCE_MIN)
}

/// Returns the permits of a node.
pub(super) fn of_node() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(large_bodies_at_once()))
}

impl LargeBodies {
    pub(super) fn new(node: Arc<Semaphore>) -> Self {
        Self {
            tenant: Arc::new(Semaphore::new(TENANT_LARGE_BODIES_AT_ONCE_MAX)),
            node,
            in_work: Arc::default(),
        }
    }

    /// Waits for a permit. The bodies of a tenant get permits in their order, and tenants take
    /// turns: each tenant waits for a permit of the node with one body only.
    ///
    /// # Errors
    ///
    /// Returns an error if no permit was free in time; see [`LargeBodyRefused`].
    pub(super) async fn acquire(&self) -> Result<LargeBodyPermit, LargeBodyRefused> {
        let (tenant, node) = (Arc::clone(&self.tenant), Arc::clone(&self.node));
        let permit = async {
            let tenant = tenant.acquire_owned().await.ok()?;
            let node = node.acquire_owned().await.ok()?;
            self.in_work.fetch_add(1, Ordering::Relaxed);
            Some(LargeBodyPermit {
                in_work: Arc::clone(&self.in_work),
                _tenant: tenant,
                _node: node,
            })
        };
        let timeout = Duration::from_millis(LARGE_BODY_PERMIT_MS_MAX);
        let permit = tokio::time::timeout(timeout, permit).await.ok().flatten();
        permit.ok_or_else(|| self.refuse())
    }

    /// Returns the reason why a body got no permit in time. Another body of its tenant is the
    /// reason only while the node works on it, and not while it waits for a permit of the node.
    fn refuse(&self) -> LargeBodyRefused {
        if self.in_work.load(Ordering::Relaxed) > 0 {
            LargeBodyRefused::Tenant(exceeded(Share::InFlightBytes, RETRY_AFTER_SEC))
        } else {
            LargeBodyRefused::Node
        }
    }
}

impl Drop for LargeBodyPermit {
    fn drop(&mut self) {
        self.in_work.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tenant_with_many_large_bodies_leaves_the_next_permit_to_another() {
        let node = Arc::new(Semaphore::new(1));
        let (one, other) = (LargeBodies::new(Arc::clone(&node)), LargeBodies::new(node));
        let first = one.acquire().await.unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        let wait = async |of: &LargeBodies, name| {
            let permit = of.acquire().await.unwrap();
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
            drop(permit);
        };
        let release = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(first);
        };
        tokio::join!(
            wait(&one, "second of one"),
            wait(&one, "third of one"),
            wait(&other, "first of the other"),
            release,
        );
        let order = order.into_inner().unwrap();
        assert_eq!(order[0], "first of the other");
        assert_eq!(order[1..], ["second of one", "third of one"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_behind_another_of_its_tenant_is_refused_as_too_many_of_the_tenant() {
        let one = LargeBodies::new(Arc::new(Semaphore::new(1)));
        let held = one.acquire().await.unwrap();
        let refused = one.acquire().await.unwrap_err();
        let LargeBodyRefused::Tenant(exceeded) = refused else {
            panic!("the tenant's own body is the reason");
        };
        assert_eq!(exceeded.share, Share::InFlightBytes);
        drop(held);
        assert!(one.acquire().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_wait_for_other_tenants_are_refused_because_of_the_node() {
        let node = Arc::new(Semaphore::new(1));
        let (one, other) = (LargeBodies::new(Arc::clone(&node)), LargeBodies::new(node));
        let held = one.acquire().await.unwrap();
        let (first, second) = tokio::join!(other.acquire(), other.acquire());
        assert_eq!(first.unwrap_err(), LargeBodyRefused::Node);
        assert_eq!(second.unwrap_err(), LargeBodyRefused::Node);
        drop(held);
        assert!(other.acquire().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn one_tenant_cannot_occupy_all_permits_of_a_node() {
        let node = of_node();
        let (one, other) = (LargeBodies::new(Arc::clone(&node)), LargeBodies::new(node));
        let _held = one.acquire().await.unwrap();
        let start = tokio::time::Instant::now();
        assert!(other.acquire().await.is_ok());
        assert!(start.elapsed().is_zero());
    }
}
