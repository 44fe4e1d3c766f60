//! The work that belongs to shards: sessions and webhooks.

use std::sync::Arc;
use std::time::Duration;

use porchlight_actors::service::{ReconcileScope, Service};
use porchlight_actors::webhook::Webhooks;
use porchlight_ports::StoreResult;
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::ATTEMPT_MS_MAX;

use super::client::PeerClient;

/// The sessions and webhooks of this process, by shards.
pub struct ShardWorkload {
    /// The sessions.
    pub service: Service,
    /// The webhooks.
    pub webhooks: Webhooks,
    /// Notifies the other nodes of releases.
    pub client: Arc<PeerClient>,
}

impl ShardWorkload {
    /// Starts the work of these shards, which this node now owns, and returns the number of
    /// sessions. The caller repeats the call after an error, which means that part of it failed.
    pub(super) async fn start(&self, shards: ShardSet) -> StoreResult<usize> {
        let sessions = self.service.take_shards(shards);
        let webhooks = self.webhooks.take_shards(shards);
        let (sessions, webhooks) = tokio::join!(sessions, webhooks);
        webhooks?;
        sessions
    }

    /// Saves and stops the work of these shards.
    pub(super) async fn drain(&self, shards: ShardSet) {
        let within = Duration::from_millis(ATTEMPT_MS_MAX);
        let sessions = self.service.drain_shards(shards);
        let webhooks = self.webhooks.drain_shards(shards, within);
        tokio::join!(sessions, webhooks);
    }

    /// Stops the work of these shards immediately and writes nothing.
    pub(super) fn abort(&self, shards: ShardSet) {
        self.service.drop_shards(shards);
        self.webhooks.drop_shards(shards);
    }

    /// Reconciles these shards with the store.
    pub(super) async fn reconcile(
        &self,
        shards: ShardSet,
        scope: ReconcileScope,
    ) -> StoreResult<()> {
        self.service.reconcile_shards(shards, scope).await
    }

    /// Notifies the other nodes that this node has released a shard.
    pub(super) fn notify_of_release(&self) {
        self.client.notify_of_release();
    }
}
