//! The receiver of the tests, and a transport that connects to it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use porchlight::transport::guard::{Holder, NameRefused, Resolver};
use porchlight::transport::{HttpTransport, TransportSettings};
use porchlight_ports::OutboundRequest;
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
pub(crate) use porchlight_support::receiver::{
    Authority, HOST, OK, Receiver, Shown, Stream, read_request,
};

/// The body sent by [`request`].
pub(crate) const BODY: &str = r#"{"event":"session.started","timestamp":"2026-11-20T10:55:00.000Z","data":{"sessionId":"ses_00000000000000000000000000","deliveryId":"d","organizationId":"org_00000000000000000000000000","externalRiderId":"r","sessionType":"delivery","status":"recording","env":"sandbox","address":{"line1":"1 High Street","city":"Bath","country":"GB","lat":51.38,"lng":-2.36},"createdAt":"2026-11-20T10:55:00.000Z","endedAt":null}}"#;

/// A resolver that follows a script: each lookup returns the next line, and the last one is
/// repeated forever.
pub(crate) struct Script {
    pub(crate) lines: Vec<Vec<&'static str>>,
    pub(crate) lookup_count: AtomicUsize,
}

impl Script {
    pub(crate) fn new(lines: Vec<Vec<&'static str>>) -> Arc<Self> {
        Arc::new(Self {
            lines,
            lookup_count: AtomicUsize::new(0),
        })
    }
}

#[async_trait]
impl Resolver for Script {
    async fn look_up(&self, _: Holder, name: &str) -> Result<Vec<IpAddr>, NameRefused> {
        if name != HOST {
            return Err(NameRefused::NoSuchName);
        }
        let place = self
            .lookup_count
            .fetch_add(1, Ordering::SeqCst)
            .min(self.lines.len() - 1);
        Ok(self.lines[place]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect())
    }
}

/// Creates a transport that trusts the authority and may connect to 127.0.0.0/8.
pub(crate) fn transport(authority: &Authority) -> HttpTransport {
    transport_with(authority, Script::new(vec![vec!["127.0.0.1"]]))
}

pub(crate) fn transport_with(authority: &Authority, resolver: Arc<dyn Resolver>) -> HttpTransport {
    HttpTransport::start(TransportSettings {
        allow_addresses: vec!["127.0.0.0/8".parse().unwrap()],
        extra_ca_file: Some(authority.file.clone()),
        resolver,
        threads: 1,
    })
    .unwrap()
}

/// Returns the tenant of the attempts.
pub(crate) fn tenant() -> Tenant {
    Tenant {
        organization_id: OrganizationId::new(TimestampMs(1_763_636_100_000), 1),
        env: Env::Sandbox,
    }
}

pub(crate) fn request(url: &str) -> OutboundRequest {
    OutboundRequest {
        tenant: tenant(),
        url: url.into(),
        headers: vec![("x-service-event", "session.started".to_owned())],
        body: BODY.into(),
    }
}
