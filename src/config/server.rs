//! Parsed settings of the listeners.

use porchlight_http::cors::Origins;
use porchlight_schema::limits::SERVER_WORKERS_MAX;
use reqwest::Url;

use super::{ConfigError, Server, parse_cidrs};
use crate::transport::address::Cidr;

impl Server {
    /// Returns the parsed addresses of trusted proxies.
    ///
    /// # Errors
    ///
    /// Returns an error if an entry is not a CIDR.
    pub fn proxies(&self) -> Result<Vec<Cidr>, ConfigError> {
        parse_cidrs("server.trusted_proxies", &self.trusted_proxies)
    }

    /// Returns the parsed origins in `cors_origins`.
    ///
    /// # Errors
    ///
    /// Returns an error if an entry is not an origin.
    pub fn origins(&self) -> Result<Origins, ConfigError> {
        Origins::new(&self.cors_origins)
            .map_err(|error| ConfigError::invalid("server.cors_origins", error.to_string()))
    }

    /// Checks that the two listeners have addresses of their own. Port 0 gives each a port of its
    /// own.
    ///
    /// # Errors
    ///
    /// Returns an error if both have the same address and port.
    pub fn check_listeners(&self) -> Result<(), ConfigError> {
        if self.listen == self.ops_listen && self.listen.port() != 0 {
            let detail = "must not be the address and port of server.listen";
            return Err(ConfigError::invalid("server.ops_listen", detail));
        }
        Ok(())
    }

    /// Checks that a `Host` header can contain the operators' host names.
    pub(super) fn check_ops_hosts(&self) -> Result<(), ConfigError> {
        let is_name = |name: &str| {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
            !name.is_empty() && !name.ends_with('.') && name.chars().all(is_part)
        };
        match self.ops_hosts.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => {
                let detail = format!(
                    "`{name}` is not a host name such as ops.example.com, without scheme and port"
                );
                Err(ConfigError::invalid("server.ops_hosts", detail))
            }
        }
    }

    /// Checks the number of threads, because each costs memory from the start.
    pub(super) fn check_workers(&self) -> Result<(), ConfigError> {
        if self.workers <= SERVER_WORKERS_MAX {
            return Ok(());
        }
        let detail = format!("must be at most {SERVER_WORKERS_MAX}; 0: one per core");
        Err(ConfigError::invalid("server.workers", detail))
    }

    /// Checks that links can begin with the public URL.
    pub(super) fn check_public_url(&self) -> Result<(), ConfigError> {
        let refused = |detail| Err(ConfigError::invalid("server.public_url", detail));
        let text = self.public_url.as_str();
        if text.is_empty() {
            return Ok(());
        }
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let Some(rest) = rest else {
            return refused("must begin with https:// or http://");
        };
        // The parser drops or changes these characters, but links contain the configured text
        // unchanged.
        let is_normalized =
            |letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\';
        if rest.contains(['?', '#']) {
            return refused("must not have a query or a fragment");
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return refused("must not have a user name or a password");
        }
        let has_host = || Url::parse(text).is_ok_and(|url| url.has_host());
        if authority.is_empty() || rest.contains(is_normalized) || !has_host() {
            return refused("must be a URL with a host such as https://api.example.com");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_url_has_a_host_and_no_query_fragment_or_user() {
        let check = |text: &str| {
            let server = Server {
                public_url: text.to_owned(),
                ..Server::default()
            };
            server.check_public_url()
        };
        for text in [
            "",
            "https://api.example.com",
            "https://api.example.com/",
            "https://example.com/porchlight",
            "http://localhost:8080",
            "http://[::1]:8080",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
        for text in [
            "api.example.com",
            "ftp://example.com",
            "https://",
            "https:///",
            "https:///example.com",
            "https://bad host",
            "https://example.com ",
            "https://example.com\\a",
            "https://example.com:99999",
            "https://example.com?a=b",
            "https://example.com/?",
            "https://example.com/#",
            "https://example.com#a",
            "https://user@example.com",
            "https://user:word@example.com",
            "https://@example.com",
        ] {
            let error = check(text).unwrap_err().to_string();
            assert!(error.contains("server.public_url"), "{text}: {error}");
        }
    }

    #[test]
    fn the_names_of_the_operators_listener_are_host_names() {
        let check = |name: &str| {
            let server = Server {
                ops_hosts: vec!["prometheus".to_owned(), name.to_owned()],
                ..Server::default()
            };
            server.check_ops_hosts()
        };
        for name in [
            "ops.example.com",
            "node_1.internal",
            "xn--bcher-kva.example",
        ] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in [
            "a b",
            "",
            "http://a",
            "a:9464",
            "a/b",
            "ops.",
            "bücher.example",
        ] {
            let error = check(name).unwrap_err().to_string();
            assert!(error.contains("server.ops_hosts: `"), "{name}: {error}");
        }
    }

    #[test]
    fn the_listeners_have_addresses_of_their_own() {
        let check = |listen: &str, ops_listen: &str| {
            let server = Server {
                listen: listen.parse().unwrap(),
                ops_listen: ops_listen.parse().unwrap(),
                ..Server::default()
            };
            server.check_listeners()
        };
        for (listen, ops_listen) in [
            ("127.0.0.1:8080", "127.0.0.1:9464"),
            ("127.0.0.1:8080", "127.0.0.2:8080"),
            ("127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert!(check(listen, ops_listen).is_ok(), "{listen} {ops_listen}");
        }
        let error = check("127.0.0.1:8080", "127.0.0.1:8080").unwrap_err();
        assert!(error.to_string().contains("server.ops_listen"), "{error}");
    }
}
