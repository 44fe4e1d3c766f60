//! The samples of a session's phone, read from the journal for drawing.

use porchlight_actors::service::TenantSessions;
use porchlight_ports::{JournalEntry, SessionRow};
use porchlight_schema::sample::{Location, Sample};

use porchlight_http::problem::Problem;

/// The maximum number of packed bytes that one page reads: hours of positions and pressure, or half
/// an hour of raw motion at its densest.
const BYTES_MAX: usize = 6 * 1024 * 1024;
/// The number of batches read in one step.
const STEP_BATCHES: usize = 256;

/// The samples by kind, each in order of time (milliseconds since the session's start).
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) fixes: Vec<Location>,
    pub(super) pressure: Vec<(u32, f32)>,
    pub(super) steps: Vec<(u32, u32)>,
    pub(super) marks: Vec<(u32, String)>,
    pub(super) incidents: Vec<(u32, &'static str)>,
    pub(super) samples: u64,
    pub(super) batches: usize,
    /// The time of the last sample.
    pub(super) until_ms: u32,
    /// Whether there are more samples than were read.
    pub(super) is_truncated: bool,
}

/// Reads a session's batches.
///
/// # Errors
///
/// Returns an error if the store fails, or if the stored data cannot be read.
pub(super) async fn read(own: TenantSessions<'_>, row: &SessionRow) -> Result<Trace, Problem> {
    let (mut entries, mut bytes, mut from_seq): (Vec<JournalEntry>, _, _) = (Vec::new(), 0, 0);
    let mut is_truncated = false;
    loop {
        let step = own.batches(row, from_seq, STEP_BATCHES).await?;
        let Some(last) = step.last() else { break };
        from_seq = last.seq.saturating_add(1);
        bytes += step
            .iter()
            .map(|entry| entry.batch.as_bytes().len())
            .sum::<usize>();
        entries.extend(step);
        if bytes >= BYTES_MAX {
            is_truncated = !own.batches(row, from_seq, 1).await?.is_empty();
            break;
        }
    }
    // Unpacking takes processor time, and concurrent requests should not wait for it.
    let unpacked = actix_web::web::block(move || unpack(&entries)).await;
    let mut trace = unpacked
        .map_err(Problem::internal)?
        .map_err(Problem::internal)?;
    trace.is_truncated = is_truncated;
    Ok(trace)
}

fn unpack(
    entries: &[JournalEntry],
) -> Result<Trace, porchlight_schema::sample::packed::PackedError> {
    let mut trace = Trace {
        batches: entries.len(),
        ..Trace::default()
    };
    for entry in entries {
        let mut reader = entry.batch.reader()?;
        while let Some(sample) = reader.next_sample()? {
            trace.samples += 1;
            trace.until_ms = trace.until_ms.max(sample.t_ms());
            match sample {
                Sample::Location(fix) => trace.fixes.push(fix),
                Sample::Pressure(pressure) => trace.pressure.push((pressure.t_ms, pressure.hpa)),
                Sample::Steps(steps) => trace.steps.push((steps.t_ms, steps.count)),
                Sample::Mark(mark) => trace.marks.push((mark.t_ms, mark.name.to_owned())),
                Sample::System(system) => trace.incidents.push((system.t_ms, system.name.as_str())),
                Sample::Imu(_) | Sample::Motion(_) | Sample::Magnetic(_) | Sample::Activity(_) => {}
            }
        }
    }
    trace.fixes.sort_by_key(|fix| fix.t_ms);
    trace.pressure.sort_by_key(|&(t_ms, _)| t_ms);
    trace.steps.sort_by_key(|&(t_ms, _)| t_ms);
    trace.marks.sort();
    trace.incidents.sort_unstable();
    Ok(trace)
}
