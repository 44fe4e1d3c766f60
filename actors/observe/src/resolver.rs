//! Metrics of DNS lookups, and of the permits that lookups and webhook attempts share.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::name;

label! {
    /// The outcome of a DNS lookup.
    LookUpOutcome {
        /// The name has addresses.
        Found = "found",
        /// The addresses were cached, and no server was queried.
        Cached = "cached",
        /// The name does not exist.
        NoSuchName = "no_such_name",
        /// The name has no address.
        NoAddress = "no_address",
        /// The name servers of its domain do not answer.
        NoAnswer = "no_answer",
        /// The node's own DNS resolver does not answer.
        ResolverAway = "resolver_away",
    }
}

label! {
    /// A pool of permits that tenants share.
    PermitPoolKind {
        /// Attempts in flight.
        Attempts = "attempts",
        /// DNS lookups in flight.
        LookUps = "lookups",
    }
}

/// The metric handles of lookups and permits.
#[derive(Debug)]
pub struct ResolverMetrics {
    look_ups: Vec<Counter>,
    look_up: Histogram,
    away: Gauge,
    in_use: Vec<Gauge>,
    refused: Vec<Counter>,
}

impl ResolverMetrics {
    fn new() -> Self {
        let look_ups = |outcome: &LookUpOutcome| metrics::counter!(name::WEBHOOK_LOOKUPS_TOTAL, "outcome" => outcome.as_str());
        let in_use = |pool: &PermitPoolKind| metrics::gauge!(name::WEBHOOK_PERMITS_IN_USE, "pool" => pool.as_str());
        let refused = |pool: &PermitPoolKind| metrics::counter!(name::WEBHOOK_PERMITS_REFUSED_TOTAL, "pool" => pool.as_str());
        Self {
            look_ups: LookUpOutcome::ALL.iter().map(look_ups).collect(),
            look_up: metrics::histogram!(name::WEBHOOK_LOOKUP_SECONDS),
            away: metrics::gauge!(name::WEBHOOK_RESOLVER_AWAY),
            in_use: PermitPoolKind::ALL.iter().map(in_use).collect(),
            refused: PermitPoolKind::ALL.iter().map(refused).collect(),
        }
    }

    /// Returns the handles, created at the first call, which must follow the installation of the
    /// recorder.
    #[must_use]
    pub fn get() -> &'static Self {
        static METRICS: LazyLock<ResolverMetrics> = LazyLock::new(ResolverMetrics::new);
        &METRICS
    }

    /// Sets all gauges to 0.
    pub(crate) fn reset(&self) {
        self.away.set(0.0);
        for in_use in &self.in_use {
            in_use.set(0.0);
        }
    }

    /// Records a lookup that queried a server.
    pub fn on_look_up(&self, outcome: LookUpOutcome, took: Duration) {
        self.look_ups[outcome as usize].increment(1);
        self.look_up.record(took.as_secs_f64());
    }

    /// Records a lookup that was answered from the cache.
    pub fn on_cached(&self) {
        self.look_ups[LookUpOutcome::Cached as usize].increment(1);
    }

    /// Shows whether the node's resolver is unavailable.
    pub fn set_away(&self, is_away: bool) {
        self.away.set(f64::from(u8::from(is_away)));
    }

    /// Returns the gauge of the permits of a pool that are in use.
    pub fn in_use(&self, pool: PermitPoolKind) -> Gauge {
        self.in_use[pool as usize].clone()
    }

    /// Records that a permit was not granted in time.
    pub fn on_refused(&self, pool: PermitPoolKind) {
        self.refused[pool as usize].increment(1);
    }
}
