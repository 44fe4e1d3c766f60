//! Turns for costly work, such as drawing an image: few pieces run on a node at the same time, one
//! of each organization, and the organizations take turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use porchlight_core::backoff::Backoff;
use porchlight_core::tenant_queue::TenantQueue;
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::session::{Env, Tenant};
use tokio::sync::oneshot;

/// The pause of a piece that failed. Callers repeat a piece by taking another turn, so it is not
/// used.
const UNUSED_PAUSE: Backoff = Backoff::new(1, 1);

/// The error of an organization that has the maximum number of pieces of work waiting or running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much work of the organization waits for its turn")]
pub struct TooManyWaiting;

/// The turns of one kind of work. Clones share the same turns.
#[derive(Clone)]
pub struct Turns {
    waiting: Arc<Mutex<Waiting>>,
    organization_max: usize,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

/// A caller that waits for its turn.
type Caller = oneshot::Sender<Turn>;

struct Waiting {
    queue: TenantQueue<u64, Option<Caller>>,
    /// The number of the next piece.
    next: u64,
}

/// The permission to do one piece of work, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    number: u64,
}

impl Turns {
    /// Lets a node do `at_once_max` pieces at the same time, one of each organization. Of one
    /// organization, `organization_max` pieces may wait or run.
    #[must_use]
    pub fn new(at_once_max: usize, organization_max: usize) -> Self {
        let waiting = Waiting {
            queue: TenantQueue::new(at_once_max, 1, UNUSED_PAUSE),
            next: 0,
        };
        Self {
            waiting: Arc::new(Mutex::new(waiting)),
            organization_max,
        }
    }

    /// Waits for the organization's turn.
    ///
    /// # Errors
    ///
    /// Returns an error immediately if too much work of the organization waits.
    pub async fn take(&self, organization_id: OrganizationId) -> Result<Turn, TooManyWaiting> {
        self.request(organization_id)?
            .await
            .map_err(|_| TooManyWaiting)
    }

    fn request(
        &self,
        organization_id: OrganizationId,
    ) -> Result<oneshot::Receiver<Turn>, TooManyWaiting> {
        // The environments of an organization share its turns.
        let organization = Some(Tenant {
            organization_id,
            env: Env::Production,
        });
        let (caller, turn) = oneshot::channel();
        {
            let mut waiting = self.lock();
            if waiting.queue.len_of(organization) >= self.organization_max {
                return Err(TooManyWaiting);
            }
            let number = waiting.next;
            waiting.next += 1;
            waiting.queue.request(number, organization, Some(caller));
        }
        self.advance();
        Ok(turn)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives turns to the callers that are next.
    fn advance(&self) {
        while let Some((number, caller)) = self.next_caller() {
            let turns = self.clone();
            // A caller that has just left drops its turn.
            drop(caller.send(Turn { turns, number }));
        }
    }

    /// Begins the next piece whose caller still waits.
    fn next_caller(&self) -> Option<(u64, Caller)> {
        let mut waiting = self.lock();
        loop {
            let begun = waiting.queue.begin()?;
            match begun.attached.filter(|caller| !caller.is_closed()) {
                Some(caller) => return Some((begun.key, caller)),
                None => waiting.queue.complete(begun.key, None),
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().queue.complete(self.number, None);
        self.turns.advance();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn organization(number: u8) -> OrganizationId {
        OrganizationId::from_bytes([number; 16])
    }

    #[tokio::test]
    async fn an_organization_that_floods_a_node_delays_another_by_one_piece() {
        let turns = Turns::new(1, 10);
        let first = turns.take(organization(1)).await.unwrap();
        let mut flood: Vec<_> = (0..9)
            .map(|_| Box::pin(turns.take(organization(1))))
            .collect();
        assert!(flood.iter_mut().all(|one| one.now_or_never().is_none()));
        let refused = turns.take(organization(1)).now_or_never().unwrap();
        assert_eq!(refused.unwrap_err(), TooManyWaiting);
        let mut other = Box::pin(turns.take(organization(2)));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        let second = flood[0].as_mut().now_or_never().unwrap().unwrap();
        assert!(other.as_mut().now_or_never().is_none());
        drop(second);
        let of_other = other.as_mut().now_or_never().unwrap().unwrap();
        assert!(flood[1].as_mut().now_or_never().is_none());
        drop(of_other);
        assert!(flood[1].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_organization_uses_one_of_the_turns_of_a_node() {
        let turns = Turns::new(2, 10);
        let _first = turns.take(organization(1)).await.unwrap();
        assert!(turns.take(organization(1)).now_or_never().is_none());
        let _of_other = turns.take(organization(2)).await.unwrap();
    }

    #[tokio::test]
    async fn a_caller_that_leaves_gives_up_its_turn() {
        let turns = Turns::new(1, 10);
        let first = turns.take(organization(1)).await.unwrap();
        let mut left = Box::pin(turns.take(organization(2)));
        assert!(left.as_mut().now_or_never().is_none());
        let mut has_turn = Box::pin(turns.take(organization(3)));
        assert!(has_turn.as_mut().now_or_never().is_none());
        drop(left);
        drop(first);
        // The turn of the organization 3 has been given, and is not taken.
        drop(has_turn);
        let fourth = turns.take(organization(4)).now_or_never();
        assert!(fourth.is_some_and(|turn| turn.is_ok()));
        assert!(turns.lock().queue.is_empty());
    }
}
