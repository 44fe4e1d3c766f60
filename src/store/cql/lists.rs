//! Lists of a tenant's sessions, newest first: all by hour, by delivery, by courier.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{Page, SessionFilter, SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::LIST_SCANNED_ROWS_MAX;
use porchlight_schema::session::{SessionStart, SessionStatus, Tenant};
use porchlight_schema::time::TimestampMs;

use super::Inner;
use super::bounded::{OWN_READ_MAX, cut_full_read};
use super::session_list::List;
use super::slots::{AT_ONCE, HOUR_MS, Owner, Way, slot_of};
use super::write_group::WriteGroup;

mod partition;

use partition::Partition;

/// A position in a list; smaller positions are newer.
pub(super) type Place = (TimestampMs, SessionId);

/// Partitions of a list that are read together.
struct Part {
    partitions: Vec<Partition>,
    /// Older rows belong to later parts.
    from: TimestampMs,
}

fn matches(row: &SessionRow, filter: &SessionFilter) -> bool {
    let status = match row.end {
        None => SessionStatus::Recording,
        Some(_) => SessionStatus::Completed,
    };
    let start = &row.start;
    let is =
        |wanted: &Option<String>, there: &str| wanted.as_ref().is_none_or(|wanted| wanted == there);
    filter.status.is_none_or(|wanted| wanted == status)
        && is(&filter.delivery_id, &start.delivery_id)
        && is(&filter.external_rider_id, &start.external_rider_id)
}

impl Inner {
    /// Adds a session to the lists.
    pub(super) async fn list_session(&self, start: &SessionStart) -> StoreResult<()> {
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
        self.list_slots(&[(Owner::Sessions(tenant), hour)]).await?;
        let mut partitions = Vec::new();
        for list in List::of(start) {
            let owner = Owner::OwnSessions(tenant, list);
            let own = self.take_room(owner, hour, at).await?;
            partitions.push(own.map_or(list.shared(hour), |own| list.own(own)));
        }
        let place = (at, start.session_id);
        for partition in partitions {
            self.add_place(group, tenant, partition, place);
        }
        Ok(())
    }

    /// Reads one page. A page may be shorter than `limit` and still have a successor if many rows
    /// did not match.
    pub(super) async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: usize,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        let mut before = match after {
            // A session that is gone is located by the time in its id.
            Some(after) => {
                let record = self.record(after).await?;
                let at = record.map_or_else(|| after.made_at(), |record| record.start.created_at);
                (at, after)
            }
            None => (TimestampMs(i64::MAX), SessionId::from_bytes([0; 16])),
        };
        if let Some(to) = filter.to {
            before = before.min((to, SessionId::from_bytes([0; 16])));
        }
        let from = filter.from.unwrap_or(TimestampMs(i64::MIN));
        let mut page = Collecting {
            rows: Vec::new(),
            limit,
            scanned: 0,
        };
        let list = List::of_filter(filter);
        let mut reading = Some(before.0);
        while let Some(to) = reading {
            let (parts, next) = self.parts(tenant, list, from, to).await?;
            reading = next;
            for part in parts {
                loop {
                    let (places, is_end) =
                        self.merged_places(tenant, &part.partitions, before).await?;
                    let (within, passed) = split(&places, from.max(part.from));
                    before = within.last().copied().unwrap_or(before);
                    if let Some(next) = self.collect(&mut page, &within, filter).await? {
                        return Ok(Page {
                            rows: page.rows,
                            next,
                        });
                    }
                    if passed || is_end {
                        break;
                    }
                }
                before = before.min((part.from, SessionId::from_bytes([0; 16])));
            }
        }
        Ok(Page {
            rows: page.rows,
            next: None,
        })
    }

    /// Returns the parts of a list in which sessions of these times are, newest first, and the time from which the
    /// next call continues.
    async fn parts(
        &self,
        tenant: Tenant,
        list: List,
        from: TimestampMs,
        to: TimestampMs,
    ) -> StoreResult<(Vec<Part>, Option<TimestampMs>)> {
        let (first, last) = (slot_of(from, HOUR_MS), slot_of(to, HOUR_MS));
        let mut own = self
            .own_partitions(Owner::OwnSessions(tenant, list), first, last, Way::Down)
            .await?;
        let next = cut_full_read(&mut own, OWN_READ_MAX);
        let mut hours: BTreeMap<i64, Vec<Partition>> = BTreeMap::new();
        for own in own {
            hours.entry(own.period).or_default().push(list.own(own));
        }
        if list == List::All {
            let first = next.map_or(first, |next| next + 1);
            let owner = Owner::Sessions(tenant);
            for hour in self.slots(owner, first, last, Way::Up).await? {
                hours.entry(hour).or_default();
            }
        }
        let start_of = |hour: i64| TimestampMs(hour.saturating_mul(HOUR_MS));
        let mut parts: Vec<_> = hours
            .into_iter()
            .rev()
            .map(|(hour, mut partitions)| {
                partitions.push(list.shared(hour));
                Part {
                    partitions,
                    from: start_of(hour),
                }
            })
            .collect();
        if list != List::All && next.is_none() {
            parts.push(Part {
                partitions: vec![list.shared(0)],
                from: TimestampMs(i64::MIN),
            });
        }
        // The first millisecond after the hour that was left out; a later read begins before it.
        Ok((parts, next.map(|hour| start_of(hour + 1).plus_ms(-1))))
    }

    /// Adds matching sessions to the page. Some: the page is full, and this is its cursor.
    async fn collect(
        &self,
        page: &mut Collecting,
        places: &[Place],
        filter: &SessionFilter,
    ) -> StoreResult<Option<Option<SessionId>>> {
        // Small chunks avoid looking up many more sessions than fit.
        for some in places.chunks(AT_ONCE) {
            let finding = some.iter().map(|&(_, id)| self.find(id));
            let finding: Vec<_> = finding.collect();
            let rows: Vec<_> = stream::iter(finding)
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
            for (row, &(_, id)) in rows.into_iter().zip(some) {
                page.scanned += 1;
                if let Some(row) = row.filter(|row| matches(row, filter)) {
                    if page.rows.len() >= page.limit {
                        let cursor = page.rows.last().map(|row| row.start.session_id);
                        return Ok(Some(cursor));
                    }
                    page.rows.push(row);
                }
                if page.scanned >= LIST_SCANNED_ROWS_MAX {
                    return Ok(Some(Some(id)));
                }
            }
        }
        Ok(None)
    }
}

/// A page being filled.
struct Collecting {
    rows: Vec<SessionRow>,
    limit: usize,
    scanned: usize,
}

/// Returns the positions at or after `from`, and whether there were others.
fn split(places: &[Place], from: TimestampMs) -> (Vec<Place>, bool) {
    let within: Vec<_> = places
        .iter()
        .copied()
        .filter(|place| place.0 >= from)
        .collect();
    let passed = within.len() < places.len();
    (within, passed)
}
