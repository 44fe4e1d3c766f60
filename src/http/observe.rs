//! Log lines and metrics of refused requests, whose codes are defined in this crate. Other HTTP
//! metrics are in [`porchlight_observe::http`]; the names of all metrics are in the catalogue.

use std::sync::LazyLock;

use metrics::Counter;
use porchlight_observe::name;

use super::problem::{Code, Problem};
use super::request_id::RequestId;

fn problems() -> &'static [Counter] {
    static COUNTERS: LazyLock<Vec<Counter>> = LazyLock::new(|| {
        let counter =
            |code: &Code| metrics::counter!(name::HTTP_PROBLEMS_TOTAL, "code" => code.as_str());
        Code::ALL.iter().map(counter).collect()
    });
    &COUNTERS
}

/// Records an answer with this problem, and logs errors of the service.
pub fn on_problem(problem: &Problem, request_id: &RequestId, route: &'static str) {
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

/// Creates every series at 0. Call it once the recorder is installed.
pub fn install() {
    problems();
}
