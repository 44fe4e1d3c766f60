//! What organizations are called. A name never changes, so it is looked up once.

use dashmap::DashMap;
use porchlight_keys::KeyDesk;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::OrganizationId;

/// Names that are remembered; beyond it all are looked up anew.
const REMEMBERED_MAX: usize = 4_096;

/// The names that were looked up.
#[derive(Debug, Default)]
pub(super) struct Names(DashMap<OrganizationId, String>);

impl Names {
    /// What `id` is called; its id where nothing is known.
    pub(super) async fn of(&self, desk: &KeyDesk, id: OrganizationId) -> StoreResult<String> {
        if let Some(name) = self.0.get(&id) {
            return Ok(name.clone());
        }
        let Some(name) = desk.organization(id).await? else {
            return Ok(id.to_string());
        };
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(id, name.clone());
        Ok(name)
    }
}
