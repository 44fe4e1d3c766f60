//! Reads all contents of a store through the ports that the service uses, as one JSON value.

use porchlight_core::score::{Knowledge, PlaceKnowledge};
use porchlight_core::session::SessionMachine;
use porchlight_ports::{
    Collection, DeliveryFilter, DocumentKind, JournalEntry, Outbox, RecorderRow, SessionFilter,
    Store, StoreResult,
};
use porchlight_schema::ids::{RecorderId, SessionId, ShardSet};
use porchlight_schema::session::{Env, Tenant};
use porchlight_support::hex::{from_hex, to_hex};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// More rows than a fixture has.
const ROWS_MAX: u32 = 1_000;
/// A batch of at most this many samples is shown whole; a longer one by its size and hash.
const SAMPLES_SHOWN_MAX: u32 = 20;

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

/// A result of a read of rows that a release wrote.
trait OfRelease<T> {
    /// Returns the value, or panics with the rule that keeps the rows of releases readable.
    fn readable(self) -> T;
}

impl<T> OfRelease<T> for StoreResult<T> {
    fn readable(self) -> T {
        self.unwrap_or_else(|error| {
            panic!(
                "a row of a release no longer reads: {error}; append a field only at the end of its row \
                 (schema/src/added_field.rs), and a variant only at the end of its enum"
            )
        })
    }
}

fn sorted(mut values: Vec<Value>) -> Value {
    values.sort_by_key(Value::to_string);
    Value::Array(values)
}

/// Returns the contents of a store; `learned` contains the keys of its learned data, in hexadecimal
/// digits.
pub(crate) async fn contents<S: Store + Outbox>(store: &S, learned: &[String]) -> Value {
    let organizations = store.organizations().await.readable();
    let keys = store.list_keys(None).await.readable();
    let endpoints = store.endpoints().await.readable();
    let (mut sessions, mut tenants) = (Map::new(), Vec::new());
    for organization in &organizations {
        for env in [Env::Sandbox, Env::Production] {
            let tenant = Tenant {
                organization_id: organization.id,
                env,
            };
            let page = store
                .list(tenant, &SessionFilter::default(), ROWS_MAX, None)
                .await
                .readable();
            assert!(page.next.is_none());
            for row in page.rows {
                let id = row.start.session_id;
                sessions.insert(id.to_string(), session(store, id).await);
            }
            tenants.extend(deliveries(store, tenant).await);
        }
    }
    let live = store
        .live(ShardSet::ALL, None, ROWS_MAX as usize)
        .await
        .readable();
    let live: Vec<_> = live
        .iter()
        .map(|row| json!(row.start.session_id.to_string()))
        .collect();
    let to_score = store
        .to_score(ShardSet::ALL, None, ROWS_MAX as usize)
        .await
        .readable();
    let to_score: Vec<_> = to_score.iter().map(|id| json!(id.to_string())).collect();
    let mut known = Map::new();
    for key in learned {
        let row = store
            .recall(from_hex(key).try_into().unwrap())
            .await
            .readable();
        known.insert(key.clone(), learned_value(key, &row.unwrap()));
    }
    let (recorders, next) = store.recorders(None, ROWS_MAX as usize).await.readable();
    assert!(next.is_none());
    let recorders: Vec<_> = recorders.iter().map(recorder).collect();
    let value = json!({
        "learned": known,
        "recorders": sorted(recorders),
        "marks": documents(store, DocumentKind::PrivacyMark).await,
        "erasures": documents(store, DocumentKind::ErasureLog).await,
        "retention": documents(store, DocumentKind::Retention).await,
        "organizations": sorted(organizations.iter().map(to_json).collect()),
        "keys": sorted(keys.iter().map(to_json).collect()),
        "endpoints": sorted(endpoints.iter().map(to_json).collect()),
        "sessions": sessions,
        "tenants": sorted(tenants),
        "live": sorted(live),
        "behind": sorted(to_score),
    });
    // Writing and reading the value normalizes its numbers, so that equal contents compare as
    // equal.
    serde_json::from_str(&value.to_string()).unwrap()
}

fn recorder((id, row): &(RecorderId, RecorderRow)) -> Value {
    let data: Value = serde_json::from_slice(&row.data).unwrap();
    json!({ "id": id.to_string(), "version": row.version, "data": data })
}

/// Returns the documents of a kind that the whole service shares, by their keys.
async fn documents<S: Store>(store: &S, kind: DocumentKind) -> Value {
    let collection = Collection::of_service(kind);
    let documents = store.documents(collection, None, ROWS_MAX as usize);
    let documents = documents.await.readable().into_iter().map(|document| {
        let text = String::from_utf8(document.data.clone());
        let data = text.unwrap_or_else(|_| to_hex(&document.data));
        (to_hex(&document.key), json!(data))
    });
    Value::Object(documents.collect())
}

async fn session<S: Store + Outbox>(store: &S, id: SessionId) -> Value {
    let row = store.find(id).await.readable().unwrap();
    let entries = store.read(id, 0, ROWS_MAX as usize).await.readable();
    let snapshot = store.newest_snapshot(id).await.readable();
    let insight = store.insight(id).await.readable();
    let known = insight.as_ref().map(|insight| {
        let known: Knowledge = serde_json::from_slice(&insight.known).unwrap();
        known
    });
    let snapshot = snapshot.map(|snapshot| {
        // The service discards a snapshot of another format; then nothing is expected of it here.
        let events =
            SessionMachine::restore(&snapshot.state).map(|machine| to_json(&machine.events()));
        json!({
            "generation": snapshot.generation,
            "nextSeq": snapshot.next_seq,
            "sha256": to_hex(&Sha256::digest(&snapshot.state)),
            "events": events.ok(),
        })
    });
    json!({
        "row": row,
        "pod": store.pod(id).await.readable(),
        "notes": sorted(store.notes(id).await.readable().iter().map(to_json).collect()),
        "newest": store.newest(id).await.readable(),
        "count": store.count(id).await.readable(),
        "batches": entries.iter().map(batch).collect::<Vec<_>>(),
        "snapshot": snapshot,
        "insight": insight,
        "review": store.review(id).await.readable(),
        "known": known,
        "messages": store.messages(id).await.readable(),
    })
}

fn batch(entry: &JournalEntry) -> Value {
    let mut samples = Vec::new();
    let mut reader = entry.batch.reader().unwrap();
    while let Some(sample) = reader.next_sample().unwrap() {
        samples.push(json!(format!("{sample:?}")));
    }
    let count = samples.len() as u32;
    assert_eq!(count, entry.batch.samples());
    if count > SAMPLES_SHOWN_MAX {
        let all = samples.iter().map(Value::to_string).collect::<String>();
        samples = vec![json!(to_hex(&Sha256::digest(all)))];
    }
    json!({
        "seq": entry.seq,
        "receivedAt": entry.received_at,
        "count": count,
        "tMaxMs": entry.batch.t_max_ms(),
        "samples": samples,
    })
}

async fn deliveries<S: Store + Outbox>(store: &S, tenant: Tenant) -> Option<Value> {
    let filter = DeliveryFilter::default();
    let page = store
        .deliveries(tenant, &filter, ROWS_MAX, None)
        .await
        .readable();
    assert!(page.next.is_none());
    let endpoint = store.endpoint(tenant).await.readable();
    if page.rows.is_empty() && endpoint.is_none() {
        return None;
    }
    let mut details = Map::new();
    for row in &page.rows {
        let id = row.queued.id;
        let detail = store.delivery(tenant, id).await.readable().unwrap();
        let message = store.message(id).await.readable();
        assert_eq!(message.map(|message| message.body), detail.body);
        let detail = json!({
            "row": detail.row,
            "status": detail.status.as_str(),
            "attempts": detail.attempts,
        });
        details.insert(id.to_string(), detail);
    }
    let mut retries = Vec::new();
    if let Some(endpoint) = &endpoint {
        let listing = store.listing(tenant, endpoint.id, None, None, None, ROWS_MAX as usize);
        retries = listing.await.readable().manual;
    }
    Some(json!({
        "tenant": tenant,
        "deliveries": details,
        "requestedRetries": retries,
    }))
}

/// Returns the keys of a store's learned data, as its contents list them.
pub(super) fn learned_keys(contents: &Value) -> Vec<String> {
    contents["learned"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// Decodes data learned under a key: of a place if the key begins with 1, otherwise of a trace.
fn learned_value(key: &str, bytes: &[u8]) -> Value {
    if key.starts_with("01") {
        let place: PlaceKnowledge = serde_json::from_slice(bytes).unwrap();
        return to_json(&place);
    }
    serde_json::from_slice(bytes).unwrap()
}

/// Returns the first expected part that the found value lacks; a field added by a later version
/// does not count as a difference.
pub(super) fn difference(expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().find_map(|(name, value)| {
                let found = found.get(name).unwrap_or(&Value::Null);
                Some(format!("{name}.{}", difference(value, found)?))
            })
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found).enumerate();
            pairs.find_map(|(place, (expected, found))| {
                Some(format!("{place}.{}", difference(expected, found)?))
            })
        }
        _ if expected == found => None,
        _ => Some(format!(" expected {expected}, found {found}")),
    }
}
