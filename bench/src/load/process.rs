//! Resource usage of a process, read from `/proc`.

use std::fs;

use anyhow::Context;

/// The kernel ticks per second: `USER_HZ` is 100 in user space on every Linux.
const TICKS_PER_SEC: f64 = 100.0;

/// Returns the CPU time of a process in seconds, user and kernel, over all threads.
///
/// # Errors
///
/// Returns an error if the process does not exist.
pub fn cpu_sec(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses can contain any character; only numbers follow it. utime and stime
    // are fields 14 and 15.
    let (_, numbers) = stat.rsplit_once(')').context("no stat line")?;
    let mut fields = numbers.split_whitespace().skip(11);
    let mut next =
        || -> anyhow::Result<f64> { Ok(fields.next().context("a short stat line")?.parse()?) };
    Ok((next()? + next()?) / TICKS_PER_SEC)
}

/// Returns the resident memory of a process in bytes.
///
/// # Errors
///
/// Returns an error if the process does not exist.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Describes the computer in one line: the number of processors and their model.
#[must_use]
pub fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let count = info
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model
        .and_then(|line| line.split_once(':'))
        .map_or("unknown", |(_, model)| model.trim());
    format!("{count} × {model}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_processor_time_and_memory() {
        let pid = std::process::id();
        let before = cpu_sec(pid).unwrap();
        let mut sum = 0_u64;
        for k in 0..200_000_000_u64 {
            sum = std::hint::black_box(sum ^ k);
        }
        assert!(cpu_sec(pid).unwrap() > before, "{sum}");
        assert!(resident_bytes(pid).unwrap() > 100 * 1024);
    }
}
