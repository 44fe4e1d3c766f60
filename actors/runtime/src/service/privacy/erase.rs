//! Finds, counts and erases the data of a subject. Every operation may be repeated.

use porchlight_core::context::SessionContext;
use porchlight_core::score::trace_fingerprint;
use porchlight_ports::{SessionFilter, SessionRow, Store, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::privacy::{Counts, Subject};
use porchlight_schema::session::{SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

use super::super::recorder::{order_of, tenant_of};
use crate::scoring::{RowLocks, keys_of, remove_contributions, replay};

/// The number of table rows that one step examines.
const STEP_ROWS: usize = 500;

/// Returns a page of the subject's sessions created up to `until`, newest first, and the session
/// after which the next page begins. A page may be empty and still have a successor.
pub(super) async fn page(
    store: &dyn Store,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
    after: Option<SessionId>,
    limit: usize,
) -> StoreResult<(Vec<SessionRow>, Option<SessionId>)> {
    let mut filter = SessionFilter {
        to: Some(until.plus_ms(1)),
        ..SessionFilter::default()
    };
    match subject {
        Subject::ExternalRiderId(id) => filter.external_rider_id = Some(id.clone()),
        Subject::DeliveryId(id) => filter.delivery_id = Some(id.clone()),
        Subject::SessionId(id) => {
            let row = match unless_damaged(store.find(*id).await)? {
                Some(row) => row,
                // As in a list, a session whose end is damaged has none.
                None => store
                    .start_of(*id)
                    .await?
                    .map(|start| SessionRow { start, end: None }),
            };
            let is_covered = |row: &SessionRow| {
                row.start.tenant == tenant && row.start.created_at <= until && after.is_none()
            };
            return Ok((row.into_iter().filter(is_covered).collect(), None));
        }
    }
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let page = store.list(tenant, &filter, limit, after).await?;
    Ok((page.rows, page.next))
}

/// Returns the result of a read, or `None` if the stored row is damaged: an erasure removes it
/// nevertheless.
fn unless_damaged<T>(read: StoreResult<T>) -> StoreResult<Option<T>> {
    match read {
        Err(StoreError::Damaged(_)) => Ok(None),
        read => read.map(Some),
    }
}

/// Returns whether no session of the subject is stored. A damaged session is stored.
pub(super) async fn is_gone(
    store: &dyn Store,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
) -> StoreResult<bool> {
    let is_any = |_| true;
    let first = first_page_of(store, tenant, subject, until, 1, is_any).await;
    Ok(unless_damaged(first)?.is_some_and(|(ids, _)| ids.is_empty()))
}

/// Returns the first sessions of the subject that are not held, and whether any session before or
/// among them is held.
pub(super) async fn first_free_page(
    store: &dyn Store,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
    limit: usize,
    is_held: impl Fn(SessionId) -> bool,
) -> StoreResult<(Vec<SessionId>, bool)> {
    let is_free = |id| !is_held(id);
    first_page_of(store, tenant, subject, until, limit, is_free).await
}

/// Returns the first page that has wanted sessions of the subject, with these sessions only, and
/// whether a session that is not wanted was found. Sessions that lists leave out because they are
/// damaged come last.
async fn first_page_of(
    store: &dyn Store,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
    limit: usize,
    is_wanted: impl Fn(SessionId) -> bool,
) -> StoreResult<(Vec<SessionId>, bool)> {
    let (mut after, mut has_others) = (None, false);
    loop {
        let (mut ids, next) = listed(store, tenant, subject, until, after, limit).await?;
        has_others |= keep_wanted(&mut ids, &is_wanted);
        if !ids.is_empty() {
            return Ok((ids, has_others));
        }
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let mut ids = store.damaged_sessions(tenant, subject, until).await?;
    has_others |= keep_wanted(&mut ids, &is_wanted);
    ids.truncate(limit);
    Ok((ids, has_others))
}

/// Removes the sessions that are not wanted. Returns whether there were any.
fn keep_wanted(ids: &mut Vec<SessionId>, is_wanted: impl Fn(SessionId) -> bool) -> bool {
    let found = ids.len();
    ids.retain(|id| is_wanted(*id));
    ids.len() < found
}

/// Returns a page like [`page`], but only the ids. If the subject is a session and that session is
/// damaged, the page does not list it.
async fn listed(
    store: &dyn Store,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
    after: Option<SessionId>,
    limit: usize,
) -> StoreResult<(Vec<SessionId>, Option<SessionId>)> {
    let page = page(store, tenant, subject, until, after, limit).await;
    if let (Subject::SessionId(_), Err(StoreError::Damaged(_))) = (subject, &page) {
        return Ok((Vec::new(), None));
    }
    let (rows, next) = page?;
    Ok((rows.iter().map(|row| row.start.session_id).collect(), next))
}

/// Returns whether any session of the subject is held.
pub(super) async fn has_held(
    store: &dyn Store,
    tenant: Tenant,
    subject: &Subject,
    until: TimestampMs,
    is_held: impl Fn(SessionId) -> bool,
) -> StoreResult<bool> {
    let (held, _) = first_page_of(store, tenant, subject, until, STEP_ROWS, is_held).await?;
    Ok(!held.is_empty())
}

/// Counts the data of a session.
pub(super) async fn count(store: &dyn Store, session_id: SessionId) -> StoreResult<Counts> {
    let rows = store.session_rows(session_id).await?;
    let insight = unless_damaged(store.insight(session_id).await)?.flatten();
    let score = insight.and_then(|insight| insight.record.score);
    let places = match unless_damaged(store.start_of(session_id).await)? {
        // Without the session's start, its contributions cannot be removed.
        None => 0,
        Some(_) => store.learned_by(session_id).await?.len() as u64,
    };
    Ok(Counts {
        sessions: 1,
        telemetry: rows.batches,
        insights: rows.insights,
        images: u64::from(score.is_some_and(|score| score.has_path)),
        messages: rows.messages,
        places,
        keys: 0,
    })
}

/// Removes the contributions of a session to learned rows.
async fn remove_contributions_of(
    store: &dyn Store,
    row_locks: &RowLocks,
    start: &SessionStart,
) -> StoreResult<()> {
    let session_id = start.session_id;
    let mut keys = store.learned_by(session_id).await?;
    let is_scored = !matches!(store.insight(session_id).await, Ok(None));
    if keys.is_empty() && is_scored {
        // For a session of an earlier version, the keys of its rows follow from its journal.
        let replayed = replay(store, &SessionContext::new(start), session_id).await?;
        let fingerprint = replayed.and_then(|replayed| trace_fingerprint(&replayed.windows));
        keys = keys_of(start, fingerprint.as_ref());
    }
    for key in keys {
        remove_contributions(store, row_locks, start, key).await?;
    }
    Ok(())
}

/// Erases a session and its contributions to learned rows.
pub(super) async fn session(
    store: &dyn Store,
    row_locks: &RowLocks,
    session_id: SessionId,
) -> StoreResult<()> {
    // Without the start, the contributions of the session cannot be found, but its own rows can.
    let start = unless_damaged(store.start_of(session_id).await)?.flatten();
    if let Some(start) = &start {
        remove_contributions_of(store, row_locks, start).await?;
    }
    store.erase_session(session_id).await
}

/// Removes the recorders for which `is_covered` returns true, given their subjects and time of
/// creation. Returns their number.
///
/// # Errors
///
/// Returns an error if the store fails, or if a recorder that may be covered cannot be read. The
/// others are removed nevertheless.
pub(super) async fn recorders(
    store: &dyn Store,
    tenant: Tenant,
    until: TimestampMs,
    is_covered: impl Fn(&[Subject]) -> bool,
) -> StoreResult<u64> {
    let (mut removed, mut unreadable, mut after) = (0, 0, None);
    loop {
        let (rows, next) = store.recorders(after, STEP_ROWS).await?;
        for (id, row) in rows {
            let Some(order) = order_of(&row) else {
                let is_theirs = tenant_of(&row).is_none_or(|owner| owner == tenant);
                unreadable += u64::from(is_theirs);
                continue;
            };
            if order.tenant != tenant {
                continue;
            }
            let delivery_id = Subject::DeliveryId(order.delivery_id(id));
            let subjects = [
                Subject::ExternalRiderId(order.external_rider_id),
                delivery_id,
            ];
            if order.created_at <= until && is_covered(&subjects) {
                removed += u64::from(store.remove_recorder(id).await?);
            }
        }
        match next {
            Some(next) => after = Some(next),
            None if unreadable > 0 => {
                return Err(StoreError::Damaged(format!(
                    "{unreadable} recorders that an erasure may cover cannot be read"
                )));
            }
            None => return Ok(removed),
        }
    }
}

/// Removes the tenant's idempotency keys that were stored up to `until` and whose session no longer
/// exists. Returns their number.
pub(super) async fn idempotency_keys(
    store: &dyn Store,
    tenant: Tenant,
    until: TimestampMs,
) -> StoreResult<u64> {
    let (mut removed, mut after) = (0, None);
    loop {
        let step = store
            .erase_idempotency_keys(tenant, until, after, STEP_ROWS)
            .await?;
        removed += step.rows;
        match step.next {
            Some(next) => after = Some(next),
            None => return Ok(removed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use porchlight_ports::Recorders as _;
    use porchlight_schema::ids::{OrganizationId, RecorderId};
    use porchlight_schema::session::Env;
    use porchlight_store::MemoryStore;
    use serde_json::{Value, json};

    use super::*;

    const T0: TimestampMs = TimestampMs(1_763_636_100_000);

    fn tenant(number: u128) -> Tenant {
        Tenant {
            organization_id: OrganizationId::new(T0, number),
            env: Env::Sandbox,
        }
    }

    /// Returns a recorder as a later release may write it.
    fn stored(tenant: Tenant, rider: &Value) -> Value {
        let address = json!({"line1": "", "city": "", "country": "",
            "point": {"lat": 52.5, "lng": 13.4}, "unit": null, "floor": null, "accuracy_m": 20.0,
            "storey_height_m": null, "entrance": null, "gates": []});
        let order = json!({"tenant": tenant, "external_rider_id": rider, "delivery_id": null,
            "address": address, "created_at": T0, "expires_at": T0.plus_ms(1)});
        json!({"order": order, "state": "a state of a later release"})
    }

    #[tokio::test]
    async fn an_erasure_does_not_end_while_a_recorder_of_its_tenant_cannot_be_read() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let create = async |number, recorder: &Value| {
            let data = serde_json::to_vec(recorder).unwrap();
            let id = RecorderId::new(T0, number);
            let created = store.create_recorder(id, data, T0.plus_ms(1));
            created.await.unwrap();
            id
        };
        let rider = Subject::ExternalRiderId("rider".to_owned());
        let erase = async || {
            let is_covered = |subjects: &[Subject]| subjects.contains(&rider);
            recorders(&*store, tenant(1), T0, is_covered).await
        };
        let unreadable = json!({"id": "rider"});
        let covered = create(1, &stored(tenant(1), &json!("rider"))).await;
        create(2, &stored(tenant(1), &json!("other"))).await;
        create(3, &stored(tenant(2), &unreadable)).await;
        assert_eq!(erase().await.unwrap(), 1);
        assert_eq!(store.recorder(covered).await.unwrap(), None);
        for recorder in [stored(tenant(1), &unreadable), json!({"order": 7})] {
            let covered = create(1, &stored(tenant(1), &json!("rider"))).await;
            let lost = create(4, &recorder).await;
            assert!(matches!(erase().await, Err(StoreError::Damaged(_))));
            assert_eq!(store.recorder(covered).await.unwrap(), None);
            assert!(store.remove_recorder(lost).await.unwrap());
            assert_eq!(erase().await.unwrap(), 0);
        }
    }
}
