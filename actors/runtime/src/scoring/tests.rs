//! A session for the tests of scoring.

use porchlight_schema::ids::{OrganizationId, SessionId};
use porchlight_schema::session::{Address, Env, Point, SessionStart, Tenant};
use porchlight_schema::time::TimestampMs;

/// The time of the session.
pub(super) const T0: TimestampMs = TimestampMs(1_763_636_100_000);

/// Returns the start of the session.
pub(super) fn start() -> SessionStart {
    SessionStart::delivery(
        SessionId::new(T0, 1),
        Tenant {
            organization_id: OrganizationId::new(T0, 1),
            env: Env::Sandbox,
        },
        Address::at(Point { lat: 0.0, lng: 0.0 }),
        T0,
    )
}
