//! What HTTP tells of itself. Labels are closed enums: route patterns, methods, classes of status, codes.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use porchlight_actors::observe::{Definition, Instrument};

use super::problem::{Code, Problem};
use super::request_id::RequestId;
use super::route::{Route, Verb};

/// The metrics of this module, for the catalogue.
pub const CATALOGUE: &[Definition] = &[
    Definition {
        name: "porchlight_http_requests_total",
        instrument: Instrument::Counter,
        labels: &["route", "method", "status"],
        help: "Requests answered, by route pattern, method and class of status.",
    },
    Definition {
        name: "porchlight_http_request_seconds",
        instrument: Instrument::Histogram,
        labels: &["route"],
        help: "Time from a request's head to the head of its answer.",
    },
    Definition {
        name: "porchlight_http_requests_in_flight",
        instrument: Instrument::Gauge,
        labels: &[],
        help: "Requests that are being answered.",
    },
    Definition {
        name: "porchlight_http_problems_total",
        instrument: Instrument::Counter,
        labels: &["code"],
        help: "Requests refused, by the code of the problem.",
    },
];

/// Classes of status, `2xx` first.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Handles, resolved once.
pub(super) struct Metrics {
    requests: Vec<Vec<[Counter; CLASSES.len()]>>,
    seconds: Vec<Histogram>,
    in_flight: Gauge,
    problems: Vec<Counter>,
}

impl Metrics {
    fn new() -> Self {
        let requests = |route: &Route| {
            let (known, route) = (*route, route.pattern());
            let verb = |verb: Verb| {
                // A known method that the route does not take is counted with the others, so that no series is made
                // for each pair that makes no sense.
                let verb = if known.takes(verb) { verb } else { Verb::Other };
                CLASSES.map(|status| metrics::counter!("porchlight_http_requests_total", "route" => route, "method" => verb.as_str(), "status" => status))
            };
            Verb::ALL.map(verb).into()
        };
        Self {
            requests: Route::ALL.iter().map(requests).collect(),
            seconds: Route::ALL.iter().map(|route| metrics::histogram!("porchlight_http_request_seconds", "route" => route.pattern())).collect(),
            in_flight: metrics::gauge!("porchlight_http_requests_in_flight"),
            problems: Code::ALL.iter().map(|code| metrics::counter!("porchlight_http_problems_total", "code" => code.as_str())).collect(),
        }
    }

    /// The handles; resolved at the first call, which must come after the recorder was installed.
    pub(super) fn get() -> &'static Self {
        static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);
        &METRICS
    }

    /// A request was answered.
    pub(super) fn on_answer(&self, route: Route, verb: Verb, status: u16, took: Duration) {
        let class = usize::from(status / 100).saturating_sub(2).min(CLASSES.len() - 1);
        self.requests[route as usize][verb as usize][class].increment(1);
        self.seconds[route as usize].record(took.as_secs_f64());
    }

    /// A request began; it ends when the value is dropped, answered or not.
    pub(super) fn on_request(&'static self) -> InFlight {
        self.in_flight.increment(1.0);
        InFlight(self)
    }

    /// A request was refused.
    pub(super) fn on_problem(&self, route: Route, problem: &Problem, request_id: &RequestId) {
        let code = problem.code();
        self.problems[code as usize].increment(1);
        if code.status().is_server_error() && let Some(cause) = problem.source() {
            tracing::error!(request_id = request_id.as_str(), route = route.pattern(), code = code.as_str(), cause, "a request failed");
        }
    }
}

/// A request that is being answered.
pub(super) struct InFlight(&'static Metrics);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.decrement(1.0);
    }
}

/// Describes the metrics and resolves every handle, so that each series stands at 0 from the start. Call it once the
/// recorder is installed.
pub fn install() {
    porchlight_actors::observe::describe_all(CATALOGUE);
    Metrics::get().in_flight.set(0.0);
}
