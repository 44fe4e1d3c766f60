//! All numbers used in scoring, in tables by family, and the version derived from them.
//!
//! The version is a hash of the names and values of all parameters, including those of the model of
//! buildings and the thresholds of the detectors, so every change of a parameter changes it. It is
//! stored with each insight and returned by `/evidence`.

pub(crate) mod door;
pub(crate) mod fraud;
pub(crate) mod place;
pub(crate) mod weights;

use porchlight_schema::fnv;

use crate::parameters::{Version, hash};

/// The number of the rules of scoring. Increment it when the rules change in a way that no
/// parameter shows.
const RULES: &[(&str, &str, &str)] = &[("scoring", "RULES", "26")];

const HASH: u64 = {
    let mut sum = hash(fnv::START, RULES);
    sum = hash(sum, crate::barometer::TABLE);
    sum = hash(sum, weights::TABLE);
    sum = hash(sum, fraud::TABLE);
    sum = hash(sum, place::TABLE);
    sum = hash(sum, door::TABLE);
    sum = hash(sum, crate::floors::parameters::TABLE);
    let tables = crate::detect::parameters::TABLES;
    let mut table = 0;
    while table < tables.len() {
        sum = hash(sum, tables[table]);
        table += 1;
    }
    sum
};

/// The version as text. Its prefix stays as it is: a change of the rules increments [`RULES`].
const TEXT: Version = Version::new("s11-", HASH);

/// The version of the parameters and rules of scoring.
pub const VERSION: &str = TEXT.as_str();

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of any parameter changes the version. An intended change updates the version here,
    /// so that it shows in review.
    #[test]
    fn the_version_matches_the_parameters() {
        assert_eq!(
            VERSION, "s11-1ac481a7f99a94c1",
            "a parameter or a rule of scoring changed: if that is intended, pin the new version here"
        );
    }

    #[test]
    fn a_changed_value_or_name_changes_the_version() {
        let one = [("family", "NAME", "1.0")];
        for other in [
            [("family", "NAME", "1.1")],
            [("family", "OTHER", "1.0")],
            [("other", "NAME", "1.0")],
        ] {
            assert_ne!(hash(fnv::START, &one), hash(fnv::START, &other));
        }
        // The layout of a value on the line does not matter.
        let spaced = [("family", "NAME", " 1.0 ")];
        assert_eq!(hash(fnv::START, &one), hash(fnv::START, &spaced));
    }
}
