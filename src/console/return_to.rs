//! Redirects to the sign-in page, and back afterwards.

use actix_web::HttpRequest;

use super::form::encode;
use super::route::ROOT;
use super::signed_in;

/// The maximum number of characters in a return address.
pub(super) const NEXT_CHARS_MAX: usize = 2_048;

/// Returns the sign-in address for a visitor who has to sign in first, with the address to return
/// to.
pub(super) fn address(http: &HttpRequest) -> String {
    let had_cookie = signed_in::cookie(http).is_some();
    let mut fields = Vec::new();
    if had_cookie {
        fields.push(("why", "ended"));
    }
    let target = http
        .uri()
        .path_and_query()
        .map_or("", |target| target.as_str());
    if http.method().is_safe() && target != ROOT && is_console_address(target) {
        fields.push(("next", target));
    }
    let query = encode(fields.into_iter());
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{ROOT}/sign-in{mark}{query}")
}

/// Returns whether an address is a page of the console, so that signing in cannot redirect anyone
/// elsewhere.
pub(super) fn is_console_address(address: &str) -> bool {
    let below = address.strip_prefix(ROOT).unwrap_or("x");
    let is_below = below.is_empty() || below.starts_with(['/', '?']);
    is_below
        && address.len() <= NEXT_CHARS_MAX
        && address
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_in_redirects_only_to_the_console() {
        for address in [
            "/console",
            "/console/sessions?status=recording",
            "/console?x",
        ] {
            assert!(is_console_address(address), "{address}");
        }
        for address in [
            "",
            "/",
            "//evil.example",
            "https://evil.example/console",
            "/consolex",
            "/console\\evil",
            "/console/\r\nx: y",
            "/v1/sessions",
        ] {
            assert!(!is_console_address(address), "{address}");
        }
    }
}
