//! The names of organizations. A name never changes, so it is looked up once.

use dashmap::DashMap;
use porchlight_keys::KeyAdmin;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::OrganizationId;

/// The maximum number of cached names; when it is reached, the cache is cleared.
const REMEMBERED_MAX: usize = 4_096;

/// The cached names.
#[derive(Debug, Default)]
pub(super) struct Names(DashMap<OrganizationId, String>);

impl Names {
    /// Returns the name of organization `id`, or the id itself if the name is unknown.
    pub(super) async fn of(&self, desk: &KeyAdmin, id: OrganizationId) -> StoreResult<String> {
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
