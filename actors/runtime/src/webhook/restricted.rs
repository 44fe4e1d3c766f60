//! Restricted sessions: their messages stay in the outbox and are not sent until the restriction is
//! lifted.

use std::collections::HashMap;

use porchlight_core::webhook::{Listing, ListingRequest, ManualRetry, Mode};
use porchlight_ports::{Endpoint, StoreResult};
use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_schema::limits::WEBHOOK_HIDDEN_ROWS_MAX;
use porchlight_schema::session::Tenant;

use super::{Inner, WebhookCommand, Webhooks};
use crate::privacy::Restrictions;

impl Webhooks {
    /// Sends nothing about sessions that these restrictions hide. Call this once, before the first
    /// message is sent.
    pub fn restrict(&self, restrictions: Restrictions) {
        // A second call has no effect.
        let _set = self.inner.restrictions.set(restrictions);
    }

    /// Reads the tenant's outbox from its beginning, because a restriction was lifted.
    pub fn released(&self, tenant: Tenant) {
        if self.inner.acts_for(tenant) {
            self.inner.command(tenant, WebhookCommand::Released);
        }
        // An actor that retires now ignores the command, and the wake starts its successor.
        self.wake(tenant);
    }
}

impl Inner {
    /// Returns whether webhooks must not mention a session now. If the store fails, nothing is sent
    /// about it.
    pub(super) async fn hides(&self, tenant: Tenant, session_id: SessionId) -> bool {
        let Some(restrictions) = self.restrictions.get() else {
            return false;
        };
        let hides = restrictions.hides(tenant, session_id).await;
        hides.unwrap_or(true)
    }

    fn has_restrictions(&self, tenant: Tenant) -> bool {
        let restrictions = self.restrictions.get();
        restrictions.is_some_and(|restrictions| restrictions.marks.has_any(tenant))
    }

    /// Lists an outbox without the messages of hidden sessions. It queries the store until the
    /// lists have the requested length or the outbox ends, so that hidden messages do not block
    /// others. Each query requests more rows than the one before (see [`next_extra`]), and each
    /// session is looked up once.
    pub(super) async fn shown_listing(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        request: ListingRequest,
    ) -> StoreResult<Listing> {
        let (mut extra, mut known) = (0, HashMap::new());
        loop {
            let ListingRequest {
                ready,
                due,
                held,
                manual_max,
            } = request.with_extra(extra);
            let outbox = &self.outbox;
            let listing = outbox.listing(tenant, endpoint_id, ready, due, held, manual_max);
            let listing = listing.await?;
            if !self.has_restrictions(tenant) {
                return Ok(listing);
            }
            let (shown, lost) = self.without_hidden(tenant, listing, &mut known).await;
            match next_extra(extra, lost) {
                Some(next) => extra = next,
                None => return Ok(request.cut(shown)),
            }
        }
    }

    /// Removes the messages of hidden sessions from a listing. Returns the listing, and the
    /// greatest number of messages that one of its lists has lost.
    async fn without_hidden(
        &self,
        tenant: Tenant,
        listing: Listing,
        known: &mut HashMap<SessionId, bool>,
    ) -> (Listing, usize) {
        let mut most = 0;
        let mut shown = Listing::default();
        if let Some(rows) = listing.ready {
            let (kept, lost) = self.keep_shown(tenant, rows, |row| row.1, known).await;
            (shown.ready, most) = (Some(kept), most.max(lost));
        }
        if let Some(rows) = listing.due {
            let (kept, lost) = self.keep_shown(tenant, rows, |row| row.1, known).await;
            (shown.due, most) = (Some(kept), most.max(lost));
        }
        if let Some(rows) = listing.held {
            let (kept, lost) = self.keep_shown(tenant, rows, |row| row.1, known).await;
            (shown.held, most) = (Some(kept), most.max(lost));
        }
        let session_of = |request: &ManualRetry| request.session_id;
        let manual = self.keep_shown(tenant, listing.manual, session_of, known);
        let (kept, lost) = manual.await;
        shown.manual = kept;
        (shown, most.max(lost))
    }

    /// Removes the rows of hidden sessions. Returns the other rows, and the number of those
    /// removed. `known` caches whether a session is hidden.
    async fn keep_shown<T>(
        &self,
        tenant: Tenant,
        rows: Vec<T>,
        session_of: impl Fn(&T) -> SessionId,
        known: &mut HashMap<SessionId, bool>,
    ) -> (Vec<T>, usize) {
        let before = rows.len();
        let mut kept = Vec::with_capacity(before);
        for row in rows {
            let session_id = session_of(&row);
            let is_hidden = match known.get(&session_id) {
                Some(is_hidden) => *is_hidden,
                None => {
                    let is_hidden = self.hides(tenant, session_id).await;
                    known.insert(session_id, is_hidden);
                    is_hidden
                }
            };
            if !is_hidden {
                kept.push(row);
            }
        }
        let lost = before - kept.len();
        (kept, lost)
    }

    /// Returns the mode in which the machine works on an endpoint.
    pub(super) fn mode_of(&self, endpoint: &Endpoint) -> Mode {
        if self.is_ending(endpoint.tenant) {
            return Mode::Stopped;
        }
        match endpoint.paused_since() {
            Some(paused_at) => Mode::Paused(paused_at),
            None => Mode::Sending,
        }
    }
}

/// Returns the number of rows to request in addition to the limit of each list, after a query that
/// requested `extra` and lost `lost` hidden rows. `None` if no list can be short because of them,
/// or if the hidden rows have reached their maximum, beyond which further queries would delay
/// others.
fn next_extra(extra: usize, lost: usize) -> Option<usize> {
    if lost <= extra || extra >= WEBHOOK_HIDDEN_ROWS_MAX {
        return None;
    }
    Some(lost.saturating_mul(2).min(WEBHOOK_HIDDEN_ROWS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of rows that each query requests if the first `hidden` rows of the outbox
    /// are hidden.
    fn requested(limit: usize, hidden: usize) -> Vec<usize> {
        let (mut requested, mut extra) = (vec![limit], 0);
        while let Some(next) = next_extra(extra, hidden.min(limit + extra)) {
            extra = next;
            requested.push(limit + extra);
        }
        requested
    }

    #[test]
    fn hidden_messages_are_passed_with_few_queries() {
        assert_eq!(requested(64, 0), [64]);
        assert_eq!(requested(64, 10), [64, 84]);
        let hidden = 10_000;
        let queries = requested(64, hidden);
        assert!(queries.len() < 10, "{queries:?}");
        assert!(queries.last().unwrap() >= &(hidden + 64), "{queries:?}");
        let rows: usize = queries.iter().sum();
        assert!(rows < 5 * hidden, "{queries:?}");
    }

    #[test]
    fn the_work_of_one_listing_is_bounded() {
        let queries = requested(64, usize::MAX);
        assert_eq!(*queries.last().unwrap(), 64 + WEBHOOK_HIDDEN_ROWS_MAX);
        assert!(queries.len() < 20, "{queries:?}");
    }
}
