//! What is told of requests that are refused: the codes are known here only. The rest of HTTP's metrics stands in
//! [`porchlight_observe::http`], and the name of this one in the catalogue with all others.

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

/// A request is answered with this problem. What went wrong on our side is logged, too.
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

/// Lets each series stand at 0 from the start. Call it once the recorder is installed.
pub fn install() {
    problems();
}
