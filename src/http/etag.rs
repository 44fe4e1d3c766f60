//! Entity tags for conditional requests (RFC 9110, section 13.1.2).

use actix_web::http::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use actix_web::{HttpResponse, HttpResponseBuilder};

/// A private cache may store the answer but must revalidate it.
pub const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Begins the answer to a conditional request for the content with this tag. Also returns whether
/// the client has the content: the answer is then 304 and has no body.
#[must_use]
pub fn conditional(
    headers: &HeaderMap,
    tag: &str,
    cache_control: HeaderValue,
) -> (HttpResponseBuilder, bool) {
    let is_known = has_tag(headers, tag);
    let mut response = if is_known {
        HttpResponse::NotModified()
    } else {
        HttpResponse::Ok()
    };
    response
        .insert_header((ETAG, tag))
        .insert_header((CACHE_CONTROL, cache_control));
    (response, is_known)
}

/// Returns whether `If-None-Match` contains `tag` (a strong tag with its quotes), by the weak
/// comparison that RFC 9110 section 13.1.2 requires.
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .any(|value| value.to_str().is_ok_and(|text| list_contains(text, tag)))
}

/// Returns whether the value of `If-None-Match` is `*` or lists `tag`. A tag may contain a comma,
/// so the list is parsed by quotes.
fn list_contains(text: &str, tag: &str) -> bool {
    let mut rest = text.trim();
    if rest == "*" {
        return true;
    }
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        rest = rest.strip_prefix("W/").unwrap_or(rest);
        let Some(end) = rest.strip_prefix('"').and_then(|inner| inner.find('"')) else {
            return false;
        };
        let (one, after) = rest.split_at(end + 2);
        if one == tag {
            return true;
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_weak_tags_and_the_star_are_parsed() {
        for text in [
            "\"abc\"",
            "W/\"abc\"",
            "*",
            " * ",
            "\"x\", \"abc\"",
            "\"a,b\",W/\"abc\"",
            "W/\"x\",\t\"abc\" , \"y\"",
        ] {
            assert!(list_contains(text, "\"abc\""), "{text}");
        }
        for text in [
            "",
            "abc",
            "\"abcd\"",
            "\"ab\"",
            "w/\"abc\"",
            "\"abc",
            "\"x\", *",
            "\"x\"; \"abc\"",
            "\"x,\"abc\"",
        ] {
            assert!(!list_contains(text, "\"abc\""), "{text}");
        }
    }
}
