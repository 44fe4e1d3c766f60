//! Maps errors of the HTTP client to the contract's closed list of causes.

use std::error::Error;
use std::io;

use porchlight_core::webhook::Cause;

use super::guard::NameRefused;

/// Returns the cause of a request that failed without an answer.
pub(super) fn of_error(error: &reqwest::Error) -> Cause {
    let connecting = error.is_connect();
    let mut from_io = None;
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(&refused) = error.downcast_ref::<NameRefused>() {
            return of_name(refused);
        }
        if error.is::<rustls::Error>() {
            return Cause::Tls;
        }
        source = error.source();
        if let Some(error) = error.downcast_ref::<io::Error>() {
            from_io = from_io.or_else(|| of_io(error, connecting));
            // The inner error of an I/O error is not always its source.
            if let Some(inner) = error.get_ref() {
                source = Some(inner);
            }
        }
    }
    if error.is_builder() {
        return Cause::Internal;
    }
    from_io.unwrap_or(if connecting {
        Cause::Connect
    } else {
        Cause::Protocol
    })
}

/// Returns the cause of a failed name resolution.
pub(super) fn of_name(refused: NameRefused) -> Cause {
    match refused {
        NameRefused::NoSuchName | NameRefused::NoAddress | NameRefused::NoAnswer => Cause::Dns,
        NameRefused::Address => Cause::BlockedAddress,
        NameRefused::ResolverUnavailable | NameRefused::Busy => Cause::Internal,
    }
}

/// Returns the cause of an I/O error, or `None` if another error is more specific.
pub(super) fn of_io(error: &io::Error, connecting: bool) -> Option<Cause> {
    /// Too many open files, in the process and in the system (Linux, macOS).
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
        return Some(Cause::Internal);
    }
    match error.kind() {
        // Local errors (no address, no route, no memory) that are not the receiver's fault.
        io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::OutOfMemory => Some(Cause::Internal),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::TimedOut
            if connecting =>
        {
            Some(Cause::Connect)
        }
        // The connection was established and then closed during the handshake.
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
            if connecting =>
        {
            Some(Cause::Tls)
        }
        _ => None,
    }
}

/// Returns the cause for a status code.
pub(super) fn of_status(status: u16) -> Option<Cause> {
    match status {
        200..=299 => None,
        300..=399 => Some(Cause::Redirect),
        _ => Some(Cause::Status),
    }
}
