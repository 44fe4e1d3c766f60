//! Fields that were added to the end of stored rows.
//!
//! A node of an earlier release ignores such a field when it reads a row, and writes the row back
//! without it. Therefore a row that earlier releases change gets no appended field whose loss
//! matters; such a field goes into a row of its own.

use serde::{Deserialize, Deserializer};

/// The text of `postcard::Error::DeserializeUnexpectedEnd`.
const INPUT_ENDED: &str = "Hit the end of buffer, expected more data";

/// Reads a field that is missing in rows of an earlier version; the field then has its default.
/// Such a row ends where the field would begin, so the field must follow all fields of the earlier
/// version. Use it with `#[serde(deserialize_with = "…")]` in rows that postcard decodes.
///
/// # Errors
///
/// Returns an error if the field is there and cannot be read: a later release may have written a
/// value that this one does not know. A field that is cut off counts as missing.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    match T::deserialize(deserializer) {
        Err(error) if error.to_string() == INPUT_ENDED => Ok(T::default()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        id: u32,
        #[serde(deserialize_with = "or_default")]
        name: Option<String>,
        #[serde(deserialize_with = "or_default")]
        tags: Vec<u8>,
    }

    #[test]
    fn a_missing_trailing_field_has_its_default() {
        let row = |name: Option<&str>, tags: &[u8]| Row {
            id: 7,
            name: name.map(str::to_owned),
            tags: tags.to_vec(),
        };
        let first = postcard::to_allocvec(&7_u32).unwrap();
        assert_eq!(postcard::from_bytes::<Row>(&first), Ok(row(None, &[])));
        let second = postcard::to_allocvec(&(7_u32, Some("a"))).unwrap();
        assert_eq!(
            postcard::from_bytes::<Row>(&second),
            Ok(row(Some("a"), &[]))
        );
        let whole = row(Some("a"), &[1, 2]);
        let bytes = postcard::to_allocvec(&whole).unwrap();
        assert_eq!(postcard::from_bytes::<Row>(&bytes), Ok(whole));
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Known,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Kinds {
        id: u32,
        #[serde(deserialize_with = "or_default")]
        kinds: Vec<Kind>,
    }

    #[test]
    fn a_trailing_field_with_an_unknown_value_is_an_error() {
        let [end, none] = [vec![7], vec![7, 0]].map(|row| postcard::from_bytes::<Kinds>(&row));
        assert_eq!(end, none);
        assert!(none.unwrap().kinds.is_empty());
        let known = postcard::from_bytes::<Kinds>(&[7, 1, 0]).unwrap();
        assert_eq!(known.kinds, [Kind::Known]);
        assert!(postcard::from_bytes::<Kinds>(&[7, 1, 1]).is_err());
        // The tag of an option is 0 or 1.
        assert!(postcard::from_bytes::<Row>(&[7, 2]).is_err());
    }

    #[test]
    fn the_text_of_an_ended_input_is_that_of_postcard() {
        let error = postcard::Error::DeserializeUnexpectedEnd;
        assert_eq!(error.to_string(), INPUT_ENDED);
    }
}
