//! This process as one of several nodes: its parts, and how it joins and leaves.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_ports::{Entropy, NodesTable, Peers};
use porchlight_world::{SystemClock, SystemEntropy};

use super::driver::{Driver, DriverParts};
use super::workload::ShardWorkload;
use super::{OwnershipView, PeerClient, PeerSecrets, PeerServer};
use crate::config::Cluster;

/// The maximum time in which the node notifies the others of a released shard; after that, the
/// other nodes find it at their next read.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// This process as a node of a cluster.
pub struct Node {
    view: Arc<OwnershipView>,
    client: Arc<PeerClient>,
    /// The address on which the node listens for other nodes.
    listens_at: String,
    joined: Option<(PeerServer, Driver)>,
}

impl Node {
    /// Builds the node that the configuration names. Returns `None` if the process runs alone.
    ///
    /// # Errors
    ///
    /// Returns an error if the secret cannot be read, or if no thread can be started.
    pub fn of(config: &Cluster) -> anyhow::Result<Option<Self>> {
        let Some(me) = config.node() else {
            return Ok(None);
        };
        let view = Arc::new(OwnershipView::new(me));
        let secrets = PeerSecrets::of(config)?;
        Ok(Some(Self {
            client: PeerClient::start(Arc::clone(&view), secrets)?,
            view,
            listens_at: config.listens_at().to_owned(),
            joined: None,
        }))
    }

    /// Returns this node's view of ownership.
    #[must_use]
    pub fn view(&self) -> &Arc<OwnershipView> {
        &self.view
    }

    /// Returns the client for the other nodes.
    #[must_use]
    pub fn peers(&self) -> Arc<dyn Peers> {
        Arc::clone(&self.client) as _
    }

    /// Listens for the other nodes, then joins the cluster. `on_replaced` is called when another
    /// process takes this node's name, and `on_panicked` when the thread that renews its lease has
    /// panicked.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or if a thread cannot be started.
    pub async fn join(
        &mut self,
        nodes: Arc<dyn NodesTable>,
        service: &Service,
        webhooks: &Webhooks,
        on_replaced: impl FnOnce() + Send + 'static,
        on_panicked: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<()> {
        // Binding comes first: the process that holds the address is the only one with this name.
        let client = Arc::clone(&self.client);
        let server =
            PeerServer::start(&self.listens_at, client, service.clone(), webhooks.clone()).await?;
        let client = Arc::clone(&self.client);
        let parts = DriverParts {
            store: nodes,
            view: Arc::clone(&self.view),
            workload: Arc::new(ShardWorkload {
                service: service.clone(),
                webhooks: webhooks.clone(),
                client,
            }),
            on_replaced: Box::new(on_replaced),
            salt: SystemEntropy.random() as u64,
            clock: Arc::new(SystemClock),
        };
        let driver = Driver::start(parts, on_panicked);
        let driver = driver.context("the ownership thread cannot be started")?;
        self.joined = Some((server, driver));
        Ok(())
    }

    /// Releases all shards and leaves the cluster. Returns whether this finished in time.
    pub async fn leave(&mut self, within: Duration) -> bool {
        let Some((server, driver)) = &mut self.joined else {
            return true;
        };
        let left = driver.leave(within).await;
        let _flushed = self.client.flush(FLUSH_TIMEOUT).await;
        server.stop();
        left
    }
}
