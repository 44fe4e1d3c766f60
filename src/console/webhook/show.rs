//! Renders the webhook's page.

use maud::{Markup, html};
use porchlight_actors::webhook::Tested;
use porchlight_ports::Endpoint;
use porchlight_ports::ends_soon;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::super::descriptions;
use super::super::layout::{self, Frame, Icon, Notice, copy, duration, icon, notice, time};
use super::super::route::ROOT;
use super::Feedback;

/// The overlaps to choose from: seconds and label.
const OVERLAPS: [(u32, &str); 4] = [
    (3_600, "1 hour"),
    (86_400, "1 day"),
    (604_800, "7 days"),
    (0, "none: the old secret becomes invalid now"),
];

/// Renders the page without a webhook.
pub(super) fn none(frame: &Frame<'_>, feedback: &Feedback) -> Markup {
    html! {
        header.title { h1 { "Webhook" } }
        (notices(feedback))
        section.card {
            h2 { "No webhook yet" }
            p { "Porchlight sends a signed event to your URL when a session starts, when it ends, and when its insight is created or updated." }
            @if frame.may_change() {
                form.stack method="post" action={ (ROOT) "/webhook/register" } {
                    (frame.field())
                    (url_field(feedback.typed.as_deref().unwrap_or_default()))
                    p.help #url-help { "Use https on a public host. Porchlight checks the host and its certificate when you register the URL." }
                    button.primary { "Register" }
                }
            } @else {
                p { "Only a key with the role admin can register a webhook." }
            }
        }
    }
}

fn url_field(value: &str) -> Markup {
    html! {
        label for="url" { "URL" }
        input #url.wide.mono type="url" name="url" required value=(value) placeholder="https://example.com/porchlight"
            autocomplete="off" spellcheck="false" aria-describedby="url-help";
    }
}

fn notices(feedback: &Feedback) -> Markup {
    html! {
        @if let Some((kind, words)) = &feedback.notice { (notice(*kind, words)) }
        @if let Some((secret, previous)) = &feedback.secret {
            section.card.once aria-labelledby="once" {
                h2 #once { "Copy the signing secret now" }
                p { "The secret is shown only once. Your endpoint uses it to verify the signature of every event." }
                (copy("Signing secret", secret))
                @if let Some(previous) = previous {
                    p.faint { "The previous secret stays valid until " (layout::clock(*previous)) " " (layout::zone()) "." }
                }
            }
        }
    }
}

/// Renders the page of a configured webhook.
pub(super) fn configured(
    frame: &Frame<'_>,
    endpoint: &Endpoint,
    certificate_ends_at: Option<TimestampMs>,
    feedback: &Feedback,
) -> Markup {
    html! {
        header.title {
            h1 { "Webhook" }
            @if endpoint.enabled {
                span.state.good { (icon(Icon::Check)) "enabled" }
            } @else {
                span.state.again { (icon(Icon::Wait)) "paused" }
            }
        }
        (notices(feedback))
        @if let Some((event, tested)) = &feedback.tested { (sample_sent(*event, tested)) }
        div.columns {
            (facts(frame, endpoint, certificate_ends_at))
            @if frame.may_change() { (sample(frame)) }
        }
        @if frame.may_change() { (acts(frame, endpoint, feedback)) }
    }
}

fn facts(
    frame: &Frame<'_>,
    endpoint: &Endpoint,
    certificate_ends_at: Option<TimestampMs>,
) -> Markup {
    html! {
        section.card aria-labelledby="where" {
            h2 #where { "Endpoint" }
            dl.facts {
                dt { "URL" } dd.mono.break { (endpoint.url) }
                dt { "ID" } dd.mono { (endpoint.id) }
                dt { "Created" } dd { (time(endpoint.created_at, frame.now)) }
                dt { "Secret" } dd {
                    "Version " (endpoint.secret.number) ", created " (time(endpoint.secret_made_at, frame.now))
                    @match endpoint.overlap(frame.now) {
                        Some(previous) => { br; "The previous secret stays valid for another " (duration(previous.expires_at.since_ms(frame.now))) }
                        None => {}
                    }
                }
                dt { "Certificate" } dd {
                    @match certificate_ends_at {
                        Some(ends_at) => {
                            "expires " (time(ends_at, frame.now))
                            @if ends_soon(ends_at, frame.now) { " " span.state.bad { (icon(Icon::Cross)) "renew it" } }
                        }
                        None => { span.faint { "unknown until the next connection" } }
                    }
                }
            }
            p { a href={ (ROOT) "/deliveries" } { "All webhook deliveries" } " · " a href={ (ROOT) "/deliveries?status=failed" } { "Failed webhook deliveries" } }
        }
    }
}

fn sample(frame: &Frame<'_>) -> Markup {
    html! {
        section.card aria-labelledby="sample" {
            h2 #sample { "Send a sample event" }
            p { "Sends one signed sample event now. It contains " code { "\"test\": true" } " and does not appear in the delivery log." }
            form.stack method="post" action={ (ROOT) "/webhook/test" } {
                (frame.field())
                label for="event" { "Event" }
                select #event name="event" {
                    @for event in MessageEvent::ALL {
                        option value=(event.as_str()) selected[event == MessageEvent::InsightUpdated] { (event.as_str()) }
                    }
                }
                button.primary { "Send sample event" }
            }
        }
    }
}

fn sample_sent(event: MessageEvent, tested: &Tested) -> Markup {
    let answer = &tested.answer;
    html! {
        section.card aria-labelledby="sent" {
            h2 #sent { "Sample sent: " (event.as_str()) }
            @match answer.cause {
                None => (notice(Notice::Good, &format!("Your endpoint accepted it: status {} after {} ms.", answer.status_code.unwrap_or_default(), answer.duration_ms))),
                Some(cause) => {
                    (notice(Notice::Bad, &failure(descriptions::cause(cause).0, answer.status_code, answer.duration_ms)))
                    p { (descriptions::cause(cause).1) }
                }
            }
            h3 { "Request" }
            (copy("Request headers", &head(tested)))
            (copy("Request body", &tested.request.body))
            h3 { "Response" }
            @match &answer.response {
                Some(response) if !response.is_empty() => (copy("Start of the response body", response)),
                _ => p.faint { "The response has no body." },
            }
        }
    }
}

fn failure(words: &str, status_code: Option<u16>, duration_ms: u32) -> String {
    match status_code {
        Some(code) => format!("{words}: {code} after {duration_ms} ms."),
        None => format!("{words} ({duration_ms} ms)."),
    }
}

fn head(tested: &Tested) -> String {
    let request = &tested.request;
    let mut head = format!("POST {}\ncontent-type: application/json\n", request.url);
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {value}\n"));
    }
    head.truncate(head.trim_end().len());
    head
}

fn acts(frame: &Frame<'_>, endpoint: &Endpoint, feedback: &Feedback) -> Markup {
    html! {
        section.card.acts aria-labelledby="change" {
            h2 #change { "Settings" }
            form.line method="post" action={ (ROOT) "/webhook/change" } {
                (frame.field())
                (url_field(feedback.typed.as_deref().unwrap_or(&endpoint.url)))
                button { "Change URL" }
            }
            p.help #url-help { "Pending deliveries will be sent to the new URL." }
            hr;
            @if endpoint.enabled {
                form.act method="post" action={ (ROOT) "/webhook/pause" } {
                    (frame.field())
                    div { strong { "Pause" } p.help { "New events are queued and held until you resume. Events held for more than 7 days are cancelled." } }
                    button { "Pause" }
                }
            } @else {
                form.act method="post" action={ (ROOT) "/webhook/resume" } {
                    (frame.field())
                    div { strong { "Resume" } p.help { "Held deliveries are sent immediately, in order." } }
                    button.primary { "Resume" }
                }
            }
            hr;
            form.act method="post" action={ (ROOT) "/webhook/rotate" } {
                (frame.field())
                div {
                    strong { "Rotate the secret" }
                    p.help { "The new secret is shown once. During the overlap every request carries a signature with each of the two secrets, so that you can update your receiver without downtime." }
                }
                div.with {
                    label for="overlap" { "Overlap" }
                    select #overlap name="overlapSec" {
                        @for (seconds, words) in OVERLAPS {
                            option value=(seconds) selected[seconds == 86_400] { (words) }
                        }
                    }
                    button { "Rotate" }
                }
            }
            @if endpoint.overlap(frame.now).is_some() {
                form.act method="post" action={ (ROOT) "/webhook/end-overlap" } {
                    (frame.field())
                    div { strong { "End the overlap" } p.help { "The previous secret stops working now. The current secret stays." } }
                    button { "End overlap" }
                }
            }
            hr;
            details.danger {
                summary { "Delete the webhook" }
                form.act method="post" action={ (ROOT) "/webhook/delete" } {
                    (frame.field())
                    p { "Pending deliveries are cancelled permanently, and nothing is sent until you register another URL. This cannot be undone." }
                    button.bad { "Delete webhook" }
                }
            }
        }
    }
}
