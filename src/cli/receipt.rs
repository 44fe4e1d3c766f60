//! `porchlight receipt-key` and `porchlight verify-receipt`: print the public key of erasure
//! receipts, and check receipts offline.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use porchlight_keys::receipt::{PublicKey, RECEIPT_BYTES_MAX, public_keys, verify};
use serde::Deserialize;

use super::{ConfigArguments, check};
use crate::config::StoreKind;

#[derive(Debug, clap::Args)]
pub(crate) struct KeyArguments {
    /// Print a JSON Web Key Set instead of one key per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArguments {
    /// The receipt, or the JSON of the completed request that contains it; `-` for standard input.
    file: PathBuf,
    /// The public key that `porchlight receipt-key` prints, or a file that contains it.
    #[arg(long)]
    key: String,
}

/// The JSON of a privacy request, reduced to the fields needed here.
#[derive(Deserialize)]
struct Request {
    receipt: Option<String>,
}

pub(super) fn key(arguments: &KeyArguments) -> anyhow::Result<()> {
    let config = arguments.config.load()?;
    if config.store.kind == StoreKind::Embedded {
        // Without this check, a mistyped folder would get a new key.
        check::is_store(&config.store.path)?;
    }
    let keys = public_keys(&config.secret_keys()?);
    if arguments.json {
        let keys: Vec<_> = keys.iter().map(PublicKey::jwk).collect();
        return say!("{}", serde_json::json!({ "keys": keys }));
    }
    for key in keys {
        say!("{key}")?;
    }
    Ok(())
}

pub(super) fn verify_file(arguments: &VerifyArguments) -> anyhow::Result<()> {
    let key = match PublicKey::parse(&arguments.key) {
        Ok(key) => key,
        Err(error) => {
            let file = Path::new(&arguments.key);
            if !file.is_file() {
                return Err(error).context("--key");
            }
            PublicKey::parse(&read(file)?).context("--key")?
        }
    };
    let text = read(&arguments.file)?;
    let receipt = match serde_json::from_str::<Request>(&text) {
        Ok(request) => match request.receipt {
            Some(receipt) => receipt,
            None => bail!("the request has no receipt: it is not a completed erasure"),
        },
        Err(_) => text.trim().to_owned(),
    };
    let statement = verify(&receipt, &key)?;
    say!("{}", serde_json::to_string_pretty(&statement)?)
}

/// Reads the text of a file, or of standard input for `-`.
fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(file);
        Box::new(opened.with_context(|| format!("{} cannot be read", file.display()))?)
    };
    // The JSON around a receipt is small.
    let bytes_max = 2 * RECEIPT_BYTES_MAX as u64;
    source.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}
