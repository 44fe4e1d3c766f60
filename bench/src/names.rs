//! Names of command-line values.

/// Finds the value with a name.
///
/// # Errors
///
/// Returns a sentence with all names if there is none.
pub(crate) fn find<T: Copy, const N: usize>(
    names: &[(&str, T); N],
    text: &str,
) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    let all = || names.each_ref().map(|(name, _)| *name).join(", ");
    found
        .map(|&(_, value)| value)
        .ok_or_else(|| format!("one of {}", all()))
}

/// Returns the name of a value; an empty text if it has none.
pub(crate) fn name_of<'n, T: PartialEq>(names: &[(&'n str, T)], value: &T) -> &'n str {
    let found = names.iter().find(|(_, named)| named == value);
    found.map_or("", |(name, _)| name)
}
