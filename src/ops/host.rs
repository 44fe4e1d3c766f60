//! Refuses requests to the operators' listener under a foreign host name.
//!
//! The listener answers some paths without a credential. A page on another site could make an
//! operator's browser read them by resolving its own name to this machine (DNS rebinding). The
//! browser then sends that name as `Host`. An address in `Host` is harmless, because no page of
//! another site has it.

use std::net::{IpAddr, SocketAddr};

use actix_web::body::BoxBody;
use actix_web::dev::ServiceRequest;
use actix_web::http::header::HOST;
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, dev::ServiceResponse};
use porchlight_http::problem::{Code, Problem};

/// The host names under which the listener answers, in addition to addresses and `localhost`.
#[derive(Debug, Clone, Default)]
pub(super) struct HostNames(pub(super) Vec<String>);

impl HostNames {
    /// Returns whether a request for this host is answered.
    fn has(&self, host: &str) -> bool {
        if host.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok() {
            return true;
        }
        let bracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if bracketed.is_some_and(|name| name.parse::<IpAddr>().is_ok()) {
            return true;
        }
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        let name = name.strip_suffix('.').unwrap_or(name);
        let mut known = self.0.iter().map(String::as_str).chain(["localhost"]);
        known.any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Answers 403 to a request under a foreign host name. A request without `Host` does not come from
/// a browser.
pub(super) async fn check(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let names = request.app_data::<Data<HostNames>>();
    let is_known = request.headers().get_all(HOST).all(|host| {
        let host = host.to_str().unwrap_or_default();
        names.is_some_and(|names| names.has(host))
    });
    if !is_known {
        let detail =
            "This listener does not answer under that host name. Add the name to server.ops_hosts.";
        return Err(Problem::new(Code::Forbidden, detail).into());
    }
    next.call(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_configured_names_are_known() {
        let names = HostNames(vec!["porchlight-ops".to_owned()]);
        for host in [
            "127.0.0.1:9464",
            "127.0.0.1",
            "[::1]:9464",
            "[::1]",
            "10.1.2.3:9464",
            "localhost",
            "LocalHost:9464",
            "localhost.:9464",
            "porchlight-ops:9464",
        ] {
            assert!(names.has(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9464",
            "127.0.0.1.evil.example",
            "localhost.evil.example:9464",
            "[evil.example]",
        ] {
            assert!(!names.has(host), "{host}");
        }
    }
}
