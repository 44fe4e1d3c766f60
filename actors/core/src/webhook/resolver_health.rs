//! Decides whether a DNS lookup failed because of the name or because of the node's resolver.
//!
//! A lookup without an answer looks the same in both cases: the name servers of a customer's domain
//! may be silent, or the node's resolver may be. Two observations distinguish them. A *canary*, a
//! question that each resolver can answer without the customer's name servers, shows whether the
//! node's resolver answers. If names of several tenants fail that resolved recently, while no
//! lookup succeeds, the node's resolver cannot reach any name servers. Names that have been dead
//! for a long time do not count: any number of them may be attempted while nothing else is looked
//! up.

use std::collections::BTreeMap;

/// The number of tenants whose lookups must fail, without a success of any tenant, to show that the
/// node's resolver is unavailable.
const TENANTS_FAILING_MIN: usize = 3;
/// A failure counts for this long, in milliseconds.
const FAILURE_COUNTS_MS: u64 = 60_000;
/// The maximum number of tenants whose failures are remembered.
const TENANTS_REMEMBERED_MAX: usize = 64;

/// The outcome of the canary lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// The node's resolver answered the canary.
    Answered,
    /// The node's resolver answered with an error, or did not answer.
    Failed,
}

/// The party at fault for a lookup that failed without a definite answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtFault {
    /// The name servers of the name's domain do not answer.
    Name,
    /// The node's resolver is unavailable.
    Resolver,
}

/// The recent history of lookups of tenants of type `K`. Times are milliseconds of a monotonic
/// clock.
#[derive(Debug, Clone)]
pub struct ResolverHealth<K> {
    answered_at_ms: Option<u64>,
    /// The last failure of each tenant, of a name that resolved recently, since the last definite
    /// answer.
    failed_at_ms: BTreeMap<K, u64>,
    is_away: bool,
}

impl<K: Ord + Copy> Default for ResolverHealth<K> {
    fn default() -> Self {
        Self {
            answered_at_ms: None,
            failed_at_ms: BTreeMap::new(),
            is_away: false,
        }
    }
}

impl<K: Ord + Copy> ResolverHealth<K> {
    /// Returns whether the node's resolver is unavailable, according to the last lookup.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Records a definite answer: addresses, or that there are no addresses. Returns whether the
    /// node's resolver has recovered.
    pub fn on_answer(&mut self, now_ms: u64) -> bool {
        self.answered_at_ms = Some(now_ms);
        self.failed_at_ms.clear();
        std::mem::take(&mut self.is_away)
    }

    /// Returns whether any lookup has received a definite answer since `begun_at_ms`. If so, a
    /// failure needs no canary.
    #[must_use]
    pub fn has_answered_since(&self, begun_at_ms: u64) -> bool {
        self.answered_at_ms.is_some_and(|at| at >= begun_at_ms)
    }

    /// Decides the party at fault for a lookup that began at `begun_at_ms` and failed now
    /// without a definite answer. `resolved_recently` says whether the name had an address not long
    /// ago. `canary` was queried after the failure; it is not needed if
    /// [`Self::has_answered_since`].
    pub fn on_failure(
        &mut self,
        tenant: K,
        resolved_recently: bool,
        begun_at_ms: u64,
        now_ms: u64,
        canary: Option<Canary>,
    ) -> AtFault {
        if self.has_answered_since(begun_at_ms) {
            return AtFault::Name;
        }
        self.failed_at_ms
            .retain(|_, at| now_ms.saturating_sub(*at) < FAILURE_COUNTS_MS);
        let has_room = self.failed_at_ms.len() < TENANTS_REMEMBERED_MAX;
        if resolved_recently && (has_room || self.failed_at_ms.contains_key(&tenant)) {
            self.failed_at_ms.insert(tenant, now_ms);
        }
        let all_fail = self.failed_at_ms.len() >= TENANTS_FAILING_MIN;
        self.is_away = all_fail || canary != Some(Canary::Answered);
        if self.is_away {
            AtFault::Resolver
        } else {
            AtFault::Name
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_canary_decides_while_few_tenants_fail() {
        let mut health = ResolverHealth::default();
        let failed = Some(Canary::Failed);
        assert_eq!(
            health.on_failure(1, true, 0, 3_000, failed),
            AtFault::Resolver
        );
        assert!(health.is_away());
        let answered = Some(Canary::Answered);
        assert_eq!(
            health.on_failure(1, true, 3_000, 6_000, answered),
            AtFault::Name
        );
        assert!(!health.is_away());
        assert_eq!(
            health.on_failure(1, true, 6_000, 9_000, None),
            AtFault::Resolver
        );
        assert!(health.on_answer(9_001), "the resolver is back");
        assert!(
            !health.on_answer(9_002),
            "the resolver was available before"
        );
    }

    #[test]
    fn failures_of_several_tenants_without_a_success_are_the_resolvers() {
        let mut health = ResolverHealth::default();
        let answered = Some(Canary::Answered);
        assert_eq!(
            health.on_failure(1, true, 0, 3_000, answered),
            AtFault::Name
        );
        assert_eq!(
            health.on_failure(2, true, 0, 3_100, answered),
            AtFault::Name
        );
        assert_eq!(
            health.on_failure(3, true, 0, 3_200, answered),
            AtFault::Resolver
        );
        health.on_answer(3_300);
        assert_eq!(health.on_failure(4, true, 0, 3_400, None), AtFault::Name);
        assert_eq!(
            health.on_failure(4, true, 3_400, 6_000, answered),
            AtFault::Name
        );
        // The failures are too far apart to belong to one outage.
        assert_eq!(
            health.on_failure(5, true, 60_000, 66_000, answered),
            AtFault::Name
        );
        assert_eq!(
            health.on_failure(6, true, 60_000, 66_001, answered),
            AtFault::Name
        );
    }

    #[test]
    fn names_that_are_dead_for_long_do_not_count_however_many_tenants_have_them() {
        let mut health = ResolverHealth::default();
        for tenant in 0..10 {
            let at_fault = health.on_failure(tenant, false, 0, 3_000, Some(Canary::Answered));
            assert_eq!(at_fault, AtFault::Name);
        }
        assert!(!health.is_away());
    }

    proptest! {
        /// One tenant alone never makes the node's resolver seem unavailable while the canary is
        /// answered.
        #[test]
        fn one_tenant_with_dead_names_is_at_fault(times in proptest::collection::vec(0..10_000_u64, 1..200)) {
            let mut health = ResolverHealth::default();
            let mut now_ms = 0;
            for step in times {
                now_ms += step;
                let at_fault = health.on_failure(1, true, now_ms, now_ms + 3_000, Some(Canary::Answered));
                prop_assert_eq!(at_fault, AtFault::Name);
            }
        }
    }
}
