//! Reads every row of a store and reports damaged rows. It quarantines them on request.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use porchlight_core::webhook::{Update, changes_without_body};
use porchlight_observe::webhook::WebhookMetrics;
use porchlight_ports::{StoreError, StoreResult};
use porchlight_schema::hex;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::CHECK_DAMAGED_ROWS_MAX;
use porchlight_schema::session::Tenant;
use serde::{Deserialize, Serialize};

use super::damage::{readable, skipped};
use super::engine::{Engine, EngineError, KeyRange, Order, Space};
use super::local::LocalStore;
use super::quarantine::{self, QUARANTINE_FILE};
use super::record;
use super::tables::{endpoints, insights, journal, kinds, messages, outbox, sessions};
use super::txn::Txn;

/// The number of rows read from the engine per page.
const PAGE_ROWS: usize = 1_000;

/// The report on the rows of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindReport {
    /// The number of rows.
    pub rows: u64,
    /// The number of damaged rows.
    pub damaged: u64,
    /// The number of rows that a later release wrote. They are not damaged and are never
    /// quarantined.
    #[serde(default)]
    pub newer: u64,
}

/// A damaged row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedRow {
    /// The kind of row.
    pub kind: String,
    /// The id of the object to which the row belongs.
    pub id: String,
    /// The key space of the row.
    pub space: Space,
    /// The key in hexadecimal digits.
    pub key: String,
    /// The reason why the row is damaged.
    pub reason: String,
}

/// A range of keys that the engine cannot read, because a block of a file is damaged. The number of
/// rows in the range is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableRange {
    /// The key space of the range.
    pub space: Space,
    /// The last readable row before the range. If `None`, the range begins with the first row.
    pub after: Option<String>,
    /// The first readable row behind the range. If `None`, the range ends with the last row.
    pub before: Option<String>,
    /// The error of the engine.
    pub reason: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The reports on the rows by kind.
    pub kinds: BTreeMap<String, KindReport>,
    /// The damaged rows, at most [`CHECK_DAMAGED_ROWS_MAX`]; `kinds` counts all.
    pub damaged: Vec<DamagedRow>,
    /// The ranges that the engine cannot read.
    pub unreadable: Vec<UnreadableRange>,
    /// The number of quarantined rows.
    pub quarantined: u64,
}

/// The error of quarantining damaged rows. Rows that were already quarantined stay quarantined.
#[derive(Debug, thiserror::Error)]
pub enum QuarantineError {
    /// The file for damaged rows cannot be written.
    #[error("{0} cannot be written")]
    Io(PathBuf, #[source] io::Error),
    /// The store cannot be read or written.
    #[error("the store cannot be changed")]
    Store(#[from] StoreError),
}

impl DamagedRow {
    /// Returns whether the row is a privacy mark, without which a restriction, a suppression or a
    /// hold has no effect.
    #[must_use]
    pub fn is_privacy_mark(&self) -> bool {
        self.kind == kinds::PRIVACY_MARK
    }
}

impl CheckReport {
    /// Returns whether no damage was found, or all damaged rows were quarantined.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let damaged: u64 = self.kinds.values().map(|kind| kind.damaged).sum();
        self.unreadable.is_empty() && damaged == self.quarantined
    }

    fn row(&mut self, space: Space, key: &[u8], value: &[u8]) {
        let name = kinds::name(space, key);
        let kind = self.kinds.entry(name.kind.to_owned()).or_default();
        kind.rows += 1;
        let error = match verify(space, key, value) {
            Ok(()) => return,
            Err(StoreError::Newer(_)) => {
                kind.newer += 1;
                return;
            }
            Err(error) => error,
        };
        kind.damaged += 1;
        if self.damaged.len() < CHECK_DAMAGED_ROWS_MAX {
            self.damaged.push(DamagedRow {
                kind: name.kind.to_owned(),
                id: name.id,
                space,
                key: hex::encode(key),
                reason: error.to_string(),
            });
        }
    }
}

/// Verifies the checksum of a row and that it can be decoded.
fn verify(space: Space, key: &[u8], value: &[u8]) -> StoreResult<()> {
    let (payload, _) = record::verified(space, key, value.to_vec())?;
    kinds::verify(space, key, &payload)
}

/// Reads every row. The call blocks until it has read everything, while the store continues to
/// serve. It may or may not see rows written in the meantime.
pub(crate) fn check(engine: &dyn Engine) -> CheckReport {
    let mut report = CheckReport::default();
    for space in Space::ALL {
        let everything = KeyRange {
            from: Vec::new(),
            to: Vec::new(),
        };
        let mut seen = Pages::new(Order::Ascending, everything);
        let Err(error) = seen.read(engine, space, &mut |key, value| {
            report.row(space, key, value)
        }) else {
            continue;
        };
        // The rows behind the damaged block are read in reverse order.
        let mut behind = KeyRange {
            from: Vec::new(),
            to: Vec::new(),
        };
        if let Some(last) = &seen.last {
            behind = behind.after(last);
        }
        let mut back = Pages::new(Order::Descending, behind);
        // This read also ends at a damaged block, and its error adds nothing.
        drop(back.read(engine, space, &mut |key, value| {
            report.row(space, key, value)
        }));
        report.unreadable.push(UnreadableRange {
            space,
            after: seen.last.as_deref().map(hex::encode),
            before: back.last.as_deref().map(hex::encode),
            reason: error.to_string(),
        });
    }
    report
}

/// Reads a range page by page.
struct Pages {
    order: Order,
    /// The part of the range that was not read yet.
    left: KeyRange,
    /// The key of the last row that was read.
    last: Option<Vec<u8>>,
}

impl Pages {
    fn new(order: Order, left: KeyRange) -> Self {
        Self {
            order,
            left,
            last: None,
        }
    }

    fn read(
        &mut self,
        engine: &dyn Engine,
        space: Space,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), EngineError> {
        loop {
            let mut rows = 0;
            let last = &mut self.last;
            let read = engine.scan(space, &self.left, self.order, &mut |key, value| {
                visit(key, value);
                *last = Some(key.to_vec());
                rows += 1;
                if rows < PAGE_ROWS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            read?;
            let Some(last) = self.last.as_deref().filter(|_| rows == PAGE_ROWS) else {
                return Ok(());
            };
            let left = self.left.clone();
            self.left = match self.order {
                Order::Ascending => left.after(last),
                Order::Descending => left.before(last),
            };
        }
    }
}

impl<E: Engine> LocalStore<E> {
    /// Reads every row and reports damaged rows. The call blocks until it has read everything,
    /// while the store continues to serve.
    #[must_use]
    pub fn check(&self) -> CheckReport {
        check(self.engine.as_ref())
    }

    /// Quarantines the damaged rows of a report: appends each to `quarantined.tsv` in the folder of
    /// the store, and then removes it from the store, or writes it again if other rows repeat it. A
    /// row that was replaced in the meantime stays.
    ///
    /// # Errors
    ///
    /// See [`QuarantineError`].
    pub async fn quarantine(&self, report: &mut CheckReport) -> Result<(), QuarantineError> {
        let file = self
            .folder
            .as_ref()
            .map(|folder| folder.join(QUARANTINE_FILE));
        for row in &report.damaged {
            let Some(key) = decode_hex(&row.key) else {
                continue;
            };
            let Some(value) = self.engine.get(row.space, &key).map_err(StoreError::from)? else {
                continue;
            };
            if let Some(file) = &file {
                append(file, row, &value)
                    .map_err(|error| QuarantineError::Io(file.clone(), error))?;
            }
            let space = row.space;
            let removed = self
                .committer
                .write(move |txn| remove_if_damaged(txn, space, key));
            let Some(ended) = removed.await? else {
                continue;
            };
            report.quarantined += 1;
            for (tenant, update) in ended {
                WebhookMetrics::get().on_update(tenant, &update);
            }
        }
        Ok(())
    }
}

/// The changes of messages, each with the tenant of the message.
type Changed = Vec<(Tenant, Update)>;

/// Removes a row if it is damaged, or writes it again if other rows repeat it. Returns the changes
/// of the messages that this ends, or `None` if the row is not damaged.
fn remove_if_damaged(
    txn: &mut Txn<'_>,
    space: Space,
    key: Vec<u8>,
) -> StoreResult<Option<Changed>> {
    let is_damaged = match txn.as_read().get(space, &key) {
        Err(StoreError::Damaged(_)) => true,
        Err(error) => return Err(error),
        Ok(None) => return Ok(None),
        Ok(Some(payload)) => matches!(
            kinds::verify(space, &key, &payload),
            Err(StoreError::Damaged(_))
        ),
    };
    if !is_damaged {
        return Ok(None);
    }
    let mut changed = Changed::new();
    match space {
        Space::Journal => match kinds::session(&key) {
            Some(session_id) => {
                journal::remove_damaged(txn, session_id, key)?;
                insights::mark_if_failed(txn, session_id)?;
            }
            None => txn.delete(space, key),
        },
        Space::State => {
            if let Some((session_id, number)) = messages::place_in(&key) {
                changed = end_without_body(txn, session_id, number)?;
            }
            if let Some(session_id) = journal::session_of_missing(&key) {
                journal::write_missing(txn, session_id)?;
            } else if let Some(payload) = outbox::recovered(txn.as_read(), &key)? {
                txn.put(space, key, payload);
            } else {
                txn.delete(space, key);
            }
        }
    }
    Ok(Some(changed))
}

/// Ends a waiting message whose damaged body is removed, with all rows that list it, and returns
/// the changes. If the message cannot be found, its endpoint's machine ends it when its turn comes.
fn end_without_body(txn: &mut Txn<'_>, session_id: SessionId, number: u32) -> StoreResult<Changed> {
    let start = sessions::start_of(txn.as_read(), session_id);
    let Some(start) = readable(start, session_id, "the session of a message")? else {
        return Ok(Changed::new());
    };
    let endpoint = endpoints::find(txn.as_read(), start.tenant);
    let Some(endpoint) = skipped(endpoint, "a webhook")? else {
        return Ok(Changed::new());
    };
    let waiting = outbox::waiting(txn.as_read(), endpoint.id, session_id)?;
    let message = waiting.iter().find(|message| message.number == number);
    let Some(change) = message.map(|message| changes_without_body(&waiting, *message, None)) else {
        return Ok(Changed::new());
    };
    let changed = change.updates.iter();
    let changed = changed
        .map(|update| (start.tenant, update.clone()))
        .collect();
    outbox::commit(txn, start.tenant, endpoint.id, session_id, change)?;
    Ok(changed)
}

/// Appends a damaged row durably to the file: kind, id, space, key, value and reason, separated by
/// tabs; key and value in hexadecimal digits.
fn append(file: &std::path::Path, row: &DamagedRow, value: &[u8]) -> io::Result<()> {
    let DamagedRow {
        kind,
        id,
        space,
        key,
        reason,
    } = row;
    let (space, value) = (space.as_str(), hex::encode(value));
    let line = format!("{kind}\t{id}\t{space}\t{key}\t{value}\t{reason}\n");
    quarantine::append(file, &line)
}

/// Decodes hexadecimal digits. Returns `None` if a character is not one.
fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}
