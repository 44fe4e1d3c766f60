//! Bounds the open requests and the marks of a tenant.

use porchlight_schema::limits::{PRIVACY_MARKS_MAX, PRIVACY_OPEN_REQUESTS_MAX};
use porchlight_schema::privacy::RequestType;

use super::Mark;

/// The number of marks and open requests of a tenant. Both may be half a second old, so a tenant
/// may exceed its bounds by the requests of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// The number of subjects with a mark.
    pub marks: usize,
    /// The number of requests that have not ended.
    pub open_requests: usize,
}

impl Room {
    /// Returns whether a subject may get a lasting mark, given its present one.
    #[must_use]
    pub fn has_mark(&self, present: &Mark) -> bool {
        !present.is_empty() || self.marks < PRIVACY_MARKS_MAX
    }

    /// Returns whether the tenant may submit a request, given the present mark of its subject. A
    /// release needs no mark, so that a tenant can always make room.
    #[must_use]
    pub fn has_request(&self, request_type: RequestType, suppress: bool, present: &Mark) -> bool {
        let leaves_mark = request_type == RequestType::Restriction || suppress;
        self.open_requests < PRIVACY_OPEN_REQUESTS_MAX && (!leaves_mark || self.has_mark(present))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_without_room_for_marks_can_erase_and_release() {
        let room = Room {
            marks: PRIVACY_MARKS_MAX,
            open_requests: PRIVACY_OPEN_REQUESTS_MAX - 1,
        };
        let (none, restricted) = (
            Mark::default(),
            Mark {
                restricted: true,
                ..Mark::default()
            },
        );
        for (_, request_type) in RequestType::ALL {
            let leaves_mark = request_type == RequestType::Restriction;
            assert_eq!(room.has_request(request_type, false, &none), !leaves_mark);
            assert!(room.has_request(request_type, false, &restricted));
        }
        assert!(!room.has_request(RequestType::Erasure, true, &none));
        assert!(!room.has_mark(&none) && room.has_mark(&restricted));
    }

    #[test]
    fn a_tenant_with_too_many_open_requests_submits_no_other() {
        let room = Room {
            marks: 0,
            open_requests: PRIVACY_OPEN_REQUESTS_MAX,
        };
        for (_, request_type) in RequestType::ALL {
            assert!(!room.has_request(request_type, false, &Mark::default()));
        }
        assert!(room.has_mark(&Mark::default()));
    }
}
