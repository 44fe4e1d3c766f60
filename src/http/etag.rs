//! Entity tags for conditional requests (RFC 9110, section 13.1.2).

use actix_web::http::header::{HeaderMap, IF_NONE_MATCH};

/// Returns whether `If-None-Match` contains `tag` (a strong tag with its quotes), by the weak
/// comparison that RFC 9110 section 13.1.2 requires.
#[must_use]
pub fn names(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .any(|value| value.to_str().is_ok_and(|text| list_names(text, tag)))
}

/// A tag may contain a comma, so the list is parsed by quotes.
fn list_names(text: &str, tag: &str) -> bool {
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
            assert!(list_names(text, "\"abc\""), "{text}");
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
            assert!(!list_names(text, "\"abc\""), "{text}");
        }
    }
}
