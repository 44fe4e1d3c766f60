//! The names of organizations. A name never changes, so it is looked up once.

use dashmap::DashMap;
use porchlight_keys::KeyAdmin;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::OrganizationId;

/// The maximum number of cached names; when it is reached, the cache is cleared.
const CACHED_MAX: usize = 4_096;

/// The cached names.
#[derive(Debug, Default)]
pub(super) struct Names(DashMap<OrganizationId, String>);

impl Names {
    /// Returns the name of organization `id`, or the id itself if the name is unknown.
    pub(super) async fn of(&self, key_admin: &KeyAdmin, id: OrganizationId) -> StoreResult<String> {
        if let Some(name) = self.0.get(&id) {
            return Ok(name.clone());
        }
        let Some(name) = key_admin.organization(id).await? else {
            return Ok(id.to_string());
        };
        if self.0.len() >= CACHED_MAX {
            self.0.clear();
        }
        self.0.insert(id, name.clone());
        Ok(name)
    }
}
