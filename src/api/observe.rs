//! What is told of requests that are refused; the rest of HTTP's metrics stands with all others in
//! [`porchlight_actors::observe::http`].

use std::sync::LazyLock;

use metrics::Counter;

use super::problem::{Code, Problem};
use super::request_id::RequestId;

/// Requests refused, by code.
const PROBLEMS: &str = "porchlight_http_problems_total";

fn problems() -> &'static [Counter] {
    static COUNTERS: LazyLock<Vec<Counter>> = LazyLock::new(|| {
        let counter = |code: &Code| metrics::counter!(PROBLEMS, "code" => code.as_str());
        Code::ALL.iter().map(counter).collect()
    });
    &COUNTERS
}

/// A request is answered with this problem. What went wrong on our side is logged, too.
pub(crate) fn on_problem(problem: &Problem, request_id: &RequestId, route: &'static str) {
    let code = problem.code();
    if let Some(counter) = problems().get(code as usize) {
        counter.increment(1);
    }
    if let Some(cause) = problem.source() {
        tracing::error!(
            request_id = request_id.as_str(),
            route,
            code = code.as_str(),
            cause,
            "a request failed"
        );
    }
}

/// Describes the metric, and lets each of its series stand at 0 from the start. Call it once the recorder is installed.
pub fn install() {
    metrics::describe_counter!(
        PROBLEMS,
        metrics::Unit::Count,
        "Requests refused, by the code of the problem."
    );
    problems();
}
