//! `porchlight receive`: a webhook receiver for evaluating the service on one machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;

use super::receiver::{Authority, Receiver, ReceiverSettings, Secret};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The address to listen on, one of this machine; the certificate names it.
    #[arg(long, default_value = "127.0.0.1:8443")]
    listen: SocketAddr,
    /// The file for the certificate of the receiver's authority; give it to the server as
    /// `webhook.extra_ca_file`.
    #[arg(long, value_name = "FILE", default_value = "receiver-ca.pem")]
    ca: PathBuf,
    /// The file with the webhook's secret (`whsec_…`), which may be created later. Until then no
    /// signature is valid.
    #[arg(long, value_name = "FILE", default_value = "webhook-secret.txt")]
    secret_file: PathBuf,
    /// Exit after this many messages.
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Print the body of each message too.
    #[arg(long)]
    bodies: bool,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let authority = Authority::new(&arguments.ca)
        .with_context(|| format!("cannot write {}", arguments.ca.display()))?;
    super::block_on(async {
        let settings = ReceiverSettings {
            customer: "receiver".to_owned(),
            listen: arguments.listen,
            failures: 0,
            secret: Secret::File(arguments.secret_file.clone()),
            prints_bodies: arguments.bodies,
        };
        let mut receiver = Receiver::start(&authority, settings).await?;
        say!("Listening on {}", receiver.url)?;
        let counted = async {
            for _ in 0..arguments.count.unwrap_or(usize::MAX) {
                if receiver.next().await.is_none() {
                    break;
                }
            }
        };
        tokio::select! {
            () = counted => Ok(()),
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        }
    })
}
