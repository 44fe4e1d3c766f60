//! The state of a tenant's sessions in progress, read at most every few seconds, regardless of the
//! number of pages that show it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use dashmap::DashMap;
use futures_util::StreamExt;
use futures_util::stream::iter;
use porchlight_actors::service::{InsightState, Service, TenantSessions};
use porchlight_http::problem::Problem;
use porchlight_observe::Fact;
use porchlight_ports::{SessionRow, StoreError, StoreResult};
use porchlight_schema::event::Event;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    BOARD_READS_AT_ONCE_MAX, BOARD_REFRESH_MS, BOARD_SESSIONS_MAX, BOARD_TENANTS_MAX,
};
use porchlight_schema::sample::Sample;
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;
use serde::Serialize;
use tokio::sync::Mutex;

use super::descriptions;

/// The time for which the state of a board is kept after a browser has requested it.
const BOARD_KEPT_MS: i64 = 60_000;

/// One session on the board.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: SessionId,
    delivery: String,
    rider: String,
    /// The latest position, or null.
    #[serde(rename = "at")]
    position: Option<LatLng>,
    /// The position of the address.
    #[serde(rename = "to")]
    address: LatLng,
    /// The time at which the session's last batch was received, in milliseconds since 1970; null:
    /// never.
    #[serde(rename = "heard")]
    last_heard_ms: Option<i64>,
    /// The time at which the session started, in milliseconds since 1970.
    #[serde(rename = "started")]
    started_ms: i64,
    /// The latest event, in words.
    event: Option<&'static str>,
    /// The number of the newest batch.
    #[serde(skip)]
    newest: Option<u32>,
}

/// A position in degrees, for the script: an array of latitude and longitude.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct LatLng(f64, f64);

/// The sessions of a tenant at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) entries: HashMap<SessionId, Arc<Entry>>,
    /// Whether there are more sessions than the board shows.
    pub(crate) is_truncated: bool,
    /// The sessions whose data is damaged, of which the log knows.
    damaged: HashSet<SessionId>,
    read_at: Option<TimestampMs>,
}

/// The boards of all tenants that are shown at the moment.
#[derive(Debug, Default)]
pub(crate) struct Boards(DashMap<Tenant, Arc<Mutex<Arc<Snapshot>>>>);

impl Boards {
    /// Returns the state of a tenant's sessions in progress, at most a few seconds old.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub(crate) async fn of(
        &self,
        service: &Service,
        tenant: Tenant,
    ) -> Result<Arc<Snapshot>, Problem> {
        if self.0.len() >= BOARD_TENANTS_MAX && !self.0.contains_key(&tenant) {
            self.0.clear();
        }
        let board = Arc::clone(self.0.entry(tenant).or_default().value());
        // Pages that ask at the same time wait for one read.
        let mut board = board.lock().await;
        let now = service.now();
        let age_ms = board.read_at.map(|at| now.since_ms(at));
        if age_ms.is_none_or(|age_ms| !(0..BOARD_REFRESH_MS).contains(&age_ms)) {
            *board = Arc::new(read(service.of(tenant), service, now, &board).await?);
        }
        Ok(Arc::clone(&board))
    }

    /// Removes boards that no browser has requested for [`BOARD_KEPT_MS`].
    pub(crate) fn clean_up(&self, now: TimestampMs) {
        self.0.retain(|_, board| {
            let board = board.try_lock();
            board.map_or(true, |board| {
                board
                    .read_at
                    .is_some_and(|at| now.since_ms(at) < BOARD_KEPT_MS)
            })
        });
    }
}

async fn read(
    own: TenantSessions<'_>,
    service: &Service,
    now: TimestampMs,
    before: &Snapshot,
) -> Result<Snapshot, Problem> {
    let (rows, is_truncated) = own.live(BOARD_SESSIONS_MAX as u32).await?;
    let own = &own;
    let entries = iter(&rows)
        .map(|row| async move {
            let session_id = row.start.session_id;
            let known = before.entries.get(&session_id);
            let read = entry(own, service, row, known).await;
            (session_id, read)
        })
        .buffer_unordered(BOARD_READS_AT_ONCE_MAX);
    let entries: Vec<_> = entries.collect().await;
    let mut snapshot = Snapshot {
        is_truncated,
        read_at: Some(now),
        ..Snapshot::default()
    };
    for (session_id, read) in entries {
        snapshot.add(session_id, read, before)?;
    }
    Ok(snapshot)
}

impl Snapshot {
    /// Adds the entry of a session. A session with damaged data keeps its known entry, or has none:
    /// the board shows the other sessions. New damage is counted and logged.
    fn add(
        &mut self,
        session_id: SessionId,
        read: StoreResult<Arc<Entry>>,
        before: &Self,
    ) -> StoreResult<()> {
        let entry = match read {
            Err(error @ StoreError::Damaged(_)) => {
                self.damaged.insert(session_id);
                if !before.damaged.contains(&session_id) {
                    Fact::Damaged {
                        session_id,
                        what: "a session on the board",
                        error: &error,
                    }
                    .record();
                }
                before.entries.get(&session_id).cloned()
            }
            Err(StoreError::Newer(_)) => before.entries.get(&session_id).cloned(),
            read => Some(read?),
        };
        self.entries.extend(entry.map(|entry| (session_id, entry)));
        Ok(())
    }
}

/// Returns the entry of a session. Nothing is read twice: the entry changes only with a new batch.
async fn entry(
    own: &TenantSessions<'_>,
    service: &Service,
    row: &SessionRow,
    known: Option<&Arc<Entry>>,
) -> StoreResult<Arc<Entry>> {
    let newest = own.newest(row).await?;
    let newest_seq = newest.map(|(seq, _)| seq);
    let last_heard_ms = newest.map(|(_, at)| at.0);
    if let Some(known) = known
        && known.newest == newest_seq
        && known.last_heard_ms == last_heard_ms
    {
        return Ok(Arc::clone(known));
    }
    let start = &row.start;
    let mut position = known.and_then(|known| known.position);
    if let Some(seq) = newest_seq
        && let Some(batch) = own.batches(row, seq, 1).await?.first()
    {
        position = latest(&batch.batch).or(position);
    }
    let event = match service.insight(row).await? {
        InsightState::Processing { events, .. } => newest_event(&events),
        InsightState::Scored(_) => None,
    };
    let point = start.address.point;
    Ok(Arc::new(Entry {
        id: start.session_id,
        delivery: start.delivery_id.clone(),
        rider: start.external_rider_id.clone(),
        position,
        address: LatLng(point.lat, point.lng),
        last_heard_ms,
        started_ms: start.started_at.0,
        event,
        newest: newest_seq,
    }))
}

/// Returns the last position of a batch, rounded to about a metre.
fn latest(batch: &porchlight_schema::sample::packed::PackedBatch) -> Option<LatLng> {
    let mut reader = batch.reader().ok()?;
    let mut at = None;
    while let Ok(Some(sample)) = reader.next_sample() {
        if let Sample::Location(fix) = sample {
            at = Some((fix.lat, fix.lng));
        }
    }
    let rounded = |degrees: f64| (degrees * 1e5).round() / 1e5;
    at.map(|(lat, lng)| LatLng(rounded(lat), rounded(lng)))
}

fn newest_event(events: &[Event]) -> Option<&'static str> {
    let newest = events.iter().max_by_key(|event| event.t_start_ms)?;
    Some(descriptions::event(newest.event_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_with_damaged_data_keeps_its_known_entry() {
        let id = SessionId::new(TimestampMs(1), 1);
        let known = Arc::new(Entry {
            id,
            delivery: "d".to_owned(),
            rider: "r".to_owned(),
            position: None,
            address: LatLng(1.0, 2.0),
            last_heard_ms: None,
            started_ms: 1,
            event: None,
            newest: None,
        });
        let damaged = || Err(StoreError::Damaged("a batch".to_owned()));
        let (mut before, mut now) = (Snapshot::default(), Snapshot::default());
        now.add(id, damaged(), &before).unwrap();
        assert!(now.entries.is_empty() && now.damaged.contains(&id));
        before.add(id, Ok(Arc::clone(&known)), &now).unwrap();
        now.add(id, damaged(), &before).unwrap();
        assert_eq!(now.entries.get(&id), Some(&known));
        assert!(now.add(id, Err(StoreError::Overloaded), &before).is_err());
    }
}
