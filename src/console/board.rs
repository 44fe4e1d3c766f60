//! The live board: all sessions in progress on one map, with their status and latest event.

mod stream;

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::html;
use porchlight_core::audit::Action;
use porchlight_http::problem::Problem;
use porchlight_schema::limits::{BOARD_ROWS_MAX, BOARD_SESSIONS_MAX};

use super::layout::Section;
use super::route::{ROOT, page};
use super::signed_in::SignedInRequest;
use super::{guard, street_map};

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "/board", Some(Action::ViewConsole), show);
    page(
        config,
        "/board/live",
        Some(Action::ReadEvents),
        stream::stream,
    );
}

async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let frame = request.frame();
    let stream = format!("{ROOT}/board/live");
    let body = html! {
        header.title { h1 { "Live board" } span.faint #freshness role="status" { "connecting" } }
        noscript { p.help { "The board needs JavaScript. " a href={ (ROOT) "/sessions?status=recording" } { "The list of sessions in progress" } " does not." } }
        section.card aria-label="Map of the sessions in progress" {
            (street_map::viewer(&request.console, "Map of the sessions in progress", Some(&stream)))
            ul.legend.map-legend hidden {
                li { span.swatch.live-dot {} "Data received within the last minute" }
                li { span.swatch.late-dot {} "No data for more than a minute" }
                li { span.swatch.no-dot {} "No position yet: shown at its address" }
            }
        }
        section.card aria-labelledby="in-progress" {
            h2 #in-progress { "In progress" span.faint #board-count {} }
            div.table { table #board-rows data-rows=(BOARD_ROWS_MAX) data-most=(BOARD_SESSIONS_MAX) {
                caption.hidden { "Sessions in progress, those with the newest data first" }
                thead { tr { th scope="col" { "Delivery" } th scope="col" { "Latest event" } th.opt scope="col" { "Courier" } th scope="col" { "Last data" } } }
                tbody {}
            } }
            p.faint #board-more hidden {}
        }
    };
    let page = frame.page_with(Section::Board, "Live board", street_map::head(), body);
    Ok(guard::ok(page))
}
