//! `porchlight restore`: verifies a backup, applies later erasures to a copy of it, and then puts
//! the copy in place.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use porchlight_actors::service::{LoggedErasure, apply_erasures, logged_erasures};
use porchlight_keys::check::verify;
use porchlight_keys::keyring::{KEY_FILE, SecretKeys};
use porchlight_ports::KeyCheck;
use porchlight_store::EmbeddedStore;
use porchlight_world::private_file::{sync_folder, sync_tree};

use super::{ConfigArguments, check, counted, erasures, store, with_embedded};
use crate::config::{Config, StoreKind};
use crate::key_guard::unlock;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the backup.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    /// The folder of the restored store, which must be absent or empty.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// The replaced store, a later backup, or a file with the output of `porchlight erasures list`:
    /// its erasures are applied to the restored store. The default is `store.path`, if it holds a
    /// store.
    #[arg(long, value_name = "PATH")]
    erasures: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArguments,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let to = std::path::absolute(&arguments.data)?;
    check::require_store(&arguments.from)?;
    require_empty(&to)?;
    // The copy may take hours, so an invalid configuration must fail before it.
    let config = arguments.config.load()?;
    let entries = match replaced_store(&config, arguments)? {
        Some(file) if file.is_file() => erasures::read(&file)?,
        Some(replaced) => erasures_of(&replaced)?,
        None => Vec::new(),
    };
    let staged = staging_folder(&to)?;
    create_staging_folder(&staged)?;
    let restored = copy(&arguments.from, &staged)
        .with_context(|| format!("{} cannot be copied", arguments.from.display()))
        .and_then(|()| verify_and_erase(&config, &staged, &entries))
        .and_then(|outcome| {
            install_copy(&staged, &to)?;
            Ok(outcome)
        });
    match restored {
        Ok((rows, erased)) => {
            let rows = counted(rows, "row");
            say!("{rows} verified and restored to {}", to.display())?;
            say!(
                "{} applied, {} erased",
                counted(entries.len() as u64, "later erasure"),
                counted(erased, "session")
            )
        }
        Err(error) => {
            // The first failure is the one to report.
            drop(fs::remove_dir_all(&staged));
            Err(error)
        }
    }
}

/// Returns the folder of the store that the backup replaces, or the file with its erasure log, or
/// `None` if there is no such store.
fn replaced_store(config: &Config, arguments: &Arguments) -> anyhow::Result<Option<PathBuf>> {
    if let Some(replaced) = &arguments.erasures {
        if !replaced.is_file() {
            check::require_store(replaced)?;
        }
        return Ok(Some(replaced.clone()));
    }
    let path = &config.store.path;
    let is_embedded = config.store.kind == StoreKind::Embedded;
    Ok((is_embedded && EmbeddedStore::exists_at(path)).then(|| path.clone()))
}

/// Reads the erasures of the replaced store.
fn erasures_of(replaced: &Path) -> anyhow::Result<Vec<LoggedErasure>> {
    let store = EmbeddedStore::open_for_command(replaced).with_context(|| {
        format!(
            "the erasures of {} cannot be read: stop its server first, or name another copy of the replaced store \
             with --erasures",
            replaced.display()
        )
    })?;
    with_embedded(&store, async { Ok(logged_erasures(store.as_ref()).await?) })
}

/// Returns an error if the folder has content: a restore replaces nothing.
fn require_empty(to: &Path) -> anyhow::Result<()> {
    match fs::read_dir(to) {
        Ok(mut entries) => match entries.next() {
            Some(_) => bail!(
                "{} is not empty; move it first, because restore does not replace data",
                to.display()
            ),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", to.display())),
    }
}

/// Returns the folder next to `to` in which the copy is verified before it is renamed.
fn staging_folder(to: &Path) -> anyhow::Result<PathBuf> {
    let name = to.file_name().context("--data must name a folder")?;
    let mut staged = OsString::from(name);
    staged.push(".restoring");
    Ok(to.with_file_name(staged))
}

/// Creates the folder of the copy for its owner only.
fn create_staging_folder(staged: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().mode(0o700).create(staged);
    created.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AlreadyExists => {
                "; if it is left from an interrupted restore, remove it"
            }
            _ => "",
        };
        let context = format!("{} cannot be created{hint}", staged.display());
        anyhow::Error::new(error).context(context)
    })
}

/// Copies files and folders. The copies are private to their owner.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            DirBuilder::new().mode(0o700).create(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            let mut written = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&target)?;
            io::copy(&mut File::open(entry.path())?, &mut written)?;
        }
    }
    Ok(())
}

/// Opens the copy as a server would, checks that the configured keys or the copied one include the
/// key that the store depends on, and reads every row. Then applies the erasures. Returns the
/// number of rows and of erased sessions.
fn verify_and_erase(
    config: &Config,
    staged: &Path,
    erasures: &[LoggedErasure],
) -> anyhow::Result<(u64, u64)> {
    let store = EmbeddedStore::open_for_command(staged).context("the backup cannot be restored")?;
    with_embedded(&store, async {
        let mut files = config.secrets.key_files.clone();
        files.extend(Some(staged.join(KEY_FILE)).filter(|file| file.exists()));
        if !files.is_empty() {
            let keys = SecretKeys::load(&files)?;
            verify(&keys, store.key_check().await?, store.as_ref()).await?;
        }
        unlock(config, staged, &store)?;
        let report = store.check();
        if !report.is_good() {
            store::print(&report)?;
            bail!(
                "the backup is damaged: use another one, or check a copy of it with \
                 `porchlight store check --data COPY --quarantine` and restore the copy"
            );
        }
        let erased = apply_erasures(store.as_ref(), erasures).await?;
        Ok((report.kinds.values().map(|kind| kind.rows).sum(), erased))
    })
}

/// Makes the copy durable and renames it, which replaces an empty folder at most.
fn install_copy(staged: &Path, to: &Path) -> anyhow::Result<()> {
    sync_tree(staged)?;
    fs::rename(staged, to).with_context(|| format!("{} cannot be put in place", to.display()))?;
    if let Some(parent) = to.parent() {
        sync_folder(parent)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_invalid_configuration_fails_before_the_backup_is_copied() {
        let name = format!("porchlight-restore-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let from = folder.join("copy");
        fs::create_dir_all(from.join("engine")).unwrap();
        // This dangling link makes a copy of the backup fail.
        symlink("nowhere", from.join("acknowledged")).unwrap();
        let (log, invalid) = (folder.join("erasures"), folder.join("porchlight.toml"));
        fs::write(&log, "").unwrap();
        fs::write(&invalid, "[session]\nidle_timeuot = \"45m\"\n").unwrap();
        let failed = run(&Arguments {
            from,
            data: folder.join("store"),
            erasures: Some(log),
            config: ConfigArguments {
                config: Some(invalid),
            },
        });
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        let error = format!("{:#}", failed.unwrap_err());
        assert!(error.contains("idle_timeuot"), "{error}");
        assert_eq!(left, 3, "the command created nothing");
    }

    #[test]
    fn only_a_folder_that_exists_is_called_a_leftover() {
        let name = format!("porchlight-restoring-{}", std::process::id());
        let staged = std::env::temp_dir().join(name);
        create_staging_folder(&staged).unwrap();
        let error = |staged: &Path| create_staging_folder(staged).unwrap_err().to_string();
        let (left, missing) = (error(&staged), error(&staged.join("nowhere/folder")));
        fs::remove_dir(&staged).unwrap();
        assert!(
            left.ends_with("from an interrupted restore, remove it"),
            "{left}"
        );
        assert!(missing.ends_with("folder cannot be created"), "{missing}");
    }
}
