//! Measures the cost of a delivered message, and the effect of one receiver, or one session, on the
//! others. Not part of a test run: `cargo test --release --test webhook -- --ignored --nocapture
//! --test-threads 1 measure`.

mod cost;
mod isolation;
mod names;
mod outbox;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix_rt::Arbiter;
use porchlight::key_guard::store_secrets;
use porchlight::transport::{HttpTransport, TransportSettings};
use porchlight_actors::webhook::{WebhookParts, Webhooks};
use porchlight_core::webhook::signature::secret_text;
use porchlight_keys::keyring::SecretKeys;
use porchlight_keys::secrets::SecretVault;
use porchlight_ports::{
    Clock, Endpoint, Entropy, MessageBody, NewSession, Outbox, SecretSeal, Sessions, SingleNode,
};
use porchlight_schema::ids::{EndpointId, OrganizationId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{Env, SessionStart, Tenant};
use porchlight_store::EmbeddedStore;
use porchlight_world::{SystemClock, SystemEntropy};
use tokio::io::AsyncWriteExt;

use crate::flow::header;
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};
use crate::world::{BAD, sample_start};

/// Returns the processor time of this process's threads by name, user and system, in milliseconds.
fn processor_ms() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let (name, fields) = stat.split_once(") ").unwrap();
        let name = name.split_once('(').unwrap().1.to_owned();
        // Fields 14 and 15 of the whole line, in ticks of 10 ms.
        let ticks = |n: usize| fields.split(' ').nth(n).unwrap().parse::<u64>().unwrap();
        *times.entry(name).or_default() += (ticks(11) + ticks(12)) * 10;
    }
    times
}

/// Returns the processor time used since `before`, without the receiver and the test itself.
fn since(before: &BTreeMap<String, u64>) -> (u64, String) {
    let (total, text, _own) = with_own(before);
    (total, text)
}

/// Returns the processor time used since `before`, and that of the test itself.
fn with_own(before: &BTreeMap<String, u64>) -> (u64, String, u64) {
    let now = processor_ms();
    let (mut total, mut own, mut text) = (0, 0, String::new());
    for (name, ms) in now {
        let used = ms - before.get(&name).copied().unwrap_or(0).min(ms);
        if used > 0 {
            text.push_str(&format!(" {name} {used}"));
            match name.as_str() {
                name if name.starts_with("receiver") => {}
                name if name.starts_with("measure") => own += used,
                _ => total += used,
            }
        }
    }
    (total, text, own)
}

/// A receiver on its own thread that records the time from the instant in the body of each message
/// to its arrival, and whether the message arrived in order.
struct Counting {
    url: String,
    seen: Arc<AtomicUsize>,
    lags: Arc<Mutex<Vec<Duration>>>,
    disorder: Arc<AtomicUsize>,
}

/// The way in which a receiver answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// The receiver answers 200.
    Answers,
    /// The receiver never answers.
    Hangs,
    /// The receiver never answers if the body contains `"bad":1`, and answers 200 otherwise.
    HangsOnBad,
    /// The receiver answers 500 if the body contains `"bad":1`, and 200 otherwise.
    FailsOnBad,
}

fn counting(authority: Arc<Authority>, origin: Instant, manner: Manner) -> Counting {
    let counting = Counting {
        url: String::new(),
        seen: Arc::default(),
        lags: Arc::default(),
        disorder: Arc::default(),
    };
    let (count, log) = (Arc::clone(&counting.seen), Arc::clone(&counting.lags));
    let disorder = Arc::clone(&counting.disorder);
    let (send_url, receive_url) = std::sync::mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("receiver".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let next = Arc::<Mutex<BTreeMap<String, u32>>>::default();
                let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, _| {
                    let (count, log) = (Arc::clone(&count), Arc::clone(&log));
                    let (next, disorder) = (Arc::clone(&next), Arc::clone(&disorder));
                    async move {
                        stream.get_ref().0.set_nodelay(true).unwrap();
                        while let Some(request) = read_request(&mut stream).await {
                            let bad = request.contains(r#""bad":1"#);
                            let hangs = manner == Manner::Hangs;
                            if hangs || (bad && manner == Manner::HangsOnBad) {
                                std::future::pending::<()>().await;
                            }
                            let fails = bad && manner == Manner::FailsOnBad;
                            let answer = if fails { BAD } else { OK };
                            if stream.write_all(answer.as_bytes()).await.is_err() {
                                return;
                            }
                            stream.flush().await.unwrap();
                            if fails {
                                continue;
                            }
                            if !is_next(&next, &request) {
                                disorder.fetch_add(1, Ordering::SeqCst);
                            }
                            if let Some((_, us)) = request.split_once(r#""us":"#) {
                                let us = us.split(['}', ',']).next().unwrap().parse().unwrap();
                                let sent = Duration::from_micros(us);
                                log.lock()
                                    .unwrap()
                                    .push(origin.elapsed().saturating_sub(sent));
                            }
                            count.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
                .await;
                send_url.send(receiver.local_url()).unwrap();
                std::future::pending::<()>().await;
            });
        })
        .unwrap();
    Counting {
        url: receive_url.recv().unwrap(),
        ..counting
    }
}

/// Returns whether a message follows the session's last one, or repeats it. Requests of the bare
/// loop have no order.
fn is_next(next: &Mutex<BTreeMap<String, u32>>, request: &str) -> bool {
    let Some(session) = header(request, "x-service-delivery") else {
        return true;
    };
    let number: u32 = header(request, "x-service-sequence")
        .unwrap()
        .parse()
        .unwrap();
    let mut next = next.lock().unwrap();
    let expected = next.entry(session.to_owned()).or_default();
    let in_turn = number == *expected || number + 1 == *expected;
    *expected = number + 1;
    in_turn
}

impl Counting {
    async fn until(&self, count: usize) {
        while self.seen.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Returns the median and 99th percentile of the lags since the last call, in milliseconds.
    fn percentiles(&self) -> (f64, f64) {
        percentiles(&mut self.take_lags())
    }

    /// Returns the lags since the last call.
    fn take_lags(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.lags.lock().unwrap())
    }

    fn disorder(&self) -> usize {
        self.disorder.load(Ordering::SeqCst)
    }
}

/// Returns the median and the 99th percentile in milliseconds.
fn percentiles(lags: &mut [Duration]) -> (f64, f64) {
    lags.sort_unstable();
    let at = |part: usize| lags[(lags.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    (at(50), at(99))
}

struct Bench {
    store: Arc<EmbeddedStore>,
    vault: Arc<SecretVault>,
    authority: Arc<Authority>,
    transport: Arc<HttpTransport>,
    origin: Instant,
    folder: std::path::PathBuf,
}

impl Bench {
    fn new(name: &str) -> Self {
        Self::with_settings(name, TransportSettings::default())
    }

    /// Creates a bench with these settings, except for the addresses and certificates of the
    /// receivers.
    fn with_settings(name: &str, settings: TransportSettings) -> Self {
        let folder = std::env::temp_dir().join(format!("measure-{name}-{}", std::process::id()));
        let store = EmbeddedStore::open_for_command(&folder).unwrap();
        let keys = SecretKeys::load_or_create(&folder).unwrap();
        store.unlock(&store_secrets(&keys)).unwrap();
        let vault = SecretVault::new(&keys);
        let authority = Arc::new(Authority::new());
        let transport = HttpTransport::start(TransportSettings {
            allow_addresses: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            extra_ca_file: Some(authority.file.clone()),
            ..settings
        });
        Self {
            store,
            vault: Arc::new(vault),
            authority,
            transport: Arc::new(transport.unwrap()),
            origin: Instant::now(),
            folder,
        }
    }

    fn webhooks(&self, arbiter: &Arbiter) -> Webhooks {
        Webhooks::start(
            &[arbiter.handle()],
            WebhookParts {
                outbox: Arc::clone(&self.store) as _,
                transport: Arc::clone(&self.transport) as _,
                seal: Arc::clone(&self.vault) as _,
                clock: Arc::new(SystemClock),
                entropy: Arc::new(SystemEntropy),
                ownership: Arc::new(SingleNode { generation: 1 }),
                peers: Arc::new(SingleNode { generation: 1 }),
            },
        )
    }

    async fn tenant(&self, number: u128, url: &str) -> Tenant {
        let tenant = Tenant {
            organization_id: OrganizationId::new(SystemClock.now(), number),
            env: Env::Sandbox,
        };
        self.endpoint(tenant, number, url).await;
        tenant
    }

    async fn endpoint(&self, tenant: Tenant, number: u128, url: &str) {
        let now = SystemClock.now();
        let id = EndpointId::new(now, number);
        let secret = self.vault.seal(tenant, id, 1, &secret_text(&[1; 32]));
        let endpoint = Endpoint {
            enabled: true,
            id,
            tenant,
            url: url.into(),
            created_at: now,
            version: 1,
            secret: secret.unwrap(),
            secret_made_at: now,
            previous: None,
            paused_at: None,
            remembered: Vec::new(),
        };
        assert!(self.store.create_endpoint(endpoint).await.unwrap());
    }

    fn body(&self, bytes: usize) -> String {
        let us = self.origin.elapsed().as_micros();
        let head = format!(r#"{{"event":"session.started","us":{us},"data":""#);
        let fill = "x".repeat(bytes.saturating_sub(head.len() + 2));
        format!("{head}{fill}\"}}")
    }

    fn message(&self, event: MessageEvent, body: String) -> MessageBody {
        MessageBody {
            event,
            created_at: SystemClock.now(),
            body: body.into(),
        }
    }

    async fn enqueue(&self, tenant: Tenant, bytes: usize) -> SessionId {
        self.enqueue_body(tenant, self.body(bytes)).await
    }

    /// Enqueues a session's first message with this body.
    async fn enqueue_body(&self, tenant: Tenant, body: String) -> SessionId {
        let now = SystemClock.now();
        let session_id = SessionId::new(now, SystemEntropy.random());
        let start = SessionStart {
            session_id,
            tenant,
            ..sample_start(now)
        };
        let message = self.message(MessageEvent::SessionStarted, body);
        let new = NewSession {
            start,
            idempotency: None,
            message,
        };
        self.store.start(new).await.unwrap();
        session_id
    }

    /// Enqueues `a_second` messages a second, each followed by a wake-up.
    async fn paced(
        &self,
        webhooks: &Webhooks,
        tenant: Tenant,
        bytes: usize,
        a_second: u32,
        count: u32,
    ) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / a_second);
        for _ in 0..count {
            ticks.tick().await;
            let session_id = self.enqueue(tenant, bytes).await;
            webhooks.wake_lane(tenant, session_id);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the memory of a process in MiB. `None` means this process.
fn resident_mib(pid: Option<u32>) -> u64 {
    let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let mut words = line.unwrap().split_whitespace();
    words.nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn run(test: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(test);
}
