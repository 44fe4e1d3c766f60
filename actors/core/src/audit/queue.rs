//! Decides whose lines of the audit log are committed next.
//!
//! Each tenant has a chain of its own, so several tenants' lines are committed at the same time,
//! one group of each. Tenants take turns: a tenant with many lines, or whose commits fail, delays
//! the lines of others by at most one commit. The lines of a tenant stay in their order.
//!
//! Times are milliseconds of a monotonic clock.

use std::collections::{BTreeMap, VecDeque};

use porchlight_schema::limits::{
    AUDIT_COMMITS_AT_ONCE_MAX, AUDIT_GATHER_MS, AUDIT_GROUP_LINES_MAX, AUDIT_RETRY_FIRST_MS,
    AUDIT_RETRY_MS_MAX, AUDIT_SET_ASIDE_RETRY_MS,
};
use porchlight_schema::session::Tenant;

use crate::backoff::Backoff;

/// The pauses of a tenant whose commits fail.
const RETRIES: Backoff = Backoff::new(AUDIT_RETRY_FIRST_MS, AUDIT_RETRY_MS_MAX);

/// The lines that wait to be committed. `L` is a line as the caller keeps it.
#[derive(Debug)]
pub struct LineQueue<L> {
    tenants: BTreeMap<Tenant, Lines<L>>,
    /// The tenants with lines of which none is being committed; the first one has the next turn.
    turns: VecDeque<Tenant>,
    /// The number of tenants whose lines are being committed.
    running: usize,
    /// The number of lines that wait or are being committed.
    len: usize,
    /// The number of the next line.
    next: u64,
    /// The queue commits lines with a lower number, of any tenant, without gathering further ones.
    urgent_until: u64,
}

/// The lines of one tenant.
#[derive(Debug)]
struct Lines<L> {
    /// The waiting lines with their numbers.
    waiting: VecDeque<(u64, L)>,
    /// The numbers of the lines that are being committed.
    running: Vec<u64>,
    /// The time until which further lines are gathered.
    gathers_until_ms: u64,
    /// Lines with a lower number are committed without gathering further ones.
    urgent_until: u64,
    /// The time before which no commit is tried.
    paused_until_ms: u64,
    retries: Backoff,
    /// Whether the chain has a damaged row.
    is_aside: bool,
}

/// A point in the order of all lines; see [`LineQueue::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    tenant: Option<Tenant>,
    until: u64,
}

impl<L> Lines<L> {
    /// Returns the number of the oldest line that is not committed.
    fn oldest(&self) -> Option<u64> {
        let running = self.running.first().copied();
        running.or_else(|| self.waiting.front().map(|(number, _)| *number))
    }

    /// Returns the time at which the next group may be committed.
    fn begins_at_ms(&self, urgent_until: u64) -> u64 {
        let urgent_until = self.urgent_until.max(urgent_until);
        let is_urgent = self.oldest().is_some_and(|oldest| oldest < urgent_until);
        if is_urgent || self.waiting.len() >= AUDIT_GROUP_LINES_MAX {
            self.paused_until_ms
        } else {
            self.paused_until_ms.max(self.gathers_until_ms)
        }
    }
}

impl<L> Default for LineQueue<L> {
    fn default() -> Self {
        Self {
            tenants: BTreeMap::new(),
            turns: VecDeque::new(),
            running: 0,
            len: 0,
            next: 0,
            urgent_until: 0,
        }
    }
}

impl<L> LineQueue<L> {
    /// Adds a line behind the tenant's other lines.
    pub fn push(&mut self, tenant: Tenant, line: L, now_ms: u64) {
        let number = self.next;
        self.next = number.saturating_add(1);
        self.len += 1;
        let lines = self.tenants.entry(tenant).or_insert_with(|| Lines {
            waiting: VecDeque::new(),
            running: Vec::new(),
            gathers_until_ms: 0,
            urgent_until: 0,
            paused_until_ms: 0,
            retries: RETRIES,
            is_aside: false,
        });
        if lines.waiting.is_empty() {
            lines.gathers_until_ms = now_ms.saturating_add(AUDIT_GATHER_MS);
            if lines.running.is_empty() {
                self.turns.push_back(tenant);
            }
        }
        lines.waiting.push_back((number, line));
    }

    /// Begins the commit of the next group, of at most [`AUDIT_GROUP_LINES_MAX`] lines. Returns
    /// `None` if there is none at `now_ms`, or if the maximum number of commits is in progress. The
    /// caller ends the commit by [`Self::complete`], [`Self::fail`] or [`Self::set_aside`].
    pub fn begin(&mut self, now_ms: u64) -> Option<(Tenant, Vec<L>)> {
        if self.running >= AUDIT_COMMITS_AT_ONCE_MAX {
            return None;
        }
        let (tenants, urgent_until) = (&self.tenants, self.urgent_until);
        let may_begin = |tenant| {
            let lines: Option<&Lines<L>> = tenants.get(tenant);
            lines.is_some_and(|lines| lines.begins_at_ms(urgent_until) <= now_ms)
        };
        let turn = self.turns.iter().position(may_begin)?;
        let tenant = self.turns.remove(turn)?;
        let lines = self.tenants.get_mut(&tenant)?;
        let group = lines.waiting.len().min(AUDIT_GROUP_LINES_MAX);
        let (running, group): (Vec<u64>, Vec<L>) = lines.waiting.drain(..group).unzip();
        lines.running = running;
        // The rest has waited as long, or is newer by less than a commit takes.
        lines.gathers_until_ms = now_ms.saturating_add(AUDIT_GATHER_MS);
        self.running += 1;
        Some((tenant, group))
    }

    /// Removes the lines of a tenant's running commit, because they are committed.
    pub fn complete(&mut self, tenant: Tenant) {
        let Some(lines) = self.tenants.get_mut(&tenant) else {
            return;
        };
        self.running = self.running.saturating_sub(1);
        self.len = self.len.saturating_sub(lines.running.len());
        lines.running.clear();
        (lines.retries, lines.paused_until_ms, lines.is_aside) = (RETRIES, 0, false);
        if lines.waiting.is_empty() {
            self.tenants.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
    }

    /// Puts the lines of a tenant's failed commit back into the queue. The next attempt follows
    /// after a pause.
    pub fn fail(&mut self, tenant: Tenant, group: Vec<L>, now_ms: u64) {
        if let Some(lines) = self.give_back(tenant, group) {
            let pause = lines.retries.on_failure().as_millis();
            let pause_ms = u64::try_from(pause).unwrap_or(AUDIT_RETRY_MS_MAX);
            lines.paused_until_ms = now_ms.saturating_add(pause_ms);
        }
    }

    /// Puts lines back into the queue that cannot be committed because the tenant's chain has a
    /// damaged row. The next attempt follows after [`AUDIT_SET_ASIDE_RETRY_MS`], because an
    /// operator may repair the row.
    pub fn set_aside(&mut self, tenant: Tenant, group: Vec<L>, now_ms: u64) {
        if let Some(lines) = self.give_back(tenant, group) {
            lines.is_aside = true;
            lines.paused_until_ms = now_ms.saturating_add(AUDIT_SET_ASIDE_RETRY_MS);
        }
    }

    fn give_back(&mut self, tenant: Tenant, group: Vec<L>) -> Option<&mut Lines<L>> {
        let lines = self.tenants.get_mut(&tenant)?;
        self.running = self.running.saturating_sub(1);
        let numbers = std::mem::take(&mut lines.running);
        for line in numbers.into_iter().zip(group).rev() {
            lines.waiting.push_front(line);
        }
        lines.gathers_until_ms = 0;
        self.turns.push_back(tenant);
        Some(lines)
    }

    /// Ends the gathering of all queued lines, or of one tenant's, and returns the position of the
    /// newest of them.
    pub fn flush(&mut self, tenant: Option<Tenant>) -> Flush {
        let until = self.next;
        match tenant {
            Some(tenant) => {
                if let Some(lines) = self.tenants.get_mut(&tenant) {
                    lines.urgent_until = until;
                }
            }
            None => self.urgent_until = until,
        }
        Flush { tenant, until }
    }

    /// Returns whether all lines of a flush are committed: `Some(false)` if a damaged row prevents
    /// the commit of any of them, and `None` while one still waits.
    #[must_use]
    pub fn is_flushed(&self, flush: Flush) -> Option<bool> {
        let of_flush = self
            .tenants
            .iter()
            .filter(|(tenant, _)| flush.tenant.is_none_or(|wanted| wanted == **tenant));
        let is_open = |lines: &&Lines<L>| lines.oldest().is_some_and(|oldest| oldest < flush.until);
        let mut is_flushed = true;
        for lines in of_flush.map(|(_, lines)| lines).filter(is_open) {
            if !lines.is_aside {
                return None;
            }
            is_flushed = false;
        }
        Some(is_flushed)
    }

    /// Returns the time at which [`Self::begin`] returns the next group if nothing else happens.
    /// `None` if there is none, or if a commit must end first.
    #[must_use]
    pub fn begins_at_ms(&self) -> Option<u64> {
        if self.running >= AUDIT_COMMITS_AT_ONCE_MAX {
            return None;
        }
        let waiting = self
            .turns
            .iter()
            .filter_map(|tenant| self.tenants.get(tenant));
        let times = waiting.map(|lines| lines.begins_at_ms(self.urgent_until));
        times.min()
    }

    /// Returns the number of lines that wait or are being committed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no line waits and none is being committed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
