//! Tests that the supervisors of the process wait until it has stopped.

use porchlight_http::serve::STOP_TIMEOUT_SEC;
use porchlight_schema::limits::{ATTEMPT_MS_MAX, AUDIT_ROOM_MS_MAX, DRAIN_MS_MAX};
use porchlight_store::cql::CLOSE_TIMEOUT;

use crate::cluster::node::FLUSH_TIMEOUT;

/// The files that set the supervisors' limits, each with the text before its number of seconds.
const SUPERVISORS: [(&str, &str); 2] = [
    (
        include_str!("../../deploy/porchlight.service"),
        "TimeoutStopSec=",
    ),
    (include_str!("../../compose.yaml"), "stop_grace_period: "),
];
/// The seconds that are left for work without a limit of its own, such as the last sync of a disk.
const MARGIN_SEC: u64 = 10;

/// Returns the longest duration of a stop: the limits of its steps, in the order of `App::drain`.
fn stop_sec_max(is_node: bool) -> u64 {
    let leave_ms = match is_node {
        // Webhooks drain at the same time, and their limit is shorter.
        true => DRAIN_MS_MAX + FLUSH_TIMEOUT.as_millis() as u64,
        false => 0,
    };
    // `server.drain_grace` counts from the beginning of the stop and is shorter than the first
    // steps.
    let drain_ms = DRAIN_MS_MAX + ATTEMPT_MS_MAX;
    // The last uses of keys are written while the audit log is flushed, with a shorter limit.
    let close_ms = AUDIT_ROOM_MS_MAX + CLOSE_TIMEOUT.as_millis() as u64;
    (leave_ms + drain_ms + close_ms).div_ceil(1_000) + STOP_TIMEOUT_SEC
}

#[test]
fn supervisors_wait_for_the_longest_stop() {
    for (file, name) in SUPERVISORS {
        let (_, rest) = file.split_once(name).unwrap();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        let limit_sec: u64 = digits.parse().unwrap();
        assert!(limit_sec >= stop_sec_max(true) + MARGIN_SEC, "{name}");
    }
}

#[test]
fn the_unit_and_the_manual_name_the_longest_stop() {
    let (alone, node) = (stop_sec_max(false), stop_sec_max(true));
    let unit = include_str!("../../deploy/porchlight.service");
    assert!(unit.contains(&format!(
        "cluster within {node} s, a process that serves alone within {alone} s"
    )));
    let manual = include_str!("../../docs/operating.md");
    assert!(manual.contains(&format!("can extend this to {alone} s")));
    assert!(manual.contains(&format!("moves its shards for up to {} s", node - alone)));
}
