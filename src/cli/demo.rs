//! `porchlight demo`: the whole job in one command on an empty machine, shown as it happens.

mod show;

use std::time::Duration;

use porchlight_bench::sim::{Delivery, End, Kind, ParameterSet, Scenario};
use porchlight_schema::time::TimestampMs;
use serde_json::json;

use super::client::Client;
use crate::app::{self, Running};
use show::Shown;

/// What is shown, in this order, and why it is of interest.
const KINDS: [(Kind, &str); 8] = [
    (Kind::House, "a parcel to the door of a house"),
    (Kind::Elevator, "up by the elevator"),
    (Kind::Stairs, "up by the stairs"),
    (Kind::Gate, "a gate on the way"),
    (
        Kind::LobbyHandOff,
        "left in the lobby, the door is upstairs",
    ),
    (Kind::NeverCame, "never came to the address"),
    (Kind::WrongAddress, "at the door of another house"),
    (Kind::SpoofedWalk, "the fixes walk, the body does not"),
];
/// Seconds of telemetry in one batch.
const BATCH_SEC: f64 = 10.0;
/// Pause between deliveries when the demo goes on.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// End when the deliveries are done, instead of going on until stopped.
    #[arg(long)]
    once: bool,
    /// The seed of the first delivery; the same seed shows the same deliveries.
    #[arg(long, default_value_t = 3)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    app::with_temporary(app::Quiet::Yes, |running| {
        super::block_on(show_all(arguments, running))
    })
}

async fn show_all(arguments: &Arguments, running: &Running) -> anyhow::Result<()> {
    let client = Client::new(&running.url, &running.secret_key)?;
    introduce(running)?;
    for (number, (kind, about)) in KINDS.into_iter().enumerate() {
        deliver(&client, kind, about, arguments.seed + number as u64).await?;
    }
    if arguments.once {
        return Ok(());
    }
    say!("The service goes on, and so do the deliveries; stop it with Ctrl-C. To try by hand:")?;
    say!(
        "  curl -H 'Service-Key: {}' {}/v1/sessions?limit=3\n",
        running.secret_key,
        running.url
    )?;
    let going_on = async {
        for number in KINDS.len().. {
            tokio::time::sleep(PAUSE).await;
            let (kind, about) = KINDS[number % KINDS.len()];
            deliver(&client, kind, about, arguments.seed + number as u64).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = going_on => ended,
        stopped = tokio::signal::ctrl_c() => Ok(stopped?),
    }
}

fn introduce(running: &Running) -> anyhow::Result<()> {
    say!(
        "Porchlight {}, on the embedded store in {}",
        env!("CARGO_PKG_VERSION"),
        running.folder.display()
    )?;
    say!("  API        {}", running.url)?;
    say!("  operators  {}/metrics", running.ops_url)?;
    say!("  key        {}", running.secret_key)?;
    say!("")
}

/// Plays one delivery as fast as the service takes it, and shows what it detects meanwhile.
async fn deliver(client: &Client, kind: Kind, about: &str, seed: u64) -> anyhow::Result<()> {
    let delivery: Delivery = Scenario::new(kind, ParameterSet::Tuning, seed).deliver();
    let length_ms = (delivery.end_t * 1000.0).ceil() as i64;
    let ended_at = TimestampMs(jiff::Timestamp::now().as_millisecond());
    let mut start = delivery.start.clone();
    start["startedAt"] = json!(ended_at.plus_ms(-length_ms));
    let session = client.start(&start).await?;
    say!("── {} ── {about}  ({})", kind.as_str(), session.session_id)?;
    let mut shown = Shown::default();
    for batch in delivery.batches(BATCH_SEC) {
        client.send(&session, batch.json()?).await?;
        shown.events(&client.insight(&session.session_id).await?)?;
    }
    if let Some(pod) = &delivery.pod {
        client.attach_pod(&session, pod).await?;
    }
    if delivery.end == End::TimeOut {
        return Ok(());
    }
    client.stop(&session, Some(&ended_at.to_string())).await?;
    let insight = client.scored(&session.session_id).await?;
    shown.events(&insight)?;
    show::insight(&insight)
}
