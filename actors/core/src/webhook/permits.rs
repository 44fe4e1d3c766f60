//! Shares a fixed number of permits fairly among tenants.
//!
//! A permit cannot be revoked, so fairness must come from the permits left free. The permits are
//! divided into equal bands. The first permit of each tenant may use any band; permits beyond a
//! tenant's first, fourth, sixteenth and sixty-fourth may each use one band fewer. As the node
//! fills, the share of a tenant that holds many permits therefore shrinks step by step, while a
//! tenant that holds few still finds one: see [`FairPermits::tenants_needed_to_refuse`].

use std::collections::BTreeMap;

/// The numbers of permits above which a tenant may use one band fewer.
const STEPS: [usize; 4] = [1, 4, 16, 64];

/// Permits shared by tenants of type `K`.
#[derive(Debug, Clone)]
pub struct FairPermits<K> {
    capacity: usize,
    /// The maximum number of permits of a tenant.
    tenant_max: usize,
    held: BTreeMap<K, usize>,
    in_use: usize,
    /// The permits that all tenants hold beyond each of [`STEPS`].
    beyond: [usize; STEPS.len()],
}

impl<K: Ord + Copy> FairPermits<K> {
    /// Creates `capacity` permits, of which one tenant may hold at most `tenant_max`.
    #[must_use]
    pub fn new(capacity: usize, tenant_max: usize) -> Self {
        Self {
            capacity,
            tenant_max,
            held: BTreeMap::new(),
            in_use: 0,
            beyond: [0; STEPS.len()],
        }
    }

    /// Takes a permit for a tenant. Returns `false` if the tenant has used up its share.
    #[must_use]
    pub fn try_acquire(&mut self, tenant: K) -> bool {
        let held = self.held(tenant);
        if !self.may_acquire(held) {
            return false;
        }
        self.held.insert(tenant, held + 1);
        self.in_use += 1;
        for (step, beyond) in STEPS.into_iter().zip(&mut self.beyond) {
            *beyond += usize::from(held >= step);
        }
        true
    }

    /// Returns a permit of a tenant that holds one.
    pub fn release(&mut self, tenant: K) {
        let Some(held) = self.held.get_mut(&tenant) else {
            return;
        };
        *held -= 1;
        let left = *held;
        if left == 0 {
            self.held.remove(&tenant);
        }
        self.in_use -= 1;
        for (step, beyond) in STEPS.into_iter().zip(&mut self.beyond) {
            *beyond -= usize::from(left >= step);
        }
    }

    /// Returns whether a tenant that holds `held` permits may take another one.
    fn may_acquire(&self, held: usize) -> bool {
        let room = STEPS.into_iter().zip(self.beyond).enumerate();
        self.in_use < self.capacity
            && held < self.tenant_max
            && room
                .filter(|(_, (step, _))| held >= *step)
                .all(|(index, (_, beyond))| beyond < self.capacity - self.band() * (index + 1))
    }

    fn band(&self) -> usize {
        self.capacity / (STEPS.len() + 1)
    }

    /// Returns the number of permits that a tenant holds.
    #[must_use]
    pub fn held(&self, tenant: K) -> usize {
        self.held.get(&tenant).copied().unwrap_or(0)
    }

    /// Returns the number of permits that all tenants hold.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Returns the number of tenants that hold a permit.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.held.len()
    }

    /// Returns the number of permits that the tenant with the most permits holds.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.held.values().copied().max().unwrap_or(0)
    }

    /// Returns the fewest tenants that must hold permits before a tenant that holds `held`, fewer
    /// than the maximum of one tenant, can be refused: one band divided by the permits of one
    /// tenant in it.
    #[must_use]
    pub fn tenants_needed_to_refuse(&self, held: usize) -> usize {
        let above = STEPS.into_iter().find(|&step| held < step);
        let below = STEPS.into_iter().rfind(|&step| held >= step).unwrap_or(0);
        let above = above.unwrap_or(self.tenant_max);
        (self.band() / above.saturating_sub(below).max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns changes: in each, a tenant takes a permit or returns one.
    fn changes() -> impl Strategy<Value = Vec<(u8, bool)>> {
        proptest::collection::vec((0..40_u8, proptest::bool::weighted(0.8)), 0..600)
    }

    proptest! {
        /// Tenants that hold few permits are refused only if many tenants hold permits.
        #[test]
        fn a_tenant_below_its_share_always_finds_a_permit(
            capacity in 5..300_usize,
            tenant_max in 1..100_usize,
            changes in changes(),
        ) {
            let mut permits = FairPermits::new(capacity, tenant_max);
            let mut model: BTreeMap<u8, usize> = BTreeMap::new();
            for (tenant, takes) in changes {
                let held = model.get(&tenant).copied().unwrap_or(0);
                if !takes {
                    permits.release(tenant);
                    if held > 1 {
                        model.insert(tenant, held - 1);
                    } else {
                        model.remove(&tenant);
                    }
                } else if permits.try_acquire(tenant) {
                    model.insert(tenant, held + 1);
                } else {
                    let enough = permits.tenants_needed_to_refuse(held);
                    prop_assert!(held >= tenant_max || permits.tenants() >= enough,
                        "{held} held, {} tenants, {enough} needed", permits.tenants());
                }
                prop_assert_eq!(permits.in_use(), model.values().sum::<usize>());
                prop_assert!(permits.in_use() <= capacity);
                prop_assert!(permits.largest() <= tenant_max);
                prop_assert_eq!(permits.tenants(), model.len());
            }
            for (tenant, held) in model {
                prop_assert_eq!(permits.held(tenant), held);
                (0..held).for_each(|_| permits.release(tenant));
            }
            prop_assert_eq!((permits.in_use(), permits.beyond), (0, [0; STEPS.len()]));
        }

        /// However greedy the others are, a tenant without permits finds one, then three more.
        #[test]
        fn greedy_tenants_leave_room_for_a_new_one(greedy in 1..16_usize) {
            let mut permits = FairPermits::new(4_096, 288);
            for tenant in 0..greedy {
                while permits.try_acquire(tenant) {}
                prop_assert!(permits.held(tenant) >= 64);
            }
            for _ in 0..64 {
                prop_assert!(permits.try_acquire(greedy));
            }
        }
    }

    #[test]
    fn one_tenant_alone_gets_its_maximum() {
        let mut permits = FairPermits::new(4_096, 288);
        while permits.try_acquire(1) {}
        assert_eq!((permits.held(1), permits.largest()), (288, 288));
        permits.release(2);
        assert_eq!(permits.in_use(), 288, "tenant 2 had none");
    }
}
