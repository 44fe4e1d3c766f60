//! Restrictions of subjects and legal holds, which keep retention from deleting sessions.

use porchlight_core::privacy::Mark;
use porchlight_ports::{Collection, DocumentKind, StoreError, StoreResult};
use porchlight_schema::session::{SessionStart, Tenant};

use super::{Key, documents, tenant_in};
use crate::damage::report;
use crate::txn::Read;

/// The first byte of the key of a mark.
const MARK: u8 = 1;
/// The number of marks per read.
const PAGE_ROWS: usize = 256;

/// Returns whether a restriction or a legal hold protects a session from retention. A damaged
/// mark protects it, and concerns no other session.
pub(crate) fn is_kept(read: &dyn Read, start: &SessionStart) -> StoreResult<bool> {
    for subject in Mark::subjects_of(start) {
        let key = Key::of(MARK).tenant(start.tenant).bytes(&subject.key());
        if readable(find(read, &key.build()))?.keeps() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether any restriction or legal hold may protect a session whose start is damaged:
/// its subjects are unknown, so each mark that keeps sessions, or is damaged, may be its own.
pub(crate) fn may_be_kept(read: &dyn Read) -> StoreResult<bool> {
    let collection = Collection::of_service(DocumentKind::PrivacyMark);
    let mut after = None;
    loop {
        let page = documents::list(read, collection, after.as_deref(), PAGE_ROWS)?;
        let is_last = page.len() < PAGE_ROWS;
        after = page.last().map(|document| document.key.clone());
        let marks = page
            .iter()
            .filter(|document| document.key.first() == Some(&MARK));
        for document in marks {
            if readable(decode(&document.data).map(Some))?.keeps() {
                return Ok(true);
            }
        }
        if is_last {
            return Ok(false);
        }
    }
}

/// Replaces a damaged mark by one that keeps the sessions that it may concern. Counts and logs it.
fn readable(mark: StoreResult<Option<Mark>>) -> StoreResult<Mark> {
    match mark {
        Err(StoreError::Damaged(row)) => {
            report("a privacy mark", &row);
            Ok(Mark::of_damaged())
        }
        mark => Ok(mark?.unwrap_or_default()),
    }
}

/// Returns the mark under the key of its document.
fn find(read: &dyn Read, key: &[u8]) -> StoreResult<Option<Mark>> {
    let collection = Collection::of_service(DocumentKind::PrivacyMark);
    let stored = documents::get(read, collection, key)?;
    stored.as_deref().map(decode).transpose()
}

fn decode(data: &[u8]) -> StoreResult<Mark> {
    serde_json::from_slice(data)
        .map_err(|error| StoreError::Damaged(format!("a privacy mark: {error}")))
}

/// Returns the tenant of the mark that a row in the table of documents contains, or `None` if the
/// row contains another document.
pub(crate) fn tenant_of_row(key: &[u8]) -> Option<Tenant> {
    let rest = key.strip_prefix(&[documents::TABLE, DocumentKind::PrivacyMark as u8])?;
    rest.starts_with(&[MARK]).then(|| tenant_in(rest)).flatten()
}

/// Verifies that the payload of a row with a mark decodes.
pub(crate) fn verify(payload: &[u8]) -> StoreResult<()> {
    decode(payload).map(drop)
}
