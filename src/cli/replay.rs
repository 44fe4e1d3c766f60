//! `porchlight replay`: streams recordings as sessions and prints their insights.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use porchlight_core::score::MarkName;
use porchlight_schema::time::TimestampMs;
use serde_json::{Value, json};

use super::client::Client;
use super::recording::read_samples;
use crate::app;
use crate::app::Logging;

/// The duration of one batch, in seconds of telemetry.
const BATCH_SEC: f64 = 10.0;
/// The maximum number of lines in one batch.
const BATCH_LINES: usize = 2_000;
/// The accuracy of a good fix, in metres: the detectors regard GPS as restored by such fixes.
const GOOD_ACCURACY_M: f64 = 35.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The files with one sample per line (NDJSON), optionally compressed (`.gz`).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The URL of a running service; without it the command starts its own.
    #[arg(long, requires = "key")]
    url: Option<String>,
    /// A secret key of that service.
    #[arg(long, env = "PORCHLIGHT_KEY", hide_env_values = true)]
    key: Option<String>,
    /// The position of the door; default: the last good fix before the marked drop-off, or else the
    /// last good fix of the recording.
    #[arg(long, value_name = "LAT,LNG", allow_hyphen_values = true)]
    address: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match (&arguments.url, &arguments.key) {
        (Some(url), Some(key)) => super::block_on(replay_all(arguments, &Client::new(url, key)?)),
        _ => {
            let replayed = app::with_temporary_service(
                Logging::Off,
                |_config| Ok(()),
                async |running| {
                    replay_all(arguments, &Client::new(&running.url, &running.secret_key)?).await
                },
            )?;
            replayed.context("a signal ended the replay")
        }
    }
}

async fn replay_all(arguments: &Arguments, client: &Client) -> anyhow::Result<()> {
    let address = arguments
        .address
        .as_deref()
        .map(parse_address)
        .transpose()?;
    let mut failed = 0;
    for file in &arguments.files {
        match replay(client, file, address).await {
            Ok(insight) => say!("{insight}")?,
            Err(error) => {
                eprintln!("{}: {error:#}", file.display());
                failed += 1;
            }
        }
    }
    if failed > 0 {
        bail!(
            "{failed} of {} recordings could not be replayed",
            arguments.files.len()
        )
    }
    Ok(())
}

/// Reads `LAT,LNG`.
pub(super) fn parse_address(text: &str) -> anyhow::Result<(f64, f64)> {
    let (lat, lng) = text.split_once(',').context("--address must be LAT,LNG")?;
    Ok((
        lat.trim().parse().context("--address: latitude")?,
        lng.trim().parse().context("--address: longitude")?,
    ))
}

async fn replay(
    client: &Client,
    file: &Path,
    address: Option<(f64, f64)>,
) -> anyhow::Result<Value> {
    let mut samples = Vec::new();
    read_samples(file, |sample| samples.push(sample))?;
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default().to_owned();
    let last_t = samples
        .iter()
        .filter_map(|sample| sample["t"].as_f64())
        .fold(0.0, f64::max);
    let (lat, lng) = address
        .or_else(|| last_good_fix(&samples))
        .unwrap_or((0.0, 0.0));
    let ended_at = jiff::Timestamp::now().as_millisecond();
    let started_at = TimestampMs(ended_at - (last_t * 1000.0).ceil() as i64);
    let session = client
        .start(&json!({
            "deliveryId": name,
            "externalRiderId": "replay",
            "address": { "line1": name, "city": "unknown", "country": "unknown", "lat": lat, "lng": lng },
            "startedAt": started_at,
        }))
        .await?;
    for (seq, batch) in batches(&samples).enumerate() {
        client
            .send(
                &session,
                json!({ "seq": seq, "samples": batch }).to_string(),
            )
            .await?;
    }
    client
        .stop(&session, Some(&TimestampMs(ended_at).to_string()))
        .await?;
    client.wait_until_scored(&session.session_id).await
}

/// Splits a recording into batches of [`BATCH_SEC`].
fn batches(samples: &[Value]) -> impl Iterator<Item = &[Value]> {
    let mut rest = samples;
    std::iter::from_fn(move || {
        let until = rest.first()?["t"].as_f64().unwrap_or(0.0) + BATCH_SEC;
        let is_in_batch = |sample: &&Value| sample["t"].as_f64().is_none_or(|t| t < until);
        let count = rest
            .iter()
            .take_while(is_in_batch)
            .take(BATCH_LINES)
            .count()
            .max(1);
        let (batch, later) = rest.split_at(count);
        rest = later;
        Some(batch)
    })
}

/// Returns the phone's position at the marked drop-off or, without a mark, at the end.
fn last_good_fix(samples: &[Value]) -> Option<(f64, f64)> {
    let is_drop_off = |sample: &Value| {
        sample["kind"] == "mark"
            && sample["name"]
                .as_str()
                .is_some_and(|name| MarkName::from_name(name).is_drop_off())
    };
    let until = samples.iter().rposition(is_drop_off);
    let before = until.and_then(|until| samples.get(..until));
    before.and_then(good_fix).or_else(|| good_fix(samples))
}

/// Returns the last good fix, or the last fix if none is good.
fn good_fix(samples: &[Value]) -> Option<(f64, f64)> {
    let fixes = || {
        samples
            .iter()
            .rev()
            .filter(|sample| sample["kind"] == "location")
    };
    let is_good = |sample: &&Value| {
        sample["accuracyM"]
            .as_f64()
            .is_none_or(|accuracy_m| accuracy_m <= GOOD_ACCURACY_M)
    };
    let fix = fixes().find(is_good).or_else(|| fixes().next())?;
    Some((fix["lat"].as_f64()?, fix["lng"].as_f64()?))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_door_south_of_the_equator_is_parsed() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            replay: Arguments,
        }
        let line = ["replay", "--address", "-33.86,151.2", "f.ndjson"];
        let replay = Command::try_parse_from(line).unwrap().replay;
        let address = replay.address.as_deref().map(parse_address);
        assert_eq!(address.unwrap().unwrap(), (-33.86, 151.2));
    }

    #[test]
    fn the_door_is_the_marked_drop_off_or_the_end_of_the_recording() {
        let fix = |t: u32, lat: f64, accuracy_m: f64| json!({ "t": t, "kind": "location", "lat": lat, "lng": 13.4, "accuracyM": accuracy_m });
        let mark = |t: u32, name: &str| json!({ "t": t, "kind": "mark", "name": name });
        let recording = |name: &str| {
            vec![
                fix(0, 1.0, 5.0),
                fix(1, 2.0, 5.0),
                fix(2, 3.0, 80.0),
                mark(3, name),
                fix(4, 4.0, 5.0),
                fix(5, 5.0, 80.0),
            ]
        };
        for (samples, lat) in [
            (recording("left_at_door"), Some(2.0)),
            (recording("pod_captured"), Some(2.0)),
            (recording("app_opened"), Some(4.0)),
            (vec![mark(0, "handed_over"), fix(1, 6.0, 80.0)], Some(6.0)),
            (vec![mark(0, "handed_over")], None),
        ] {
            assert_eq!(last_good_fix(&samples).map(|(lat, _)| lat), lat);
        }
    }
}
