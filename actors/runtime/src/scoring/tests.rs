//! A session for the tests of scoring.

use porchlight_schema::ids::{OrganizationId, SessionId};
use porchlight_schema::session::{Address, Env, Point, SessionStart, SessionType, Tenant};
use porchlight_schema::time::TimestampMs;

/// The time of the session.
pub(super) const T0: TimestampMs = TimestampMs(1_763_636_100_000);

/// Returns the start of the session.
pub(super) fn start() -> SessionStart {
    SessionStart {
        session_id: SessionId::new(T0, 1),
        tenant: Tenant {
            organization_id: OrganizationId::new(T0, 1),
            env: Env::Sandbox,
        },
        delivery_id: String::new(),
        external_rider_id: String::new(),
        session_type: SessionType::Delivery,
        address: Address {
            line1: String::new(),
            city: String::new(),
            country: String::new(),
            point: Point { lat: 0.0, lng: 0.0 },
            unit: None,
            floor: None,
            accuracy_m: Address::ACCURACY_M_DEFAULT,
            storey_height_m: None,
            entrance: None,
            gates: Vec::new(),
        },
        device: None,
        started_at: T0,
        created_at: T0,
    }
}
