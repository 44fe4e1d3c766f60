//! Reads the data that an access request covers in addition to the data that the API shows about a
//! session.

use porchlight_core::privacy::{PrivacyRequest, RecordedSubject, SessionAccess};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::{RecorderId, SessionId};
use porchlight_schema::privacy::Subject;

use super::super::RecorderOrder;
use super::super::recorder::order_of;
use super::{TenantPrivacy, erase};
use crate::scoring::{Contributions, contributions};

/// The number of sessions that one read fetches.
const SESSIONS_AT_ONCE: usize = 50;
/// The number of recorders in one read.
const RECORDERS_AT_ONCE: usize = 500;

impl TenantPrivacy<'_> {
    /// Returns a page of the sessions that an access request covers, newest first, and the session
    /// after which the next page begins. Restricted sessions are included; sessions that are being
    /// erased are not. A page may be empty and still have a successor.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn sessions_to_access(
        &self,
        request: &PrivacyRequest,
        after: Option<SessionId>,
    ) -> StoreResult<(Vec<SessionRow>, Option<SessionId>)> {
        let RecordedSubject::Clear(subject) = &request.subject else {
            return Ok((Vec::new(), None));
        };
        let store = self.service.store().as_ref();
        let until = request.covers_until();
        let page = erase::page(store, self.tenant, subject, until, after, SESSIONS_AT_ONCE);
        let (mut rows, next) = page.await?;
        rows.retain(|row| self.service.access(&row.start) != SessionAccess::Erased);
        Ok((rows, next))
    }

    /// Returns the recorders that were created for the subject of an access request until it began,
    /// oldest first. A recorder without a delivery is found by its own id, which its
    /// sessions have as their delivery.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn recorders_to_access(
        &self,
        request: &PrivacyRequest,
    ) -> StoreResult<Vec<(RecorderId, RecorderOrder)>> {
        let RecordedSubject::Clear(subject) = &request.subject else {
            return Ok(Vec::new());
        };
        let until = request.covers_until();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.service.store().recorders(after, RECORDERS_AT_ONCE);
            let (rows, next) = page.await?;
            for (id, row) in rows {
                let order = order_of(&row).filter(|order| order.tenant == self.tenant);
                let Some(order) = order.filter(|order| order.created_at <= until) else {
                    continue;
                };
                if is_for(subject, id, &order) {
                    found.push((id, order));
                }
            }
            match next {
                Some(next) => after = Some(next),
                None => {
                    found.sort_by_key(|(id, _)| *id);
                    return Ok(found);
                }
            }
        }
    }

    /// Returns the contributions of a session to the knowledge of its place.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn contributions_to_access(&self, row: &SessionRow) -> StoreResult<Contributions> {
        let store = self.service.store().as_ref();
        let keys = store.learned_by(row.start.session_id).await?;
        contributions(store, &row.start, keys).await
    }
}

fn is_for(subject: &Subject, id: RecorderId, order: &RecorderOrder) -> bool {
    match subject {
        Subject::ExternalRiderId(rider) => *rider == order.external_rider_id,
        Subject::DeliveryId(delivery) => *delivery == order.delivery_id(id),
        Subject::SessionId(_) => false,
    }
}
