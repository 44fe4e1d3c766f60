//! Formats counts with their nouns, for sentences.

/// Returns a noun in the number that a count requires: its plural unless the count is one. The
/// plural ends in `s`.
#[must_use]
pub fn noun(count: u64, singular: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{singular}{plural}")
}

/// Formats a count with its noun, such as `1 gate` or `2 gates`.
#[must_use]
pub fn counted(count: u64, singular: &str) -> String {
    format!("{count} {}", noun(count, singular))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_thing_is_in_the_singular() {
        assert_eq!(counted(0, "session"), "0 sessions");
        assert_eq!(counted(1, "later erasure"), "1 later erasure");
        assert_eq!(counted(2, "row"), "2 rows");
    }
}
