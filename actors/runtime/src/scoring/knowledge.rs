//! The service's knowledge of places and traces, as rows of the store: read before a session is
//! first scored, and written in the commit of its first insight.

use std::collections::BTreeSet;

use porchlight_core::retention::{PLACE_ROW, TRACE_ROW, belongs_to_session, is_of_one_session};
use porchlight_core::score::{
    CopiedTrace, Fingerprint, Knowledge, PlaceFacts, PlaceKnowledge, learn, place_key,
    recorded_together,
};
use porchlight_schema::fnv;
use porchlight_schema::ids::SessionId;
use porchlight_schema::session::{SessionEnd, SessionStart, Tenant};
use porchlight_schema::time::DAY_MS;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use porchlight_observe::Fact;
use porchlight_ports::{Store, StoreError, StoreResult};

use super::row_locks::{RowKey, RowLocks};
use crate::document_form::encode;

/// The knowledge gained from a first scoring.
pub(super) struct Learned<'a> {
    pub(super) place: Option<PlaceFacts>,
    pub(super) fingerprint: Option<&'a Fingerprint>,
}

impl Learned<'_> {
    /// Returns the key of the row of the place, if there is anything to write to it.
    pub(super) fn place_keys(&self, start: &SessionStart) -> Vec<RowKey> {
        let place = self.place.as_ref();
        place.map(|_| place_row(start)).into_iter().collect()
    }
}

/// A trace seen before. [`porchlight_core::retention::belongs_to_session`] reads the session.
#[derive(Serialize, Deserialize)]
struct SeenTrace {
    session_id: SessionId,
    fingerprint: Fingerprint,
}

/// The knowledge about a session before it is first scored.
#[derive(Default)]
pub(super) struct Recalled {
    pub(super) known: Knowledge,
    /// The keys of the trace under which the store has another session's trace.
    taken: BTreeSet<RowKey>,
}

impl Recalled {
    /// Returns whether at least one of the rows under which a trace is to be stored is free.
    pub(super) fn has_free_trace_row(&self, tenant: Tenant, trace: &Fingerprint) -> bool {
        self.free_trace_rows(tenant, trace).next().is_some()
    }

    /// Returns the keys of the rows under which a trace is to be stored: those that no other
    /// session's trace has.
    fn free_trace_rows(
        &self,
        tenant: Tenant,
        fingerprint: &Fingerprint,
    ) -> impl Iterator<Item = RowKey> {
        let stored = fingerprint.stored_keys().into_iter();
        let rows = stored.map(move |key| trace_row(tenant, key));
        rows.filter(|row| !self.taken.contains(row))
    }
}

impl From<Knowledge> for Recalled {
    fn from(known: Knowledge) -> Self {
        Self {
            known,
            taken: BTreeSet::new(),
        }
    }
}

/// Returns the knowledge of this session's place, and whether its trace was seen before.
pub(super) async fn recall(
    store: &dyn Store,
    (start, end): (&SessionStart, &SessionEnd),
    fingerprint: Option<&Fingerprint>,
) -> StoreResult<Recalled> {
    let rows = store.recall_all(keys_of(start, fingerprint)).await?;
    let place = rows.get(&place_row(start));
    // This score ignores a row that it cannot decode, and keeps it for a release that can.
    let place = place.and_then(|row| decode_or_log::<PlaceKnowledge>(start.session_id, row));
    let mut known = place
        .unwrap_or_default()
        .known(&start.address, day_of(start));
    // Each trace is stored under many keys, but compared only once.
    let mut compared = BTreeSet::from([start.session_id]);
    for key in trace_rows(start.tenant, fingerprint) {
        let Some(row) = rows.get(&key) else {
            continue;
        };
        let seen: Option<SeenTrace> = decode_or_log(start.session_id, row);
        let Some(seen) = seen.filter(|seen| compared.insert(seen.session_id)) else {
            continue;
        };
        if let Some(similarity) =
            fingerprint.and_then(|fingerprint| fingerprint.copy_of(&seen.fingerprint))
        {
            let row = store.find(seen.session_id).await?;
            let together = row.is_some_and(|other| {
                other.end.is_some_and(|other_end| {
                    recorded_together((start, end), (&other.start, &other_end))
                })
            });
            known.copied_trace = Some(CopiedTrace {
                session_id: seen.session_id,
                similarity,
                together,
            });
            if !together {
                break;
            }
        }
    }
    Ok(Recalled {
        known,
        taken: rows.into_keys().collect(),
    })
}

/// Returns the rows to write with the first insight. A copied trace stays under the session that
/// had it first. The row of a place that cannot be decoded stays too: it holds facts from other
/// sessions, and a later release may have written it. [`recall`] has logged it.
pub(super) async fn learned(
    store: &dyn Store,
    start: &SessionStart,
    learned: Learned<'_>,
    recalled: &Recalled,
) -> StoreResult<Vec<(RowKey, Vec<u8>)>> {
    let mut rows = Vec::new();
    if let Some(facts) = learned.place {
        let facts = PlaceFacts {
            day: day_of(start),
            rider: rider_hash(start),
            ..facts
        };
        // Another session's insight may have changed the row since it was recalled.
        let row = store.recall(place_row(start)).await?;
        let place = row.map_or_else(|| Ok(PlaceKnowledge::default()), |row| decode(&row));
        if let Ok(place) = place {
            rows.push((place_row(start), encode(&learn(&place, facts))?));
        }
    }
    if let Some(fingerprint) = learned.fingerprint {
        let seen = encode(&SeenTrace {
            session_id: start.session_id,
            fingerprint: fingerprint.clone(),
        })?;
        let free = recalled.free_trace_rows(start.tenant, fingerprint);
        rows.extend(free.map(|key| (key, seen.clone())));
    }
    Ok(rows)
}

/// Encodes the knowledge that is stored with an insight.
pub(super) fn write(known: &Knowledge) -> StoreResult<Vec<u8>> {
    encode(known)
}

/// Decodes the knowledge from the session's first scoring.
///
/// # Errors
///
/// Returns [`StoreError::Unavailable`] if the knowledge cannot be decoded. It is fixed when the
/// session is first scored (contract 4), so the session is scored again once a release that can
/// decode it runs.
pub(super) fn read(bytes: &[u8]) -> StoreResult<Knowledge> {
    decode(bytes).map_err(StoreError::unavailable)
}

/// Decodes a row. Rows are JSON, so that those of an earlier version decode.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(bytes)
}

/// Decodes a row, or logs that it is damaged.
fn decode_or_log<T: DeserializeOwned>(session_id: SessionId, bytes: &[u8]) -> Option<T> {
    let decoded = decode(bytes);
    if let Err(error) = &decoded {
        Fact::Damaged {
            session_id,
            what: "knowledge of a place or a trace",
            error,
        }
        .record();
    }
    decoded.ok()
}

/// Removes the contributions of a session to the learned row under `key`. Returns the number of
/// contributions removed.
///
/// A place does not record the session of a contribution, so contributions of the same courier on
/// the same day are removed together. A row that cannot be decoded is removed whole, and counts as
/// one contribution: only derived data is lost. The row is locked, because a score writes the
/// place as it has read it.
pub(crate) async fn remove_contributions(
    store: &dyn Store,
    row_locks: &RowLocks,
    start: &SessionStart,
    key: RowKey,
) -> StoreResult<u64> {
    let _locked = row_locks.lock(vec![key]).await;
    loop {
        let Some(row) = store.recall(key).await? else {
            return Ok(0);
        };
        let (data, removed) = if is_of_one_session(&key) {
            let is_theirs = belongs_to_session(start.session_id, &key, &row);
            (None, u64::from(is_theirs))
        } else if let Some(place) = decode_or_log::<PlaceKnowledge>(start.session_id, &row) {
            let (left, removed) = place.without(rider_hash(start), day_of(start));
            let left = (!left.is_empty()).then(|| encode(&left)).transpose()?;
            (left, removed as u64)
        } else {
            (None, 1)
        };
        // Another session's insight may have changed the row since it was read.
        if removed == 0 || store.replace_learned(key, row, data).await? {
            return Ok(removed);
        }
    }
}

/// The contributions of a session to the knowledge about its place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contributions {
    /// Observations about the place. A place does not record the session of an observation, so
    /// those of the same courier on the same day are included.
    pub places: Vec<PlaceFacts>,
    /// The number of learned rows that hold the fingerprint of the session's trace.
    pub traces: usize,
}

/// Returns the contributions of a session to the learned rows under `keys`.
pub(crate) async fn contributions(
    store: &dyn Store,
    start: &SessionStart,
    keys: Vec<RowKey>,
) -> StoreResult<Contributions> {
    let mut found = Contributions::default();
    for (key, row) in store.recall_all(keys).await? {
        if is_of_one_session(&key) {
            let seen: Option<SeenTrace> = decode_or_log(start.session_id, &row);
            let is_theirs = seen.is_some_and(|seen| seen.session_id == start.session_id);
            found.traces += usize::from(is_theirs);
        } else {
            let place: PlaceKnowledge = decode_or_log(start.session_id, &row).unwrap_or_default();
            let contributions = place.contributions(rider_hash(start), day_of(start));
            found.places.extend(contributions);
        }
    }
    Ok(found)
}

/// Returns the keys of the learned rows that a session's first insight may have written, without
/// looking at the store.
pub(crate) fn keys_of(start: &SessionStart, fingerprint: Option<&Fingerprint>) -> Vec<RowKey> {
    let traces = trace_rows(start.tenant, fingerprint);
    std::iter::once(place_row(start)).chain(traces).collect()
}

/// Returns the keys of the rows under which a trace is looked up and stored.
pub(super) fn trace_keys(start: &SessionStart, fingerprint: Option<&Fingerprint>) -> Vec<RowKey> {
    trace_rows(start.tenant, fingerprint).collect()
}

fn day_of(start: &SessionStart) -> u32 {
    u32::try_from(start.started_at.0.div_euclid(DAY_MS)).unwrap_or(0)
}

/// Returns a hash that distinguishes couriers. Stored values contain it.
fn rider_hash(start: &SessionStart) -> u64 {
    fnv::hash(start.external_rider_id.bytes())
}

fn row(kind: u8, parts: &[&[u8]]) -> RowKey {
    let mut row = [0; 32];
    let bytes = std::iter::once(kind).chain(parts.iter().flat_map(|part| part.iter().copied()));
    row.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    row
}

fn place_row(start: &SessionStart) -> RowKey {
    row(PLACE_ROW, &[&place_key(start.tenant, &start.address)])
}

fn trace_rows(tenant: Tenant, fingerprint: Option<&Fingerprint>) -> impl Iterator<Item = RowKey> {
    let keys = fingerprint.map(Fingerprint::keys).unwrap_or_default();
    keys.into_iter().map(move |key| trace_row(tenant, key))
}

fn trace_row(tenant: Tenant, key: u64) -> RowKey {
    let env = tenant.env.as_str().as_bytes();
    row(
        TRACE_ROW,
        &[
            &tenant.organization_id.to_bytes(),
            &env[..1],
            &key.to_be_bytes(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use porchlight_ports::Insights;
    use porchlight_schema::hex;
    use porchlight_schema::ids::OrganizationId;
    use porchlight_schema::session::{Address, Env, Point};
    use porchlight_schema::time::TimestampMs;
    use porchlight_store::MemoryStore;
    use porchlight_store::engine::Space;

    use super::*;
    use crate::scoring::tests::{T0, start};

    #[test]
    fn traces_of_different_tenants_are_different_rows() {
        let tenant = |n, env| Tenant {
            organization_id: OrganizationId::new(TimestampMs(n), 0),
            env,
        };
        let rows = [
            trace_row(tenant(1, Env::Sandbox), 7),
            trace_row(tenant(1, Env::Production), 7),
            trace_row(tenant(2, Env::Sandbox), 7),
            trace_row(tenant(1, Env::Sandbox), 8),
        ];
        for (place, one) in rows.iter().enumerate() {
            assert!(!rows[place + 1..].contains(one));
        }
    }
    /// Returns the row of a place with facts of the sessions of these couriers.
    fn place(couriers: &[&str]) -> Vec<u8> {
        let facts = couriers.iter().map(|courier| PlaceFacts {
            day: day_of(&start()),
            rider: rider_hash(&SessionStart {
                external_rider_id: (*courier).to_owned(),
                ..start()
            }),
            floor_height_m: None,
            entrance: None,
            drop_off: None,
        });
        let place = facts.fold(PlaceKnowledge::default(), |place, facts| {
            learn(&place, facts)
        });
        encode(&place).unwrap()
    }

    /// Writes a learned row as the commit of an insight does.
    async fn put(store: &MemoryStore, key: RowKey, row: Vec<u8>) {
        let full = [b"w", key.as_slice()].concat();
        let written = store.committer().write(move |txn| {
            txn.put(Space::State, full, row);
            Ok(())
        });
        written.await.unwrap();
    }

    #[tokio::test]
    async fn an_erasure_removes_its_facts_from_a_place_that_a_score_has_read_before() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let row_locks = Arc::new(RowLocks::default());
        let erased = SessionStart {
            external_rider_id: "erased".to_owned(),
            ..start()
        };
        assert_eq!(erased.created_at, T0);
        let key = place_row(&erased);
        put(&store, key, place(&["erased"])).await;
        // A score reads the place with the facts of the erased session.
        let locked = row_locks.lock(vec![key]).await;
        let (of_erasure, locks) = (Arc::clone(&store), Arc::clone(&row_locks));
        let removing =
            tokio::spawn(
                async move { remove_contributions(&*of_erasure, &locks, &erased, key).await },
            );
        tokio::time::sleep(Duration::from_millis(20)).await;
        put(&store, key, place(&["erased", "other"])).await;
        drop(locked);
        assert_eq!(removing.await.unwrap().unwrap(), 1);
        let left = store.recall(key).await.unwrap();
        assert_eq!(left, Some(place(&["other"])));
    }
    /// Rows as a later release may write them, in which a field has another type.
    const LATER: &[u8] = br#"{"sessions":{"7":[]},"session_id":7}"#;

    #[tokio::test]
    async fn an_erasure_removes_rows_that_it_cannot_decode() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (erased, row_locks) = (start(), RowLocks::default());
        for key in [place_row(&erased), trace_row(erased.tenant, 7)] {
            put(&store, key, LATER.to_vec()).await;
            let removing = remove_contributions(&*store, &row_locks, &erased, key);
            assert_eq!(removing.await.unwrap(), 1);
            assert_eq!(store.recall(key).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn a_score_keeps_a_place_that_it_cannot_decode() {
        let store = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let (start, facts) = (
            start(),
            PlaceFacts {
                day: 0,
                rider: 0,
                floor_height_m: Some((1, 3.0)),
                entrance: None,
                drop_off: None,
            },
        );
        let written = async || {
            let place = Learned {
                place: Some(facts),
                fingerprint: None,
            };
            let rows = learned(&*store, &start, place, &Recalled::default()).await;
            rows.unwrap().len()
        };
        assert_eq!(written().await, 1);
        put(&store, place_row(&start), LATER.to_vec()).await;
        assert_eq!(written().await, 0);
    }

    #[test]
    fn knowledge_of_a_later_release_is_not_guessed() {
        let read_later = read(br#"{"floor_heights_m":{"1":3.0}}"#);
        assert!(matches!(read_later, Err(StoreError::Unavailable(_))));
    }
    /// If the key of a row changed, a release would not find the facts that an earlier one has
    /// stored.
    #[test]
    fn learned_rows_keep_their_keys() {
        let mut start = start();
        start.address = Address {
            line1: "12 High St".to_owned(),
            city: "Leeds".to_owned(),
            country: "GB".to_owned(),
            ..Address::at(Point {
                lat: 53.8,
                lng: -1.55,
            })
        };
        let rows = [place_row(&start), trace_row(start.tenant, 7)];
        assert_eq!(
            rows.map(|row| hex::encode(&row)),
            [
                "018544b73556cec0ebb79c1c12e14fb6b4000000000000000000000000000000",
                "02019aa0e73ba000000000000000000001730000000000000007000000000000"
            ]
        );
        assert_eq!(rider_hash(&start), 0xcbf2_9ce4_8422_2325);
    }
}
