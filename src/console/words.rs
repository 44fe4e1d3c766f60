//! Explains the service's terms in sentences for people.

use porchlight_core::webhook::Cause;
use porchlight_ports::DeliveryStatus;
use porchlight_schema::event::EventType;
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::key::Role;

/// The explanation of a failed attempt, and its remedy.
pub(super) fn cause(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Dns => (
            "The host name did not resolve",
            "Check the host name for a typo, and that its DNS records are published. Waiting deliveries then continue automatically.",
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

/// Explains a delivery's status in a sentence.
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

/// Explains a reason code.
pub(super) fn reason(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::FullAttempt => "Went on foot to the door and stayed there",
        ReasonCode::PartialAttempt => {
            "Came near on foot, but not to the door or not up to the floor"
        }
        ReasonCode::NoAttempt => "Never came near the address on foot",
        ReasonCode::PossibleNoAttempt => {
            "Perhaps never came near: the phone may have stayed in the vehicle, or too little was seen"
        }
        ReasonCode::InsufficientData => "Too little data for a result",
        ReasonCode::DeliveredToRightDoorstep => "The drop-off was at the right door",
        ReasonCode::PossibleLobbyHandoff => {
            "Possibly dropped off in the lobby: the door is on an upper floor"
        }
        ReasonCode::PossibleWrongAddress => {
            "Perhaps at another address: a stay at a door far from this one"
        }
        ReasonCode::SessionTimeout => {
            "The service ended the session, because the app did not stop it"
        }
        ReasonCode::TelemetryStreamInterrupted => "The phone sent no data for some time",
    }
}

/// A short label for a reason code.
pub(super) fn reason_label(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::FullAttempt => "Full attempt",
        ReasonCode::PartialAttempt => "Partial attempt",
        ReasonCode::NoAttempt => "No attempt",
        ReasonCode::PossibleNoAttempt => "Possibly no attempt",
        ReasonCode::InsufficientData => "Too little data",
        ReasonCode::DeliveredToRightDoorstep => "Right doorstep",
        ReasonCode::PossibleLobbyHandoff => "Possible lobby hand-off",
        ReasonCode::PossibleWrongAddress => "Possible wrong address",
        ReasonCode::SessionTimeout => "Timed out",
        ReasonCode::TelemetryStreamInterrupted => "Stream interrupted",
    }
}

/// The name of an event.
pub(super) fn event(event: EventType) -> &'static str {
    match event {
        EventType::Driving => "Driving",
        EventType::Walking => "Walking",
        EventType::Stopped => "Stopped",
        EventType::Stairs => "Stairs",
        EventType::Elevator => "Elevator",
        EventType::Backtracking => "Backtracking",
        EventType::Gate => "Gate",
        EventType::GpsDegraded => "GPS degraded",
        EventType::GpsLost => "GPS lost",
        EventType::GpsRestored => "GPS restored",
    }
}

/// Describes the permissions of keys with this role.
pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::Admin => "may do everything in this environment",
        Role::Support => "may read, and retry webhook deliveries",
        Role::Viewer => "may read",
    }
}
