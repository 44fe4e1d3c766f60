//! Every route of both listeners: its pattern, and the methods that it takes. The patterns are the only values of the
//! label `route`; what matches none is `other`.

use actix_web::http::Method;
use actix_web::{HttpResponse, Resource, Route as Handler, guard, web};

use super::problem::Problem;

/// A method, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// Any other.
    Other,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Delete, Self::Other];

    /// Of a method.
    #[must_use]
    pub fn of(method: &Method) -> Self {
        match *method {
            Method::GET => Self::Get,
            Method::HEAD => Self::Head,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }

    /// The label's value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Other => "other",
        }
    }
}

macro_rules! routes {
    ($($(#[$doc:meta])* $variant:ident = $pattern:literal, $allow:literal;)+) => {
        /// A route.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Route {
            $($(#[$doc])* $variant,)+
            /// What matches none.
            Other,
        }

        impl Route {
            /// All routes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+ Self::Other];

            /// The pattern, and the label's value.
            #[must_use]
            pub const fn pattern(self) -> &'static str {
                match self { $(Self::$variant => $pattern,)+ Self::Other => "other" }
            }

            /// The methods that it takes, as `Allow` says them.
            #[must_use]
            pub const fn allow(self) -> &'static str {
                match self { $(Self::$variant => $allow,)+ Self::Other => "" }
            }
        }
    };
}

routes! {
    /// Starts a session.
    SessionStart = "/v1/sessions/start", "POST";
    /// Stops a session.
    SessionStop = "/v1/sessions/stop", "POST";
    /// Lists sessions.
    Sessions = "/v1/sessions", "GET, HEAD";
    /// One session.
    Session = "/v1/sessions/{id}", "GET, HEAD";
    /// Takes telemetry.
    Telemetry = "/v1/sessions/{id}/telemetry", "GET, POST";
    /// Attaches a PoD.
    Pod = "/v1/sessions/{id}/pod", "POST";
    /// A session's insight.
    Insights = "/v1/sessions/{id}/insights", "GET, HEAD";
    /// Why the insight is what it is.
    Evidence = "/v1/sessions/{id}/evidence", "GET, HEAD";
    /// Operators: the metrics.
    OpsMetrics = "/metrics", "GET, HEAD";
    /// Operators: whether the process lives.
    OpsHealth = "/healthz", "GET, HEAD";
    /// Operators: whether it can do its work.
    OpsReady = "/readyz", "GET, HEAD";
    /// Operators: keys.
    OpsKeys = "/admin/keys", "GET, HEAD, POST";
    /// Operators: revokes a key.
    OpsKeyRevoke = "/admin/keys/{id}/revoke", "POST";
    /// Operators: copies the store.
    OpsBackup = "/admin/backup", "POST";
}

impl Route {
    /// Whether the route takes this method.
    #[must_use]
    pub fn takes(self, verb: Verb) -> bool {
        self.allow().split(", ").any(|method| method == verb.as_str())
    }

    /// An empty resource at this route: another method than those that are added answers 405 with `Allow`.
    pub fn resource(self) -> Resource {
        let refuse = move || async move { Err::<HttpResponse, _>(Problem::method_not_allowed(self.allow())) };
        web::resource(self.pattern()).app_data(self).default_service(web::to(refuse))
    }
}

/// GET, and HEAD, which is the same without the body (RFC 9110, section 9.3.2); the connection leaves the body out.
pub fn get() -> Handler {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_is_used_once_and_takes_known_methods() {
        for (place, route) in Route::ALL.iter().enumerate() {
            assert!(Route::ALL[..place].iter().all(|other| other.pattern() != route.pattern()), "{route:?}");
            let known = |method: &str| Verb::ALL.iter().any(|verb| verb.as_str() == method);
            assert!(*route == Route::Other || route.allow().split(", ").all(known), "{route:?}");
        }
    }
}
