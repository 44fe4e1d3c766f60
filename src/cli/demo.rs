//! `porchlight demo`: runs the whole service in one command on an empty computer, and shows the
//! events as they happen. It has two customers, each with a webhook receiver; the second one
//! refuses its first message.

mod show;

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use porchlight_schema::time::TimestampMs;
use porchlight_sim::{Delivery, End, Kind, ParameterSet, Scenario};
use serde_json::{Value, json};

use super::client::{Client, StartedSession};
use super::receiver::{Authority, Receiver, ReceiverSettings, Secret, Tally};
use crate::app::Logging;
use crate::app::{self, TemporaryService};
use crate::config::Config;
use show::EventPrinter;

/// The kinds of delivery to show, in order, with descriptions.
const KINDS: [(Kind, &str); 8] = [
    (Kind::House, "a parcel to the door of a house"),
    (Kind::Elevator, "up by the elevator"),
    (Kind::Stairs, "up by the stairs"),
    (Kind::Gate, "a gate on the way"),
    (
        Kind::LobbyHandOff,
        "left in the lobby, the door is upstairs",
    ),
    (Kind::NeverCame, "never reached the address"),
    (Kind::WrongAddress, "at the door of another house"),
    (Kind::SpoofedWalk, "the fixes walk, but the phone does not"),
];
/// The street map: a synthetic town in the Atlantic, written by `bench/src/bin/town.rs`.
const TOWN: &[u8] = include_bytes!("../map/town.pmtiles");
/// Places on the town's streets, in degrees of latitude and longitude, at which deliveries happen.
/// The vehicles come from the west.
const STREETS_DEG: [(f64, f64); 6] = [
    (45.501_259_1, -27.496_000_0),
    (45.506_295_2, -27.492_500_0),
    (45.498_740_9, -27.494_100_0),
    (45.503_777_1, -27.489_900_0),
    (45.511_331_4, -27.493_300_0),
    (45.508_813_3, -27.488_700_0),
];
/// The duration of one batch, in seconds of telemetry.
const BATCH_SEC: f64 = 10.0;
/// The pause between deliveries while the demo continues.
const PAUSE: Duration = Duration::from_secs(5);
/// The customer whose receiver refuses its first message.
const FAILING: &str = "second";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Exit after the deliveries instead of continuing until stopped.
    #[arg(long)]
    once: bool,
    /// The seed of the first delivery; the same seed shows the same deliveries.
    #[arg(long, default_value_t = 16)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let authority = OnceCell::new();
    let configure = |config: &mut Config| {
        let folder = config.store.path.clone();
        std::fs::create_dir_all(&folder)?;
        let file = folder.with_file_name("receivers.pem");
        // The closure is called once.
        let _first = authority.set(Authority::new(&file)?);
        config.webhook.extra_ca_file = file;
        config.map.file = folder.with_file_name("town.pmtiles");
        std::fs::write(&config.map.file, TOWN)?;
        // The receivers have loopback addresses, which must be allowed.
        config.webhook.allow_addresses = vec!["127.0.0.0/8".into()];
        Ok(())
    };
    // A signal is the usual end of the demo.
    let shown = app::with_temporary_service(Logging::Off, configure, async |running| {
        let authority = authority.get().context("no authority was created")?;
        let failing_key = running.create_key_for(FAILING).await?;
        let customer = Customer::new(running, &running.secret_key, authority, "demo", 0).await?;
        let failing = Customer::new(running, &failing_key, authority, FAILING, 1).await?;
        show_all(arguments, running, customer, failing).await
    });
    shown.map(drop)
}

/// A customer: a client with a key, and a registered receiver.
struct Customer {
    client: Client,
    receiver: Receiver,
}

impl Customer {
    async fn new(
        running: &TemporaryService,
        key: &str,
        authority: &Authority,
        name: &'static str,
        failures: usize,
    ) -> anyhow::Result<Self> {
        let client = Client::new(&running.url, key)?;
        let settings = ReceiverSettings {
            customer: name.to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            failures,
            secret: Secret::Later(Arc::default()),
            prints_bodies: false,
        };
        let receiver = Receiver::start(authority, settings).await?;
        receiver.set_secret(client.register_webhook(&receiver.url).await?);
        Ok(Self { client, receiver })
    }
}

async fn show_all(
    arguments: &Arguments,
    running: &TemporaryService,
    mut customer: Customer,
    mut failing: Customer,
) -> anyhow::Result<()> {
    print_introduction(running, &customer.receiver.url)?;
    for (index, (kind, about)) in KINDS.into_iter().enumerate() {
        let ended = EndedDelivery::new(kind, arguments.seed + index as u64);
        customer.deliver(&ended, about).await?;
    }
    let ended = EndedDelivery::new(Kind::House, arguments.seed);
    failing.deliver_with_failing_receiver(&ended).await?;
    print_totals(&customer, &failing)?;
    if arguments.once {
        return Ok(());
    }
    say!("The service and the deliveries continue until you press Ctrl-C. Try it yourself:")?;
    for path in ["sessions?limit=3", "webhooks/deliveries?limit=3"] {
        say!(
            "  curl -H 'Service-Key: {}' '{}/v1/{path}'",
            running.secret_key,
            running.url
        )?;
    }
    say!("")?;
    let running = async {
        for number in KINDS.len().. {
            tokio::time::sleep(PAUSE).await;
            let (kind, about) = KINDS[number % KINDS.len()];
            let ended = EndedDelivery::new(kind, arguments.seed + number as u64);
            customer.deliver(&ended, about).await?;
        }
        Ok(())
    };
    running.await
}

fn print_introduction(running: &TemporaryService, receiver: &str) -> anyhow::Result<()> {
    say!(
        "Porchlight {}, on the embedded store in {}",
        env!("CARGO_PKG_VERSION"),
        running.folder.display()
    )?;
    say!("  API        {}", running.url)?;
    say!("  console    {}/console", running.url)?;
    say!("  operators  {}", running.ops_url)?;
    say!("  webhooks   to {receiver}, a receiver of this demo")?;
    say!("  key        {}", running.secret_key)?;
    say!("")?;
    say!("The phones are simulated. The lines below come from the service.")?;
    say!("  ┌ start of an event   └ its end   · a complete event   with its confidence")?;
    say!("  ⇐ a webhook at its receiver   ⇒ the insight from the API")?;
    say!("")
}

/// Prints the totals.
fn print_totals(customer: &Customer, failing: &Customer) -> anyhow::Result<()> {
    let [one, other] = [customer, failing].map(|customer| &customer.receiver.tally);
    let sum =
        |count: fn(&Tally) -> &AtomicU32| count(one).load(Relaxed) + count(other).load(Relaxed);
    say!(
        "{} deliveries. {} webhooks received, {} with a valid signature; {} refused by the receiver and retried.",
        KINDS.len() + 1,
        sum(|tally| &tally.received),
        sum(|tally| &tally.signed),
        sum(|tally| &tally.refused),
    )
}

/// A simulated delivery that has just ended.
struct EndedDelivery {
    kind: Kind,
    delivery: Delivery,
    start: Value,
    ended_at: TimestampMs,
}

impl EndedDelivery {
    fn new(kind: Kind, seed: u64) -> Self {
        let street_deg = STREETS_DEG[seed as usize % STREETS_DEG.len()];
        let delivery =
            Scenario::new(kind, ParameterSet::Tuning, seed).deliver_on_street(street_deg);
        let length_ms = (delivery.end_t * 1000.0).ceil() as i64;
        let ended_at = TimestampMs(jiff::Timestamp::now().as_millisecond());
        let mut start = delivery.start.clone();
        start["startedAt"] = json!(ended_at.plus_ms(-length_ms));
        Self {
            kind,
            delivery,
            start,
            ended_at,
        }
    }
}

impl Customer {
    async fn start(&self, ended: &EndedDelivery, about: &str) -> anyhow::Result<StartedSession> {
        // The first message may arrive before the answer and is printed after it.
        let _guard = self.receiver.output_lock.lock().await;
        let session = self.client.start(&ended.start).await?;
        let (kind, id) = (ended.kind.as_str(), &session.session_id);
        say!("── {kind} ── {about}  ({id})")?;
        Ok(session)
    }

    /// Sends one delivery as fast as the service accepts it, and prints detected events and
    /// webhooks.
    async fn deliver(&mut self, ended: &EndedDelivery, about: &str) -> anyhow::Result<()> {
        let session = self.start(ended, about).await?;
        self.finish(ended, &session).await
    }

    async fn finish(
        &mut self,
        ended: &EndedDelivery,
        session: &StartedSession,
    ) -> anyhow::Result<()> {
        let (client, delivery) = (&self.client, &ended.delivery);
        let mut printer = EventPrinter::default();
        for batch in delivery.batches(BATCH_SEC) {
            client.send(session, batch.json()?).await?;
            printer.print(&client.insight(&session.session_id).await?)?;
        }
        if let Some(pod) = &delivery.pod {
            client.attach_pod(session, pod).await?;
        }
        if delivery.end == End::TimeOut {
            return Ok(());
        }
        let ended_at = ended.ended_at.to_string();
        client.stop(session, Some(&ended_at)).await?;
        let insight = client.wait_until_scored(&session.session_id).await?;
        printer.print(&insight)?;
        self.receiver
            .wait(&session.session_id, "insight.updated")
            .await?;
        show::insight(&insight)
    }

    /// Sends a delivery whose receiver refuses the first message, and shows how to find and retry
    /// that message.
    async fn deliver_with_failing_receiver(&mut self, ended: &EndedDelivery) -> anyhow::Result<()> {
        let about = "for another customer, whose receiver fails at first";
        let session = self.start(ended, about).await?;
        let id = &session.session_id;
        let first = self.receiver.wait(id, "session.started").await?;
        anyhow::ensure!(first.status == 503, "the receiver did not fail");
        let waiting = self.wait_for_retrying(id).await?;
        show::retrying(&waiting)?;
        let message_id = waiting["id"].as_str().context("a message has no id")?;
        self.client.retry(message_id).await?;
        let second = self.receiver.wait(id, "session.started").await?;
        anyhow::ensure!(second.status == 200, "the retry failed");
        self.finish(ended, &session).await
    }

    /// Waits until the failure is committed, and returns the session's message that waits for its
    /// retry.
    async fn wait_for_retrying(&self, session_id: &str) -> anyhow::Result<Value> {
        for _ in 0..250 {
            let messages = self.client.messages(session_id).await?;
            let mut messages = messages.into_iter();
            if let Some(message) = messages.find(|message| message["status"] == "retrying") {
                return Ok(message);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::bail!("the failure was not seen within 5 s")
    }
}
