//! Lists the lines of a chain, and checks chains.

use std::sync::Arc;

use porchlight_core::audit::{
    ChainName, Fault, Filter, HashedLine, LinePosition, Verified, Verifier,
};
use porchlight_ports::{Store, StoreError, StoreResult};
use porchlight_schema::limits::{AUDIT_PAGE_GROUPS_MAX, AUDIT_PART_GROUPS};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::AuditLog;
use super::chain::{extent, groups_from, recorded_extent};
use super::expire::expired_until;

/// A page of the log, newest line first.
#[derive(Debug, Clone)]
pub struct AuditPage {
    /// The lines of the page.
    pub lines: Vec<HashedLine>,
    /// The line after which the next page begins; `None` at the end of the log.
    pub next: Option<LinePosition>,
}

/// The result of checking one chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainReport {
    /// The name of the chain.
    #[serde(flatten)]
    pub name: ChainName,
    /// The outcome of the check.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The outcome of the check of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum Outcome {
    /// The chain is intact.
    Whole(Verified),
    /// The chain is broken.
    Broken {
        /// A sentence that describes the fault and its position.
        fault: String,
    },
}

impl AuditLog {
    /// Lists lines, newest first. A page reads at most [`AUDIT_PAGE_GROUPS_MAX`] groups, so it may
    /// have fewer lines than `limit` without being the last page.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn page(
        &self,
        tenant: Tenant,
        filter: &Filter,
        limit: u32,
        after: Option<LinePosition>,
    ) -> StoreResult<AuditPage> {
        let extent = extent(self.store(), tenant).await?;
        let limit = limit as usize;
        // The lines before this position have yet to be listed.
        let mut before = after.unwrap_or(LinePosition {
            group: extent.head.next,
            line: 0,
        });
        before.group = before.group.min(extent.head.next);
        let (mut lines, mut read) = (Vec::new(), 0);
        loop {
            // The last group that may contain lines before that position.
            let Some(newest) = last_group(before) else {
                return Ok(AuditPage { lines, next: None });
            };
            let part = newest / AUDIT_PART_GROUPS;
            if part < extent.first_part {
                return Ok(AuditPage { lines, next: None });
            }
            let groups = groups_from(self.store(), tenant, part * AUDIT_PART_GROUPS).await?;
            for group in groups.iter().rev().filter(|group| group.number <= newest) {
                if filter.is_past(group) {
                    return Ok(AuditPage { lines, next: None });
                }
                for index in (0..group.len()).rev() {
                    let at = LinePosition {
                        group: group.number,
                        line: u32::try_from(index).unwrap_or(u32::MAX),
                    };
                    let line = group.line(index).filter(|_| at < before);
                    let Some(line) = line.filter(|line| filter.takes(&line.line)) else {
                        continue;
                    };
                    if lines.len() == limit {
                        return Ok(AuditPage {
                            lines,
                            next: Some(before),
                        });
                    }
                    lines.push(line);
                    before = at;
                }
            }
            before = LinePosition {
                group: part * AUDIT_PART_GROUPS,
                line: 0,
            };
            read += AUDIT_PART_GROUPS;
            if read >= AUDIT_PAGE_GROUPS_MAX && before.group > 0 {
                return Ok(AuditPage {
                    lines,
                    next: Some(before),
                });
            }
        }
    }

    /// Checks the chains of all organizations, including the lines accepted so far.
    ///
    /// # Errors
    ///
    /// See [`verify_all`].
    pub async fn verify(&self) -> StoreResult<Vec<ChainReport>> {
        self.flush().await;
        verify_all(self.store(), self.clock().now()).await
    }
}

/// Checks the chains of all organizations.
///
/// # Errors
///
/// Returns an error if the store fails for another reason than a damaged row.
pub async fn verify_all(store: &Arc<dyn Store>, now: TimestampMs) -> StoreResult<Vec<ChainReport>> {
    let mut reports = Vec::new();
    for organization in store.organizations().await? {
        for env in Env::ALL {
            let tenant = Tenant {
                organization_id: organization.id,
                env,
            };
            let outcome = match verify_chain(store, tenant, now).await {
                Ok(Ok(verified)) => Outcome::Whole(verified),
                Ok(Err(fault)) => Outcome::Broken {
                    fault: fault.to_string(),
                },
                Err(StoreError::Damaged(fault)) => Outcome::Broken { fault },
                Err(error) => return Err(error),
            };
            reports.push(ChainReport {
                name: ChainName {
                    organization_id: organization.id,
                    env,
                },
                outcome,
            });
        }
    }
    Ok(reports)
}

/// Checks the chain of one tenant.
async fn verify_chain(
    store: &Arc<dyn Store>,
    tenant: Tenant,
    now: TimestampMs,
) -> StoreResult<Result<Verified, Fault>> {
    let recorded = recorded_extent(store, tenant).await?;
    let expired_until = expired_until(store, tenant, now).await?;
    let mut verifier = Verifier::new(expired_until, recorded.head);
    let mut part = recorded.first_part;
    loop {
        let groups = groups_from(store, tenant, part * AUDIT_PART_GROUPS).await?;
        let is_empty = groups.is_empty();
        for group in &groups {
            if let Err(fault) = verifier.check(group) {
                return Ok(Err(fault));
            }
        }
        part += 1;
        // A part may have been removed as a whole, so the recorded end must be reached in any case.
        if is_empty && part * AUDIT_PART_GROUPS > recorded.head.next {
            return Ok(verifier.finish());
        }
    }
}

/// Returns the last group that has lines before this position, or `None` for the first position of
/// a chain.
fn last_group(before: LinePosition) -> Option<u64> {
    if before.line > 0 {
        Some(before.group)
    } else {
        before.group.checked_sub(1)
    }
}
