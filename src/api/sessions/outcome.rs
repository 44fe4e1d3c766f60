//! The parameters `reason` and `suspicious` of the list of sessions, which filter by the content of
//! the insight.

use porchlight_actors::service::Service;
use porchlight_http::query::Query;
use porchlight_ports::{Page, SessionFilter, SessionOutcome, SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::limits::{LIST_INSIGHTS_READ_MAX, PAGE_ROWS_MAX};
use porchlight_schema::session::Tenant;

/// A filter of sessions by their insights. A session without scores passes only the empty filter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutcomeFilter {
    reason: Option<ReasonCode>,
    suspicious: Option<bool>,
}

impl OutcomeFilter {
    /// Returns the filter in a query.
    pub(super) fn read(query: &mut Query) -> Self {
        let reasons = ReasonCode::ALL.map(|reason| (reason.as_str(), reason));
        Self {
            reason: query.closed("reason", &reasons),
            suspicious: query.flag("suspicious"),
        }
    }

    /// Returns whether the filter has no condition.
    pub(super) fn is_empty(self) -> bool {
        self.reason.is_none() && self.suspicious.is_none()
    }

    fn matches(self, outcome: &SessionOutcome) -> bool {
        let Some(summary) = &outcome.summary else {
            return false;
        };
        self.reason
            .is_none_or(|reason| outcome.codes.contains(&reason))
            && self
                .suspicious
                .is_none_or(|suspicious| summary.suspicious_behavior == suspicious)
    }

    /// Returns one page of the sessions that pass both filters. A page reads at most
    /// [`LIST_INSIGHTS_READ_MAX`] insights, so it may hold fewer than `limit` sessions and still
    /// not be the last.
    pub(super) async fn page(
        self,
        service: &Service,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        mut after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        let (limit, mut rows, mut read) = (limit as usize, Vec::new(), 0);
        loop {
            let page = service.list(tenant, filter, PAGE_ROWS_MAX, after).await?;
            let outcomes = service.of(tenant).outcomes(&page.rows).await?;
            read += page.rows.len();
            for (row, outcome) in page.rows.into_iter().zip(outcomes) {
                if !outcome.is_some_and(|outcome| self.matches(&outcome)) {
                    continue;
                }
                // One row more than requested shows whether there is a next page.
                if rows.len() == limit {
                    let next = rows.last().map(|row: &SessionRow| row.start.session_id);
                    return Ok(Page { rows, next });
                }
                rows.push(row);
            }
            after = page.next;
            if after.is_none() || read >= LIST_INSIGHTS_READ_MAX {
                return Ok(Page { rows, next: after });
            }
        }
    }
}
