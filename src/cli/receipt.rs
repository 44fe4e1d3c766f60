//! `porchlight receipt-key` and `porchlight verify-receipt`: print the public key of erasure
//! receipts, and check receipts offline.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use porchlight_keys::receipt::{PublicKey, RECEIPT_BYTES_MAX, public_keys, verify_any};
use serde::Deserialize;

use super::{ConfigArguments, check};

/// The maximum size of a file with a receipt or with keys, in bytes. The JSON around a receipt is
/// small.
const FILE_BYTES_MAX: u64 = 2 * RECEIPT_BYTES_MAX as u64;

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
    /// The public key that `porchlight receipt-key` prints, or a file with one or more: a key per
    /// line, or the JSON Web Key Set of `receipt-key --json`.
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
    // Without this check, a mistyped folder would get a new key.
    check::require_configured_store(&config)?;
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
    let keys = keys_of(&arguments.key)?;
    let text = read(&arguments.file)?;
    let receipt = match serde_json::from_str::<Request>(&text) {
        Ok(request) => match request.receipt {
            Some(receipt) => receipt,
            None => bail!("the request has no receipt: it is not a completed erasure"),
        },
        Err(_) => text.trim().to_owned(),
    };
    let statement = verify_any(&receipt, &keys)?;
    say!("{}", serde_json::to_string_pretty(&statement)?)
}

/// Returns the keys of the argument `--key`, which are its text or in the file that it names.
fn keys_of(argument: &str) -> anyhow::Result<Vec<PublicKey>> {
    let error = match PublicKey::parse_all(argument) {
        Ok(keys) => return Ok(keys),
        Err(error) => error,
    };
    let file = Path::new(argument);
    if !file.is_file() {
        return Err(error).context("--key");
    }
    PublicKey::parse_all(&read(file)?).context("--key")
}

/// Reads the text of a file, or of standard input for `-`.
fn read(file: &Path) -> anyhow::Result<String> {
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let opened = std::fs::File::open(file);
        Box::new(opened.with_context(|| format!("{} cannot be read", file.display()))?)
    };
    let mut bytes = Vec::new();
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{} is larger than {FILE_BYTES_MAX} bytes", file.display());
    }
    String::from_utf8(bytes).with_context(|| format!("{} is not text", file.display()))
}

#[cfg(test)]
mod tests {
    use porchlight_keys::keyring::SecretKeys;

    use super::*;

    #[test]
    fn the_keys_are_the_argument_or_in_the_file_that_it_names() {
        let keys = public_keys(&SecretKeys::of_bytes([2; 32], &[[1; 32]]));
        let jwks: Vec<_> = keys.iter().map(PublicKey::jwk).collect();
        let name = format!("porchlight-receipt-keys-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        for text in [
            format!("{}\n{}\n", keys[0], keys[1]),
            serde_json::json!({ "keys": jwks }).to_string(),
        ] {
            std::fs::write(&file, &text).unwrap();
            assert_eq!(keys_of(file.to_str().unwrap()).unwrap(), keys, "{text}");
        }
        std::fs::write(&file, "no key").unwrap();
        assert!(keys_of(file.to_str().unwrap()).is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(keys_of(file.to_str().unwrap()).is_err());
        assert_eq!(keys_of(&keys[0].to_string()).unwrap(), keys[..1]);
    }

    #[test]
    fn a_file_that_is_too_large_is_named() {
        let name = format!("porchlight-receipt-large-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let text = "a".repeat(FILE_BYTES_MAX as usize);
        std::fs::write(&file, &text).unwrap();
        assert_eq!(read(&file).unwrap(), text);
        std::fs::write(&file, text + "é").unwrap();
        let error = read(&file).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            error,
            format!("{} is larger than {FILE_BYTES_MAX} bytes", file.display())
        );
    }
}
