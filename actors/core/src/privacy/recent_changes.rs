//! Determines the tenants whose marks a node reads again after marks have changed.
//!
//! Each change has a number from one count of all nodes, and a place in a list of the latest
//! changes. Nodes of earlier releases only count, so a number that the list does not contain may be
//! a change of any tenant.

use std::collections::{BTreeSet, VecDeque};

use porchlight_schema::limits::PRIVACY_CHANGES_KEPT;
use porchlight_schema::session::Tenant;

/// A change of a tenant's marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The number of the change. Two changes have the same number if the outcome of a count was
    /// unknown.
    pub number: u64,
    /// The tenant of the changed mark.
    pub tenant: Tenant,
}

/// The latest changes of marks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentChanges {
    /// The number of changes that were ever listed.
    pub listed: u64,
    /// The changes that were listed last, oldest first.
    pub latest: VecDeque<Change>,
}

/// The changes that a node has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The number of counted changes.
    pub counted: u64,
    /// The number of listed changes.
    pub listed: u64,
}

impl RecentChanges {
    /// Lists a change.
    pub fn add(&mut self, change: Change) {
        self.listed = self.listed.wrapping_add(1);
        self.latest.push_back(change);
        while self.latest.len() > PRIVACY_CHANGES_KEPT {
            self.latest.pop_front();
        }
    }

    /// Returns the tenants whose marks have changed since `seen`, where `counted` changes were
    /// counted before this list was read. Returns `None` if others may have changed, too.
    #[must_use]
    pub fn since(&self, seen: Seen, counted: u64) -> Option<BTreeSet<Tenant>> {
        let half = PRIVACY_CHANGES_KEPT as u64 / 2;
        let more = counted.checked_sub(seen.counted).filter(|&n| n <= half)?;
        let new = self.listed.checked_sub(seen.listed)?;
        let new = usize::try_from(new)
            .ok()
            .filter(|&n| n <= self.latest.len())?;
        let numbers = self.latest.iter().map(|change| change.number);
        let is_new = |number: &u64| *number > seen.counted && *number <= counted;
        let known: BTreeSet<u64> = numbers.filter(is_new).collect();
        if (known.len() as u64) < more {
            return None;
        }
        let old = self.latest.len() - new;
        let latest = self.latest.iter().enumerate();
        // The numbers also identify the changes of a list that has started again.
        let new = latest.filter(|(place, change)| *place >= old || change.number > seen.counted);
        Some(new.map(|(_, change)| change.tenant).collect())
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::Env;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    fn tenant(number: u128) -> Tenant {
        Tenant {
            organization_id: OrganizationId::new(TimestampMs(1), number),
            env: Env::Production,
        }
    }

    fn changes(numbers_and_tenants: &[(u64, u128)]) -> RecentChanges {
        let mut changes = RecentChanges::default();
        for &(number, of) in numbers_and_tenants {
            changes.add(Change {
                number,
                tenant: tenant(of),
            });
        }
        changes
    }

    fn seen(counted: u64, listed: u64) -> Seen {
        Seen { counted, listed }
    }

    fn tenants(numbers: &[u128]) -> Option<BTreeSet<Tenant>> {
        Some(numbers.iter().map(|&number| tenant(number)).collect())
    }

    #[test]
    fn the_tenants_of_new_changes_are_read_again() {
        let changes = changes(&[(1, 1), (3, 3), (2, 2)]);
        assert_eq!(changes.since(seen(3, 3), 3), tenants(&[]));
        assert_eq!(changes.since(seen(1, 1), 3), tenants(&[2, 3]));
        assert_eq!(changes.since(seen(0, 0), 3), tenants(&[1, 2, 3]));
        // The last one was counted after the count was read.
        assert_eq!(changes.since(seen(1, 1), 2), tenants(&[2, 3]));
    }

    #[test]
    fn a_change_that_is_not_listed_may_be_of_any_tenant() {
        // A node of an earlier release made the second change, or the third one is not listed yet.
        let changes = changes(&[(1, 1), (3, 3)]);
        assert_eq!(changes.since(seen(1, 1), 3), None);
        assert_eq!(changes.since(seen(3, 2), 4), None);
        assert_eq!(changes.since(seen(2, 1), 3), tenants(&[3]));
    }

    #[test]
    fn two_changes_with_one_number_are_both_read() {
        let mut changes = changes(&[(1, 1)]);
        assert_eq!(changes.since(seen(0, 0), 1), tenants(&[1]));
        changes.add(Change {
            number: 1,
            tenant: tenant(2),
        });
        assert_eq!(changes.since(seen(1, 1), 1), tenants(&[2]));
    }

    #[test]
    fn a_list_that_was_begun_anew_lacks_no_change() {
        let anew = changes(&[(4, 4), (5, 5)]);
        assert_eq!(anew.since(seen(3, 2), 5), tenants(&[4, 5]));
        assert_eq!(anew.since(seen(2, 2), 5), None);
    }

    #[test]
    fn a_node_that_missed_many_changes_reads_everything() {
        let all: Vec<(u64, u128)> = (1..=500).map(|number| (number, 1)).collect();
        let changes = changes(&all);
        assert_eq!(changes.latest.len(), PRIVACY_CHANGES_KEPT);
        assert_eq!(changes.since(seen(450, 450), 500), tenants(&[1]));
        assert_eq!(changes.since(seen(400, 400), 500), None);
        assert_eq!(changes.since(seen(499, 100), 500), None);
        // The store was replaced by an older copy.
        assert_eq!(changes.since(seen(501, 500), 500), None);
        assert_eq!(changes.since(seen(500, 501), 500), None);
    }
}
