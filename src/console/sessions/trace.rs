//! The samples of a session's phone, read from the journal for drawing.

use porchlight_actors::turns::TooManyWaiting;
use porchlight_http::problem::{Code, Problem};
use porchlight_ports::{JournalEntry, SessionRow};
use porchlight_schema::sample::packed::PackedError;
use porchlight_schema::sample::{Location, Sample};

use crate::signed_in::SignedInRequest;

/// The maximum number of packed bytes that one page reads: hours of positions and pressure, or half
/// an hour of raw motion at its densest.
const BYTES_MAX: usize = 6 * 1024 * 1024;
/// The maximum number of samples that one page keeps, a position with about 60 bytes: five hours of
/// pressure at 10 Hz. Packed, a position that repeats the one before takes three bytes.
const SAMPLES_MAX: usize = 200_000;
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

impl Trace {
    /// Returns the number of samples that the trace keeps in memory.
    fn kept(&self) -> usize {
        let values = self.fixes.len() + self.pressure.len() + self.steps.len();
        values + self.marks.len() + self.incidents.len()
    }

    fn add(&mut self, sample: Sample<'_>) {
        self.samples += 1;
        self.until_ms = self.until_ms.max(sample.t_ms());
        match sample {
            Sample::Location(fix) => self.fixes.push(fix),
            Sample::Pressure(pressure) => self.pressure.push((pressure.t_ms, pressure.hpa)),
            Sample::Steps(steps) => self.steps.push((steps.t_ms, steps.count)),
            Sample::Mark(mark) => self.marks.push((mark.t_ms, mark.name.to_owned())),
            Sample::System(system) => self.incidents.push((system.t_ms, system.name.as_str())),
            Sample::Imu(_) | Sample::Motion(_) | Sample::Magnetic(_) | Sample::Activity(_) => {}
        }
    }
}

/// Reads a session's batches. A node reads and unpacks few sessions at the same time, one of each
/// organization.
///
/// # Errors
///
/// Returns an error if the store fails, or if the stored data cannot be read; 429 if the tenant has
/// reached its limit of concurrent lists; 503 if too many of its pages wait.
pub(super) async fn read(request: &SignedInRequest, row: &SessionRow) -> Result<Trace, Problem> {
    let turn = request
        .console
        .traces
        .take(request.tenant().organization_id);
    let busy = |_: TooManyWaiting| {
        let detail = "Too many pages of sessions of this organization are being read.";
        Problem::new(Code::Overloaded, detail)
    };
    let turn = turn.await.map_err(busy)?;
    // A page that waits for its turn holds no list.
    let list = request.begin_list()?;
    let (own, mut is_truncated) = (request.sessions(), false);
    let (mut entries, mut bytes, mut from_seq): (Vec<JournalEntry>, _, _) = (Vec::new(), 0, 0);
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
    let unpacking = move || {
        // Held until all is unpacked, even if the client disconnects before.
        let _held = (list, turn);
        unpack(&entries, SAMPLES_MAX)
    };
    let unpacked = actix_web::web::block(unpacking).await;
    let mut trace = unpacked
        .map_err(Problem::internal)?
        .map_err(Problem::internal)?;
    trace.is_truncated |= is_truncated;
    Ok(trace)
}

/// Unpacks batches until the trace keeps `samples_max` samples.
fn unpack(entries: &[JournalEntry], samples_max: usize) -> Result<Trace, PackedError> {
    let mut trace = Trace {
        batches: entries.len(),
        ..Trace::default()
    };
    for entry in entries {
        let mut reader = entry.batch.reader()?;
        while let Some(sample) = reader.next_sample()? {
            if trace.kept() >= samples_max {
                trace.is_truncated = true;
                break;
            }
            trace.add(sample);
        }
    }
    trace.fixes.sort_by_key(|fix| fix.t_ms);
    trace.pressure.sort_by_key(|&(t_ms, _)| t_ms);
    trace.steps.sort_by_key(|&(t_ms, _)| t_ms);
    trace.marks.sort();
    trace.incidents.sort_unstable();
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use porchlight_schema::sample::Steps;
    use porchlight_schema::sample::packed::with_builder;
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn a_trace_keeps_a_bounded_number_of_samples() {
        let batch = |seq: u32| JournalEntry {
            seq,
            received_at: TimestampMs(0),
            batch: with_builder(100, |batch| {
                for second in 0..10 {
                    let t_ms = (seq * 10 + second) * 1_000;
                    let steps = Steps {
                        t_ms,
                        count: second,
                    };
                    batch.push(&Sample::Steps(steps)).unwrap();
                }
                batch.pack()
            }),
        };
        let entries = [batch(0), batch(1)];
        let whole = unpack(&entries, 20).unwrap();
        assert_eq!((whole.steps.len(), whole.is_truncated), (20, false));
        let cut = unpack(&entries, 12).unwrap();
        assert_eq!((cut.steps.len(), cut.is_truncated), (12, true));
    }
}
