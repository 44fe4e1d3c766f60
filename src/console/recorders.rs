//! "Try it with a phone": creates recorders, shows their QR code, links and live status, and
//! revokes them. `POST /v1/recorders` does the same for programs.

use std::str::FromStr;

use actix_web::HttpResponse;
use actix_web::web::ServiceConfig;
use maud::{Markup, PreEscaped, html};
use porchlight_actors::service::{Recorder, RecorderOrder};
use porchlight_core::audit::Action;
use porchlight_core::recorder::Activity;
use porchlight_http::audit;
use porchlight_http::problem::{Code, Problem};
use porchlight_http::query::Query;
use porchlight_http::recorder::{self, ShownRecorder};
use porchlight_schema::ids::RecorderId;
use porchlight_schema::limits::{ADDRESS_FLOOR_MAX, ADDRESS_FLOOR_MIN, TEXT_CHARS_MAX};
use porchlight_schema::session::{Address, Point};

use super::form::Form;
use super::guard;
use super::layout::{Frame, Icon, Notice, Section, copy, icon, notice, time};
use super::route::{ROOT, action, page};
use super::signed_in::SignedInRequest;

/// The lifetimes to choose from: seconds and label.
const LIFETIMES: [(i64, &str); 4] = [
    (3_600, "1 hour"),
    (86_400, "1 day"),
    (604_800, "7 days"),
    (2_592_000, "30 days"),
];
/// The preselected lifetime, in seconds.
const LIFETIME_SEC_DEFAULT: i64 = 86_400;
/// The interval at which the page fetches the status, in milliseconds.
const REFRESH_MS: u32 = 5_000;

pub(super) fn routes(config: &mut ServiceConfig) {
    page(config, "/recorders", None, form_page);
    action(
        config,
        "/recorders/create",
        Some(Action::CreateRecorder),
        create,
    );
    page(config, "/recorders/{id}", Some(Action::ReadRecorder), show);
    action(
        config,
        "/recorders/{id}/revoke",
        Some(Action::DeleteRecorder),
        revoke,
    );
}

/// The submitted texts, shown again if one of them is wrong.
#[derive(Default)]
struct Entered {
    rider: String,
    delivery: String,
    street: String,
    city: String,
    position: String,
    floor: String,
    expires: String,
}

impl Entered {
    fn of(form: &Form) -> Self {
        let text = |name| form.get(name).trim().to_owned();
        Self {
            rider: text("rider"),
            delivery: text("delivery"),
            street: text("street"),
            city: text("city"),
            position: text("position"),
            floor: text("floor"),
            expires: text("expires"),
        }
    }

    /// Returns the order, or the error message for the first invalid field.
    fn order(&self, request: &SignedInRequest) -> Result<RecorderOrder, String> {
        let texts = [&self.rider, &self.delivery, &self.street, &self.city];
        if texts
            .iter()
            .any(|text| text.chars().count() > TEXT_CHARS_MAX)
        {
            return Err(format!(
                "A text may have at most {TEXT_CHARS_MAX} characters."
            ));
        }
        if self.rider.is_empty() {
            return Err("Enter your id for the courier; any text works for a trial.".to_owned());
        }
        let point = position(&self.position).ok_or(
            "Enter the position of the door as latitude and longitude in degrees, such as 52.52, 13.405.",
        )?;
        let range = ADDRESS_FLOOR_MIN..=ADDRESS_FLOOR_MAX;
        let floor = match self.floor.as_str() {
            "" => None,
            text => Some(text.parse().ok().filter(|floor| range.contains(floor)).ok_or(
                format!("The floor is a whole number from {ADDRESS_FLOOR_MIN} to {ADDRESS_FLOOR_MAX}; the ground floor is 0."),
            )?),
        };
        let chosen = LIFETIMES
            .iter()
            .find(|(sec, _)| sec.to_string() == self.expires);
        let lifetime_sec = chosen.map_or(LIFETIME_SEC_DEFAULT, |(sec, _)| *sec);
        Ok(RecorderOrder {
            tenant: request.tenant(),
            external_rider_id: self.rider.clone(),
            delivery_id: Some(self.delivery.clone()).filter(|delivery| !delivery.is_empty()),
            address: Address {
                line1: self.street.clone(),
                city: self.city.clone(),
                floor,
                ..Address::at(point)
            },
            created_at: request.now(),
            expires_at: request.now().plus_ms(lifetime_sec * 1_000),
        })
    }
}

/// Parses `latitude, longitude` in degrees.
fn position(text: &str) -> Option<Point> {
    let (lat, lng) = text.split_once(',')?;
    let (lat, lng): (f64, f64) = (lat.trim().parse().ok()?, lng.trim().parse().ok()?);
    let is_on_earth = lat.abs() <= 90.0 && lng.abs() <= 180.0;
    is_on_earth.then_some(Point { lat, lng })
}

async fn form_page(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let revoked = Query::of(request.http.query_string())
        .text("revoked", 1)
        .is_some();
    let message = revoked.then_some("The link is revoked. Phones that still use it are refused.");
    let message = message.map(|message| (Notice::Good, message));
    let page = render(&request, message, &Entered::default());
    Ok(guard::form_page(false, page))
}

fn render(request: &SignedInRequest, message: Option<(Notice, &str)>, entered: &Entered) -> Markup {
    let frame = request.frame();
    let body = html! {
        header.title { h1 { "Try it with a phone" } }
        p.lead { "Record a delivery with your own phone: create a link, scan its QR code, and walk to a door. The linked page \
                  records in the browser, or sets up an app from the app store." }
        @if let Some((kind, message)) = message { (notice(kind, message)) }
        @if frame.may_change() { (create_form(&frame, entered)) }
        @else { p.faint { "Your key cannot create links. Ask a person whose key has the role admin for a link." } }
    };
    frame.page(Section::Recorders, "Try it with a phone", body)
}

fn create_form(frame: &Frame<'_>, entered: &Entered) -> Markup {
    let chosen = match entered.expires.as_str() {
        "" => LIFETIME_SEC_DEFAULT.to_string(),
        text => text.to_owned(),
    };
    html! {
        section.card aria-labelledby="create" {
            h2 #create { "New link" }
            form.filters method="post" action={ (ROOT) "/recorders/create" } {
                (frame.field())
                (input("rider", "Courier (your id)", &entered.rider, "me", true))
                (input("delivery", "Delivery (your id, optional)", &entered.delivery, "order-4711", false))
                (input("street", "Street and number (optional)", &entered.street, "", false))
                (input("city", "City (optional)", &entered.city, "", false))
                (input("position", "Position of the door", &entered.position, "52.52, 13.405", true))
                (input("floor", "Floor (optional; ground is 0)", &entered.floor, "3", false))
                div { label for="expires" { "Valid for" } select #expires name="expires" {
                    @for (sec, words) in LIFETIMES { option value=(sec) selected[sec.to_string() == chosen] { (words) } }
                } }
                button.primary { "Create link" }
            }
        }
    }
}

fn input(name: &str, label: &str, value: &str, example: &str, is_required: bool) -> Markup {
    html! {
        div.grow {
            label for=(name) { (label) }
            input id=(name) name=(name) value=(value) placeholder=(example) required[is_required] maxlength=(TEXT_CHARS_MAX) autocomplete="off";
        }
    }
}

async fn create(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let entered = Entered::of(&request.form().await?);
    let order = match entered.order(&request) {
        Ok(order) => order,
        Err(message) => {
            let page = render(&request, Some((Notice::Bad, &message)), &entered);
            return Ok(guard::form_page(true, page));
        }
    };
    let recorder = request.state.service.create_recorder(order).await?;
    audit::created(&request.http, recorder.id);
    Ok(guard::redirect(&format!(
        "{ROOT}/recorders/{}",
        recorder.id
    )))
}

/// Returns the recorder in the path, if it is the tenant's.
async fn recorder_in_path(request: &SignedInRequest) -> Result<Recorder, Problem> {
    let not_found = || Problem::new(Code::RecorderNotFound, "The recorder does not exist.");
    let id = RecorderId::from_str(request.path_segment("id")).map_err(|_| not_found())?;
    let recorder = request.state.service.recorder(id).await?;
    recorder
        .filter(|recorder| recorder.order.tenant == request.tenant())
        .ok_or_else(not_found)
}

async fn show(request: SignedInRequest) -> Result<HttpResponse, Problem> {
    let recorder = recorder_in_path(&request).await?;
    let shown = ShownRecorder::of(&request.state, &recorder).await?;
    let frame = request.frame();
    let is_valid = frame.now < recorder.order.expires_at;
    let head = html! { noscript { meta http-equiv="refresh" content="10"; } };
    let body = html! {
        p.crumbs { a href={ (ROOT) "/recorders" } { "Try it with a phone" } }
        header.title { h1 { "Link for " (recorder.order.external_rider_id) } }
        (status(&frame, &shown))
        @if !is_valid { (notice(Notice::Note, "This link has expired.")) }
        // The link is a credential, so only a key that may create one sees it.
        @if is_valid && frame.may_change() { (links(&request, &recorder)?) }
        (about(&frame, &recorder))
        @if frame.may_change() { (revoke_form(&frame, &recorder)) }
    };
    let page = frame.page_with(Section::Recorders, "Try it with a phone", head, body);
    Ok(guard::ok(page))
}

/// Renders the status, which the script fetches periodically. The time in it makes each fetched
/// part differ, so that the script replaces it.
fn status(frame: &Frame<'_>, recorder: &ShownRecorder) -> Markup {
    let sentence = recorder.sentence();
    html! {
        section.card #recorder-status data-part="" aria-labelledby="status" {
            h2 #status { "Status" }
            p data-refresh=(REFRESH_MS) data-at=(frame.now) {
                @match recorder.activity {
                    Activity::Receiving => span.state.good { (icon(Icon::Live)) (sentence) },
                    Activity::Recorded => span.state.good { (icon(Icon::Check)) (sentence) },
                    Activity::Waiting | Activity::Silent => span.state.dim { (icon(Icon::Wait)) (sentence) },
                }
            }
            dl.facts {
                dt { "Last data" } dd { @match recorder.last_heard_at { Some(at) => (time(at, frame.now)), None => "never" } }
                dt { "Session" } dd { @match recorder.session_id {
                    Some(id) => a href={ (ROOT) "/sessions/" (id) } { "Events and insight of the session" },
                    None => "starts with the first position",
                } }
            }
        }
    }
}

fn links(request: &SignedInRequest, recorder: &Recorder) -> Result<Markup, Problem> {
    let url = recorder::link(&request.state, recorder.id)?;
    let code = recorder::qr_svg(&url)?;
    // An SVG inside a page has no XML declaration.
    let code = code.find("<svg").and_then(|start| code.get(start..));
    Ok(html! {
        section.card aria-labelledby="link" {
            h2 #link { "Scan it with the phone" }
            p.qr role="img" aria-label="The link as a QR code" { (PreEscaped(code.unwrap_or_default())) }
            p { "Or open this link on the phone:" }
            (copy("Link", &url))
            details {
                summary { "Push URLs of the apps" }
                @for app in recorder::APPS {
                    h3 { (app.store_name) }
                    (copy(&format!("Push URL of {}", app.store_name), &format!("{url}/{}", app.path_end)))
                }
            }
        }
    })
}

fn about(frame: &Frame<'_>, recorder: &Recorder) -> Markup {
    let order = &recorder.order;
    let lines = [order.address.line1.as_str(), order.address.city.as_str()];
    let place: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    html! {
        section.card aria-labelledby="about" {
            h2 #about { "About this link" }
            dl.facts {
                dt { "Recorder" } dd.mono { (recorder.id) }
                dt { "Courier" } dd { (order.external_rider_id) }
                dt { "Delivery" } dd { @match &order.delivery_id { Some(id) => (id), None => "takes the id of the recorder" } }
                dt { "Address" } dd { @if place.is_empty() { "no street" } @else { (place.join(", ")) }
                    @if let Some(floor) = order.address.floor { ", floor " (floor) } }
                dt { "Position" } dd.mono { (order.address.point.lat) ", " (order.address.point.lng) }
                dt { "Valid until" } dd { (time(order.expires_at, frame.now)) }
            }
        }
    }
}

fn revoke_form(frame: &Frame<'_>, recorder: &Recorder) -> Markup {
    html! {
        details.danger {
            summary { "Revoke this link" }
            form.sure method="post" action={ (ROOT) "/recorders/" (recorder.id) "/revoke" } {
                (frame.field())
                p { "Phones that still use it are refused. Recorded sessions stay." }
                button.bad { "Revoke" }
            }
        }
    }
}

async fn revoke(mut request: SignedInRequest) -> Result<HttpResponse, Problem> {
    request.form().await?;
    let recorder = recorder_in_path(&request).await?;
    request.state.service.remove_recorder(recorder.id).await?;
    Ok(guard::redirect(&format!("{ROOT}/recorders?revoked=1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_pairs_of_degrees() {
        assert_eq!(
            position(" 52.52 , -13.405"),
            Some(Point {
                lat: 52.52,
                lng: -13.405
            })
        );
        for text in ["", "52.52", "91, 0", "0, 181", "x, 1", "NaN, 1", "1, 2, 3"] {
            assert_eq!(position(text), None, "{text}");
        }
    }
}
