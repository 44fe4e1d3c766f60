//! One node: what lives in its shards, driven as the machine of ownership says.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::ATTEMPT_MS_MAX;

use super::driver::Tenants;

/// The sessions and webhooks of this process.
pub struct Living {
    service: Service,
    webhooks: Webhooks,
    released: Arc<dyn Fn() + Send + Sync>,
}

impl Living {
    /// `released` tells the other nodes that a shard was released.
    #[must_use]
    pub fn new(
        service: Service,
        webhooks: Webhooks,
        released: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            service,
            webhooks,
            released,
        }
    }
}

#[async_trait]
impl Tenants for Living {
    async fn take(&self, shards: ShardSet) -> anyhow::Result<usize> {
        let sessions = self.service.take_shards(shards);
        let webhooks = self.webhooks.take_shards(shards);
        let (sessions, webhooks) = tokio::join!(sessions, webhooks);
        webhooks?;
        Ok(sessions?)
    }

    async fn drain(&self, shards: ShardSet) {
        let within = Duration::from_millis(ATTEMPT_MS_MAX);
        let sessions = self.service.drain_shards(shards);
        let webhooks = self.webhooks.drain_shards(shards, within);
        tokio::join!(sessions, webhooks);
    }

    fn drop_at_once(&self, shards: ShardSet) {
        self.service.drop_shards(shards);
        self.webhooks.drop_shards(shards);
    }

    async fn look_over(&self, shards: ShardSet, thoroughly: bool) -> anyhow::Result<()> {
        Ok(self.service.look_over(shards, thoroughly).await?)
    }

    fn released(&self) {
        (self.released)();
    }
}
