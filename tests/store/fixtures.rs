//! The data that the tests store, and the stores under test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use porchlight_ports::{
    Covered, Endpoint, MessageBody, NewSession, Outbox, SealedSecret, Sessions, Store,
    StoredInsight,
};
use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId};
use porchlight_schema::insight::{DroppedSamples, InsightRecord};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::sample::packed::{BatchBuilder, PackedBatch};
use porchlight_schema::sample::{Pressure, Sample, Steps};
use porchlight_schema::session::{
    Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
};
use porchlight_schema::time::TimestampMs;
use porchlight_store::{EmbeddedStore, MemoryStore, OpenError, OpenOptions, StoreSecrets};
use zeroize::Zeroizing;

/// A store under test, with the operations that its ports lack.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Returns the store.
    fn store(&self) -> Arc<dyn Store>;
    /// Returns the store as webhooks see it.
    fn outbox(&self) -> Arc<dyn Outbox>;
    /// Gives the tenant an endpoint, enabled or not.
    async fn put_endpoint(&self, tenant: Tenant, enabled: bool);
}

pub async fn put_endpoint(store: &dyn Outbox, tenant: Tenant, enabled: bool) {
    let stored = store.endpoint(tenant).await.unwrap();
    let version = stored.as_ref().map_or(0, |stored| stored.version) + 1;
    let endpoint = Endpoint {
        enabled,
        id: EndpointId::new(TimestampMs(1), 1),
        tenant,
        url: "https://receiver.example/".into(),
        created_at: TimestampMs(1),
        version,
        secret: SealedSecret {
            number: 1,
            sealed: Vec::new(),
        },
        secret_made_at: TimestampMs(1),
        previous: None,
        paused_at: None,
        remembered: Vec::new(),
    };
    let done = if stored.is_some() {
        store.replace_endpoint(endpoint).await
    } else {
        store.create_endpoint(endpoint).await
    };
    assert!(done.unwrap());
}

/// The store in memory.
pub struct Memory(Arc<MemoryStore>);

impl Memory {
    pub fn make() -> Self {
        Self(MemoryStore::new(Arc::new(|_, _| {})).unwrap())
    }
}

#[async_trait]
impl Subject for Memory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as _
    }

    fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::clone(&self.0) as _
    }

    async fn put_endpoint(&self, tenant: Tenant, enabled: bool) {
        put_endpoint(&*self.0, tenant, enabled).await;
    }
}

/// The store on disk.
pub struct Embedded {
    store: Arc<EmbeddedStore>,
    _folder: Folder,
}

impl Embedded {
    pub fn make() -> Self {
        let folder = Folder::new();
        Self {
            store: open(folder.path()).unwrap(),
            _folder: folder,
        }
    }
}

#[async_trait]
impl Subject for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::clone(&self.store) as _
    }

    async fn put_endpoint(&self, tenant: Tenant, enabled: bool) {
        put_endpoint(&*self.store, tenant, enabled).await;
    }
}

/// Opens and unlocks the store in a folder, and prints its error if it fails.
pub fn open(path: &Path) -> Result<Arc<EmbeddedStore>, OpenError> {
    let store = EmbeddedStore::open(OpenOptions {
        reserve_bytes: porchlight_schema::limits::STORE_RESERVE_BYTES_DEFAULT,
        path: path.to_path_buf(),
        on_durable: Arc::new(|_, _| {}),
        on_fatal: Arc::new(|reason| eprintln!("fatal: {reason}")),
    })?;
    store.unlock(&secrets()).unwrap();
    Ok(store)
}

/// Returns the secrets that seal the data keys of the tests' stores.
pub fn secrets() -> StoreSecrets {
    StoreSecrets {
        first: Zeroizing::new([7; 32]),
        others: Vec::new(),
    }
}

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!(
            "porchlight-store-{}-{}",
            std::process::id(),
            fresh()
        ));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Returns a number that no other call in this process returns.
pub fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The start time of the tests.
pub const T0: TimestampMs = TimestampMs(1_763_636_100_000);

pub fn tenant() -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(T0, u128::from(fresh())),
        env: Env::Production,
    }
}

pub fn session_id(at: TimestampMs) -> SessionId {
    SessionId::new(at, u128::from(fresh()))
}

pub fn start(tenant: Tenant, created_at: TimestampMs) -> SessionStart {
    SessionStart {
        delivery_id: format!("delivery-{}", fresh()),
        external_rider_id: "rider".to_owned(),
        ..SessionStart::delivery(
            session_id(created_at),
            tenant,
            Address {
                line1: "1 High Street".to_owned(),
                city: "Leeds".to_owned(),
                country: "GB".to_owned(),
                floor: Some(2),
                ..Address::at(Point {
                    lat: 53.8,
                    lng: -1.55,
                })
            },
            created_at,
        )
    }
}

pub fn message(event: MessageEvent) -> MessageBody {
    MessageBody {
        event,
        created_at: T0,
        body: format!("{{\"n\":{}}}", fresh()).into(),
    }
}

pub fn new_session(start: &SessionStart) -> NewSession {
    NewSession {
        start: start.clone(),
        idempotency: None,
        message: message(MessageEvent::SessionStarted),
    }
}

/// Starts sessions, each with its message queued at its own start, many at the same time.
pub async fn start_all(store: &impl Sessions, starts: &[SessionStart]) {
    for some in starts.chunks(64) {
        let starting = some.iter().map(|start| {
            let mut session = new_session(start);
            session.message.created_at = start.created_at;
            store.start(session)
        });
        futures_util::future::try_join_all(starting).await.unwrap();
    }
}

pub fn end_at(completed_at: TimestampMs) -> SessionEnd {
    SessionEnd {
        ended_at: completed_at.plus_ms(-5),
        completed_at,
        reason: EndReason::Stopped,
    }
}

/// Returns the insight of a session that could not be scored, which covers this number of batches.
pub fn insight(batches: u32) -> StoredInsight {
    StoredInsight {
        record: InsightRecord {
            revision: 1,
            score: None,
            error_message: Some("none".to_owned()),
            pod: None,
            updated_at: T0,
        },
        covered: Covered {
            batches,
            ..Covered::default()
        },
        known: vec![1],
        dropped: DroppedSamples::default(),
    }
}

/// Returns a batch whose content depends on `number`.
pub fn batch(number: u32) -> PackedBatch {
    let mut builder = BatchBuilder::default();
    builder
        .push(&Sample::Steps(Steps {
            t_ms: number % 1_000_000,
            count: number,
        }))
        .unwrap();
    builder.pack()
}

/// Returns a batch of about 1 KB.
pub fn big_batch(number: u32) -> PackedBatch {
    let mut builder = BatchBuilder::default();
    let mut noise = u64::from(number) + 1;
    for sample in 0..330_u32 {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        builder
            .push(&Sample::Pressure(Pressure {
                t_ms: sample * 200,
                hpa: 1000.0 + (noise >> 48) as f32 / 4096.0,
            }))
            .unwrap();
    }
    builder.pack()
}
