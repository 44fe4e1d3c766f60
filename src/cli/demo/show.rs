//! Prints events and insights in readable form.

use std::collections::BTreeMap;

use porchlight_schema::event::EventType;
use serde_json::Value;

/// Prints the events of a session, each start and each end once.
#[derive(Debug, Default)]
pub(super) struct EventPrinter {
    /// Whether the end was printed, by type and start.
    printed: BTreeMap<(String, u64), bool>,
}

impl EventPrinter {
    /// Prints newly opened or closed events.
    pub(super) fn print(&mut self, insight: &Value) -> anyhow::Result<()> {
        for event in insight["events"].as_array().into_iter().flatten() {
            let name = event["type"].as_str().unwrap_or_default();
            let t_start = event["tStart"].as_f64().unwrap_or_default();
            let t_end = event["tEnd"].as_f64();
            let event_type: Option<EventType> = serde_json::from_value(event["type"].clone()).ok();
            let is_over = t_end.is_some() || event_type.is_some_and(EventType::is_instant);
            let key = (name.to_owned(), (t_start * 1000.0) as u64);
            match self.printed.insert(key, is_over) {
                None if is_over => print_event("·", name, t_start, t_end, event)?,
                None => print_event("┌", name, t_start, None, event)?,
                Some(false) if is_over => print_event("└", name, t_start, t_end, event)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn clock(t: f64) -> String {
    format!("{:02}:{:02}", t as u64 / 60, t as u64 % 60)
}

fn print_event(
    mark: &str,
    name: &str,
    t_start: f64,
    t_end: Option<f64>,
    event: &Value,
) -> anyhow::Result<()> {
    let mut line = format!("   {mark} {}", clock(t_start));
    match t_end {
        Some(t_end) => line.push_str(&format!(
            "–{}  {name:13} {:>4.0} s",
            clock(t_end),
            t_end - t_start
        )),
        None => line.push_str(&format!("        {name:13}       ")),
    }
    line.push_str(&format!(
        "  {:>3.0} %",
        event["confidence"].as_f64().unwrap_or_default() * 100.0
    ));
    for (key, value) in event["metadata"].as_object().into_iter().flatten() {
        line.push_str(&format!(
            "  {key} {}",
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        ));
    }
    say!("{line}")
}

fn or_unknown(value: &Value) -> String {
    if value.is_null() {
        "unknown".into()
    } else {
        value.to_string()
    }
}

/// Prints a scored insight.
pub(super) fn insight(insight: &Value) -> anyhow::Result<()> {
    let summary = &insight["summary"];
    let codes = insight["reasonCodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    say!("   ⇒ {}", codes.collect::<Vec<_>>().join(", "))?;
    say!(
        "     right doorstep {}, fraud {}, suspicious {}, friction {}, visibility {}",
        summary["rightDoorstep"],
        summary["fraudScore"],
        summary["suspiciousBehavior"],
        summary["frictionScore"],
        summary["visibilityScore"],
    )?;
    say!(
        "     floors {}, elevator {}, visits to the door {}, {} s in total{}\n",
        or_unknown(&summary["floorsClimbed"]),
        or_unknown(&summary["elevatorUsed"]),
        summary["attemptCycles"],
        summary["totalDurationSec"],
        match insight["metrics"]["timeAtDoorSec"].as_f64() {
            Some(at_door) => format!(", {at_door:.0} s at the door"),
            None => String::new(),
        },
    )
}

/// Prints a message that waits for its retry, as the API lists it.
pub(super) fn retrying(message: &Value) -> anyhow::Result<()> {
    let text = |name: &str| message[name].as_str().unwrap_or("unknown");
    say!(
        "   ! {} is {}: cause {}, status {}, attempts {}; the next attempt is at {}.",
        text("id"),
        text("status"),
        text("cause"),
        or_unknown(&message["statusCode"]),
        or_unknown(&message["attempts"]),
        text("nextAttemptAt"),
    )?;
    say!(
        "     Until then the session's later messages wait behind it. To avoid the wait, the customer requests a retry now:"
    )?;
    say!("     POST /v1/webhooks/deliveries/{}/retry", text("id"))
}
