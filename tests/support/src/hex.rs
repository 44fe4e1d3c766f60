//! Bytes in hexadecimal digits, for fixtures of stored rows.

/// Returns bytes in lowercase hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal digits. Panics if the text contains anything else.
#[must_use]
pub fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}
