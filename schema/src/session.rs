//! A session: one recorded delivery (contract section 2).

use serde::{Deserialize, Serialize};

use crate::ids::{OrganizationId, SessionId};
use crate::limits::{LATE_WINDOW_MS, TIMEOUT_LATE_WINDOW_MS};
use crate::time::TimestampMs;

/// The environment of a key and of everything created with it. The two environments never see each
/// other's data.
///
/// Stores, and messages between nodes, hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Env {
    /// The test environment; keys say `sandbox`.
    Sandbox,
    /// The production environment; keys say `live`.
    Production,
}

impl Env {
    /// Both environments.
    pub const ALL: [Self; 2] = [Self::Sandbox, Self::Production];

    /// Returns the name in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Production => "production",
        }
    }

    /// Returns the name in keys.
    #[must_use]
    pub fn key_word(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Production => "live",
        }
    }
}

/// The owner of data: an organization in one environment. Every lookup carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tenant {
    /// The id of the organization.
    pub organization_id: OrganizationId,
    /// The environment of the tenant.
    pub env: Env,
}

impl Tenant {
    /// Returns the tenant as it is encoded in stored keys: the organization's id, then a byte for
    /// the environment.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        let (organization_id, env) = bytes.split_at_mut(16);
        organization_id.copy_from_slice(&self.organization_id.to_bytes());
        env.fill(match self.env {
            Env::Sandbox => 0,
            Env::Production => 1,
        });
        bytes
    }

    /// Returns the tenant at the start of a stored key, and the rest of the key.
    #[must_use]
    pub fn split_from(key: &[u8]) -> Option<(Self, &[u8])> {
        let (organization_id, rest) = key.split_first_chunk::<16>()?;
        let (env, rest) = rest.split_first()?;
        let env = match env {
            0 => Env::Sandbox,
            1 => Env::Production,
            _ => return None,
        };
        let organization_id = OrganizationId::from_bytes(*organization_id);
        let tenant = Self {
            organization_id,
            env,
        };
        Some((tenant, rest))
    }
}

/// The kind of visit.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionType {
    /// A parcel is delivered.
    #[default]
    Delivery,
    /// A parcel is picked up.
    Pickup,
    /// A parcel is returned.
    Return,
}

/// Status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    /// The session accepts telemetry.
    Recording,
    /// The session was stopped or timed out.
    Completed,
}

/// A position in WGS 84 degrees.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Latitude, −90 to 90.
    pub lat: f64,
    /// Longitude, −180 to 180.
    pub lng: f64,
}

/// The address of a delivery. The first five fields are fixed by the contract and returned; the
/// others serve scoring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// Street and number.
    pub line1: String,
    /// The name of the city.
    pub city: String,
    /// Country, as the customer writes it.
    pub country: String,
    /// Position of the door.
    pub point: Point,
    /// Apartment or suite.
    pub unit: Option<String>,
    /// Floor of the door; ground is 0.
    pub floor: Option<i16>,
    /// Accuracy of `point`: the radius in metres that contains it with a probability of 68 %.
    pub accuracy_m: f32,
    /// Height of a storey in metres.
    pub storey_height_m: Option<f32>,
    /// Position of the building's entrance.
    pub entrance: Option<Point>,
    /// Gates on the approach.
    pub gates: Vec<Point>,
}

impl Address {
    /// Default of `accuracyM` (contract 2).
    pub const ACCURACY_M_DEFAULT: f32 = 20.0;

    /// Returns an address of which only the position is known: its texts are empty, and its
    /// accuracy is the default.
    #[must_use]
    pub fn at(point: Point) -> Self {
        Self {
            line1: String::new(),
            city: String::new(),
            country: String::new(),
            point,
            unit: None,
            floor: None,
            accuracy_m: Self::ACCURACY_M_DEFAULT,
            storey_height_m: None,
            entrance: None,
            gates: Vec::new(),
        }
    }
}

/// Description of the phone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Device {
    /// `ios`, `android`, or the app's own name.
    pub platform: Option<String>,
    /// The model of the phone.
    pub model: Option<String>,
    /// Version of the operating system.
    pub os_version: Option<String>,
    /// Version of the SDK.
    pub sdk_version: Option<String>,
    /// Kinds of sample that the phone can send; empty if unknown.
    pub sensors: Vec<String>,
}

/// The immutable facts of a session's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStart {
    /// The id of the session.
    pub session_id: SessionId,
    /// The tenant of the session.
    pub tenant: Tenant,
    /// The customer's id of the delivery.
    pub delivery_id: String,
    /// The customer's id of the courier.
    pub external_rider_id: String,
    /// The kind of visit.
    pub session_type: SessionType,
    /// The delivery address.
    pub address: Address,
    /// Description of the phone.
    pub device: Option<Device>,
    /// The time at which the phone started recording: `t` = 0.
    pub started_at: TimestampMs,
    /// The time at which the service created the session.
    pub created_at: TimestampMs,
}

impl SessionStart {
    /// Returns the start of a delivery that is recorded from its creation on. The ids of the
    /// customer are empty.
    #[must_use]
    pub fn delivery(
        session_id: SessionId,
        tenant: Tenant,
        address: Address,
        at: TimestampMs,
    ) -> Self {
        Self {
            session_id,
            tenant,
            delivery_id: String::new(),
            external_rider_id: String::new(),
            session_type: SessionType::Delivery,
            address,
            device: None,
            started_at: at,
            created_at: at,
        }
    }
}

/// The reason why a session ended.
///
/// Stores hold the number of a variant: append a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The app or the customer stopped the session.
    Stopped,
    /// No batch arrived for `session.idle_timeout`.
    Idle,
    /// The session exceeded `session.max_duration`.
    TooLong,
    /// The service had ended the session as [`EndReason::Idle`] or [`EndReason::TooLong`], and the
    /// app stopped it afterwards.
    ///
    /// This is a separate variant and not a field of [`SessionEnd`], because ends are stored
    /// without field names: the rows of earlier versions would not decode with a further field.
    StoppedAfterTimeout {
        /// The time at which the service received the stop.
        stopped_at: TimestampMs,
    },
}

impl EndReason {
    /// Returns whether the service ended the session and the app has not stopped it since
    /// (`SESSION_TIMEOUT`).
    #[must_use]
    pub fn is_timeout(self) -> bool {
        matches!(self, Self::Idle | Self::TooLong)
    }
}

/// The end of a session. It is written once, and again if the app stops a session that the
/// service had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// The end as returned: the phone's time, or the service's.
    pub ended_at: TimestampMs,
    /// The time at which the service completed the session. The session's token expires a fixed
    /// time later. A later stop does not change it.
    pub completed_at: TimestampMs,
    /// The reason for the end.
    pub reason: EndReason,
}

impl SessionEnd {
    /// Returns the last moment at which telemetry is still accepted for the session: 24 hours after
    /// an end by the service, 10 minutes after a stop by the app.
    #[must_use]
    pub fn accepts_telemetry_until(&self) -> TimestampMs {
        match self.reason {
            EndReason::Idle | EndReason::TooLong => {
                self.completed_at.plus_ms(TIMEOUT_LATE_WINDOW_MS)
            }
            EndReason::Stopped => self.completed_at.plus_ms(LATE_WINDOW_MS),
            EndReason::StoppedAfterTimeout { stopped_at } => stopped_at.plus_ms(LATE_WINDOW_MS),
        }
    }

    /// Returns whether a stop by the app that arrives at `now` replaces this end: the service ended
    /// the session at most 24 hours ago.
    #[must_use]
    pub fn is_replaced_by_stop_at(&self, now: TimestampMs) -> bool {
        self.reason.is_timeout() && now <= self.completed_at.plus_ms(TIMEOUT_LATE_WINDOW_MS)
    }

    /// Returns the time at which the app stopped a session that the service had ended; `None` for
    /// all other ends.
    #[must_use]
    pub fn late_stop_at(&self) -> Option<TimestampMs> {
        match self.reason {
            EndReason::StoppedAfterTimeout { stopped_at } => Some(stopped_at),
            _ => None,
        }
    }
}

/// The address as returned: the fixed fields only.
#[derive(Debug, Clone, Serialize)]
pub struct AddressView<'a> {
    line1: &'a str,
    city: &'a str,
    country: &'a str,
    lat: f64,
    lng: f64,
}

/// The Session of the contract, for JSON: the fixed fields, and `startedAt` in the API's own
/// answers.
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
    /// Returns the session as the API answers it: recording without an end, completed with one.
    #[must_use]
    pub fn answer(start: &'a SessionStart, end: Option<&SessionEnd>) -> Self {
        Self {
            started_at: Some(start.started_at),
            ..Self::new(start, end)
        }
    }

    /// Creates the session as webhooks carry it: exactly the fixed fields.
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

/// Kind of a proof of delivery.
///
/// Stores hold the number of a variant: append a new one.
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

/// A proof of delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The kind of PoD.
    #[serde(rename = "type")]
    pub pod_type: PodType,
    /// The `https` URL.
    pub url: String,
}
