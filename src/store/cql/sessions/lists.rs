//! Lists of a tenant's sessions, newest first: all by hour, by delivery, by courier.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{Page, SessionFilter, SessionRow, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::LIST_SCANNED_ROWS_MAX;
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::{HOUR_MS, TimestampMs};

use super::session_list::List;
use crate::cql::Inner;
use crate::cql::layout::bounded::{OWN_READ_MAX, cut_full_read};
use crate::cql::layout::slots::{AT_ONCE, Direction, SlotOwner, slot_of};
use crate::cql::statements::write_group::WriteGroup;
use crate::damage::readable;

mod partition;

use partition::Partition;

/// A position in a list; smaller positions are newer.
pub(super) type Position = (TimestampMs, SessionId);

/// Partitions of a list that are read together.
struct PartitionGroup {
    partitions: Vec<Partition>,
    /// Older rows belong to later groups.
    from: TimestampMs,
}

impl Inner {
    /// Adds a session to the lists.
    pub(in crate::cql) async fn list_session(&self, start: &SessionStart) -> StoreResult<()> {
        let mut group = WriteGroup::default();
        self.add_to_lists(&mut group, start).await?;
        self.db.write_group(group).await
    }

    /// Adds a session's rows in the lists to the rows to write.
    pub(super) async fn add_to_lists<'s>(
        &'s self,
        group: &mut WriteGroup<'s>,
        start: &SessionStart,
    ) -> StoreResult<()> {
        let (tenant, at) = (start.tenant, start.created_at);
        let hour = slot_of(at, HOUR_MS);
        self.list_slots(&[(SlotOwner::Sessions(tenant), hour)])
            .await?;
        let mut partitions = Vec::new();
        for list in List::of(start) {
            let owner = SlotOwner::OwnSessions(tenant, list);
            let own = self.choose_partition(owner, hour, at).await?;
            partitions.push(own.map_or(list.shared(hour), |own| list.own(own)));
        }
        let position = (at, start.session_id);
        for partition in partitions {
            self.add_row(group, tenant, partition, position);
        }
        Ok(())
    }

    /// Reads one page. A page may be shorter than `limit` and still have a successor if many rows
    /// did not match.
    pub(in crate::cql) async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: usize,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        let (page, next) = self.list_page(tenant, filter, limit, after).await?;
        Ok(Page {
            rows: page.rows,
            next,
        })
    }

    /// Returns the sessions of a filter whose start is damaged. The filter must name at most one
    /// of delivery and courier, because the list does not distinguish further.
    pub(in crate::cql) async fn list_damaged(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
    ) -> StoreResult<Vec<SessionId>> {
        let (mut damaged, mut after) = (Vec::new(), None);
        loop {
            let page = self.list_page(tenant, filter, LIST_SCANNED_ROWS_MAX, after);
            let (page, next) = page.await?;
            damaged.extend(page.damaged);
            match next {
                Some(next) => after = Some(next),
                None => return Ok(damaged),
            }
        }
    }

    /// Reads one page, and returns the session after which the next one begins.
    async fn list_page(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: usize,
        after: Option<SessionId>,
    ) -> StoreResult<(PageBuilder, Option<SessionId>)> {
        let mut before = match after {
            // A session that is gone is located by the time in its id.
            Some(after) => {
                let record = readable(self.record(after).await, after, "its start")?;
                let at = record.map_or_else(|| after.made_at(), |record| record.start.created_at);
                (at, after)
            }
            None => (TimestampMs(i64::MAX), SessionId::from_bytes([0; 16])),
        };
        if let Some(to) = filter.to {
            before = before.min((to, SessionId::from_bytes([0; 16])));
        }
        let from = filter.from.unwrap_or(TimestampMs(i64::MIN));
        let mut page = PageBuilder {
            rows: Vec::new(),
            damaged: Vec::new(),
            limit,
            scanned: 0,
        };
        let list = List::of_filter(filter);
        let mut reading = Some(before.0);
        while let Some(to) = reading {
            let (groups, next) = self.groups(tenant, list, from, to).await?;
            reading = next;
            for group in groups {
                loop {
                    let (positions, is_end) = self
                        .merged_positions(tenant, &group.partitions, before)
                        .await?;
                    let (within, passed) = split(&positions, from.max(group.from));
                    before = within.last().copied().unwrap_or(before);
                    let collected = self.collect(&mut page, &within, filter).await?;
                    if let Collected::Full { next_after } = collected {
                        return Ok((page, next_after));
                    }
                    if passed || is_end {
                        break;
                    }
                }
                before = before.min((group.from, SessionId::from_bytes([0; 16])));
            }
        }
        Ok((page, None))
    }

    /// Returns the partitions of a list that may contain sessions of these times, newest first, and
    /// the time from which the next call continues.
    async fn groups(
        &self,
        tenant: Tenant,
        list: List,
        from: TimestampMs,
        to: TimestampMs,
    ) -> StoreResult<(Vec<PartitionGroup>, Option<TimestampMs>)> {
        let (first, last) = (slot_of(from, HOUR_MS), slot_of(to, HOUR_MS));
        let mut own = self
            .own_partitions(
                SlotOwner::OwnSessions(tenant, list),
                first,
                last,
                Direction::Descending,
            )
            .await?;
        let next = cut_full_read(&mut own, OWN_READ_MAX);
        let mut hours: BTreeMap<i64, Vec<Partition>> = BTreeMap::new();
        for own in own {
            hours.entry(own.period).or_default().push(list.own(own));
        }
        if list == List::All {
            let first = next.map_or(first, |next| next + 1);
            let owner = SlotOwner::Sessions(tenant);
            for hour in self.slots(owner, first, last, Direction::Ascending).await? {
                hours.entry(hour).or_default();
            }
        }
        let start_of = |hour: i64| TimestampMs(hour.saturating_mul(HOUR_MS));
        let mut groups: Vec<_> = hours
            .into_iter()
            .rev()
            .map(|(hour, mut partitions)| {
                partitions.push(list.shared(hour));
                PartitionGroup {
                    partitions,
                    from: start_of(hour),
                }
            })
            .collect();
        if list != List::All && next.is_none() {
            groups.push(PartitionGroup {
                partitions: vec![list.shared(0)],
                from: TimestampMs(i64::MIN),
            });
        }
        // The next call begins with the last millisecond of the hour that this one left out.
        Ok((groups, next.map(|hour| start_of(hour + 1).plus_ms(-1))))
    }

    /// Returns a session, and whether its start is damaged. A session whose state is damaged
    /// counts as recording, so that an erasure finds it.
    async fn find_readable(
        &self,
        session_id: SessionId,
    ) -> StoreResult<(Option<SessionRow>, bool)> {
        let found = self.find(session_id).await;
        if !matches!(found, Err(StoreError::Damaged(_))) {
            return Ok((found?, false));
        }
        readable(found, session_id, "a session")?;
        let record = self.record(session_id).await;
        let is_damaged = matches!(record, Err(StoreError::Damaged(_)));
        let record = readable(record, session_id, "its start")?;
        let row = record.map(|record| SessionRow {
            start: record.start,
            end: None,
        });
        Ok((row, is_damaged))
    }

    /// Adds matching sessions to the page until it is full.
    async fn collect(
        &self,
        page: &mut PageBuilder,
        positions: &[Position],
        filter: &SessionFilter,
    ) -> StoreResult<Collected> {
        // Small chunks avoid looking up many more sessions than fit.
        for chunk in positions.chunks(AT_ONCE) {
            let finding = chunk.iter().map(|&(_, id)| self.find_readable(id));
            let finding: Vec<_> = finding.collect();
            let rows: Vec<_> = stream::iter(finding)
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            for ((row, is_damaged), &(_, id)) in rows.into_iter().zip(chunk) {
                page.scanned += 1;
                page.damaged.extend(is_damaged.then_some(id));
                if let Some(row) = row.filter(|row| filter.matches(row)) {
                    if page.rows.len() >= page.limit {
                        let last = page.rows.last();
                        return Ok(Collected::Full {
                            next_after: last.map(|row| row.start.session_id),
                        });
                    }
                    page.rows.push(row);
                }
                if page.scanned >= LIST_SCANNED_ROWS_MAX {
                    return Ok(Collected::Full {
                        next_after: Some(id),
                    });
                }
            }
        }
        Ok(Collected::HasRoom)
    }
}

/// The state of a page after sessions were added.
enum Collected {
    /// The page has room for further sessions.
    HasRoom,
    /// The page is full.
    Full {
        /// The session after which the next page begins; `None` if the page may have no sessions.
        next_after: Option<SessionId>,
    },
}

/// A page of a list that is being filled.
struct PageBuilder {
    rows: Vec<SessionRow>,
    damaged: Vec<SessionId>,
    limit: usize,
    scanned: usize,
}

/// Returns the positions at or after `from`, and whether there were others.
fn split(positions: &[Position], from: TimestampMs) -> (Vec<Position>, bool) {
    let within: Vec<_> = positions
        .iter()
        .copied()
        .filter(|position| position.0 >= from)
        .collect();
    let passed = within.len() < positions.len();
    (within, passed)
}
