//! Acquires and releases the tenants of shards.

use std::sync::Arc;
use std::time::Duration;

use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_ports::StoreResult;
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::WHEEL_AHEAD_MS;
use porchlight_schema::session::Tenant;

use super::{Inner, WebhookCommand, Webhooks};

impl Webhooks {
    /// Starts to send the waiting messages in the outboxes of these shards' tenants.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read. This may be called again.
    pub async fn take_shards(&self, shards: ShardSet) -> StoreResult<()> {
        let inner = &self.inner;
        inner.shards.end_release(shards);
        let until = inner.clock.now().plus_ms(WHEEL_AHEAD_MS as i64);
        for work in inner.outbox.work(shards, until).await? {
            if inner.acts_for(work.tenant) {
                inner.wake(work.tenant, None);
            }
        }
        Ok(())
    }

    /// Starts nothing more for these shards' tenants, and waits until the work in flight is
    /// committed. Work not committed in time is stopped: the next owner may send it again under the
    /// same id.
    pub async fn drain_shards(&self, shards: ShardSet, within: Duration) {
        let inner = &self.inner;
        inner.shards.begin_release(shards);
        for tenant in inner.tenants_of(shards) {
            inner.command_if_running(tenant, WebhookCommand::Drain);
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

    /// Stops all work in flight for these shards' tenants immediately.
    pub fn drop_shards(&self, shards: ShardSet) {
        let inner = &self.inner;
        inner.shards.begin_release(shards);
        for tenant in inner.tenants_of(shards) {
            inner.command_if_running(tenant, WebhookCommand::Drop);
        }
    }
}

impl Inner {
    /// Returns whether this process sends a tenant's messages and takes on new ones.
    pub(super) fn acts_for(&self, tenant: Tenant) -> bool {
        self.shards.acts_for(tenant.organization_id.shard())
    }

    /// Returns whether this process may send for a tenant at this moment, even if it is the last
    /// time.
    pub(super) fn may_send(&self, tenant: Tenant) -> bool {
        let shard = tenant.organization_id.shard();
        let may = self.shards.generation(shard).is_some();
        if !may {
            ClusterMetrics::get().on_stale(Stale::Send);
        }
        may
    }

    /// Returns whether this process starts nothing more for a tenant.
    pub(super) fn is_ending(&self, tenant: Tenant) -> bool {
        self.is_draining() || !self.acts_for(tenant)
    }

    /// Returns the shards for whose tenants this process sends.
    pub(super) fn own(&self) -> ShardSet {
        self.shards.acting()
    }

    pub(super) fn tenants_of(&self, shards: ShardSet) -> Vec<Tenant> {
        let tenants = self.actors.iter().map(|entry| *entry.key());
        tenants
            .filter(|tenant| shards.contains(tenant.organization_id.shard()))
            .collect()
    }

    /// Sends a message to the tenant's actor, if there is one.
    fn command_if_running(self: &Arc<Self>, tenant: Tenant, command: WebhookCommand) {
        if self.actors.contains_key(&tenant) {
            self.command(tenant, command);
        }
    }
}
