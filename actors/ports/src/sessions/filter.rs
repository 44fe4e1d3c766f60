//! The filter of a list of sessions.

use porchlight_schema::session::SessionStatus;
use porchlight_schema::time::TimestampMs;

use super::SessionRow;

/// A filter of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Only sessions with this status.
    pub status: Option<SessionStatus>,
    /// Only sessions of this delivery.
    pub delivery_id: Option<String>,
    /// Only sessions of this courier.
    pub external_rider_id: Option<String>,
    /// The earliest creation time.
    pub from: Option<TimestampMs>,
    /// The time before which they were created.
    pub to: Option<TimestampMs>,
}

impl SessionFilter {
    /// Returns whether a session has the status, the delivery and the courier of the filter. The
    /// range of the list bounds the time of its creation.
    #[must_use]
    pub fn matches(&self, row: &SessionRow) -> bool {
        let status = match row.end {
            None => SessionStatus::Recording,
            Some(_) => SessionStatus::Completed,
        };
        let is_equal = |expected: &Option<String>, actual: &str| {
            expected.as_ref().is_none_or(|expected| expected == actual)
        };
        self.status.is_none_or(|expected| expected == status)
            && is_equal(&self.delivery_id, &row.start.delivery_id)
            && is_equal(&self.external_rider_id, &row.start.external_rider_id)
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::ids::{OrganizationId, SessionId};
    use porchlight_schema::session::{
        Address, EndReason, Env, Point, SessionEnd, SessionStart, Tenant,
    };

    use super::*;

    #[test]
    fn a_filter_matches_status_delivery_and_courier() {
        let at = TimestampMs(5);
        let tenant = Tenant {
            organization_id: OrganizationId::new(at, 1),
            env: Env::Sandbox,
        };
        let address = Address::at(Point { lat: 1.0, lng: 2.0 });
        let start = SessionStart {
            delivery_id: "d".to_owned(),
            external_rider_id: "r".to_owned(),
            ..SessionStart::delivery(SessionId::new(at, 1), tenant, address, at)
        };
        let recording = SessionRow { start, end: None };
        let end = SessionEnd {
            ended_at: at,
            completed_at: at,
            reason: EndReason::Idle,
        };
        let completed = SessionRow {
            end: Some(end),
            ..recording.clone()
        };
        let all = SessionFilter::default();
        let of_status = |status| SessionFilter {
            status: Some(status),
            ..SessionFilter::default()
        };
        let of_delivery = |id: &str| SessionFilter {
            delivery_id: Some(id.to_owned()),
            ..SessionFilter::default()
        };
        let of_courier = |id: &str| SessionFilter {
            external_rider_id: Some(id.to_owned()),
            ..SessionFilter::default()
        };
        for (filter, expected) in [
            (all, (true, true)),
            (of_status(SessionStatus::Recording), (true, false)),
            (of_status(SessionStatus::Completed), (false, true)),
            (of_delivery("d"), (true, true)),
            (of_delivery("r"), (false, false)),
            (of_courier("r"), (true, true)),
            (of_courier("d"), (false, false)),
        ] {
            let found = (filter.matches(&recording), filter.matches(&completed));
            assert_eq!(found, expected, "{filter:?}");
        }
    }
}
