//! The process's limit of open files, and the part of it that connections of clients may use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of open files that the connections of the public listener leave to the store, the
/// operators' listener, webhooks, other nodes and the database.
const RESERVED_FILES: u64 = 2_048;
/// The maximum number of connections per worker.
const WORKER_CONNECTIONS_MAX: u64 = 20_000;

/// Raises the soft limit of open files to the hard limit, where the system permits it.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Some systems refuse a limit that they report as the maximum. The soft limit then stays, and
    // the number of connections follows it.
    let _kept = setrlimit(Resource::Nofile, raised);
}

/// Returns the maximum number of connections of one of `workers`, by the current soft limit.
pub(super) fn worker_connections_max(workers: usize) -> usize {
    connections_of_worker(getrlimit(Resource::Nofile).current, workers)
}

/// Returns the maximum number of connections of one worker. All workers together leave the
/// reserved files, or half of the files if the limit is small. `None` means no limit of files.
fn connections_of_worker(files: Option<u64>, workers: usize) -> usize {
    let files = files.unwrap_or(u64::MAX);
    let connections = files - RESERVED_FILES.min(files / 2);
    let own = connections / (workers.max(1) as u64);
    // The value is at most the maximum, which fits.
    usize::try_from(own.clamp(1, WORKER_CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_rest_of_the_process() {
        for (files, workers, connections) in [
            (Some(65_536), 2, 20_000),
            (Some(65_536), 4, 15_872),
            (Some(65_536), 64, 992),
            (Some(1_024), 2, 256),
            (Some(1), 8, 1),
            (None, 8, 20_000),
        ] {
            assert_eq!(connections_of_worker(files, workers), connections);
        }
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_limit() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
