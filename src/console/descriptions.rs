//! Explains the service's terms in sentences for people.

use porchlight_core::webhook::Cause;
use porchlight_ports::DeliveryStatus;
use porchlight_schema::event::EventType;
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::key::Role;

/// Returns the explanation of a failed attempt, and its remedy.
pub(super) fn cause(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Dns => (
            "The host name did not resolve",
            "Check the host name for a typo, and check its DNS records. Queued deliveries continue automatically.",
        ),
        Cause::Connect => (
            "Connection failed",
            "Your server refused the connection, or a firewall blocked it. Check that the server runs and that its port is open to the internet.",
        ),
        Cause::Tls => (
            "The TLS handshake failed",
            "The certificate has expired, has another host name, or lacks intermediate certificates. Renew it, and serve the complete chain.",
        ),
        Cause::BlockedAddress => (
            "The host resolves to an address that is not allowed",
            "The host name resolves to a private or reserved address. Use a public address, or ask the operator to allow the range.",
        ),
        Cause::Timeout => (
            "No response within 5 seconds",
            "Respond with 200 as soon as you have stored the event, and process it afterwards.",
        ),
        Cause::Status => (
            "Your endpoint returned an error status",
            "Check the response below and your server logs for this delivery ID. Only a 2xx status counts as success.",
        ),
        Cause::Redirect => (
            "Your endpoint returned a redirect",
            "Porchlight does not follow redirects. Register the target URL.",
        ),
        Cause::Protocol => (
            "The connection closed without an HTTP response",
            "Your server, or a proxy in front of it, closed the connection too early. Check its logs and limits.",
        ),
        Cause::Internal => (
            "Internal error",
            "The fault is on our side, so this attempt does not count. It is repeated, unless the stored message is damaged.",
        ),
    }
}

/// Explains a delivery's status in a sentence.
pub(super) fn status(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Pending => "Queued, not sent yet.",
        DeliveryStatus::Retrying => "Failed; will be retried automatically.",
        DeliveryStatus::Delivered => "Your endpoint accepted it.",
        DeliveryStatus::Failed => {
            "All six attempts failed, or the stored message is damaged. It will not be retried automatically."
        }
        DeliveryStatus::Superseded => "Replaced by a newer insight for this session.",
        DeliveryStatus::Cancelled => {
            "The webhook was deleted before this was sent, or it was held for more than 7 days."
        }
    }
}

/// Explains a reason code.
pub(super) fn reason(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::FullAttempt => "The courier walked to the door and stayed there",
        ReasonCode::PartialAttempt => {
            "The courier came near on foot, but did not reach the door or the floor"
        }
        ReasonCode::NoAttempt => "The courier did not come near the address on foot",
        ReasonCode::PossibleNoAttempt => {
            "Possibly no attempt: the phone may have stayed in the vehicle, or there was too little data"
        }
        ReasonCode::InsufficientData => "Too little data for a result",
        ReasonCode::DeliveredToRightDoorstep => "The drop-off was at the right door",
        ReasonCode::PossibleLobbyHandoff => {
            "The parcel may have been left in the lobby: the door is on an upper floor"
        }
        ReasonCode::PossibleWrongAddress => {
            "The parcel may be at another address: the courier stayed at a door far from this one"
        }
        ReasonCode::SessionTimeout => "The session timed out because the app did not stop it",
        ReasonCode::TelemetryStreamInterrupted => "The phone sent no data for some time",
    }
}

/// Returns a short label for a reason code.
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

/// Returns the name of an event.
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
        Role::Admin => "full access to this environment",
        Role::Support => "can read, and retry webhook deliveries",
        Role::Viewer => "can read",
    }
}
