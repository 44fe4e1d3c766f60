//! Tables of parameters, and the version that follows from their content.

use porchlight_schema::fnv;

/// Declares families of parameters as constants, and a table of their names and values as written,
/// from which a version is computed.
macro_rules! table {
    ($(
        $(#[$family_doc:meta])*
        $visible:vis mod $family:ident {
            $($(#[$doc:meta])* $name:ident: $kind:ty = $value:expr;)*
        }
    )*) => {
        $(
            $(#[$family_doc])*
            $visible mod $family {
                $($(#[$doc])* pub(crate) const $name: $kind = $value;)*
            }
        )*
        /// Names and values of all parameters, as written.
        pub(crate) const TABLE: &[(&str, &str, &str)] = &[
            $($((stringify!($family), stringify!($name), stringify!($value)),)*)*
        ];
    };
}
pub(crate) use table;

/// Returns the FNV-1a hash of tables without their spaces.
pub(crate) const fn hash(mut hash: u64, table: &[(&str, &str, &str)]) -> u64 {
    let mut row = 0;
    while row < table.len() {
        let (family, name, value) = table[row];
        hash = hash_text(hash, family);
        hash = hash_text(hash, name);
        hash = hash_text(hash, value);
        row += 1;
    }
    hash
}

const fn hash_text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_whitespace() {
            hash = fnv::add(hash, bytes[at]);
        }
        at += 1;
    }
    // This byte, which no text contains, ends the text.
    fnv::add(hash, 0xff)
}

/// A version: a prefix of four characters at most, and the sixteen hexadecimal digits of a hash.
pub(crate) struct Version {
    bytes: [u8; 20],
    length: usize,
}

impl Version {
    pub(crate) const fn new(prefix: &str, hash: u64) -> Self {
        let mut bytes = [0; 20];
        let prefix = prefix.as_bytes();
        let mut length = 0;
        while length < prefix.len() && length < 4 {
            bytes[length] = prefix[length];
            length += 1;
        }
        let mut digit = 0;
        while digit < 16 {
            let value = (hash >> (60 - 4 * digit)) & 0xf;
            bytes[length] = b"0123456789abcdef"[value as usize];
            length += 1;
            digit += 1;
        }
        Self { bytes, length }
    }

    pub(crate) const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}
