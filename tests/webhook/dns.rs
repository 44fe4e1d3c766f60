//! Webhooks and DNS: names that do not resolve, slow or silent servers, and an unavailable
//! resolver.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use porchlight::transport::guard::{Guard, NameRefused};
use porchlight::transport::resolver::DnsResolver;
use porchlight_core::webhook::Cause;
use porchlight_ports::{Answer, DeliveryStatus, Transport, UrlRefused};
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::limits::TENANT_LOOK_UPS_MAX;
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;

use crate::flow::run;
use crate::name_server::{NameServer, Reply};
use crate::receiver::{Authority, HOST, Receiver, request, tenant, transport_with};
use crate::world::World;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Answers questions about the root, which shows that the resolver works, and no others.
fn silent_but_for_the_root(name: &str) -> Reply {
    match name {
        "" => Reply::NoAddress,
        _ => Reply::Never,
    }
}

fn resolver(server: &NameServer) -> Arc<DnsResolver> {
    Arc::new(DnsResolver::with_servers(vec![server.address]))
}

async fn receiver(authority: &Authority) -> Receiver {
    Receiver::answering(authority, vec![crate::receiver::OK.to_owned()]).await
}

/// Returns the outcome of an attempt whose name server behaves like this, and that of a probe.
async fn attempt(
    behave: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> (Answer, Result<(), UrlRefused>) {
    let authority = Authority::new();
    let receiver = receiver(&authority).await;
    let server = NameServer::start(behave).await;
    let transport = transport_with(&authority, resolver(&server));
    let url = receiver.url();
    let (answer, probe) = tokio::join!(
        transport.send(request(&url)),
        transport.probe(tenant(), &url)
    );
    (answer, probe)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_without_an_address_fail_with_their_reason() {
    for (reply, reason) in [
        (Reply::NoSuchName, "the name does not exist"),
        (Reply::NoAddress, "the name has no address"),
    ] {
        let (answer, probe) = attempt(move |_| reply.clone()).await;
        assert_eq!(answer.cause, Some(Cause::Dns), "{reason}");
        assert_eq!(answer.details.reason.as_deref(), Some(reason));
        assert_eq!(probe, Err(UrlRefused::Unresolved));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_whose_servers_are_silent_is_the_customers_fault() {
    let failing = |name: &str| match name {
        "" => Reply::NoAddress,
        _ => Reply::Failure,
    };
    for behave in [silent_but_for_the_root, failing] {
        let (answer, probe) = attempt(behave).await;
        assert_eq!(answer.cause, Some(Cause::Dns));
        let reason = answer.details.reason.as_deref();
        assert_eq!(reason, Some("the name servers of the domain do not answer"));
        assert_eq!(probe, Err(UrlRefused::Unresolved));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_own_resolver_is_an_internal_fault() {
    for reply in [Reply::Never, Reply::Failure] {
        let (answer, probe) = attempt(move |_| reply.clone()).await;
        assert_eq!(answer.cause, Some(Cause::Internal));
        assert_eq!(probe, Err(UrlRefused::Unavailable));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_may_be_late_but_not_too_late() {
    let late = |wait| move |_: &str| Reply::Late(LOOPBACK, wait);
    let (answer, probe) = attempt(late(Duration::from_millis(700))).await;
    assert_eq!((answer.cause, answer.status_code), (None, Some(200)));
    assert_eq!(probe, Ok(()));
    let (answer, probe) = attempt(|name| match name {
        "" => Reply::NoAddress,
        _ => Reply::Late(LOOPBACK, Duration::from_secs(20)),
    })
    .await;
    assert_eq!(answer.cause, Some(Cause::Dns));
    assert_eq!(probe, Err(UrlRefused::Unresolved));
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_cached_for_their_time_to_live() {
    let authority = Authority::new();
    let receiver = receiver(&authority).await;
    for (ttl, asked_once) in [(0, false), (60, true)] {
        let server = NameServer::start(move |_| Reply::Address(LOOPBACK, ttl)).await;
        let transport = transport_with(&authority, resolver(&server));
        for _ in 0..3 {
            assert_eq!(transport.send(request(&receiver.url())).await.cause, None);
        }
        assert_eq!(
            server.question_count() == 1,
            asked_once,
            "{}",
            server.question_count()
        );
        // A cached address is checked at each attempt like any other.
        server.behave(|_| Reply::Address(Ipv4Addr::new(10, 0, 0, 1), 0));
        let answer = transport.send(request(&receiver.url())).await;
        let cause = (!asked_once).then_some(Cause::BlockedAddress);
        assert_eq!(answer.cause, cause);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_the_hosts_file_need_no_server() {
    let server = NameServer::start(|_| Reply::Never).await;
    let guard = Guard::new(
        resolver(&server),
        vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()].into(),
    );
    let found = guard.addresses(Some(tenant()), "localhost").await.unwrap();
    assert!(found.iter().all(|address| address.is_loopback()));
    let refused = guard.addresses(Some(tenant()), "name.invalid").await;
    assert_eq!(refused, Err(NameRefused::NoSuchName));
    assert_eq!(server.question_count(), 0);
}

#[test]
fn an_outage_of_our_resolver_uses_up_no_attempt() {
    run(async {
        let server = NameServer::start(|_| Reply::Never).await;
        let world = World::with_resolver(resolver(&server));
        let receiver = receiver(&world.authority).await;
        world.endpoint(&receiver.url()).await;
        world.start_session().await;
        world.webhooks.wake(world.tenant);
        while server.question_count() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.behave(|_| Reply::Address(LOOPBACK, 60));
        world
            .until("the resolver is back", &[DeliveryStatus::Delivered])
            .await;
        let row = world.rows().await.remove(0);
        assert_eq!(
            row.queued.attempts, 1,
            "only the attempt that succeeded counts"
        );
        assert!(receiver.requests.lock().unwrap()[0].contains("x-service-attempt: 1\r\n"));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_names_of_one_tenant_hold_only_its_share_of_lookups() {
    let tenant_of = |number| Tenant {
        organization_id: OrganizationId::new(TimestampMs(1_763_636_100_000), number),
        env: Env::Sandbox,
    };
    let alive = Arc::new(AtomicUsize::new(0));
    let server = NameServer::start(|name| match name {
        _ if name.starts_with("dead") => Reply::Never,
        _ => Reply::Address(LOOPBACK, 0),
    })
    .await;
    let allowed = vec!["127.0.0.0/8".parse().unwrap()];
    let guard = Arc::new(Guard::new(resolver(&server), allowed.into()));
    let dead: Vec<_> = (0..500)
        .map(|number| {
            let guard = Arc::clone(&guard);
            tokio::spawn(async move {
                let name = format!("dead{number}.example");
                guard.addresses(Some(tenant_of(1)), &name).await
            })
        })
        .collect();
    let lookups = (0..100).map(|number| {
        let (guard, alive) = (Arc::clone(&guard), Arc::clone(&alive));
        async move {
            let found = guard.addresses(Some(tenant_of(2)), HOST).await;
            assert!(found.is_ok(), "lookup {number}: {found:?}");
            alive.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    for lookup in lookups {
        lookup.await;
    }
    assert_eq!(alive.load(Ordering::SeqCst), 100);
    let mut looked_up = 0;
    for dead in dead {
        match dead.await.unwrap() {
            Err(NameRefused::NoAnswer) => looked_up += 1,
            refused => assert_eq!(refused, Err(NameRefused::Busy)),
        }
    }
    assert_eq!(looked_up, TENANT_LOOK_UPS_MAX);
}
