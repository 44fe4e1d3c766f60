//! Reading the sessions that an access request covers.

use porchlight_core::privacy::{PrivacyRequest, RecordedSubject, Standing};
use porchlight_ports::{SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;

use super::{TenantPrivacy, erase};

/// The number of sessions that one read fetches.
const SESSIONS_AT_ONCE: usize = 50;

impl TenantPrivacy<'_> {
    /// Returns a page of the sessions that an access request covers, newest first, and the session after which the next
    /// page begins. Restricted sessions are included; sessions that are being erased are not. A page may be empty and
    /// still have a successor.
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
        let until = request.began_at.unwrap_or(request.received_at);
        let page = erase::page(store, self.tenant, subject, until, after, SESSIONS_AT_ONCE);
        let (mut rows, next) = page.await?;
        rows.retain(|row| self.service.standing(&row.start) != Standing::Erased);
        Ok((rows, next))
    }
}
