//! Restrictions of subjects and legal holds, which keep retention from deleting sessions.

use porchlight_core::privacy::Mark;
use porchlight_ports::{Collection, DocumentKind, StoreError, StoreResult};
use porchlight_schema::session::SessionStart;

use super::{Key, documents};
use crate::txn::Read;

/// The first byte of the key of a mark.
const MARK: u8 = 1;

/// Returns whether a restriction or a legal hold protects a session from retention.
pub(crate) fn is_kept(read: &dyn Read, start: &SessionStart) -> StoreResult<bool> {
    let collection = Collection::of_service(DocumentKind::PrivacyMark);
    for subject in Mark::subjects_of(start) {
        let key = Key::of(MARK).tenant(start.tenant).bytes(&subject.key());
        let Some(data) = documents::get(read, collection, &key.build())? else {
            continue;
        };
        let mark: Mark = serde_json::from_slice(&data)
            .map_err(|error| StoreError::Corrupt(format!("a privacy mark: {error}")))?;
        if mark.keeps() {
            return Ok(true);
        }
    }
    Ok(false)
}
