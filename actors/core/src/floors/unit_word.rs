//! Recognises the words that introduce a part of a building, such as "Apt 4B" in a street line.
//!
//! Many such words are also parts of street names: "Rue Ste-Anne", "Post Office Road", "Flat Rock
//! Drive". In a street line a word therefore counts only beside the designation of a unit.

/// Returns the words of a text in lower case, without punctuation.
pub(crate) fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    lower
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the parts of a street line between commas, each as its words.
pub(crate) fn parts(line: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    line.split(',').map(words)
}

/// Returns whether the word at `at` of a part of a street line is one of `known` and introduces a
/// unit. A designation follows such a word ("flat 3", "apt c") or is joined to it ("ste400"), or
/// the word ends the part after a number ("3º piso").
pub(crate) fn introduces_unit(part: &[String], at: usize, known: &[&str]) -> bool {
    let Some(word) = part.get(at) else {
        return false;
    };
    let letters = word.split(char::is_numeric).next().unwrap_or_default();
    if letters.len() < word.len() {
        return known.contains(&letters);
    }
    let before = at.checked_sub(1).and_then(|before| part.get(before));
    known.contains(&letters)
        && match part.get(at + 1) {
            Some(next) => is_designation(next),
            None => before.is_some_and(|before| begins_with_digit(before)),
        }
}

/// Returns whether a word begins with a digit, as the number of a house does.
pub(crate) fn begins_with_digit(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_numeric())
}

/// Returns whether a word can designate a unit: a number, with or without a letter, or one letter.
fn is_designation(word: &str) -> bool {
    begins_with_digit(word) || word.chars().nth(1).is_none()
}
