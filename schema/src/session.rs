//! A session: one physical delivery being recorded (contract section 2).

use serde::{Deserialize, Serialize};

use crate::ids::{OrganizationId, SessionId};
use crate::limits::{LATE_WINDOW_MS, TIMEOUT_LATE_WINDOW_MS};
use crate::time::TimestampMs;

/// The environment of a key and of all that is made with it. The two never see each other's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Env {
    /// For trying out; keys say `sandbox`.
    Sandbox,
    /// For real; keys say `live`.
    Production,
}

impl Env {
    /// Both environments.
    pub const ALL: [Self; 2] = [Self::Sandbox, Self::Production];

    /// The word in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Production => "production",
        }
    }

    /// The word in keys.
    #[must_use]
    pub fn key_word(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Production => "live",
        }
    }
}

/// Whose data it is: an organization in one environment. Every look-up carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tenant {
    /// The customer.
    pub organization_id: OrganizationId,
    /// The environment.
    pub env: Env,
}

/// What is done at the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionType {
    /// A parcel is brought.
    #[default]
    Delivery,
    /// A parcel is fetched.
    Pickup,
    /// A parcel is brought back.
    Return,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// Telemetry is expected.
    Recording,
    /// Stopped, or timed out.
    Completed,
}

/// A place, WGS 84 degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Latitude, −90 to 90.
    pub lat: f64,
    /// Longitude, −180 to 180.
    pub lng: f64,
}

/// Where the parcel goes. The first five fields are fixed and answered; the rest serves scoring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// Street and number.
    pub line1: String,
    /// City.
    pub city: String,
    /// Country, as the customer writes it.
    pub country: String,
    /// Where the door is.
    pub point: Point,
    /// Flat or suite.
    pub unit: Option<String>,
    /// The door's floor; ground is 0.
    pub floor: Option<i16>,
    /// How exact `point` is, metres (68 % radius).
    pub accuracy_m: f32,
    /// Height of a storey, metres.
    pub storey_height_m: Option<f32>,
    /// The building's entrance.
    pub entrance: Option<Point>,
    /// Gates on the way.
    pub gates: Vec<Point>,
}

impl Address {
    /// `accuracyM` where the request does not say (contract 2).
    pub const ACCURACY_M_DEFAULT: f32 = 20.0;
}

/// What the phone says of itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Device {
    /// `ios`, `android`, or whatever the app says.
    pub platform: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Version of the operating system.
    pub os_version: Option<String>,
    /// Version of the SDK.
    pub sdk_version: Option<String>,
    /// Kinds of sample that the phone can send; empty where it does not say.
    pub sensors: Vec<String>,
}

/// What is fixed when a session starts, and never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStart {
    /// The session.
    pub session_id: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// The customer's id of the parcel's delivery.
    pub delivery_id: String,
    /// The customer's id of the courier.
    pub external_rider_id: String,
    /// What is done.
    pub session_type: SessionType,
    /// Where to.
    pub address: Address,
    /// What the phone said of itself.
    pub device: Option<Device>,
    /// When the phone began: `t` = 0.
    pub started_at: TimestampMs,
    /// When the service made the session.
    pub created_at: TimestampMs,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The phone, or the customer, stopped it.
    Stopped,
    /// Nothing came for `session.idle_timeout`.
    Idle,
    /// It grew older than `session.max_duration`.
    TooLong,
    /// The service had ended it for one of the two reasons above, and the app stopped it afterwards.
    ///
    /// A variant of its own, and not a field of [`SessionEnd`]: ends are stored without field names, so that a field
    /// more would make earlier rows unreadable.
    StoppedAfterTimeout {
        /// When the service took the stop.
        stopped_at: TimestampMs,
    },
}

impl EndReason {
    /// Whether the service ended it, and the app has not stopped it since (`SESSION_TIMEOUT`).
    #[must_use]
    pub fn is_timeout(self) -> bool {
        matches!(self, Self::Idle | Self::TooLong)
    }
}

/// How a session ended. Written once, and once more when the app stops a session that the service had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// The end, as answered: the phone's word, or the service's.
    pub ended_at: TimestampMs,
    /// When the service completed the session: the token's life counts from here. A later stop does not change it.
    pub completed_at: TimestampMs,
    /// Why.
    pub reason: EndReason,
}

impl SessionEnd {
    /// The last moment at which telemetry is still taken for the session: 24 hours after an end by the service, 10
    /// minutes after a stop by the app.
    #[must_use]
    pub fn takes_telemetry_until(&self) -> TimestampMs {
        match self.reason {
            EndReason::Idle | EndReason::TooLong => {
                self.completed_at.plus_ms(TIMEOUT_LATE_WINDOW_MS)
            }
            EndReason::Stopped => self.completed_at.plus_ms(LATE_WINDOW_MS),
            EndReason::StoppedAfterTimeout { stopped_at } => stopped_at.plus_ms(LATE_WINDOW_MS),
        }
    }

    /// Whether a stop by the app, taken at `now`, replaces this end: the service ended the session at most 24 hours ago.
    #[must_use]
    pub fn is_replaced_by_stop_at(&self, now: TimestampMs) -> bool {
        self.reason.is_timeout() && now <= self.completed_at.plus_ms(TIMEOUT_LATE_WINDOW_MS)
    }

    /// When the app stopped a session that the service had ended; none for all other ends.
    #[must_use]
    pub fn late_stop_at(&self) -> Option<TimestampMs> {
        match self.reason {
            EndReason::StoppedAfterTimeout { stopped_at } => Some(stopped_at),
            _ => None,
        }
    }
}

/// The address as answered: the fixed fields and no other.
#[derive(Debug, Clone, Serialize)]
pub struct AddressView<'a> {
    line1: &'a str,
    city: &'a str,
    country: &'a str,
    lat: f64,
    lng: f64,
}

/// The Session of the contract, for JSON: the fixed fields, and `startedAt` in the API's own answers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView<'a> {
    session_id: SessionId,
    delivery_id: &'a str,
    organization_id: OrganizationId,
    external_rider_id: &'a str,
    session_type: SessionType,
    status: SessionStatus,
    env: Env,
    address: AddressView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<TimestampMs>,
    created_at: TimestampMs,
    ended_at: Option<TimestampMs>,
}

impl<'a> SessionView<'a> {
    /// The session as the API answers it: recording without an end, completed with one.
    #[must_use]
    pub fn answer(start: &'a SessionStart, end: Option<&SessionEnd>) -> Self {
        Self {
            started_at: Some(start.started_at),
            ..Self::new(start, end)
        }
    }

    /// The session as webhooks carry it: exactly the fixed fields.
    #[must_use]
    pub fn new(start: &'a SessionStart, end: Option<&SessionEnd>) -> Self {
        let address = &start.address;
        Self {
            session_id: start.session_id,
            delivery_id: &start.delivery_id,
            organization_id: start.tenant.organization_id,
            external_rider_id: &start.external_rider_id,
            session_type: start.session_type,
            status: if end.is_some() {
                SessionStatus::Completed
            } else {
                SessionStatus::Recording
            },
            env: start.tenant.env,
            address: AddressView {
                line1: &address.line1,
                city: &address.city,
                country: &address.country,
                lat: address.point.lat,
                lng: address.point.lng,
            },
            started_at: None,
            created_at: start.created_at,
            ended_at: end.map(|end| end.ended_at),
        }
    }
}

/// Proof of delivery: what the courier left as evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PodType {
    /// A photograph.
    Photo,
    /// A signature.
    Signature,
    /// A note.
    Note,
}

/// A proof of delivery, as asked for and as answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// What it is.
    #[serde(rename = "type")]
    pub pod_type: PodType,
    /// Where it lies; `https`.
    pub url: String,
}
