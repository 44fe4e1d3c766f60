//! `porchlight label`: shows the signals of a recording, accepts labelled segments, and writes the
//! labels that `evaluate` reads.
//!
//! Commands arrive line by line on standard input, so that a person can type them while watching a
//! video, or a file can contain them. [`Draft`] decides the effect of a command; this shell reads
//! and writes the files.

mod draft;
mod signals;

use std::io::{BufRead as _, ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use draft::{Draft, Reply};
use porchlight_core::plural::counted;
use signals::Signals;

const RECORDING: &str = ".ndjson.gz";
const LABELS: &str = ".labels.json";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The recording: NAME for NAME.ndjson.gz; its labels are in NAME.labels.json next to it
    #[arg(value_name = "NAME")]
    name: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let name = arguments.name.to_string_lossy();
    let name = name.strip_suffix(RECORDING).unwrap_or(&name);
    let recording = PathBuf::from(format!("{name}{RECORDING}"));
    let file = PathBuf::from(format!("{name}{LABELS}"));
    let signals = Signals::read(&recording).with_context(|| recording.display().to_string())?;
    let title = Path::new(name).file_name().unwrap_or_default();
    let mut draft = match std::fs::read(&file) {
        Ok(bytes) => Draft::read(&bytes).with_context(|| file.display().to_string())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Draft::new(&title.to_string_lossy(), signals.streams())
        }
        // Labels that exist but cannot be read must not be replaced.
        Err(error) => return Err(error).with_context(|| file.display().to_string()),
    };
    let prompts = std::io::stdin().is_terminal();
    if prompts {
        say!(
            "{} lasts {:.0} s. Type `help` for the commands.",
            recording.display(),
            signals.end_sec()
        )?;
    }
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        match draft.apply(&line?, &signals) {
            Ok(Reply::Text(text)) if text.is_empty() => {}
            Ok(Reply::Text(text)) => say!("{text}")?,
            Ok(Reply::Save) => save(&mut draft, &file)?,
            Ok(Reply::Quit) => break,
            Err(error) if prompts => say!("{error}")?,
            Err(error) => bail!("line {}: {error}", number + 1),
        }
    }
    if draft.is_changed() {
        if prompts {
            bail!("quit without saving; changes discarded");
        }
        save(&mut draft, &file)?;
    }
    Ok(())
}

fn write_synced(file: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(file)?;
    file.write_all(content)?;
    file.sync_all()
}

fn save(draft: &mut Draft, file: &Path) -> anyhow::Result<()> {
    // A new file is written next to the old one and then replaces it, so that a crash leaves the
    // old labels intact.
    let temporary = file.with_extension("json.new");
    write_synced(&temporary, draft.json().as_bytes())
        .with_context(|| temporary.display().to_string())?;
    std::fs::rename(&temporary, file).with_context(|| file.display().to_string())?;
    draft.mark_saved();
    let segments = counted(draft.segments() as u64, "segment");
    say!("{segments} in {}", file.display())
}
