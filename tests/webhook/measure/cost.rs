//! Measures the cost of a delivered message: processor time and latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use actix_rt::Arbiter;
use porchlight_core::webhook::signature::{secret_text, service_signature, standard_signature};
use porchlight_ports::{Clock, Entropy, OutboundRequest, Transport};
use porchlight_schema::ids::MessageId;
use porchlight_world::{SystemClock, SystemEntropy};

use crate::receiver::tenant;

use super::{Bench, Manner, counting, processor_ms, run, since};

/// Sends the same requests, signed and posted by the same client, and does nothing else: the
/// baseline.
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
                    tenant: tenant(),
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

/// Sends `count` waiting messages, and then as many with the bare loop. Returns the processor time
/// of each.
async fn burst(bytes: usize, count: usize) -> (f64, f64) {
    let bench = Bench::new("burst");
    let receiver = counting(Arc::clone(&bench.authority), bench.origin, Manner::Answers);
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
        "burst of {count}, {bytes} B: {:.0}/s, {each:.3} ms each, {} out of order;{threads}",
        count as f64 / took,
        receiver.disorder()
    );
    arbiter.stop();
    let (before, begun) = (processor_ms(), Instant::now());
    let local = tokio::task::LocalSet::new();
    local
        .run_until(bare(&bench, &receiver.url, bytes, count))
        .await;
    let took = begun.elapsed().as_secs_f64();
    // The loop runs on the test's thread, which does nothing else meanwhile.
    let (sending_ms, threads, own_ms) = super::with_own(&before);
    let bare_each = (sending_ms + own_ms) as f64 / count as f64;
    println!(
        "  bare loop: {:.0}/s, {bare_each:.3} ms each;{threads}",
        count as f64 / took
    );
    (each, bare_each)
}

#[test]
#[ignore = "a measurement"]
fn measure_a_burst() {
    run(async {
        for bytes in [400, 4_096] {
            let mut ratios = Vec::new();
            for _ in 0..3 {
                let (each, bare_each) = burst(bytes, 20_000).await;
                ratios.push(each / bare_each);
            }
            ratios.sort_by(f64::total_cmp);
            println!(
                "{bytes} B: {:.2} times the bare loop (median of three)",
                ratios[1]
            );
        }
    });
}

#[test]
#[ignore = "a measurement"]
fn measure_a_steady_stream() {
    run(async {
        for bytes in [400, 4_096] {
            let bench = Bench::new("paced");
            let receiver = counting(Arc::clone(&bench.authority), bench.origin, Manner::Answers);
            let tenant = bench.tenant(1, &receiver.url).await;
            let arbiter = Arbiter::new();
            let webhooks = bench.webhooks(&arbiter);
            let before = processor_ms();
            bench.paced(&webhooks, tenant, bytes, 200, 3_000).await;
            receiver.until(3_000).await;
            let (ms, threads) = since(&before);
            let each = ms as f64 / 3_000.0;
            let (p50, p99) = receiver.percentiles();
            println!(
                "200/s, {bytes} B: p50 {p50:.2} ms, p99 {p99:.2} ms, {} out of order, \
                 {each:.3} ms each with its commit;{threads}",
                receiver.disorder()
            );
            arbiter.stop();
        }
    });
}
