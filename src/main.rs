//! Arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use porchlight::cli;

fn main() -> ExitCode {
    cli::run(cli::Arguments::parse())
}
