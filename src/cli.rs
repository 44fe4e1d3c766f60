//! The command line (contract section 8).

/// Prints a line to standard output. A closed pipe is an error, which [`run`] treats as the end.
macro_rules! say {
    ($($argument:tt)*) => { $crate::cli::write_line(format_args!($($argument)*)) };
}

mod audit;
mod check;
mod client;
mod demo;
mod erasures;
mod evaluate;
mod keys;
mod label;
mod migrate;
mod privacy;
mod receipt;
mod receive;
mod receiver;
mod recorder;
mod recording;
mod replay;
mod restore;
mod secrets;
mod serve;
mod simulate;
mod store;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Parser, Subcommand};
use porchlight_core::plural::counted;
use porchlight_store::EmbeddedStore;

use crate::config::Config;
use crate::open_store::OpenStore;

/// Determines whether a parcel was brought to the right door, how hard the delivery was, and
/// whether the claim can be trusted.
#[derive(Debug, Parser)]
#[command(name = "porchlight", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything in one command: a server, a few simulated deliveries, and their results.
    Demo(demo::Arguments),
    /// Run the service.
    Serve(serve::Arguments),
    /// Create, list and revoke keys; works while the server runs.
    Keys(keys::Arguments),
    /// Re-encrypt stored secrets with another key.
    Secrets(secrets::Arguments),
    /// Stream recordings as sessions and print each insight as JSON, one per line.
    Replay(replay::Arguments),
    /// Create a recording link for a stock phone's app and print it as a QR code.
    Recorder(recorder::Arguments),
    /// Erase, collect, freeze or release the data of a courier, delivery or session.
    Privacy(privacy::Arguments),
    /// Receive webhooks on this machine, verify their signatures and print them.
    Receive(receive::Arguments),
    /// Run a fleet of simulated phones against a running service.
    Simulate(simulate::Arguments),
    /// Run labelled recordings through the detectors and print their accuracy.
    Evaluate(evaluate::Arguments),
    /// Label the segments of a recording with commands from standard input.
    Label(label::Arguments),
    /// Check the audit logs.
    Audit(audit::Arguments),
    /// Print the log of erasures, or apply it to a restored store.
    Erasures(erasures::Arguments),
    /// Print the public key that checks the receipts of erasures.
    ReceiptKey(receipt::KeyArguments),
    /// Check the receipt of an erasure offline and print its statement.
    VerifyReceipt(receipt::VerifyArguments),
    /// Write a consistent copy of the embedded store; the server may be running.
    Backup(BackupArguments),
    /// Verify a backup and put a copy of it in place.
    Restore(restore::Arguments),
    /// Check the embedded store or a backup for damage.
    Store(store::Arguments),
    /// Copy all data of an embedded store into a CQL cluster and verify the copy. May be repeated.
    Migrate(migrate::Arguments),
    /// Check whether a configuration is valid.
    CheckConfig(ConfigArguments),
    /// Print the effective configuration.
    PrintConfig(ConfigArguments),
    /// Print the OpenAPI document of the API.
    Openapi,
    /// Check whether a running service is ready; exit with 0 if it is, otherwise with 1.
    Healthcheck(ConfigArguments),
}

/// The configuration to use.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConfigArguments {
    /// A TOML file; without it, defaults and environment variables apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArguments {
    fn load(&self) -> anyhow::Result<Config> {
        Ok(Config::load(self.config.as_deref())?)
    }
}

#[derive(Debug, clap::Args)]
struct BackupArguments {
    /// The target folder, which must be absent or empty.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Runs the command. Returns exit code 0 on success, or 1 on failure, with the reason on standard
/// error.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    match dispatch(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed the pipe.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("porchlight: {}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// Formats an error and its causes as one line. It skips a cause that an earlier text already
/// contains: some libraries include their causes in their own text.
fn one_line(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |line, cause| {
        let cause = cause.to_string();
        match line.as_str() {
            "" => cause,
            _ if line.contains(&cause) => line,
            _ => format!("{line}: {cause}"),
        }
    })
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Secrets(arguments) => secrets::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Recorder(arguments) => recorder::run(&arguments),
        Command::Privacy(arguments) => privacy::run(&arguments),
        Command::Receive(arguments) => receive::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Label(arguments) => label::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Erasures(arguments) => erasures::run(&arguments),
        Command::ReceiptKey(arguments) => receipt::key(&arguments),
        Command::VerifyReceipt(arguments) => receipt::verify_file(&arguments),
        Command::Backup(arguments) => serve::backup(&arguments.config.load()?, &arguments.to),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Store(arguments) => store::run(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::CheckConfig(arguments) => {
            check::check_files(&arguments.load()?)?;
            say!("the configuration is valid")
        }
        Command::PrintConfig(arguments) => {
            // The configuration contains names of files, never secrets.
            let text = toml::to_string(&arguments.load()?)
                .context("the configuration cannot be written as TOML")?;
            say!("{}", text.trim_end())
        }
        Command::Openapi => say!("{}", porchlight_api::openapi::text().trim_end()),
        Command::Healthcheck(arguments) => serve::healthcheck(&arguments.load()?),
    }
}

/// Runs a command that communicates with a service on a runtime.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

/// Opens the configured store, which no server on this machine uses, runs `work` on it, and closes
/// it, also if `work` fails.
fn with_store<T>(
    config: &Config,
    work: impl AsyncFnOnce(&OpenStore) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    block_on(async {
        let store = OpenStore::open_for_command(config).await?;
        store.close_after(work(&store)).await
    })
}

/// Opens the configured store like [`with_store`], for work that precedes the start of a server: it
/// may bring the tables of a CQL cluster up to date.
fn before_server<T>(
    config: &Config,
    work: impl AsyncFnOnce(&OpenStore) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    block_on(async {
        let store = OpenStore::open_before_server(config).await?;
        store.close_after(work(&store)).await
    })
}

/// Runs `work` on an open embedded store, and closes the store, also if `work` fails.
fn with_embedded<T>(
    store: &Arc<EmbeddedStore>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    block_on(OpenStore::Embedded(Arc::clone(store)).close_after(work))
}

fn write_line(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_store_is_closed_after_failed_work() {
        let folder = std::env::temp_dir().join(format!("porchlight-cli-{}", std::process::id()));
        let mut config = Config::default();
        config.store.path.clone_from(&folder);
        let mut used = None;
        let failed = with_store(&config, async |store| -> anyhow::Result<()> {
            let store = Arc::clone(store.embedded().context("the store is embedded")?);
            store.record_backup(TimestampMs(1)).await?;
            used = Some(store);
            bail!("the work failed")
        });
        let store = used.unwrap();
        let late = block_on(async { Ok(store.record_backup(TimestampMs(2)).await?) });
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(failed.unwrap_err().to_string(), "the work failed");
        let error = format!("{:#}", late.unwrap_err());
        assert!(error.contains("closed"), "{error}");
    }
}
