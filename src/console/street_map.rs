//! The street map of the console: squares of the local map file, painted here, so that a browser
//! requests them from no other host; and the page element in which the script shows them.

use actix_web::HttpResponse;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::web::ServiceConfig;
use maud::{Markup, html};
use porchlight_actors::turns::TooManyWaiting;
use porchlight_http::problem::{Code, Problem};
use porchlight_map::TileId;
use porchlight_picture::map_tile;

use super::assets::{MAP_SCRIPT, address};
use super::route::{ROOT, page};
use super::signed_in::SignedInRequest;
use super::state::Console;

/// A square never changes under its address, which names the version of the map file.
const FOREVER: &str = "private, max-age=31536000, immutable";

pub(super) fn routes(config: &mut ServiceConfig) {
    page(
        config,
        "/map/{version}/{theme}/{zoom}/{x}/{y}.png",
        None,
        square,
    );
}

/// Answers with one square of the map. It shows no data of the customer.
async fn square(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let map = request.console.map.clone().ok_or_else(Problem::not_found)?;
    let number = |name| request.path_segment(name).parse::<u32>().ok();
    let id = || {
        let zoom = u8::try_from(number("zoom")?).ok()?;
        TileId::new(zoom, number("x")?, number("y")?)
    };
    let id = id().filter(|_| request.path_segment("version") == map.version());
    let id = id.ok_or_else(Problem::not_found)?;
    let is_dark = request.path_segment("theme") == "dark";
    let turn = request
        .console
        .paintings
        .take(request.tenant().organization_id);
    let busy = |_: TooManyWaiting| {
        Problem::new(
            Code::Overloaded,
            "Too many parts of the map are being painted.",
        )
    };
    let turn = turn.await.map_err(busy)?;
    let painting = move || {
        // Held until the square is painted, even if the client disconnects before.
        let _turn = turn;
        map_tile(&map, id, is_dark)
    };
    let painted = actix_web::web::block(painting).await;
    let bytes = painted
        .map_err(Problem::internal)?
        .map_err(Problem::internal)?;
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "image/png"))
        .insert_header((CACHE_CONTROL, FOREVER))
        .body(bytes))
}

/// Renders the head element of a page with a map.
pub(super) fn head() -> Markup {
    html! { script type="module" src=(address(&MAP_SCRIPT)) {} }
}

/// Renders the element that the script turns into a map. It stays hidden without the script.
/// `attributes` are its own data.
pub(super) fn viewer(console: &Console, label: &str, live: Option<&str>) -> Markup {
    let map = console.map.as_ref();
    let squares = map.map(|map| format!("{ROOT}/map/{}", map.version()));
    html! {
        div.street-map hidden data-squares=[squares] data-board=[live] {
            canvas tabindex="0" role="application" aria-label=(label) aria-describedby="map-keys" {}
            div.map-buttons {
                button type="button" data-map="in" aria-label="Zoom in" { "+" }
                button type="button" data-map="out" aria-label="Zoom out" { "−" }
                button type="button" data-map="fit" { "All" }
                @if live.is_none() { button type="button" data-map="address" { "Address" } }
            }
            output.map-place aria-hidden="true" {}
            @if let Some(map) = map { span.map-source { (map.attribution()) } }
        }
        p.help #map-keys hidden { "Drag or use the arrow keys to move, + and − to zoom, 0 to see everything." }
    }
}
