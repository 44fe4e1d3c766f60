//! The outcomes of sessions, as lists and counts show them.

use maud::{Markup, html};
use porchlight_ports::{SessionOutcome, SessionRow};
use porchlight_schema::insight::ReasonCode;

use super::super::descriptions;
use super::super::layout::{Icon, icon};

/// Renders the state of a session, or its outcome.
pub(super) fn chip(row: &SessionRow, outcome: Option<&SessionOutcome>) -> Markup {
    let Some(outcome) = outcome else {
        return match row.end {
            None => super::recording(),
            Some(_) => html! { span.state.wait { (icon(Icon::Wait)) "processing" } },
        };
    };
    let Some(&code) = outcome.codes.first() else {
        return html! { span.state.dim { (icon(Icon::Minus)) "not scored" } };
    };
    let is_suspicious = outcome
        .summary
        .is_some_and(|summary| summary.suspicious_behavior);
    html! {
        (reason(code))
        @if is_suspicious { " " span.state.bad { (icon(Icon::Cross)) "suspicious" } }
    }
}

/// Renders a reason code as a shape, a colour and a few words.
pub(crate) fn reason(code: ReasonCode) -> Markup {
    let (class, glyph) = match code {
        ReasonCode::FullAttempt | ReasonCode::DeliveredToRightDoorstep => ("good", Icon::Check),
        ReasonCode::NoAttempt => ("bad", Icon::Cross),
        ReasonCode::PartialAttempt
        | ReasonCode::PossibleNoAttempt
        | ReasonCode::PossibleLobbyHandoff
        | ReasonCode::PossibleWrongAddress => ("again", Icon::Info),
        ReasonCode::InsufficientData
        | ReasonCode::SessionTimeout
        | ReasonCode::TelemetryStreamInterrupted => ("dim", Icon::Minus),
    };
    html! { span class={ "state " (class) } title=(code.as_str()) { (icon(glyph)) (descriptions::reason_label(code)) } }
}
