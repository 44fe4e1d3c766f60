//! The parameters `reason` and `suspicious` of the list of sessions, which filter by the content of
//! the insight.

use futures_util::{StreamExt, TryStreamExt, stream};
use porchlight_actors::service::Service;
use porchlight_http::query::Query;
use porchlight_ports::{Page, SessionFilter, SessionRow, StoreResult};
use porchlight_schema::ids::SessionId;
use porchlight_schema::insight::{ReasonCode, Score};
use porchlight_schema::limits::{LIST_INSIGHTS_READ_MAX, PAGE_ROWS_MAX};
use porchlight_schema::session::Tenant;

/// Insights that are read at the same time.
const AT_ONCE: usize = 16;

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

    fn takes(self, score: &Score) -> bool {
        let summary = &score.summary;
        self.reason
            .is_none_or(|reason| score.reason_codes.contains(&reason))
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
            let scores = stream::iter(page.rows.iter().map(|row| row.start.session_id))
                .map(|session_id| service.scored(session_id))
                .buffered(AT_ONCE);
            let scores: Vec<_> = scores.try_collect().await?;
            read += page.rows.len();
            for (row, scored) in page.rows.into_iter().zip(scores) {
                let score = scored.and_then(|stored| stored.record.score);
                if !score.is_some_and(|score| self.takes(&score)) {
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
