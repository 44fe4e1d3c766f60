//! The outcomes of sessions, for lists and counts.

use maud::{Markup, html};
use porchlight_actors::service::TenantSessions;
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::insight::{ReasonCode, Summary};

use super::super::layout::{Icon, icon};
use super::super::words;

/// The outcome of a session.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// The reason codes, the outcome first; empty if scoring failed.
    pub(crate) codes: Vec<ReasonCode>,
    /// The scores; `None` if scoring failed.
    pub(crate) summary: Option<Summary>,
}

/// Returns the outcome of each session, or `None` for a session that is not scored yet.
pub(crate) async fn outcomes(
    own: TenantSessions<'_>,
    rows: &[SessionRow],
) -> StoreResult<Vec<Option<Outcome>>> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        let stored = match row.end {
            Some(_) => own.scored(row).await?,
            None => None,
        };
        found.push(stored.map(|stored| {
            let score = stored.record.score;
            Outcome {
                summary: score.as_ref().map(|score| score.summary),
                codes: score.map(|score| score.reason_codes).unwrap_or_default(),
            }
        }));
    }
    Ok(found)
}

/// Renders the state of a session, or its outcome.
pub(super) fn chip(row: &SessionRow, outcome: Option<&Outcome>) -> Markup {
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
    html! { span class={ "state " (class) } title=(code.as_str()) { (icon(glyph)) (words::reason_label(code)) } }
}
