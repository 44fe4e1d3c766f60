//! Tests the console in a real Chromium, driven by `browser.mjs` next to this file, with a
//! controllable receiver.
//!
//! It needs `chromium`, `node` and `npm` (`.ci/run` installs them); if one is missing the test
//! prints a line and is skipped, unless `PORCHLIGHT_BROWSER=required`. Pictures of every page go to
//! `tests/screenshots`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use porchlight_sim::{Kind, ParameterSet, Scenario};
use serde_json::json;

use crate::server::{Folder, Server, porchlight, successful};

/// The names under which the browser is found.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

pub(super) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the packages that the script needs, in the versions of the lock file;
/// fetched once.
fn packages() -> Result<PathBuf, String> {
    // Two tests may fetch at the same time.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _fetching = FETCHING.lock().map_err(|error| error.to_string())?;
    let (from, folder) = (
        root().join("tests/it/console"),
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("browser"),
    );
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for name in [
        "package.json",
        "package-lock.json",
        "browser.mjs",
        "acts.mjs",
        "phone.mjs",
        "sensors.mjs",
        "maps.mjs",
    ] {
        std::fs::copy(from.join(name), folder.join(name)).map_err(|error| error.to_string())?;
    }
    if folder.join("node_modules/playwright-core").is_dir() {
        return Ok(folder);
    }
    let fetched = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .output()
        .map_err(|error| error.to_string())?;
    if fetched.status.success() {
        Ok(folder)
    } else {
        Err("the browser's packages cannot be fetched".into())
    }
}

/// Returns the paths needed to run a browser.
fn browser() -> Result<(PathBuf, PathBuf), String> {
    let browser = BROWSERS.iter().find_map(|name| found(name));
    let browser = browser.ok_or("there is no chromium")?;
    for program in ["node", "npm"] {
        found(program).ok_or_else(|| format!("there is no {program}"))?;
    }
    Ok((browser, packages()?))
}

/// Creates a certificate for `localhost`, signed by its own authority, in files.
pub(super) fn certify(folder: &Path) {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority =
        rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("receiver.pem", certificate.pem()),
        ("receiver.key", key.serialize_pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Writes simulated deliveries in the form that the script sends: `[{start, batches, pod,
/// seconds}]`.
fn deliveries(folder: &Path) {
    let kinds = [
        Kind::House,
        Kind::Elevator,
        Kind::Gate,
        Kind::NeverCame,
        Kind::SpoofedWalk,
        Kind::LobbyHandOff,
    ];
    let sent = kinds.into_iter().enumerate().map(|(number, kind)| {
        let delivery = Scenario::new(kind, ParameterSet::Tuning, 70 + number as u64).deliver();
        let batches: Vec<String> = delivery.batches(15.0).map(|batch| batch.json().unwrap()).collect();
        json!({ "start": delivery.start, "batches": batches, "pod": delivery.pod, "seconds": delivery.end_t })
    });
    let sent: Vec<_> = sent.collect();
    std::fs::write(folder.join("deliveries.json"), json!(sent).to_string()).unwrap();
}

/// The programs that drive a browser.
pub(super) struct Browser {
    program: PathBuf,
    /// The folder of the scripts and their packages.
    packages: PathBuf,
}

impl Browser {
    /// Returns the browser of this machine, or `None` if a program is missing and the test may be
    /// skipped.
    pub(super) fn find() -> Option<Self> {
        match browser() {
            Ok((program, packages)) => Some(Self { program, packages }),
            Err(reason) => {
                let required = std::env::var("PORCHLIGHT_BROWSER");
                assert_ne!(required.as_deref(), Ok("required"), "{reason}");
                println!("left out: {reason}");
                None
            }
        }
    }

    /// Runs a script against the console of a server with these variables, and asserts that it
    /// succeeds. The script writes files to `folder`.
    pub(super) fn run(
        &self,
        script: &str,
        server: &Server,
        folder: &Folder,
        variables: &[(&str, &str)],
    ) {
        let driven = Command::new("node")
            .arg(self.packages.join(script))
            .env("CONSOLE", &server.api)
            .env("FOLDER", folder.path())
            .env("CHROMIUM", &self.program)
            .env("SCREENSHOTS", root().join("tests/screenshots"))
            // The path of the browser's socket must be short.
            .env("TMPDIR", "/tmp")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        println!("{}", successful(driven));
    }
}

#[test]
fn the_console_works_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let folder = Folder::new();
    certify(folder.path());
    deliveries(folder.path());
    let authority = folder.path().join("ca.pem");
    let server = Server::start(
        &folder,
        &[
            ("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "127.0.0.0/8"),
            (
                "PORCHLIGHT__WEBHOOK__EXTRA_CA_FILE",
                authority.to_str().unwrap(),
            ),
        ],
    );
    let key = |env: &str| {
        let arguments = [
            "keys",
            "create",
            "--org",
            "Harbour Parcels",
            "--env",
            env,
            "--kind",
            "secret",
        ];
        let made = porchlight()
            .args(arguments)
            .env("PORCHLIGHT__STORE__PATH", folder.store())
            .output();
        successful(made.unwrap()).trim().to_owned()
    };
    let keys = [("KEY", &*key("sandbox")), ("LIVE_KEY", &*key("live"))];
    browser.run("browser.mjs", &server, &folder, &keys);
}
