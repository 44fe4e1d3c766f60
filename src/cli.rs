//! The command line (contract section 8).

/// Prints a line to standard output. A closed pipe is an error, which [`run`] treats as the end.
macro_rules! say {
    ($($argument:tt)*) => { $crate::cli::write_line(format_args!($($argument)*)) };
}

mod check;
mod client;
mod demo;
mod evaluate;
mod keys;
mod label;
mod migrate;
mod receive;
mod receiver;
mod recorder;
mod replay;
mod secrets;
mod serve;
mod simulate;

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::config::Config;

/// Says whether a parcel was brought to the right door, how hard it was, and whether the claim can be trusted.
#[derive(Debug, Parser)]
#[command(name = "porchlight", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole job in one command: a server, a few simulated deliveries, and what came out of it.
    Demo(demo::Arguments),
    /// The service.
    Serve(serve::Arguments),
    /// Makes, lists and revokes keys; works while the server runs.
    Keys(keys::Arguments),
    /// Seals what is kept with another key.
    Secrets(secrets::Arguments),
    /// Streams recordings as sessions and prints each insight as JSON, one a line.
    Replay(replay::Arguments),
    /// Makes a recording link for a stock phone's app and prints it as a QR code.
    Recorder(recorder::Arguments),
    /// Receive webhooks on this machine, verify their signatures and print them
    Receive(receive::Arguments),
    /// A fleet of simulated phones against a running service.
    Simulate(simulate::Arguments),
    /// Runs labelled recordings through the detectors and prints how right they are.
    Evaluate(evaluate::Arguments),
    /// Set labels along the signals of a recording, line by line from standard input
    Label(label::Arguments),
    /// Writes a consistent copy of the embedded store, while the server runs or not.
    Backup(BackupArguments),
    /// Takes everything of an embedded store over into a CQL cluster, and compares it. May be begun again.
    Migrate(migrate::Arguments),
    /// Says whether a configuration is good.
    CheckConfig(ConfigArguments),
    /// Prints the configuration as it came to be.
    PrintConfig(ConfigArguments),
    /// Prints the OpenAPI document of the API.
    Openapi,
    /// Asks a running service whether it is ready; the exit code says so.
    Healthcheck(ConfigArguments),
}

/// Which configuration.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConfigArguments {
    /// A TOML file; without it the defaults and the environment.
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
    /// Where to; must not exist, or be empty.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    config: ConfigArguments,
}

/// Does what the arguments say. 0: it went well; 1: it did not, the reason is on standard error.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    match dispatch(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("porchlight: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes as one line. A cause that was quoted already is not said again: some libraries put their
/// causes into their own text, too.
fn told(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        match told.as_str() {
            "" => cause,
            said if said.contains(&cause) => told,
            _ => format!("{told}: {cause}"),
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
        Command::Receive(arguments) => receive::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Evaluate(arguments) => evaluate::run(&arguments),
        Command::Label(arguments) => label::run(&arguments),
        Command::Backup(arguments) => serve::backup(&arguments.config.load()?, &arguments.to),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::CheckConfig(arguments) => {
            check::files_of(&arguments.load()?)?;
            say!("good")
        }
        Command::PrintConfig(arguments) => {
            // It holds names of files, never secrets.
            let text = toml::to_string(&arguments.load()?)
                .context("the configuration cannot be written as TOML")?;
            say!("{}", text.trim_end())
        }
        Command::Openapi => say!("{}", porchlight_api::openapi::text().trim_end()),
        Command::Healthcheck(arguments) => serve::healthcheck(&arguments.load()?),
    }
}

/// A runtime for the commands that speak to a service.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

fn write_line(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
