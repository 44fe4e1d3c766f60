//! Measures the effect of one customer's receiver on another customer, and of one session's lane on
//! the customer's other sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_rt::Arbiter;
use porchlight_actors::webhook::Webhooks;
use porchlight_ports::{Clock, DeliveryFilter, Outbox};
use porchlight_schema::session::Tenant;
use porchlight_world::SystemClock;

use super::{Bench, Counting, Manner, counting, percentiles, run};

/// The quiet stream: messages a second, and messages in total.
const QUIET: (u32, u32) = (20, 400);
/// The loud stream: messages a second, and messages in total.
const LOUD: (u32, u32) = (300, 6_000);

/// Returns the quiet stream's lags while `noise` runs.
async fn lags_under_noise(
    bench: &Bench,
    webhooks: &Webhooks,
    tenant: Tenant,
    receiver: &Counting,
    noise: impl Future<Output = ()>,
) -> Vec<Duration> {
    let before = receiver.seen.load(Ordering::SeqCst);
    let signal = async {
        bench.paced(webhooks, tenant, 400, QUIET.0, QUIET.1).await;
        receiver.until(before + QUIET.1 as usize).await;
        receiver.take_lags()
    };
    tokio::join!(noise, signal).1
}

/// Returns the quiet stream's percentiles while `noise` runs.
async fn percentiles_under_noise(
    bench: &Bench,
    webhooks: &Webhooks,
    tenant: Tenant,
    receiver: &Counting,
    noise: impl Future<Output = ()>,
) -> (f64, f64) {
    percentiles(&mut lags_under_noise(bench, webhooks, tenant, receiver, noise).await)
}

fn report(what: &str, alone: (f64, f64), (p50, p99): (f64, f64)) {
    let ratio = p99 / alone.1;
    println!("{what}: p50 {p50:.2} ms, p99 {p99:.2} ms; p99 {ratio:.2} times that alone");
}

#[test]
#[ignore = "a measurement"]
fn measure_a_quiet_customer_next_to_a_hanging_one() {
    run(async {
        let bench = Bench::new("isolation");
        let receiver = |manner| counting(Arc::clone(&bench.authority), bench.origin, manner);
        let quiet = receiver(Manner::Answers);
        let (busy, hanging) = (receiver(Manner::Answers), receiver(Manner::Hangs));
        let tenant = bench.tenant(1, &quiet.url).await;
        let arbiter = Arbiter::new();
        let webhooks = bench.webhooks(&arbiter);
        let beside =
            async |noise| percentiles_under_noise(&bench, &webhooks, tenant, &quiet, noise).await;
        let silence: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {});
        let alone = beside(silence).await;
        report("quiet alone, 20/s", alone, alone);
        for (number, what, receiver) in [
            (2, "next to an endpoint that answers, 300/s", &busy),
            (3, "next to an endpoint that hangs, 300/s", &hanging),
        ] {
            let loud = bench.tenant(number, &receiver.url).await;
            let noise = bench.paced(&webhooks, loud, 400, LOUD.0, LOUD.1);
            report(what, alone, beside(Box::pin(noise)).await);
        }
        arbiter.stop();
    });
}

/// Measures alongside one session whose message is retried manually as soon as it has failed or
/// timed out, and alongside 300 sessions a second whose messages fail.
#[test]
#[ignore = "a measurement"]
fn measure_sessions_next_to_a_failing_lane() {
    for manner in [Manner::FailsOnBad, Manner::HangsOnBad] {
        run(async {
            let bench = Bench::new("lanes");
            let receiver = counting(Arc::clone(&bench.authority), bench.origin, manner);
            let tenant = bench.tenant(1, &receiver.url).await;
            let arbiter = Arbiter::new();
            let webhooks = bench.webhooks(&arbiter);
            let beside = async |noise| {
                percentiles_under_noise(&bench, &webhooks, tenant, &receiver, noise).await
            };
            let silence: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {});
            let alone = beside(silence).await;
            report(&format!("{manner:?}: sessions alone, 20/s"), alone, alone);
            let enough = AtomicBool::new(false);
            let one = async {
                let (with, ()) = tokio::join!(
                    async {
                        let silence: std::pin::Pin<Box<dyn Future<Output = ()>>> =
                            Box::pin(async {});
                        let with = beside(silence).await;
                        enough.store(true, Ordering::SeqCst);
                        with
                    },
                    keep_failing(&bench, &webhooks, tenant, &enough)
                );
                with
            };
            report(
                "  next to one lane that is retried continuously",
                alone,
                one.await,
            );
            if manner == Manner::HangsOnBad {
                // With 300 hanging messages a second the receiver itself hangs: its throughput is
                // then not measured.
                arbiter.stop();
                return;
            }
            let noise = async {
                let mut ticks = tokio::time::interval(Duration::from_secs(1) / LOUD.0);
                for _ in 0..LOUD.1 {
                    ticks.tick().await;
                    bench.enqueue_body(tenant, bad(&bench)).await;
                    webhooks.wake(tenant);
                }
            };
            let with = beside(Box::pin(noise)).await;
            report(
                "  next to 300 new lanes per second, each failing",
                alone,
                with,
            );
            arbiter.stop();
        });
    }
}

fn bad(bench: &Bench) -> String {
    bench.body(400).replacen('{', r#"{"bad":1,"#, 1)
}

async fn keep_failing(bench: &Bench, webhooks: &Webhooks, tenant: Tenant, enough: &AtomicBool) {
    let session_id = bench.enqueue_body(tenant, bad(bench)).await;
    webhooks.wake(tenant);
    let filter = DeliveryFilter {
        session_id: Some(session_id),
        ..DeliveryFilter::default()
    };
    while !enough.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let page = bench.store.deliveries(tenant, &filter, 1, None).await;
        let id = page.unwrap().rows[0].queued.id;
        bench
            .store
            .request_retry(tenant, id, SystemClock.now())
            .await
            .unwrap();
        webhooks.wake(tenant);
    }
}

/// Measures quick sessions alongside 150 sessions of the same endpoint whose requests hang until
/// their deadline, then wait for their retry while 150 others hang.
#[test]
#[ignore = "a measurement"]
fn measure_quick_sessions_beside_150_that_hang() {
    const HANGING: usize = 150;
    const ROUNDS: usize = 5;
    run(async {
        let bench = Bench::new("hanging");
        let authority = Arc::clone(&bench.authority);
        let receiver = counting(authority, bench.origin, Manner::HangsOnBad);
        let tenant = bench.tenant(1, &receiver.url).await;
        let arbiter = Arbiter::new();
        let webhooks = bench.webhooks(&arbiter);
        let beside =
            async |noise| lags_under_noise(&bench, &webhooks, tenant, &receiver, noise).await;
        // One round has too few messages for its 99th percentile to be stable.
        let (mut alone, mut with) = (Vec::new(), Vec::new());
        for round in 1..=ROUNDS {
            let silence: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {});
            let mut lags = beside(silence).await;
            let round_alone = percentiles(&mut lags);
            alone.append(&mut lags);
            let noise = async {
                // The quiet stream takes 20 s; an attempt hangs for 5 s.
                for _ in 0..4 {
                    for _ in 0..HANGING {
                        let session_id = bench.enqueue_body(tenant, bad(&bench)).await;
                        webhooks.wake_lane(tenant, session_id);
                    }
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
            };
            let mut lags = beside(Box::pin(noise)).await;
            report(
                &format!("round {round}, next to {HANGING} hanging sessions"),
                round_alone,
                percentiles(&mut lags),
            );
            with.append(&mut lags);
        }
        let alone = percentiles(&mut alone);
        report("all rounds, alone", alone, alone);
        report("all rounds, beside", alone, percentiles(&mut with));
        arbiter.stop();
    });
}
