//! Names the source of a labelled recording. The recordings of one author are one source: models
//! and tables that judge one of them were fitted without any of them.

/// Returns the source of a recording: the part of its name before the first underscore. Two parts
/// name the same author.
#[must_use]
pub fn source_of(recording: &str) -> &str {
    match recording.split('_').next().unwrap_or(recording) {
        "liftshake" => "lift",
        source => source,
    }
}

/// Returns the entry of a table by source for a recording. Returns `None` if the table has no entry
/// for its source.
pub(crate) fn by_source<'t, T>(table: &'t [(&str, T)], recording: &str) -> Option<&'t T> {
    let source = source_of(recording);
    let entry = table.iter().find(|(name, _)| *name == source);
    entry.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_found_by_its_whole_name() {
        let table = [("har", 1), ("lift", 2)];
        for (recording, found) in [
            ("har_01", Some(1)),
            ("lift_01", Some(2)),
            ("liftshake_2", Some(2)),
            ("harbour_01", None),
            ("lifts_01", None),
            ("nyc", None),
        ] {
            assert_eq!(by_source(&table, recording), found.as_ref(), "{recording}");
        }
    }
}
