//! Configuration of a node in a cluster.

use porchlight_core::ownership::NodeName;

use super::{Cluster, Config, ConfigError, StoreKind};

/// Returns whether a text is `host:port` with a port other than 0.
pub(super) fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    })
}

impl Cluster {
    /// Returns this node's name; `None` if the process runs alone.
    #[must_use]
    pub fn node(&self) -> Option<NodeName> {
        let is_one = !self.advertise.is_empty();
        is_one.then(|| NodeName(self.advertise.clone()))
    }

    /// Returns the address on which this node listens for other nodes, `host:port`.
    #[must_use]
    pub fn listens_at(&self) -> &str {
        if self.listen.is_empty() {
            &self.advertise
        } else {
            &self.listen
        }
    }
}

/// Validates the settings of a node or a single process.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let cluster = &config.cluster;
    let has_secret = !cluster.secret_file.as_os_str().is_empty();
    if cluster.node().is_none() {
        if !cluster.listen.is_empty() {
            let detail = "has no effect without cluster.advertise";
            return Err(ConfigError::invalid("cluster.listen", detail));
        }
        return Ok(());
    }
    if config.store.kind != StoreKind::Cql {
        let detail = "needs store.kind = \"cql\": all nodes share one store";
        return Err(ConfigError::invalid("cluster.advertise", detail));
    }
    if !is_address(&cluster.advertise) {
        let detail = "must be HOST:PORT, as the other nodes reach this one";
        return Err(ConfigError::invalid("cluster.advertise", detail));
    }
    if !cluster.listen.is_empty() && !is_address(&cluster.listen) {
        return Err(ConfigError::invalid("cluster.listen", "must be HOST:PORT"));
    }
    if !has_secret {
        let detail = "must be given with cluster.advertise: the same on all nodes";
        return Err(ConfigError::invalid("cluster.secret_file", detail));
    }
    if config.server.public_url.is_empty() {
        let detail = "must be set with cluster.advertise, the same on all nodes: otherwise each node puts its own \
                      address into links, and the same insight has another body and another ETag at each node";
        return Err(ConfigError::invalid("server.public_url", detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Config)) -> Option<&'static str> {
        let mut config = Config::default();
        config.store.kind = StoreKind::Cql;
        config.cluster.advertise = "node-1.internal:7400".to_owned();
        config.cluster.secret_file = "/etc/porchlight/cluster-secret".into();
        config.server.public_url = "https://api.example.com".to_owned();
        change(&mut config);
        match check(&config) {
            Ok(()) => None,
            Err(ConfigError::Invalid { key, .. }) => Some(key),
            Err(_) => Some("something else"),
        }
    }

    #[test]
    fn a_node_needs_a_shared_store_a_name_a_secret_and_a_public_url() {
        assert_eq!(refused(|_| {}), None);
        assert_eq!(
            refused(|config| config.store.kind = StoreKind::Embedded),
            Some("cluster.advertise")
        );
        for name in ["node-1", ":7400", "node-1:0", "node-1:x"] {
            assert_eq!(
                refused(|config| config.cluster.advertise = name.to_owned()),
                Some("cluster.advertise"),
                "{name}"
            );
        }
        assert_eq!(
            refused(|config| config.cluster.secret_file = "".into()),
            Some("cluster.secret_file")
        );
        assert_eq!(
            refused(|config| config.server.public_url.clear()),
            Some("server.public_url")
        );
        assert_eq!(
            refused(|config| config.cluster.listen = "7400".to_owned()),
            Some("cluster.listen")
        );
        assert_eq!(refused(|config| config.cluster = Cluster::default()), None);
        assert_eq!(
            refused(|config| {
                config.cluster = Cluster::default();
                config.server.public_url.clear();
            }),
            None,
            "a single process needs no public URL"
        );
        assert_eq!(
            refused(|config| {
                config.cluster = Cluster::default();
                config.cluster.listen = "0.0.0.0:7400".to_owned();
            }),
            Some("cluster.listen")
        );
    }
}
