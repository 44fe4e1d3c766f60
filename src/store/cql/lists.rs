//! Lists of a tenant's sessions, newest first: all by hour, by delivery, by courier.

use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_ports::{Page, SessionFilter, SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::LIST_SCANNED_ROWS_MAX;
use porchlight_schema::session::{SessionStart, SessionStatus, Tenant};
use porchlight_schema::time::TimestampMs;
use sha2::{Digest, Sha256};

use super::Inner;
use super::db::id_bytes;
use super::slots::{AT_ONCE, HOUR_MS, Owner, Way, slot_of, tenant_key};

/// The number of index rows per read.
const CHUNK_ROWS: usize = 256;

/// A position in a list; smaller positions are newer.
type Place = (TimestampMs, SessionId);

/// One partition of a list.
enum Part {
    Hour(i64),
    Delivery([u8; 32]),
    Rider([u8; 32]),
}

pub(super) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
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
        let hour = slot_of(start.created_at, HOUR_MS);
        self.list_slots(&[(Owner::Sessions(start.tenant), hour)])
            .await?;
        let (tenant, session) = (tenant_key(start.tenant), start.session_id.to_bytes());
        let (tenant, session) = (tenant.as_slice(), session.as_slice());
        let (at, life, statements) = (start.created_at.0, self.lives.retained, &self.db.statements);
        let all = (tenant, hour, at, session, life);
        self.db
            .write(&statements.organization_list_put, all)
            .await?;
        let named = [
            (&statements.delivery_list_put, hash(&start.delivery_id)),
            (&statements.rider_list_put, hash(&start.external_rider_id)),
        ];
        let writing = named.iter().map(|(statement, hash)| {
            let values = (tenant, hash.as_slice(), at, session, life);
            self.db.write(statement, values)
        });
        try_join_all(writing).await.map(drop)
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
        for part in self.parts(tenant, filter, from, before.0).await? {
            loop {
                let chunk = self.chunk(tenant, &part, before).await?;
                let whole = chunk.len() < CHUNK_ROWS;
                let (within, passed) = split(&chunk, from);
                before = chunk.last().copied().unwrap_or(before);
                if let Some(next) = self.collect(&mut page, &within, filter).await? {
                    return Ok(Page {
                        rows: page.rows,
                        next,
                    });
                }
                if passed {
                    return Ok(Page {
                        rows: page.rows,
                        next: None,
                    });
                }
                if whole {
                    break;
                }
            }
        }
        Ok(Page {
            rows: page.rows,
            next: None,
        })
    }

    /// The partitions that contain a filter's sessions, newest first.
    async fn parts(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        from: TimestampMs,
        to: TimestampMs,
    ) -> StoreResult<Vec<Part>> {
        Ok(match (&filter.delivery_id, &filter.external_rider_id) {
            (Some(delivery_id), _) => vec![Part::Delivery(hash(delivery_id))],
            (None, Some(rider_id)) => vec![Part::Rider(hash(rider_id))],
            (None, None) => {
                let (from, to) = (slot_of(from, HOUR_MS), slot_of(to, HOUR_MS));
                let owner = Owner::Sessions(tenant);
                let hours = self.slots(owner, from, to, Way::Down).await?;
                hours.into_iter().map(Part::Hour).collect()
            }
        })
    }

    async fn chunk(&self, tenant: Tenant, part: &Part, before: Place) -> StoreResult<Vec<Place>> {
        let (tenant, last, statements) =
            (tenant_key(tenant), before.1.to_bytes(), &self.db.statements);
        let (tenant, at, last) = (tenant.as_slice(), before.0.0, last.as_slice());
        let rows: Vec<(i64, Vec<u8>)> = match part {
            Part::Hour(hour) => {
                let values = (tenant, hour, at, last);
                let list = &statements.organization_list;
                self.db.rows(list, values, CHUNK_ROWS).await?
            }
            Part::Delivery(hash) => {
                let values = (tenant, hash.as_slice(), at, last);
                let list = &statements.delivery_list;
                self.db.rows(list, values, CHUNK_ROWS).await?
            }
            Part::Rider(hash) => {
                let values = (tenant, hash.as_slice(), at, last);
                let list = &statements.rider_list;
                self.db.rows(list, values, CHUNK_ROWS).await?
            }
        };
        rows.into_iter()
            .map(|(at, id)| {
                let id = SessionId::from_bytes(id_bytes("sessions", &id)?);
                Ok((TimestampMs(at), id))
            })
            .collect()
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

/// The positions at or after `from`, and whether there were others.
fn split(places: &[Place], from: TimestampMs) -> (Vec<Place>, bool) {
    let within: Vec<_> = places
        .iter()
        .copied()
        .filter(|place| place.0 >= from)
        .collect();
    let passed = within.len() < places.len();
    (within, passed)
}
