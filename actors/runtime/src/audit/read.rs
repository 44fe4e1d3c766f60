//! Lists the lines of a chain, and checks chains.

use std::collections::BTreeSet;
use std::sync::Arc;

use porchlight_core::audit::{
    ChainName, Fault, Filter, Group, HashedLine, LinePosition, Verified, Verifier,
};
use porchlight_ports::{Document, Store, StoreError, StoreResult};
use porchlight_schema::ids::OrganizationId;
use porchlight_schema::limits::{AUDIT_PAGE_GROUPS_MAX, AUDIT_PART_GROUPS};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::AuditLog;
use super::chain::{documents, extent, group_of, groups_from, recorded_extent};
use super::expire::expired_until;
use crate::turns::Turn;

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

/// The lines that are selected for a page, newest first.
struct Selection {
    filter: Filter,
    limit: usize,
    /// The lines before this position have yet to be listed.
    before: LinePosition,
    lines: Vec<HashedLine>,
}

/// The continuation of a selection after the groups of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Older parts may have further lines of the page.
    Older,
    /// The page is full, and a further line follows.
    Full,
    /// No older line passes the filter.
    Past,
}

impl Selection {
    /// Decodes the groups of a part and selects among their lines up to the group `newest`. A part
    /// has many lines, so this runs on a blocking thread, in the organization's `turn`.
    async fn read(
        mut self,
        documents: Vec<Document>,
        newest: u64,
        turn: Turn,
    ) -> StoreResult<(Self, Progress)> {
        let work = move || {
            let _turn = turn;
            let groups: StoreResult<Vec<_>> = documents.iter().map(group_of).collect();
            let progress = self.add(&groups?, newest);
            Ok((self, progress))
        };
        let selected = tokio::task::spawn_blocking(work).await;
        selected.map_err(StoreError::unavailable)?
    }

    /// Adds the lines of a part's groups, from the group `newest` back.
    fn add(&mut self, groups: &[Group], newest: u64) -> Progress {
        for group in groups.iter().rev().filter(|group| group.number <= newest) {
            if self.filter.is_past(group) {
                return Progress::Past;
            }
            for index in (0..group.len()).rev() {
                let at = LinePosition {
                    group: group.number,
                    line: u32::try_from(index).unwrap_or(u32::MAX),
                };
                if at >= self.before {
                    continue;
                }
                let Some(line) = group.line_if(index, &self.filter) else {
                    continue;
                };
                if self.lines.len() == self.limit {
                    return Progress::Full;
                }
                self.lines.push(line);
                self.before = at;
            }
        }
        Progress::Older
    }

    /// Returns the page, which others follow if `has_next`.
    fn page(self, has_next: bool) -> AuditPage {
        AuditPage {
            lines: self.lines,
            next: has_next.then_some(self.before),
        }
    }
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
        let mut before = after.unwrap_or(LinePosition {
            group: extent.head.next,
            line: 0,
        });
        before.group = before.group.min(extent.head.next);
        let mut selection = Selection {
            filter: filter.clone(),
            limit: limit as usize,
            before,
            lines: Vec::new(),
        };
        let mut read = 0;
        loop {
            // The last group that may contain lines before that position.
            let Some(newest) = last_group(selection.before) else {
                return Ok(selection.page(false));
            };
            let part = newest / AUDIT_PART_GROUPS;
            if part < extent.first_part {
                return Ok(selection.page(false));
            }
            let turn = self.reads.take(tenant.organization_id).await;
            let turn = turn.map_err(|_| StoreError::Overloaded)?;
            let documents = documents(self.store(), tenant, part, None).await?;
            let progress;
            (selection, progress) = selection.read(documents, newest, turn).await?;
            match progress {
                Progress::Older => {}
                Progress::Full => return Ok(selection.page(true)),
                Progress::Past => return Ok(selection.page(false)),
            }
            selection.before = LinePosition {
                group: part * AUDIT_PART_GROUPS,
                line: 0,
            };
            read += AUDIT_PART_GROUPS;
            if read >= AUDIT_PAGE_GROUPS_MAX && selection.before.group > 0 {
                return Ok(selection.page(true));
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
    let organizations = store.organizations().await?;
    let mut ids: BTreeSet<OrganizationId> = organizations.iter().map(|one| one.id).collect();
    // The list leaves out an organization whose row is damaged. Its keys name it as well.
    let keys = store.list_keys(None).await?;
    ids.extend(keys.iter().map(|key| key.tenant.organization_id));
    let mut reports = Vec::new();
    for organization_id in ids {
        for env in Env::ALL {
            let tenant = Tenant {
                organization_id,
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
                    organization_id,
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

#[cfg(test)]
mod tests {
    use porchlight_core::audit::{Action, Actor, ActorKind, Head, Line};
    use porchlight_ports::Keys;
    use porchlight_schema::ids::KeyId;
    use porchlight_schema::key::{KeyKind, KeyRecord, Role};
    use porchlight_store::MemoryStore;

    use super::*;
    use crate::audit::append;

    fn line(number: i64) -> Line {
        Line {
            at: TimestampMs(number),
            actor: Actor::of_kind(ActorKind::Service),
            action: Action::ReadInsight.as_str().to_owned(),
            object: Some(format!("ses_{}", number % 2)),
            from: None,
        }
    }

    /// Returns two groups with the lines 0 to 2 and 3 to 5.
    fn groups() -> [Group; 2] {
        let first = Group::append(&Head::EMPTY, &[0, 1, 2].map(line));
        let second = Group::append(&first.head(), &[3, 4, 5].map(line));
        [first, second]
    }

    fn selection(filter: Filter, limit: usize) -> Selection {
        Selection {
            filter,
            limit,
            before: LinePosition { group: 2, line: 0 },
            lines: Vec::new(),
        }
    }

    fn times(page: &AuditPage) -> Vec<i64> {
        page.lines.iter().map(|line| line.line.at.0).collect()
    }

    #[test]
    fn a_page_ends_where_the_next_one_begins() {
        let filter = Filter {
            object: Some("ses_1".to_owned()),
            ..Filter::default()
        };
        let mut first = selection(filter.clone(), 2);
        assert_eq!(first.add(&groups(), 1), Progress::Full);
        let first = first.page(true);
        assert_eq!(times(&first), [5, 3]);
        let mut second = Selection {
            before: first.next.unwrap(),
            ..selection(filter, 2)
        };
        assert_eq!(second.add(&groups(), 1), Progress::Older);
        assert_eq!(times(&second.page(false)), [1]);
    }

    #[test]
    fn groups_before_the_first_time_end_a_selection() {
        let filter = Filter {
            from: Some(TimestampMs(4)),
            ..Filter::default()
        };
        let mut selected = selection(filter, 10);
        assert_eq!(selected.add(&groups(), 1), Progress::Past);
        assert_eq!(times(&selected.page(false)), [5, 4]);
    }

    /// The list of organizations leaves out one whose row is damaged; its keys name it.
    #[tokio::test]
    async fn an_organization_that_only_its_keys_name_is_verified() {
        let at = TimestampMs(1);
        let tenant = Tenant {
            organization_id: OrganizationId::new(at, 7),
            env: Env::Production,
        };
        let memory = MemoryStore::new(Arc::new(|_, _| {})).unwrap();
        let key = KeyRecord {
            id: KeyId::new(at, 8),
            tenant,
            kind: KeyKind::Secret,
            last4: "abcd".to_owned(),
            created_at: at,
            expires_at: None,
            revoked_at: None,
            name: None,
            last_used_at: None,
            role: Role::default(),
        };
        memory.put_key([9; 32], key).await.unwrap();
        let store: Arc<dyn Store> = memory;
        append(&store, tenant, &[line(1), line(2)]).await.unwrap();
        assert_eq!(store.organizations().await.unwrap(), []);
        let reports = verify_all(&store, at).await.unwrap();
        let lines = reports.iter().map(|report| match &report.outcome {
            Outcome::Whole(verified) => (report.name.env, verified.lines),
            Outcome::Broken { fault } => panic!("{fault}"),
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable_by_key(|(_, lines)| *lines);
        assert_eq!(lines, [(Env::Sandbox, 0), (Env::Production, 2)]);
    }
}
