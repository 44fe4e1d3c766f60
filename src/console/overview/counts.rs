//! What the overview counts, and among how many.

use std::collections::{BTreeMap, HashMap};

use porchlight_core::webhook::Cause;
use porchlight_http::problem::Problem;
use porchlight_ports::{
    DeliveryFilter, DeliveryRow, DeliveryStatus, Endpoint, SessionFilter, SessionRow,
};
use porchlight_schema::insight::ReasonCode;
use porchlight_schema::time::TimestampMs;

use super::super::sessions::outcomes;
use super::super::visit::Visit;

/// How far the overview looks back.
const DAY_MS: i64 = 24 * 3_600_000;
/// Sessions that are looked at; with each its insight is read.
const SESSIONS_MAX: u32 = 500;
/// Deliveries that are looked at.
const DELIVERIES_MAX: u32 = 2_000;
/// Failed deliveries that are looked at.
const FAILED_MAX: u32 = 1_000;
/// Live sessions that are looked at, whoever's they are.
const LIVE_MAX: usize = 2_000;

/// All counts.
pub(super) struct Counted {
    /// Sessions that record, the newest first.
    pub(super) live: Vec<SessionRow>,
    /// There may be more of them.
    pub(super) is_live_cut: bool,
    pub(super) sessions: Sessions,
    pub(super) deliveries: Deliveries,
    pub(super) endpoint: Option<Endpoint>,
}

/// Of the newest sessions of a day.
pub(super) struct Sessions {
    /// How many were looked at.
    pub(super) seen: usize,
    /// There are more of that day.
    pub(super) is_cut: bool,
    /// Since when these were made.
    pub(super) since: TimestampMs,
    pub(super) scored: usize,
    /// Those whose scoring failed.
    pub(super) not_scored: usize,
    pub(super) suspicious: usize,
    pub(super) codes: HashMap<ReasonCode, usize>,
}

/// Of the newest deliveries of a day.
pub(super) struct Deliveries {
    /// How many were looked at.
    pub(super) seen: usize,
    /// There are more of that day.
    pub(super) is_cut: bool,
    /// Since when these were made.
    pub(super) since: TimestampMs,
    /// Since when those were made that failed for good, of which more are looked at.
    pub(super) since_failed: TimestampMs,
    /// There are more that failed.
    pub(super) is_failed_cut: bool,
    statuses: HashMap<DeliveryStatus, usize>,
    causes: BTreeMap<Cause, usize>,
}

impl Deliveries {
    /// How many stand so.
    pub(super) fn of(&self, status: DeliveryStatus) -> usize {
        self.statuses.get(&status).copied().unwrap_or_default()
    }

    /// Why most fail, of those that wait for a retry or failed for good.
    pub(super) fn worst(&self) -> Option<(Cause, usize)> {
        let worst = self.causes.iter().max_by_key(|(_, count)| **count);
        worst.map(|(cause, count)| (*cause, *count))
    }
}

/// Counts.
pub(super) async fn count(visit: &Visit) -> Result<Counted, Problem> {
    let from = visit.now().plus_ms(-DAY_MS);
    let (live, is_live_cut) = visit.sessions().live(LIVE_MAX).await?;
    let webhooks = visit.webhooks()?;
    let endpoint = webhooks.of(visit.tenant()).endpoint().await?;
    Ok(Counted {
        live,
        is_live_cut,
        sessions: sessions(visit, from).await?,
        deliveries: deliveries(visit, from, endpoint.as_ref()).await?,
        endpoint,
    })
}

async fn sessions(visit: &Visit, from: TimestampMs) -> Result<Sessions, Problem> {
    let own = visit.sessions();
    let filter = SessionFilter {
        from: Some(from),
        ..SessionFilter::default()
    };
    let page = own.list(&filter, SESSIONS_MAX, None).await?;
    let found = outcomes(own, &page.rows).await?;
    let oldest = page.rows.last().map(|row| row.start.created_at);
    let mut sessions = Sessions {
        seen: page.rows.len(),
        is_cut: page.next.is_some(),
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
    visit: &Visit,
    from: TimestampMs,
    endpoint: Option<&Endpoint>,
) -> Result<Deliveries, Problem> {
    let webhooks = visit.webhooks()?;
    let webhooks = webhooks.of(visit.tenant());
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
    let since = |rows: &[DeliveryRow], is_cut: bool| {
        let oldest = rows.last().map(DeliveryRow::created_at);
        oldest.filter(|_| is_cut).unwrap_or(from)
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
    Ok(Deliveries {
        seen: all.rows.len(),
        is_cut: all.next.is_some(),
        since: since(&all.rows, all.next.is_some()),
        since_failed: since(&failed.rows, failed.next.is_some()),
        is_failed_cut: failed.next.is_some(),
        statuses,
        causes,
    })
}
