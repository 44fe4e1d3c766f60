//! The counts of the overview, and the number of rows behind them.

use std::collections::{BTreeMap, HashMap};

use porchlight_core::webhook::Cause;
use porchlight_http::problem::Problem;
use porchlight_ports::{
    DeliveryFilter, DeliveryRow, DeliveryStatus, Endpoint, SessionFilter, SessionRow,
};
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::time::{DAY_MS, TimestampMs};

use super::super::signed_in::SignedInRequest;

/// The maximum number of sessions that are read, each with its insight.
const SESSIONS_MAX: u32 = 500;
/// The maximum number of deliveries that are read.
const DELIVERIES_MAX: u32 = 2_000;
/// The maximum number of failed deliveries that are read.
const FAILED_MAX: u32 = 1_000;
/// The maximum number of live sessions that are read.
const LIVE_MAX: u32 = 2_000;

/// All counts of the overview.
pub(super) struct OverviewCounts {
    /// The sessions that are recording, newest first.
    pub(super) live: Vec<SessionRow>,
    /// Whether there may be more live sessions.
    pub(super) is_live_truncated: bool,
    pub(super) sessions: SessionCounts,
    pub(super) deliveries: DeliveryCounts,
    pub(super) endpoint: Option<Endpoint>,
}

/// The counts for the newest sessions of a day.
pub(super) struct SessionCounts {
    /// The number of sessions read.
    pub(super) seen: usize,
    /// Whether there are more sessions of that day.
    pub(super) is_truncated: bool,
    /// The time since which these sessions were created.
    pub(super) since: TimestampMs,
    pub(super) scored: usize,
    /// The number of sessions whose scoring failed.
    pub(super) not_scored: usize,
    pub(super) suspicious: usize,
    pub(super) codes: HashMap<ReasonCode, usize>,
}

/// The counts for the newest deliveries of a day.
pub(super) struct DeliveryCounts {
    /// The number of deliveries read.
    pub(super) seen: usize,
    /// Whether there are more deliveries of that day.
    pub(super) is_truncated: bool,
    /// The time since which these deliveries were created.
    pub(super) since: TimestampMs,
    /// The time since which the permanently failed deliveries were created; more of these are read.
    pub(super) since_failed: TimestampMs,
    /// Whether there are more failed deliveries.
    pub(super) is_failed_truncated: bool,
    statuses: HashMap<DeliveryStatus, usize>,
    causes: BTreeMap<Cause, usize>,
}

impl DeliveryCounts {
    /// Returns the number of deliveries with this status.
    pub(super) fn of(&self, status: DeliveryStatus) -> usize {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    /// Returns the most frequent cause among deliveries that wait for a retry or failed
    /// permanently.
    pub(super) fn most_common_cause(&self) -> Option<(Cause, usize)> {
        let most_common_cause = self.causes.iter().max_by_key(|(_, count)| **count);
        most_common_cause.map(|(cause, count)| (*cause, *count))
    }
}

/// Reads and counts everything for the overview.
pub(super) async fn count(request: &SignedInRequest) -> Result<OverviewCounts, Problem> {
    let _share = request.begin_list()?;
    let from = request.now().plus_ms(-DAY_MS);
    let (live, is_live_truncated) = request.sessions().live(LIVE_MAX).await?;
    let webhooks = request.webhooks()?;
    let endpoint = webhooks.of(request.tenant()).endpoint().await?;
    Ok(OverviewCounts {
        live,
        is_live_truncated,
        sessions: sessions(request, from).await?,
        deliveries: deliveries(request, from, endpoint.as_ref()).await?,
        endpoint,
    })
}

async fn sessions(request: &SignedInRequest, from: TimestampMs) -> Result<SessionCounts, Problem> {
    let own = request.sessions();
    let filter = SessionFilter {
        from: Some(from),
        ..SessionFilter::default()
    };
    let page = own.list(&filter, SESSIONS_MAX, None).await?;
    let found = own.outcomes(&page.rows).await?;
    let oldest = page.rows.last().map(|row| row.start.created_at);
    let mut sessions = SessionCounts {
        seen: page.rows.len(),
        is_truncated: page.next.is_some(),
        since: oldest.filter(|_| page.next.is_some()).unwrap_or(from),
        scored: 0,
        not_scored: 0,
        suspicious: 0,
        codes: HashMap::new(),
    };
    for outcome in found.into_iter().flatten() {
        match outcome.summary {
            Some(summary) => {
                sessions.scored += 1;
                sessions.suspicious += usize::from(summary.suspicious_behavior);
            }
            None => sessions.not_scored += 1,
        }
        for code in outcome.codes {
            *sessions.codes.entry(code).or_default() += 1;
        }
    }
    Ok(sessions)
}

async fn deliveries(
    request: &SignedInRequest,
    from: TimestampMs,
    endpoint: Option<&Endpoint>,
) -> Result<DeliveryCounts, Problem> {
    let webhooks = request.webhooks()?;
    let webhooks = webhooks.of(request.tenant());
    let current = endpoint.map(|endpoint| endpoint.id);
    let of_day = |status| DeliveryFilter {
        status,
        from: Some(from),
        ..DeliveryFilter::default()
    };
    let all = webhooks
        .deliveries(&of_day(None), DELIVERIES_MAX, None)
        .await?;
    let failed = of_day(Some(DeliveryStatus::Failed));
    let failed = webhooks.deliveries(&failed, FAILED_MAX, None).await?;
    let since = |rows: &[DeliveryRow], is_truncated: bool| {
        let oldest = rows.last().map(DeliveryRow::created_at);
        oldest.filter(|_| is_truncated).unwrap_or(from)
    };
    let mut statuses: HashMap<_, usize> = HashMap::new();
    let mut causes: BTreeMap<_, usize> = BTreeMap::new();
    for row in &all.rows {
        let status = row.status(current);
        *statuses.entry(status).or_default() += 1;
        if matches!(status, DeliveryStatus::Retrying | DeliveryStatus::Failed)
            && let Some(cause) = row.cause
        {
            *causes.entry(cause).or_default() += 1;
        }
    }
    statuses.insert(DeliveryStatus::Failed, failed.rows.len());
    Ok(DeliveryCounts {
        seen: all.rows.len(),
        is_truncated: all.next.is_some(),
        since: since(&all.rows, all.next.is_some()),
        since_failed: since(&failed.rows, failed.next.is_some()),
        is_failed_truncated: failed.next.is_some(),
        statuses,
        causes,
    })
}
