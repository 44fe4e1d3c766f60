//! What the service's words mean, in sentences for people.

use porchlight_actors::ports::DeliveryStatus;
use porchlight_core::webhook::Cause;

/// What went wrong with a try, and what to do about it.
pub(super) fn cause(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Dns => (
            "The host name did not resolve",
            "Check the host name for a typo, and that its DNS records are published. Deliveries that wait go on by themselves.",
        ),
        Cause::Connect => (
            "No connection could be made",
            "Nothing listens there, or a firewall drops us. Check that the receiver runs and is open to the internet on that port.",
        ),
        Cause::Tls => (
            "The TLS handshake failed",
            "The certificate is expired, for another name, or its chain is not complete. Renew it, and serve the intermediate certificates too.",
        ),
        Cause::BlockedAddress => (
            "The host leads to an address that is not allowed",
            "The name points to a private or reserved address. Point it to a public one, or have the operator allow the range.",
        ),
        Cause::Timeout => (
            "No answer within 5 seconds",
            "Answer with 200 as soon as the message is stored, and do the work afterwards.",
        ),
        Cause::Status => (
            "The receiver answered with an error status",
            "Look at the answer below and at the receiver's log for this delivery id. Only a 2xx counts as success.",
        ),
        Cause::Redirect => (
            "The receiver answered with a redirect",
            "Redirects are not followed. Register the URL that it leads to.",
        ),
        Cause::Protocol => (
            "The connection broke, or did not speak HTTP",
            "The receiver, or a proxy before it, closed the connection before it had answered. Check their logs and limits.",
        ),
        Cause::Internal => (
            "A fault on our side",
            "Nothing for you to do: the try does not count, and is repeated.",
        ),
    }
}

/// Where a delivery stands, in a sentence.
pub(super) fn status(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Pending => "Waits for its first try.",
        DeliveryStatus::Retrying => "Failed so far, and is tried again by itself.",
        DeliveryStatus::Delivered => "The receiver took it.",
        DeliveryStatus::Failed => {
            "All six tries failed. It is not tried again unless you ask for it."
        }
        DeliveryStatus::Superseded => "A newer insight of the same session went in its place.",
        DeliveryStatus::Cancelled => "The webhook was deleted while it waited.",
    }
}
