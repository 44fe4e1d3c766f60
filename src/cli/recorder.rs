//! `porchlight recorder`: creates a link for a stock phone's app, as a QR code in the terminal.

use anyhow::Context;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::json;

use super::client::ServiceArguments;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    service: ServiceArguments,
    /// Your id for the courier.
    #[arg(long, value_name = "ID")]
    rider: String,
    /// Your id for the delivery; without it each session uses the id of the link.
    #[arg(long, value_name = "ID")]
    delivery: Option<String>,
    /// The position of the door.
    #[arg(long, value_name = "LAT,LNG", allow_hyphen_values = true)]
    address: String,
    /// The floor of the door; the ground floor is 0.
    #[arg(long, allow_hyphen_values = true)]
    floor: Option<i16>,
    /// The validity of the link, in seconds: 60 to 2592000.
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    expires: u32,
    /// Print the response as JSON instead of a QR code.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    super::block_on(create(arguments))
}

async fn create(arguments: &Arguments) -> anyhow::Result<()> {
    let (lat, lng) = super::replay::parse_address(&arguments.address)?;
    let mut body = json!({
        "externalRiderId": arguments.rider,
        "address": { "line1": "", "city": "", "country": "", "lat": lat, "lng": lng },
        "expiresInSec": arguments.expires,
    });
    if let Some(delivery) = &arguments.delivery {
        body["deliveryId"] = json!(delivery);
    }
    if let Some(floor) = arguments.floor {
        body["address"]["floor"] = json!(floor);
    }
    let client = arguments.service.client()?;
    let recorder = client.create_recorder(&body).await?;
    if arguments.json {
        return say!("{recorder}");
    }
    let url = recorder["url"]
        .as_str()
        .context("the answer contains no url")?;
    let code = QrCode::new(url)?;
    // The picture is light on dark, like most terminals; a camera also reads the reverse.
    let picture = code.render::<Dense1x2>().quiet_zone(true).build();
    say!("{picture}")?;
    say!("Open this link on the phone: {url}")?;
    say!(
        "Valid until {}.",
        recorder["expiresAt"].as_str().unwrap_or_default()
    )?;
    for (app, push_url) in recorder["pushUrls"].as_object().into_iter().flatten() {
        say!("{app}: {}", push_url.as_str().unwrap_or_default())?;
    }
    Ok(())
}
