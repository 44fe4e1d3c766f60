//! Work whose panic is an error of that work alone.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use porchlight_ports::{StoreError, StoreResult};

/// The error of work that panicked. The hook of the process has logged the panic.
#[derive(Debug, thiserror::Error)]
#[error("the work panicked")]
struct Panicked;

/// Turns a panic of `work` into an error, so that it ends no loop, no turn of a request and no
/// other work of a task.
pub(crate) async fn panic_as_error<T>(
    work: impl Future<Output = StoreResult<T>>,
) -> StoreResult<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_panic| Err(StoreError::unavailable(Panicked)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        let failed: StoreResult<()> = panic_as_error(async { panic!("the work panics") }).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))));
        assert_eq!(panic_as_error(async { Ok(5) }).await.unwrap(), 5);
    }
}
