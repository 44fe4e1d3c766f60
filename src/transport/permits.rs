//! Distributes the permits of [`FairPermits`] to waiting tasks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Gauge;
use porchlight_core::webhook::permits::FairPermits;
use porchlight_schema::session::Tenant;
use tokio::sync::oneshot;

/// The holder of a permit. `None` represents work of this process that belongs to no tenant.
pub type Holder = Option<Tenant>;

/// Permits shared fairly among tenants. A task that finds no permit waits, and the tenants with
/// waiting tasks take turns. Clones share the same permits.
#[derive(Clone)]
pub(super) struct PermitPool {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    in_use: Gauge,
}

struct State {
    permits: FairPermits<Holder>,
    /// The waiting tasks of each tenant, in order of arrival.
    waiting: BTreeMap<Holder, VecDeque<oneshot::Sender<Permit>>>,
    /// The tenant that was served last.
    served_last: Holder,
}

/// A permit, which is returned to the pool when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    /// `None` once the permit has been returned.
    inner: Option<Arc<Inner>>,
    holder: Holder,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PermitPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PermitPool").finish_non_exhaustive()
    }
}

impl PermitPool {
    /// Creates `capacity` permits, of which one tenant may hold at most `tenant_max`. The number in
    /// use is shown by `in_use`.
    pub(super) fn new(capacity: usize, tenant_max: usize, in_use: Gauge) -> Self {
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(State {
                    permits: FairPermits::new(capacity, tenant_max),
                    waiting: BTreeMap::new(),
                    served_last: None,
                }),
                in_use,
            }),
        }
    }

    /// Takes a permit, if the tenant's share allows it now and no task of the tenant waits.
    pub(super) fn try_acquire(&self, holder: Holder) -> Option<Permit> {
        let mut state = self.inner.lock();
        let is_first = !state.waiting.contains_key(&holder);
        (is_first && state.permits.try_acquire(holder)).then(|| {
            self.inner.in_use.set(state.permits.in_use() as f64);
            Permit {
                inner: Some(Arc::clone(&self.inner)),
                holder,
            }
        })
    }

    /// Takes a permit, waiting for at most `within`. Returns `None` if no permit became available
    /// in time.
    pub(super) async fn acquire(&self, holder: Holder, within: Duration) -> Option<Permit> {
        if let Some(permit) = self.try_acquire(holder) {
            return Some(permit);
        }
        let (give, given) = oneshot::channel();
        {
            let mut state = self.inner.lock();
            state.waiting.entry(holder).or_default().push_back(give);
            // A permit may have been returned since the attempt above.
            self.inner.serve(&mut state);
        }
        tokio::time::timeout(within, given).await.ok()?.ok()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives free permits to waiting tasks: one task of each tenant in turn, beginning after the
    /// tenant that was served last.
    fn serve(self: &Arc<Self>, state: &mut State) {
        let behind = state.waiting.keys().copied();
        let behind: Vec<_> = behind.collect();
        let split = behind.partition_point(|holder| *holder <= state.served_last);
        let mut turn: VecDeque<_> = behind[split..].iter().chain(&behind[..split]).collect();
        while let Some(&holder) = turn.pop_front() {
            let Some(queue) = state.waiting.get_mut(&holder) else {
                continue;
            };
            // Tasks that have stopped waiting are skipped.
            while queue.front().is_some_and(oneshot::Sender::is_closed) {
                queue.pop_front();
            }
            if queue.is_empty() {
                state.waiting.remove(&holder);
                continue;
            }
            if !state.permits.try_acquire(holder) {
                continue;
            }
            state.served_last = holder;
            if let Some(give) = queue.pop_front() {
                let permit = Permit {
                    inner: Some(Arc::clone(self)),
                    holder,
                };
                if let Err(mut refused) = give.send(permit) {
                    // The task has just stopped waiting. Its permit must not lock the state again.
                    refused.inner = None;
                    state.permits.release(holder);
                }
            }
        }
        state.waiting.retain(|_, queue| !queue.is_empty());
        self.in_use.set(state.permits.in_use() as f64);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            let mut state = inner.lock();
            state.permits.release(self.holder);
            inner.serve(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    fn tenant(number: u128) -> Holder {
        Some(Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), number),
            env: Env::Sandbox,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_tasks_of_each_tenant_take_turns() {
        let pool = PermitPool::new(10, 2, Gauge::noop());
        let held = [tenant(1), tenant(1), tenant(2), tenant(2)];
        let mut held: Vec<_> = held.map(|holder| pool.try_acquire(holder)).into();
        assert!(held.iter().all(Option::is_some));
        assert!(
            pool.try_acquire(tenant(1)).is_none(),
            "its share is used up"
        );
        let second = Duration::from_secs(1);
        assert!(pool.acquire(tenant(1), second).await.is_none());
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.acquire(tenant(1), second).await.is_some() }
        });
        tokio::task::yield_now().await;
        // A permit of another tenant does not help, but a permit of the tenant itself does.
        drop(held.pop());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(held.remove(0));
        assert!(waiting.await.unwrap());
        drop(held);
        assert_eq!(pool.inner.lock().permits.in_use(), 0);
        assert!(pool.inner.lock().waiting.is_empty());
    }
}
