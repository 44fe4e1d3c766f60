//! What a delivered message costs, and what one customer's receiver does to another's. Not part of a test run:
//! `cargo test --release --test webhook -- --ignored --nocapture --test-threads 1 measure`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix_rt::Arbiter;
use porchlight::secrets::SecretVault;
use porchlight::store::EmbeddedStore;
use porchlight::store::secrets::SecretKeys;
use porchlight::transport::{HttpTransport, TransportSettings};
use porchlight::world::{SystemClock, SystemEntropy};
use porchlight_actors::ports::{
    Clock, Endpoint, Entropy, MessageBody, NewSession, OutboundRequest, Outbox, SecretSeal,
    Sessions, Transport,
};
use porchlight_actors::webhook::{WebhookParts, Webhooks};
use porchlight_core::webhook::signature::{secret_text, service_signature, standard_signature};
use porchlight_schema::ids::{EndpointId, MessageId, OrganizationId, SessionId};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{Env, SessionStart, Tenant};
use tokio::io::AsyncWriteExt;

use crate::receiver::{Authority, OK, Receiver, Script, Shown, read_request};
use crate::world::sample_start;

/// Processor time of this process's threads by name, user and system, in milliseconds.
fn processor_ms() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let (name, fields) = stat.split_once(") ").unwrap();
        let name = name.split_once('(').unwrap().1.to_owned();
        // Fields 14 and 15 of the whole, in ticks of 10 ms.
        let ticks = |n: usize| fields.split(' ').nth(n).unwrap().parse::<u64>().unwrap();
        *times.entry(name).or_default() += (ticks(11) + ticks(12)) * 10;
    }
    times
}

/// What was used since, without the receiver and the test itself.
fn since(before: &BTreeMap<String, u64>) -> (u64, String) {
    let now = processor_ms();
    let (mut total, mut text) = (0, String::new());
    for (name, ms) in now {
        let used = ms - before.get(&name).copied().unwrap_or(0).min(ms);
        if used > 0 {
            text.push_str(&format!(" {name} {used}"));
            if !name.starts_with("receiver") && !name.starts_with("measure") {
                total += used;
            }
        }
    }
    (total, text)
}

/// A receiver on a thread of its own that notes how long each message took since the instant in its body.
struct Counting {
    url: String,
    seen: Arc<AtomicUsize>,
    lags: Arc<Mutex<Vec<Duration>>>,
}

fn counting(authority: Arc<Authority>, origin: Instant, hangs: bool) -> Counting {
    let (seen, lags) = (
        Arc::<AtomicUsize>::default(),
        Arc::<Mutex<Vec<Duration>>>::default(),
    );
    let (count, log) = (Arc::clone(&seen), Arc::clone(&lags));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("receiver".to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, _| {
                    let (count, log) = (Arc::clone(&count), Arc::clone(&log));
                    async move {
                        stream.get_ref().0.set_nodelay(true).unwrap();
                        while let Some(request) = read_request(&mut stream).await {
                            if hangs {
                                std::future::pending::<()>().await;
                            }
                            let us = request.split_once(r#""us":"#).unwrap().1;
                            let us = us.split(['}', ',']).next().unwrap().parse().unwrap();
                            let lag = origin.elapsed().saturating_sub(Duration::from_micros(us));
                            log.lock().unwrap().push(lag);
                            count.fetch_add(1, Ordering::SeqCst);
                            if stream.write_all(OK.as_bytes()).await.is_err() {
                                return;
                            }
                            stream.flush().await.unwrap();
                        }
                    }
                })
                .await;
                tell.send(receiver.url()).unwrap();
                std::future::pending::<()>().await;
            });
        })
        .unwrap();
    let url = told.recv().unwrap();
    Counting { url, seen, lags }
}

impl Counting {
    async fn until(&self, count: usize) {
        while self.seen.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn percentiles(&self) -> String {
        let mut lags = std::mem::take(&mut *self.lags.lock().unwrap());
        lags.sort_unstable();
        let at = |part: usize| lags[(lags.len() - 1) * part / 100].as_secs_f64() * 1000.0;
        format!(
            "p50 {:.2} ms, p99 {:.2} ms of {}",
            at(50),
            at(99),
            lags.len()
        )
    }
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
        let folder = std::env::temp_dir().join(format!("measure-{name}-{}", std::process::id()));
        let store = EmbeddedStore::open_alone(&folder).unwrap();
        let vault = SecretVault::new(&SecretKeys::beside_store(&folder).unwrap());
        let authority = Arc::new(Authority::new());
        let transport = HttpTransport::start(TransportSettings {
            allow_addresses: vec!["127.0.0.0/8".parse().unwrap()],
            extra_ca_file: Some(authority.file.clone()),
            resolver: Script::new(vec![vec!["127.0.0.1"]]),
            ..TransportSettings::default()
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
            },
        )
    }

    async fn tenant(&self, number: u128, url: &str) -> Tenant {
        let now = SystemClock.now();
        let tenant = Tenant {
            organization_id: OrganizationId::new(now, number),
            env: Env::Sandbox,
        };
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
        };
        assert!(self.store.create_endpoint(endpoint).await.unwrap());
        tenant
    }

    fn body(&self, bytes: usize) -> String {
        let us = self.origin.elapsed().as_micros();
        let head = format!(r#"{{"event":"session.started","us":{us},"data":""#);
        let fill = "x".repeat(bytes.saturating_sub(head.len() + 2));
        format!("{head}{fill}\"}}")
    }

    async fn enqueue(&self, tenant: Tenant, bytes: usize) {
        let now = SystemClock.now();
        let start = SessionStart {
            session_id: SessionId::new(now, SystemEntropy.random()),
            tenant,
            ..sample_start(now)
        };
        let message = MessageBody {
            event: MessageEvent::SessionStarted,
            created_at: now,
            body: self.body(bytes).into(),
        };
        let new = NewSession {
            start,
            idempotency: None,
            message,
        };
        self.store.start(new).await.unwrap();
    }

    /// So many a second, each followed by its poke.
    async fn paced(&self, webhooks: &Webhooks, tenant: Tenant, a_second: u32, count: u32) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / a_second);
        for _ in 0..count {
            ticks.tick().await;
            self.enqueue(tenant, 400).await;
            webhooks.poke(tenant);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

fn run(test: impl Future<Output = ()>) {
    actix_rt::System::new().block_on(test);
}

/// The same requests, signed and posted by the same client, and nothing else: what there is to be compared with.
async fn bare(bench: &Bench, url: &str, bytes: usize, count: usize) {
    let left = Arc::new(AtomicUsize::new(count));
    let body: Arc<str> = bench.body(bytes).into();
    let workers = (0..32).map(|_| {
        let (left, body) = (Arc::clone(&left), Arc::clone(&body));
        let (transport, url) = (Arc::clone(&bench.transport), Arc::<str>::from(url));
        tokio::task::spawn_local(async move {
            let secret = secret_text(&[1; 32]);
            while left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_ok()
            {
                let now = SystemClock.now();
                let id = MessageId::new(now, SystemEntropy.random());
                let signed = standard_signature([secret.as_str()], id, now, body.as_bytes());
                let request = OutboundRequest {
                    url: Arc::clone(&url),
                    headers: vec![
                        ("webhook-id", id.to_string()),
                        ("webhook-signature", signed.unwrap()),
                        (
                            "x-service-signature",
                            service_signature(&secret, body.as_bytes()),
                        ),
                    ],
                    body: Arc::clone(&body),
                };
                assert_eq!(transport.send(request).await.cause, None);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

#[test]
#[ignore = "a measurement"]
fn measure_a_burst() {
    run(async {
        for bytes in [400, 4_096] {
            let count = 20_000;
            let bench = Bench::new("burst");
            let receiver = counting(Arc::clone(&bench.authority), bench.origin, false);
            let tenant = bench.tenant(1, &receiver.url).await;
            for _ in 0..count / 1_000 {
                let enqueuing = (0..1_000).map(|_| bench.enqueue(tenant, bytes));
                futures_util::future::join_all(enqueuing).await;
            }
            let (before, begun) = (processor_ms(), Instant::now());
            let arbiter = Arbiter::new();
            let _webhooks = bench.webhooks(&arbiter);
            receiver.until(count).await;
            let took = begun.elapsed().as_secs_f64();
            let (ms, threads) = since(&before);
            let each = ms as f64 / count as f64;
            println!(
                "burst of {count}, {bytes} B: {:.0}/s, {each:.3} ms each;{threads}",
                count as f64 / took
            );
            let (before, begun) = (processor_ms(), Instant::now());
            let local = tokio::task::LocalSet::new();
            local
                .run_until(bare(&bench, &receiver.url, bytes, count))
                .await;
            let took = begun.elapsed().as_secs_f64();
            let (_, threads) = since(&before);
            println!("  bare loop: {:.0}/s;{threads}", count as f64 / took);
            arbiter.stop();
        }
    });
}

#[test]
#[ignore = "a measurement"]
fn measure_a_steady_stream() {
    run(async {
        let bench = Bench::new("paced");
        let receiver = counting(Arc::clone(&bench.authority), bench.origin, false);
        let tenant = bench.tenant(1, &receiver.url).await;
        let arbiter = Arbiter::new();
        let webhooks = bench.webhooks(&arbiter);
        let before = processor_ms();
        bench.paced(&webhooks, tenant, 200, 3_000).await;
        receiver.until(3_000).await;
        let (ms, threads) = since(&before);
        let each = ms as f64 / 3_000.0;
        println!(
            "200/s, 400 B: {}, {each:.3} ms each with its commit;{threads}",
            receiver.percentiles()
        );
        arbiter.stop();
    });
}

#[test]
#[ignore = "a measurement"]
fn measure_a_quiet_customer_beside_one_that_hangs() {
    run(async {
        let bench = Bench::new("isolation");
        let quiet = counting(Arc::clone(&bench.authority), bench.origin, false);
        let hanging = counting(Arc::clone(&bench.authority), bench.origin, true);
        let quiet_tenant = bench.tenant(1, &quiet.url).await;
        let hanging_tenant = bench.tenant(2, &hanging.url).await;
        let arbiter = Arbiter::new();
        let webhooks = bench.webhooks(&arbiter);
        bench.paced(&webhooks, quiet_tenant, 20, 400).await;
        quiet.until(400).await;
        println!("quiet alone, 20/s: {}", quiet.percentiles());
        let busy = counting(Arc::clone(&bench.authority), bench.origin, false);
        let busy_tenant = bench.tenant(3, &busy.url).await;
        let noise = bench.paced(&webhooks, busy_tenant, 300, 6_000);
        let signal = bench.paced(&webhooks, quiet_tenant, 20, 400);
        tokio::join!(noise, signal);
        quiet.until(800).await;
        println!("beside one that answers, 300/s: {}", quiet.percentiles());
        let noise = bench.paced(&webhooks, hanging_tenant, 300, 6_000);
        let signal = bench.paced(&webhooks, quiet_tenant, 20, 400);
        tokio::join!(noise, signal);
        quiet.until(1_200).await;
        println!("beside one that hangs, 300/s: {}", quiet.percentiles());
        arbiter.stop();
    });
}

/// Memory that the process holds, in MiB.
fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib / 1024
}

/// `PORCHLIGHT_OUTBOX=1000000` for more than the usual 200,000.
#[test]
#[ignore = "a measurement"]
fn measure_a_long_outbox() {
    run(async {
        let count =
            std::env::var("PORCHLIGHT_OUTBOX").map_or(200_000, |text| text.parse().unwrap());
        let bench = Bench::new("outbox");
        let hanging = counting(Arc::clone(&bench.authority), bench.origin, true);
        let receiver = counting(Arc::clone(&bench.authority), bench.origin, false);
        let tenant = bench.tenant(1, &hanging.url).await;
        for _ in 0..count / 1_000 {
            let enqueuing = (0..1_000).map(|_| bench.enqueue(tenant, 400));
            futures_util::future::join_all(enqueuing).await;
        }
        println!(
            "{count} wait for a receiver that hangs: {} MiB",
            resident_mib()
        );
        let arbiter = Arbiter::new();
        let webhooks = bench.webhooks(&arbiter);
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(6)).await;
            println!("  at work: {} MiB", resident_mib());
        }
        let mut endpoint = bench.store.endpoint(tenant).await.unwrap().unwrap();
        endpoint.url = receiver.url.as_str().into();
        endpoint.version += 1;
        assert!(bench.store.replace_endpoint(endpoint).await.unwrap());
        webhooks.endpoint_changed(tenant);
        let begun = Instant::now();
        receiver.until(1).await;
        println!(
            "  first delivery {} ms after the change",
            begun.elapsed().as_millis()
        );
        receiver.until(count - 100).await;
        let rate = count as f64 / begun.elapsed().as_secs_f64();
        println!("  drained at {rate:.0}/s, {} MiB", resident_mib());
        arbiter.stop();
        let arbiter = Arbiter::new();
        let begun = Instant::now();
        let webhooks = bench.webhooks(&arbiter);
        bench.enqueue(tenant, 400).await;
        let before = receiver.seen.load(Ordering::SeqCst);
        webhooks.poke(tenant);
        receiver.until(before + 1).await;
        println!(
            "  after a restart on what was removed: first delivery after {} ms",
            begun.elapsed().as_millis()
        );
        arbiter.stop();
    });
}
