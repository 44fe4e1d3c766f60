//! Tenants of shards that come and go.

use std::sync::Arc;
use std::time::Duration;

use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::WHEEL_AHEAD_MS;
use porchlight_schema::session::Tenant;

use super::{Inner, Tell, Webhooks};
use crate::shards;

impl Webhooks {
    /// Takes up what waits in the outboxes of these shards' tenants.
    ///
    /// # Errors
    ///
    /// The store can't be read; this may be called again.
    pub async fn take_shards(&self, shards: ShardSet) -> StoreResult<()> {
        let inner = &self.inner;
        inner.letting_go.set(shards, false);
        let until = inner.clock.now().plus_ms(WHEEL_AHEAD_MS as i64);
        for work in inner.outbox.work(shards, until).await? {
            if inner.acts_for(work.tenant) {
                inner.tell(work.tenant, Tell::Poke);
            }
        }
        Ok(())
    }

    /// Begins nothing more for these shards' tenants, and waits until what is under way is committed; what is not by
    /// then is stopped: it may be sent again by the next owner, under the same id.
    pub async fn drain_shards(&self, shards: ShardSet, within: Duration) {
        let inner = &self.inner;
        inner.letting_go.set(shards, true);
        for tenant in inner.tenants_of(shards) {
            inner.tell_one_that_is(tenant, Tell::Drain);
        }
        let emptied = async {
            while !inner.tenants_of(shards).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(within, emptied).await.is_err() {
            self.drop_shards(shards);
        }
    }

    /// Stops what these shards' tenants have under way, at once.
    pub fn drop_shards(&self, shards: ShardSet) {
        let inner = &self.inner;
        inner.letting_go.set(shards, true);
        for tenant in inner.tenants_of(shards) {
            inner.tell_one_that_is(tenant, Tell::Drop);
        }
    }
}

impl Inner {
    /// Whether this process sends a tenant's messages, and takes on what is new.
    pub(super) fn acts_for(&self, tenant: Tenant) -> bool {
        let shard = tenant.organization_id.shard();
        self.ownership.generation(shard).is_some() && !self.letting_go.contains(shard)
    }

    /// Whether this process may send for a tenant at this moment, be it the last that it does.
    pub(super) fn may_send(&self, tenant: Tenant) -> bool {
        let shard = tenant.organization_id.shard();
        let may = self.ownership.generation(shard).is_some();
        if !may {
            ClusterMetrics::get().on_stale(Stale::Send);
        }
        may
    }

    /// Whether nothing more is begun for a tenant here.
    pub(super) fn is_ending(&self, tenant: Tenant) -> bool {
        self.is_draining() || !self.acts_for(tenant)
    }

    /// The shards for whose tenants this process sends.
    pub(super) fn own(&self) -> ShardSet {
        shards::own(self.ownership.as_ref(), &self.letting_go)
    }

    fn tenants_of(&self, shards: ShardSet) -> Vec<Tenant> {
        let tenants = self.actors.iter().map(|entry| *entry.key());
        tenants
            .filter(|tenant| shards.contains(tenant.organization_id.shard()))
            .collect()
    }

    /// Tells the tenant's actor, if there is one.
    fn tell_one_that_is(self: &Arc<Self>, tenant: Tenant, what: Tell) {
        if self.actors.contains_key(&tenant) {
            self.tell(tenant, what);
        }
    }
}
