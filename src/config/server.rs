//! Parsed settings of the listeners.

use porchlight_http::cors::Origins;

use super::{ConfigError, Server};
use crate::transport::address::Cidr;

impl Server {
    /// The parsed addresses of trusted proxies.
    ///
    /// # Errors
    ///
    /// An entry is not a CIDR.
    pub fn proxies(&self) -> Result<Vec<Cidr>, ConfigError> {
        let read = |text: &String| {
            text.parse().map_err(|_| ConfigError::Invalid {
                key: "server.trusted_proxies",
                detail: format!("{text} is not a CIDR such as 10.0.0.0/8"),
            })
        };
        self.trusted_proxies.iter().map(read).collect()
    }

    /// The parsed origins in `cors_origins`.
    ///
    /// # Errors
    ///
    /// An entry is not an origin.
    pub fn origins(&self) -> Result<Origins, ConfigError> {
        Origins::new(&self.cors_origins).map_err(|error| ConfigError::Invalid {
            key: "server.cors_origins",
            detail: error.to_string(),
        })
    }
}
