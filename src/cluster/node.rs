//! This process as one of several nodes: what it is made of, how it joins and leaves, and what lives in its shards.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use porchlight_actors::service::Service;
use porchlight_actors::webhook::Webhooks;
use porchlight_ports::{Entropy, Peers};
use porchlight_schema::ids::ShardSet;
use porchlight_schema::limits::ATTEMPT_MS_MAX;
use porchlight_store::cql::CqlStore;
use porchlight_world::SystemEntropy;

use super::driver::{Driver, DriverParts, Tenants};
use super::{PeerClient, PeerSecrets, PeerServer, View};
use crate::config::Cluster;

/// What was released is told within this time, or found by the others' next reading.
const TELL_WITHIN: Duration = Duration::from_secs(1);

/// One of several nodes.
pub struct Node {
    view: Arc<View>,
    client: Arc<PeerClient>,
    /// Where it listens for the others.
    listens_at: String,
    joined: Option<(PeerServer, Driver)>,
}

impl Node {
    /// The node that the configuration names; none: the process is alone.
    ///
    /// # Errors
    ///
    /// The secret can't be read, or there is no thread to talk on.
    pub fn of(config: &Cluster) -> anyhow::Result<Option<Self>> {
        let Some(me) = config.node() else {
            return Ok(None);
        };
        let view = Arc::new(View::new(me));
        let secrets = PeerSecrets::of(config)?;
        Ok(Some(Self {
            client: PeerClient::start(Arc::clone(&view), secrets)?,
            view,
            listens_at: config.listens_at().to_owned(),
            joined: None,
        }))
    }

    /// What it knows of ownership.
    #[must_use]
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// How it tells and asks the others.
    #[must_use]
    pub fn peers(&self) -> Arc<dyn Peers> {
        Arc::clone(&self.client) as _
    }

    /// Listens for the others, then joins them: from here on shards come and go. `replaced` is called when another
    /// process has this node's name.
    ///
    /// # Errors
    ///
    /// The address can't be bound, or a thread can't be started.
    pub async fn join(
        &mut self,
        store: &Arc<CqlStore>,
        service: &Service,
        webhooks: &Webhooks,
        replaced: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<()> {
        // First: whoever has the address is the only process of this name.
        let client = Arc::clone(&self.client);
        let server =
            PeerServer::start(&self.listens_at, client, service.clone(), webhooks.clone()).await?;
        let client = Arc::clone(&self.client);
        let driver = Driver::start(DriverParts {
            store: Arc::clone(store),
            view: Arc::clone(&self.view),
            tenants: Arc::new(Living {
                service: service.clone(),
                webhooks: webhooks.clone(),
                released: Box::new(move || client.released()),
            }),
            replaced: Box::new(replaced),
            salt: SystemEntropy.random() as u64,
        });
        let driver = driver.context("the thread of ownership can't be started")?;
        self.joined = Some((server, driver));
        Ok(())
    }

    /// Gives all shards away and leaves the others. Whether it was done within this time; if not, they find out.
    pub async fn leave(&mut self, within: Duration) -> bool {
        let Some((server, driver)) = &mut self.joined else {
            return true;
        };
        let left = driver.leave(within).await;
        let _told = self.client.flush(TELL_WITHIN).await;
        server.stop();
        left
    }
}

/// The sessions and webhooks of this process.
struct Living {
    service: Service,
    webhooks: Webhooks,
    released: Box<dyn Fn() + Send + Sync>,
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
