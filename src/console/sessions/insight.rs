//! The result of a session at the top of its page: the outcome in words, with its details.

use maud::{Markup, html};
use porchlight_ports::SessionRow;
use porchlight_schema::insight::InsightRecord;
use porchlight_schema::session::{EndReason, Pod, PodType, SessionType};

use super::super::descriptions;
use super::super::layout::{self, Frame, Notice, notice, time};
use super::outcome::reason;

/// Renders the outcome in words.
pub(super) fn verdict(record: &InsightRecord) -> Markup {
    let Some(score) = &record.score else {
        let words = record
            .error_message
            .as_deref()
            .unwrap_or("The session could not be scored.");
        return notice(Notice::Bad, words);
    };
    let codes = &score.reason_codes;
    html! {
        div.verdict {
            p.says { @if let Some(&first) = codes.first() { (descriptions::reason(first)) } @else { "Scored" } "." }
            @if codes.len() > 1 { ul.codes { @for &code in codes.iter().skip(1) { li { (reason(code)) span { (descriptions::reason(code)) } } } } }
            @if score.summary.suspicious_behavior {
                (notice(Notice::Bad, "Several signals suggest that the data or the delivery claim is false. Read the evidence before you act on it."))
            }
        }
    }
}

/// Renders the fixed facts of a session and its end.
pub(super) fn facts(frame: &Frame<'_>, row: &SessionRow, pod: Option<&Pod>) -> Markup {
    let (start, address) = (&row.start, &row.start.address);
    let kind = match start.session_type {
        SessionType::Delivery => "delivery",
        SessionType::Pickup => "pick-up",
        SessionType::Return => "return",
    };
    html! {
        dl.facts {
            dt { "Address" } dd { (address.line1) @if let Some(unit) = &address.unit { ", " (unit) }
                br; (address.city) ", " (address.country)
                @if let Some(floor) = address.floor { span.faint { " · floor " (floor) } } }
            dt { "Position" } dd { (super::street::coordinates(address)) }
            dt { "Courier" } dd.break { (start.external_rider_id) }
            dt { "Kind" } dd { (kind) }
            dt { "Started" } dd { (time(start.started_at, frame.now)) }
            dt { "Ended" } dd { @match row.end {
                Some(end) => { (time(end.ended_at, frame.now)) span.faint { " · " (ending(end.reason)) } }
                None => { "not yet" }
            } }
            dt { "Proof of delivery" } dd { (proof(pod)) }
            dt { "Session" } dd.mono.break { (start.session_id) }
        }
    }
}

fn ending(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Stopped => "stopped by the app or your server",
        EndReason::Idle => "timed out: no data received",
        EndReason::TooLong => "timed out: maximum duration reached",
        EndReason::StoppedAfterTimeout { .. } => {
            "stopped by the app or your server after the timeout"
        }
    }
}

/// Renders the PoD as a link, since it is stored elsewhere and belongs only to the customer.
fn proof(pod: Option<&Pod>) -> Markup {
    const SCHEME: &str = "https://";
    let Some(pod) = pod else {
        return html! { span.faint { "none" } };
    };
    let kind = match pod.pod_type {
        PodType::Photo => "photo",
        PodType::Signature => "signature",
        PodType::Note => "note",
    };
    // The service accepts only https for a PoD; a page must not link to any other scheme.
    let is_link = pod
        .url
        .get(..SCHEME.len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME));
    html! {
        (kind) ": "
        @if is_link { a.break href=(pod.url) rel="noreferrer noopener external" target="_blank" { (pod.url) } } @else { span.break { (pod.url) } }
    }
}

/// Renders the phone's details.
pub(super) fn device(row: &SessionRow) -> Markup {
    let Some(device) = &row.start.device else {
        return html! { p.faint { "No device information." } };
    };
    let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "–".into());
    html! {
        dl.facts {
            dt { "Platform" } dd { (or(&device.platform)) " " (or(&device.os_version)) }
            dt { "Model" } dd { (or(&device.model)) }
            dt { "SDK" } dd { (or(&device.sdk_version)) }
            dt { "Sensors" } dd { @if device.sensors.is_empty() { "unknown" } @else { (device.sensors.join(", ")) } }
        }
    }
}

/// Renders the line under a title.
pub(super) fn state(row: &SessionRow, record: Option<&InsightRecord>) -> Markup {
    match (row.end, record) {
        (None, _) => super::recording(),
        (Some(_), None) => {
            html! { span.state.wait { (layout::icon(layout::Icon::Wait)) "processing" } }
        }
        (Some(_), Some(record)) => match record
            .score
            .as_ref()
            .and_then(|score| score.reason_codes.first())
        {
            Some(&code) => reason(code),
            None => html! { span.state.bad { (layout::icon(layout::Icon::Cross)) "not scored" } },
        },
    }
}
