//! The URL of an endpoint, parsed once, so that the transport connects to exactly the URL that it
//! has checked.

use std::net::IpAddr;

use porchlight_ports::UrlRefused;
use porchlight_schema::limits::URL_CHARS_MAX;
use reqwest::Url;
use rustls::pki_types::ServerName;
use url::ParseError;

use super::address::{Cidr, Origin, is_permitted};

/// The host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// The host is an IP address in any spelling.
    Literal(IpAddr),
    /// The host is a name.
    Name(String),
}

/// A URL whose text is acceptable.
#[derive(Debug, Clone)]
pub struct Target {
    /// The parsed URL.
    pub url: Url,
    /// The host of the URL.
    pub host: Host,
    /// The port of the URL.
    pub port: u16,
}

impl Target {
    /// Parses a URL and refuses everything that the contract refuses. An address literal is
    /// accepted only if it lies in `allowed`; names are checked when they are resolved.
    ///
    /// # Errors
    ///
    /// Returns the reason for the refusal.
    pub fn parse(text: &str, allowed: &[Cidr]) -> Result<Self, UrlRefused> {
        // The URL standard drops tabs and line ends, trims spaces and converts backslashes. Texts
        // that need such repair are refused, so that no other parser can read another host from
        // them.
        let odd = |character: char| {
            character.is_whitespace() || character.is_control() || character == '\\'
        };
        if text.len() > URL_CHARS_MAX || text.contains(odd) {
            return Err(UrlRefused::Syntax);
        }
        let url = Url::parse(text).map_err(|error| match error {
            ParseError::InvalidPort => UrlRefused::Port,
            ParseError::IdnaError
            | ParseError::InvalidDomainCharacter
            | ParseError::InvalidIpv4Address
            | ParseError::InvalidIpv6Address => UrlRefused::Host,
            _ => UrlRefused::Syntax,
        })?;
        if url.scheme() != "https" {
            return Err(UrlRefused::Scheme);
        }
        let behind_scheme = text.split_once("://").ok_or(UrlRefused::Syntax)?.1;
        let authority = behind_scheme.split(['/', '?', '#']).next();
        let authority = authority
            .filter(|authority| !authority.is_empty())
            .ok_or(UrlRefused::Syntax)?;
        // `https://@host` has an empty user name, which the parsed form does not show.
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(UrlRefused::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(UrlRefused::Fragment);
        }
        let port = url.port_or_known_default();
        let port = port.filter(|&port| port != 0).ok_or(UrlRefused::Port)?;
        let named = authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host);
        let has_dot =
            named.ends_with(['.', '。', '．', '｡']) || named.to_ascii_lowercase().ends_with("%2e");
        let host = Self::read_host(&url, has_dot, allowed)?;
        Ok(Self { url, host, port })
    }

    /// Returns the name of the host in TLS, which has no brackets around an IPv6 address; `None` if
    /// no certificate can have the name.
    #[must_use]
    pub fn server_name(&self) -> Option<ServerName<'static>> {
        match &self.host {
            Host::Literal(address) => Some(ServerName::from(*address)),
            Host::Name(name) => ServerName::try_from(name.clone()).ok(),
        }
    }

    fn read_host(url: &Url, has_dot: bool, allowed: &[Cidr]) -> Result<Host, UrlRefused> {
        let text = url.host_str().ok_or(UrlRefused::Syntax)?;
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return if !is_permitted(address, Origin::Literal, allowed) {
                Err(UrlRefused::Address)
            } else if has_dot {
                // The parsed form does not show the trailing dot.
                Err(UrlRefused::TrailingDot)
            } else {
                Ok(Host::Literal(address))
            };
        }
        if text.ends_with('.') {
            return Err(UrlRefused::TrailingDot);
        }
        Ok(Host::Name(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, UrlRefused> {
        Target::parse(text, &[])
    }

    #[test]
    fn names_with_any_port_and_path_are_accepted() {
        for (text, name, port) in [
            ("https://example.com", "example.com", 443),
            ("HTTPS://Example.COM:8443/a?b=c@d", "example.com", 8443),
            ("https://example.com:1/%20", "example.com", 1),
            ("https://bücher.example/", "xn--bcher-kva.example", 443),
            ("https://localhost/", "localhost", 443),
        ] {
            let target = parse(text).unwrap();
            assert_eq!(target.host, Host::Name(name.to_owned()), "{text}");
            assert_eq!(target.port, port, "{text}");
        }
    }

    #[test]
    fn urls_outside_the_contract_are_refused() {
        for (text, refused) in [
            ("", UrlRefused::Syntax),
            ("example.com", UrlRefused::Syntax),
            ("https://", UrlRefused::Syntax),
            ("https:///path", UrlRefused::Syntax),
            ("https:example.com", UrlRefused::Syntax),
            ("https:/example.com", UrlRefused::Syntax),
            ("https:\\\\example.com", UrlRefused::Syntax),
            ("https://exa mple.com", UrlRefused::Syntax),
            (" https://example.com", UrlRefused::Syntax),
            ("https://exa\tmple.com", UrlRefused::Syntax),
            ("https://example.com\n", UrlRefused::Syntax),
            ("https://exam\\ple.com/", UrlRefused::Syntax),
            ("https://example.com:99999/", UrlRefused::Port),
            ("https://example.com:65536/", UrlRefused::Port),
            ("https://example.com:0/", UrlRefused::Port),
            ("https://example.com:port/", UrlRefused::Port),
            ("https://exa%00mple.com/", UrlRefused::Host),
            ("https://xn--a/", UrlRefused::Host),
            ("https://256.1.1.1/", UrlRefused::Host),
            ("https://[::g]/", UrlRefused::Host),
            ("http://example.com/", UrlRefused::Scheme),
            ("ftp://example.com/", UrlRefused::Scheme),
            ("file:///etc/passwd", UrlRefused::Scheme),
            ("https://user@example.com/", UrlRefused::UserInfo),
            ("https://user:secret@example.com/", UrlRefused::UserInfo),
            ("https://:@example.com/", UrlRefused::UserInfo),
            ("https://@example.com/", UrlRefused::UserInfo),
            ("https://example.com/#top", UrlRefused::Fragment),
            ("https://example.com/#", UrlRefused::Fragment),
            ("https://example.com./", UrlRefused::TrailingDot),
            ("https://localhost.:8443/", UrlRefused::TrailingDot),
        ] {
            assert_eq!(
                parse(text).map(|target| target.host),
                Err(refused),
                "{text:?}"
            );
        }
        let long = format!("https://example.com/{}", "a".repeat(URL_CHARS_MAX));
        assert_eq!(parse(&long).unwrap_err(), UrlRefused::Syntax);
    }

    #[test]
    fn any_spelling_of_an_address_is_recognised() {
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "0177.0.0.1",
            "127.1",
            "0",
            "127.0.0.1.",
            "0x7f.0.0.0x1",
            "017700000001",
            "8.8.8.8",
            "134744072",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[fd00::1]",
            "[2606:4700::1111]",
            "①②⑦.0.0.1",
            "169.254.169.254",
            "%31%32%37.0.0.1",
        ] {
            let refused = parse(&format!("https://{host}/")).unwrap_err();
            assert_eq!(refused, UrlRefused::Address, "{host}");
        }
        for host in [
            "[fe80::1%25eth0]",
            "[::1",
            "1.2.3.4.5",
            "256.1.1.1",
            "0x100000000",
        ] {
            assert!(parse(&format!("https://{host}/")).is_err(), "{host}");
        }
    }

    #[test]
    fn an_allowed_literal_address_passes() {
        let allowed = ["127.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("[::1]", "::1"),
        ] {
            let target = Target::parse(&format!("https://{host}:8443/"), &allowed).unwrap();
            assert_eq!(target.host, Host::Literal(address.parse().unwrap()));
            // A certificate is remembered under the name that the TLS library reports.
            assert_eq!(target.server_name().unwrap().to_str(), address);
        }
        for dotted in [
            "127.0.0.1.",
            "127.0.0.1.:8443",
            "2130706433.",
            "127.0.0.1。",
        ] {
            let dotted = Target::parse(&format!("https://{dotted}/"), &allowed);
            assert_eq!(dotted.unwrap_err(), UrlRefused::TrailingDot);
        }
        let mapped = Target::parse("https://[::ffff:127.0.0.1]/", &allowed);
        assert_eq!(mapped.unwrap_err(), UrlRefused::Address);
    }
}
