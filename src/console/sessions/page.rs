//! The page of one session: its outcome, its route, its events over time, the reasons for each
//! score, and the messages that it caused. The page of a live session updates itself.

use actix_web::HttpResponse;
use maud::{Markup, PreEscaped, html};
use porchlight_actors::service::InsightState;
use porchlight_core::score::Knowledge;
use porchlight_http::problem::Problem;
use porchlight_ports::{DeliveryFilter, DeliveryRow, SessionRow};
use porchlight_schema::event::Event;
use porchlight_schema::ids::EndpointId;
use porchlight_schema::insight::{DroppedSamples, InsightRecord, Score};
use porchlight_schema::session::Pod;

use super::super::layout::{Frame, Notice, Section, counted, duration, notice};
use super::super::route::ROOT;
use super::super::signed_in::SignedInRequest;
use super::super::state::Console;
use super::super::{audit, deliveries, descriptions, guard, street_map};
use super::map::{MapContent, maps};
use super::trace::Trace;
use super::{hold, insight, live, scores, series, street, timeline, trace};

/// The maximum number of messages shown for one session; a session causes a handful.
const MESSAGES: u32 = 50;
/// The maximum number of rows in the table of events.
const EVENTS_SHOWN_MAX: usize = 500;

/// All data that a page shows.
struct PageContent {
    row: SessionRow,
    record: Option<InsightRecord>,
    events: Vec<Event>,
    pod: Option<Pod>,
    trace: Trace,
    messages: Vec<DeliveryRow>,
    endpoint: Option<EndpointId>,
    /// The address of the path image on the console's own host.
    image: Option<String>,
    /// The age of the events in seconds, if the node that runs the session could not be reached.
    age_sec: Option<u32>,
    /// The knowledge about the place when the session was scored.
    known: Option<Knowledge>,
    /// The number of samples that no detector received; `None` until the session is scored.
    dropped: Option<DroppedSamples>,
    /// Whether the session is under a legal hold.
    is_held: bool,
    /// Whether the telemetry was removed after its retention.
    has_expired: bool,
}

impl PageContent {
    /// Returns the duration from the start to the end, or to the last received data.
    fn length_ms(&self) -> u32 {
        let events = self.events.iter().filter_map(|event| event.t_end_ms).max();
        let data_end_ms = self.trace.until_ms.max(events.unwrap_or_default());
        let ended_ms = self
            .row
            .end
            .map(|end| end.ended_at.since_ms(self.row.start.started_at));
        let ended_ms = ended_ms
            .and_then(|ended_ms| u32::try_from(ended_ms).ok())
            .unwrap_or_default();
        // If a session was silent for long before it ended, the page ends a minute after its last
        // data.
        data_end_ms.max(ended_ms.min(data_end_ms.saturating_add(60_000)))
    }

    /// Returns whether the session has a result.
    fn has_result(&self) -> bool {
        self.record.is_some()
    }
}

pub(super) async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let content = read(&request).await?;
    let frame = request.frame();
    let body = page(&frame, &request.console, &content);
    let head = html! { @if request.console.map.is_some() { (street_map::head()) } @if !content.has_result() { noscript { (PreEscaped(r#"<meta http-equiv="refresh" content="5">"#)) } } };
    let title = &content.row.start.delivery_id;
    Ok(guard::ok(frame.page_with(
        Section::Sessions,
        title,
        head,
        body,
    )))
}

async fn read(request: &SignedInRequest) -> Result<PageContent, Problem> {
    let row = request.session().await?;
    let service = &request.state.service;
    let (record, events, pod, age_sec, dropped, known) = match service.insight(&row).await? {
        InsightState::Processing {
            events,
            pod,
            age_sec,
            ..
        } => (None, events, pod, age_sec, None, None),
        InsightState::Scored(stored) => {
            let events = stored
                .record
                .score
                .as_ref()
                .map(|score| score.events.clone());
            let pod = stored.record.pod.clone();
            let dropped = Some(stored.dropped);
            let known = known_place(&stored.known);
            (
                Some(stored.record),
                events.unwrap_or_default(),
                pod,
                None,
                dropped,
                known,
            )
        }
    };
    let session_id = row.start.session_id;
    let score = record.as_ref().and_then(|record| record.score.as_ref());
    let links = score
        .filter(|score| score.has_path)
        .and(request.state.links.as_ref());
    let image = links.and_then(|links| links.image_url(session_id));
    let image = image.and_then(|url| Some(url.get(url.find("/v1/")?..)?.to_owned()));
    let trace = trace::read(request, &row).await?;
    let webhooks = request.webhooks()?;
    let webhooks = webhooks.of(request.tenant());
    let filter = DeliveryFilter {
        session_id: Some(session_id),
        ..DeliveryFilter::default()
    };
    let mut messages = webhooks.deliveries(&filter, MESSAGES, None).await?.rows;
    messages.reverse();
    let endpoint = webhooks.endpoint().await?.map(|endpoint| endpoint.id);
    let privacy = service.privacy(request.tenant());
    let is_held = privacy.shows_hold(session_id).await?;
    let has_expired = row.end.is_some() && service.has_expired_telemetry(session_id).await?;
    Ok(PageContent {
        row,
        is_held,
        has_expired,
        record,
        events,
        pod,
        trace,
        messages,
        endpoint,
        image,
        age_sec,
        known,
        dropped,
    })
}

fn page(frame: &Frame<'_>, console: &Console, content: &PageContent) -> Markup {
    let (row, record) = (&content.row, content.record.as_ref());
    let score = record.and_then(|record| record.score.as_ref());
    let length_ms = content.length_ms();
    let series = series::all(&content.trace, length_ms);
    let map_content = MapContent {
        address: &row.start.address,
        trace: &content.trace,
        events: &content.events,
        drop_off: score.and_then(Score::drop_off_ms),
    };
    let live = (!content.has_result()).then(|| live::address(row.start.session_id));
    html! {
        p.crumbs { a href={ (ROOT) "/sessions" } { "Sessions" } }
        header.title data-live=[live] data-state=(if row.end.is_some() { "ended" } else { "recording" }) { h1.break { (row.start.delivery_id) } (insight::state(row, record)) @if !content.has_result() { span.faint #freshness role="status" {} } }
        section.card.top #part-facts data-part="" {
            @if let Some(record) = record { (insight::verdict(record)) } @else { (live_summary(row, content)) }
            (insight::facts(frame, row, content.pod.as_ref()))
        }
        @if let Some(score) = score { section.card aria-labelledby="scores" { h2 #scores { "Scores" } (scores::tiles(score)) } }
        @if console.map.is_some() { section.card aria-labelledby="street" { h2 #street { "On the street map" } (street::map(console, &map_content, content.known.as_ref())) } }
        section.card #part-map data-part="" aria-labelledby="where" { h2 #where { "Where" } (maps(&map_content)) (image(content.image.as_deref().filter(|_| !content.has_expired))) }
        section.card #part-time data-part="" aria-labelledby="when" { h2 #when { "When" }
            @if content.trace.is_truncated { (notice(Notice::Note, "This session has more data than the page can draw: the curves and the map end early.")) }
            @if content.has_expired { (notice(Notice::Note, "The telemetry of this session was deleted after its retention. The insight stays.")) }
            @if content.trace.samples == 0 { @if !content.has_expired { p.faint { "No telemetry yet." } } } @else { (timeline::rows(&content.events, &content.trace, &series, length_ms)) }
            (event_table(&content.events, length_ms, console.map.is_some()))
        }
        @if let Some(score) = score { section.card aria-labelledby="why" { h2 #why { "Evidence" } (scores::evidence(score)) p { a href={ (ROOT) "/sessions/" (row.start.session_id) "/explanation" } { "Explanation for the courier, and human review" } } } }
        section.card #part-messages data-part="" aria-labelledby="messages" { h2 #messages { "Webhook deliveries" } (messages(frame, content)) }
        details.card { summary { "Phone and telemetry" }
            (insight::device(row))
            p.faint { (counted(usize::try_from(content.trace.samples).unwrap_or(usize::MAX), "sample")) " in " (content.trace.batches) " " (if content.trace.batches == 1 { "batch" } else { "batches" }) ", of which " (counted(content.trace.fixes.len(), "position")) "." }
            @if let Some(dropped) = content.dropped.filter(|dropped| dropped.total() > 0) { p.faint { (dropped_samples(dropped)) } }
            (audit::session_link(&row.start.session_id.to_string()))
        }
        (hold::card(frame, row.start.session_id, content.is_held))
    }
}

/// Reads the stored knowledge of the place; `None` if there is none.
fn known_place(stored: &[u8]) -> Option<Knowledge> {
    serde_json::from_slice(stored).ok()
}

/// Describes the numbers of dropped samples by cause.
fn dropped_samples(dropped: DroppedSamples) -> String {
    format!(
        "Dropped samples: {} out of order, {} more than 12 s late, {} of an unknown kind.",
        dropped.out_of_order, dropped.too_late, dropped.unknown_kind
    )
}

fn live_summary(row: &SessionRow, content: &PageContent) -> Markup {
    html! {
        div.verdict {
            p.says { @if row.end.is_some() { "The session has ended and is being scored." } @else if let Some(event) = current(&content.events) { (descriptions::event(event.event_type)) ", since " (timeline::stamp(event.t_start_ms)) "." } @else { "The session is in progress." } }
            p.faint { "This page updates automatically." }
            @if let Some(age_sec) = content.age_sec { (notice(Notice::Note, &stale_notice(age_sec))) }
        }
    }
}

/// Returns the notice for events that come from the store and not from the node that runs the
/// session.
fn stale_notice(age_sec: u32) -> String {
    format!(
        "The node that runs this session is currently unreachable. The events are from {} ago; the map and the curves \
         are up to date, and no acknowledged data is lost.",
        duration(i64::from(age_sec) * 1_000)
    )
}

/// Returns the courier's current movement.
fn current(events: &[Event]) -> Option<&Event> {
    events
        .iter()
        .rev()
        .find(|event| event.event_type.is_movement() && event.is_open())
}

fn event_table(events: &[Event], length_ms: u32, has_map: bool) -> Markup {
    html! {
        @if !events.is_empty() {
            details { summary { "Show " (counted(events.len(), "event")) " as a table" }
                div.table { table {
                    caption.hidden { "Events in order of their start" }
                    thead { tr { th scope="col" { "Event" } th scope="col" { "From" } th scope="col" { "To" } th.num scope="col" { "Confidence" } th.opt scope="col" { "Detail" } } }
                    tbody { @for event in events.iter().take(EVENTS_SHOWN_MAX) { tr {
                        td { @if has_map { button.plain type="button" data-span={ (event.t_start_ms / 1_000) "," (timeline::end_ms(event, length_ms) / 1_000) } title="Highlight on the map" { (descriptions::event(event.event_type)) } } @else { (descriptions::event(event.event_type)) } }
                        td { (timeline::stamp(event.t_start_ms)) }
                        td { @match event.t_end_ms { Some(end_ms) => (timeline::stamp(end_ms)), None => (if event.is_open() { "ongoing" } else { "–" }) } }
                        td.num { (format!("{:.0} %", event.confidence.as_probability() * 100.0)) }
                        td.opt { (timeline::detail(event)) }
                    } } }
                } }
            }
        }
    }
}

/// Renders the picture that the insight links to.
fn image(address: Option<&str>) -> Markup {
    html! {
        @if let Some(address) = address {
            details { summary { "Path image" }
                p.help { "The image behind the insight's " code { "pathImageUrl" } ". Anyone with this signed link can view it." }
                a href=(address) { img.path src=(address) alt="The route of this session" loading="lazy"; }
            }
        }
    }
}

fn messages(frame: &Frame<'_>, content: &PageContent) -> Markup {
    html! {
        @if content.messages.is_empty() { p.faint { "No webhook deliveries: no webhook was registered when the events occurred." } } @else {
            (deliveries::session_table(frame, &content.messages, content.endpoint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_events_show_their_age() {
        let words = stale_notice(75);
        assert!(words.contains("from 1 min 15 s ago"), "{words}");
    }
}
