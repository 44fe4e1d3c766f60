//! The address of a simulated delivery, for tests and benchmarks.

use porchlight_core::context::SessionContext;
use porchlight_schema::session::{Address, Point};
use porchlight_sim::Delivery;

/// Returns a session context that knows only the point of the delivery's address.
#[expect(
    clippy::unwrap_used,
    reason = "every simulated delivery starts with a point"
)]
pub(crate) fn context(delivery: &Delivery) -> SessionContext {
    let degrees = |name: &str| {
        delivery
            .start
            .pointer(name)
            .and_then(serde_json::Value::as_f64)
            .unwrap()
    };
    let address = Address::at(Point {
        lat: degrees("/address/lat"),
        lng: degrees("/address/lng"),
    });
    SessionContext::of_address(&address, None)
}
