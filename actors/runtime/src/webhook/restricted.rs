//! Restricted sessions: their messages stay in the outbox and are not sent until the restriction is lifted.

use porchlight_core::webhook::{Listing, Mode};
use porchlight_ports::{Endpoint, StoreResult};
use porchlight_schema::ids::{EndpointId, SessionId};
use porchlight_schema::session::Tenant;
use porchlight_schema::time::TimestampMs;

use super::{Inner, WebhookCommand, Webhooks};
use crate::privacy::Restrictions;

impl Webhooks {
    /// Sends nothing about sessions that these restrictions hide. Call this once, before the first message is sent.
    pub fn restrict(&self, restrictions: Restrictions) {
        // A second call keeps the first ones.
        let _set = self.inner.restrictions.set(restrictions);
    }

    /// Reads the tenant's outbox from its beginning, because a restriction was lifted.
    pub fn released(&self, tenant: Tenant) {
        if self.inner.acts_for(tenant) {
            self.inner.command(tenant, WebhookCommand::Restart);
        } else {
            self.wake(tenant);
        }
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
    /// others.
    pub(super) async fn shown_listing(
        &self,
        tenant: Tenant,
        endpoint_id: EndpointId,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        manual: usize,
    ) -> StoreResult<Listing> {
        let mut hidden = 0;
        loop {
            let more = |bound: Option<(TimestampMs, usize)>| {
                bound.map(|(at, limit)| (at, limit.saturating_add(hidden)))
            };
            let listing = self
                .outbox
                .listing(
                    tenant,
                    endpoint_id,
                    more(ready),
                    more(due),
                    more(held),
                    manual.saturating_add(hidden),
                )
                .await?;
            if !self.has_restrictions(tenant) {
                return Ok(listing);
            }
            let (shown, found) = self.without_hidden(tenant, listing).await;
            if found <= hidden {
                return Ok(shown.cut(ready, due, held, manual));
            }
            hidden = found;
        }
    }

    /// Removes hidden messages. Returns the greatest number that one of the lists lost.
    async fn without_hidden(&self, tenant: Tenant, listing: Listing) -> (Shown, usize) {
        let mut most = 0;
        let mut shown = Shown(Listing::default());
        if let Some(rows) = listing.ready {
            let (kept, lost) = self.keep_shown(tenant, rows, |row| row.1).await;
            (shown.0.ready, most) = (Some(kept), most.max(lost));
        }
        if let Some(rows) = listing.due {
            let (kept, lost) = self.keep_shown(tenant, rows, |row| row.1).await;
            (shown.0.due, most) = (Some(kept), most.max(lost));
        }
        if let Some(rows) = listing.held {
            let (kept, lost) = self.keep_shown(tenant, rows, |row| row.1).await;
            (shown.0.held, most) = (Some(kept), most.max(lost));
        }
        let (kept, lost) = self
            .keep_shown(tenant, listing.manual, |request| request.session_id)
            .await;
        shown.0.manual = kept;
        (shown, most.max(lost))
    }

    async fn keep_shown<T>(
        &self,
        tenant: Tenant,
        rows: Vec<T>,
        session_of: impl Fn(&T) -> SessionId,
    ) -> (Vec<T>, usize) {
        let before = rows.len();
        let mut kept = Vec::with_capacity(before);
        for row in rows {
            if !self.hides(tenant, session_of(&row)).await {
                kept.push(row);
            }
        }
        let lost = before - kept.len();
        (kept, lost)
    }

    /// Returns the mode in which the machine works on an endpoint.
    pub(super) fn mode_of(&self, endpoint: &Endpoint) -> Mode {
        match endpoint.paused_since() {
            _ if self.is_ending(endpoint.tenant) => Mode::Stopped,
            Some(paused_at) => Mode::Paused(paused_at),
            None => Mode::Sending,
        }
    }
}

/// A listing without hidden messages.
struct Shown(Listing);

impl Shown {
    /// Cuts the lists to the requested lengths.
    fn cut(
        mut self,
        ready: Option<(TimestampMs, usize)>,
        due: Option<(TimestampMs, usize)>,
        held: Option<(TimestampMs, usize)>,
        manual: usize,
    ) -> Listing {
        let length = |bound: Option<(TimestampMs, usize)>| bound.map_or(0, |(_, limit)| limit);
        let listing = &mut self.0;
        listing
            .ready
            .iter_mut()
            .for_each(|rows| rows.truncate(length(ready)));
        listing
            .due
            .iter_mut()
            .for_each(|rows| rows.truncate(length(due)));
        listing
            .held
            .iter_mut()
            .for_each(|rows| rows.truncate(length(held)));
        listing.manual.truncate(manual);
        self.0
    }
}
