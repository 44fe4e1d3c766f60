//! Fields that were added to the end of stored rows.

use serde::{Deserialize, Deserializer};

/// Reads a field that is missing in rows of an earlier version; the field then has its default.
/// Such a row ends where the field would begin, so the field must follow all fields of the earlier
/// version. For `#[serde(deserialize_with = "…")]`.
///
/// # Errors
///
/// Never returns an error: a field that cannot be read is absent. The store's checksums detect a
/// damaged row before it is decoded.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(T::deserialize(deserializer).unwrap_or_default())
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
}
