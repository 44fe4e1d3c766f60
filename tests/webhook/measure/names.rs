//! Measures the effect of one tenant with dead names on the webhooks of another tenant.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix_rt::Arbiter;
use porchlight::transport::TransportSettings;
use porchlight::transport::resolver::DnsResolver;
use porchlight_ports::{DeliveryFilter, Outbox, Transport};
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;

use super::{Bench, Manner, counting, run};
use crate::name_server::{NameServer, Reply};
use crate::receiver::HOST;

/// The number of dead names that one tenant registers.
const DEAD_NAMES: usize = 500;
/// The number of messages of the other tenant: in total, and per second.
const QUIET: (u32, u32) = (600, 40);

/// One tenant repeatedly registers 500 names simultaneously whose servers never answer, while
/// another tenant's webhooks continue. Each of their attempts resolves its name, because the name's
/// time to live is 0.
#[test]
#[ignore = "a measurement"]
fn measure_a_quiet_customer_next_to_500_dead_names() {
    run(async {
        let server = NameServer::start(|name| match name {
            "" => Reply::NoAddress,
            _ if name.starts_with("dead") => Reply::Never,
            _ => Reply::Address(Ipv4Addr::LOCALHOST, 0),
        })
        .await;
        let settings = TransportSettings {
            resolver: Arc::new(DnsResolver::with_servers(vec![server.address])),
            ..TransportSettings::default()
        };
        let bench = Bench::with_settings("names", settings);
        let receiver = counting(Arc::clone(&bench.authority), bench.origin, Manner::Answers);
        let url = receiver.url.replace("localhost", HOST);
        let tenant = bench.tenant(1, &url).await;
        let arbiter = Arbiter::new();
        let webhooks = bench.webhooks(&arbiter);
        for round in 1..=3 {
            let mut p99 = [0.0; 2];
            for with_dead_names in [false, true] {
                let enough = AtomicBool::new(false);
                let noise = async {
                    while with_dead_names && !enough.load(Ordering::SeqCst) {
                        register_dead_names(&bench, &enough).await;
                    }
                };
                let before = receiver.seen.load(Ordering::SeqCst);
                let signal = async {
                    bench.paced(&webhooks, tenant, 400, QUIET.1, QUIET.0).await;
                    receiver.until(before + QUIET.0 as usize).await;
                    enough.store(true, Ordering::SeqCst);
                    receiver.percentiles()
                };
                let ((), (p50, at_99)) = tokio::join!(noise, signal);
                p99[usize::from(with_dead_names)] = at_99;
                let what = if with_dead_names {
                    "next to 500 unresolvable names"
                } else {
                    "alone"
                };
                println!("round {round}, {what}: p50 {p50:.2} ms, p99 {at_99:.2} ms");
            }
            println!("round {round}: p99 {:.2} times that alone", p99[1] / p99[0]);
        }
        let page = bench
            .store
            .deliveries(tenant, &DeliveryFilter::default(), 200, None)
            .await;
        let rows = page.unwrap().rows;
        let most = rows.iter().map(|row| row.queued.attempts).max();
        println!("attempts of the quiet customer's newest 200 messages: at most {most:?}");
        assert_eq!(most, Some(1), "no attempt is used up");
        arbiter.stop();
    });
}

async fn register_dead_names(bench: &Bench, enough: &AtomicBool) {
    let hostile = Tenant {
        organization_id: OrganizationId::new(TimestampMs(1_763_636_100_000), 99),
        env: Env::Sandbox,
    };
    let probes = (0..DEAD_NAMES).map(|number| {
        let transport = Arc::clone(&bench.transport);
        tokio::spawn(async move {
            let url = format!("https://dead{number}.example/");
            transport.probe(hostile, &url).await
        })
    });
    let probes: Vec<_> = probes.collect();
    for probe in probes {
        while !probe.is_finished() && !enough.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if !probe.is_finished() {
            return;
        }
        assert!(probe.await.unwrap().is_err());
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
}
