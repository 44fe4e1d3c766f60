#![doc = include_str!("README.md")]

mod admin;
pub mod check;
pub mod keyring;
pub mod receipt;
pub mod secrets;
mod token;

use porchlight_schema::key::KeyKind;
use porchlight_schema::session::Env;
use sha2::{Digest, Sha256};

pub use admin::{CreateKeyRequest, CreatedKey, KeyAdmin, KeyAdminError, ListedKey};
pub use token::{TokenError, Tokens};

/// The digits of base 62; the position of each is its value.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The number of random characters in a key.
const RANDOM_CHARS: usize = 30;
/// The number of characters of the checksum: 62^6 exceeds 2^32.
const CHECKSUM_CHARS: usize = 6;
/// The number of last characters that lists show.
const SHOWN_CHARS: usize = 4;

/// A new key. Its text is shown once and is not stored.
pub struct NewKey {
    /// The key itself.
    pub text: secrecy::SecretString,
    /// The hash under which the key is stored.
    pub hash: [u8; 32],
    /// The last four characters of the key.
    pub last4: String,
}

/// Creates a key; `fill` provides cryptographic randomness ([`porchlight_world::fill_random`]).
pub fn make(kind: KeyKind, env: Env, mut fill: impl FnMut(&mut [u8])) -> NewKey {
    let mut text = prefix(kind, env);
    let mut left = RANDOM_CHARS;
    while left > 0 {
        let mut bytes = [0_u8; 64];
        fill(&mut bytes);
        // 248 is the largest multiple of 62 in a byte; higher values would make the first digits
        // more likely.
        for byte in bytes.into_iter().filter(|&byte| byte < 248).take(left) {
            text.push(digit(u32::from(byte)));
            left -= 1;
        }
    }
    let checksum = checksum(&text);
    text.extend(checksum);
    NewKey {
        hash: hash(&text),
        last4: text.chars().skip(text.len() - SHOWN_CHARS).collect(),
        text: text.into(),
    }
}

/// The facts in a key's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadKey {
    /// The claimed kind.
    pub kind: KeyKind,
    /// The claimed environment.
    pub env: Env,
    /// The hash by which the key is found.
    pub hash: [u8; 32],
}

/// Parses a key. Returns `None` if the text is not a key or contains a typo.
#[must_use]
pub fn read(text: &str) -> Option<ReadKey> {
    let mut parts = text.splitn(3, '_');
    let (kind, env, tail) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = [KeyKind::Secret, KeyKind::Client]
        .into_iter()
        .find(|one| one.prefix() == kind)?;
    let env = Env::ALL.into_iter().find(|one| one.key_word() == env)?;
    if tail.len() != RANDOM_CHARS + CHECKSUM_CHARS
        || !tail.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return None;
    }
    let (body, sum) = text.split_at_checked(text.len() - CHECKSUM_CHARS)?;
    // The checksum is not secret, so its comparison need not take constant time.
    checksum(body).eq(sum.chars()).then(|| ReadKey {
        kind,
        env,
        hash: hash(text),
    })
}

fn prefix(kind: KeyKind, env: Env) -> String {
    format!("{}_{}_", kind.prefix(), env.key_word())
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Returns the digits of the checksum in base 62, highest first.
fn checksum(text: &str) -> impl Iterator<Item = char> + use<> {
    let sum = crc32fast::hash(text.as_bytes());
    (0..CHECKSUM_CHARS as u32)
        .rev()
        .map(move |place| digit((u64::from(sum) / 62_u64.pow(place) % 62) as u32))
}

/// Returns the digit for `value` modulo 62.
fn digit(value: u32) -> char {
    char::from(BASE62[(value % 62) as usize])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret;

    use super::*;

    /// Returns the upper bytes of Knuth's linear congruential generator.
    fn stream(seed: u64) -> impl FnMut(&mut [u8]) {
        let mut state = seed;
        move |bytes| {
            for byte in bytes {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                *byte = (state >> 56) as u8;
            }
        }
    }

    fn any_key() -> impl Strategy<Value = (KeyKind, Env, String)> {
        let kind = prop_oneof![Just(KeyKind::Secret), Just(KeyKind::Client)];
        let env = prop_oneof![Just(Env::Sandbox), Just(Env::Production)];
        (kind, env, any::<u64>()).prop_map(|(kind, env, seed)| {
            let key = make(kind, env, stream(seed));
            (kind, env, key.text.expose_secret().to_owned())
        })
    }

    proptest! {
        #[test]
        fn generated_keys_can_be_read((kind, env, text) in any_key()) {
            let read = read(&text).unwrap();
            prop_assert_eq!((read.kind, read.env), (kind, env));
            prop_assert_eq!(text.len(), 3 + env.key_word().len() + 1 + 36);
        }

        #[test]
        fn a_single_wrong_character_is_detected((_, _, text) in any_key(), index in any::<prop::sample::Index>(), other in "[0-9A-Za-z]") {
            let index = index.index(text.len());
            let typo = format!("{}{other}{}", &text[..index], &text[index + 1..]);
            prop_assume!(typo != text);
            prop_assert_eq!(read(&typo), None);
        }
    }

    #[test]
    fn invalid_keys_are_refused() {
        let key = make(KeyKind::Secret, Env::Sandbox, porchlight_world::fill_random).text;
        let key = key.expose_secret();
        let wrong = [
            "",
            "sk",
            "sk_",
            "sk_live_",
            "sk_sandbox_äöü",
            &key[1..],
            &format!("{key}0"),
            &format!(" {key}"),
            &key.to_uppercase(),
        ];
        for text in wrong {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn randomness_is_used_evenly() {
        let mut random = stream(1);
        let mut counts = [0_u32; 62];
        for _ in 0..2_000 {
            let key = make(KeyKind::Client, Env::Production, &mut random);
            let text = key.text.expose_secret().as_bytes();
            for byte in &text["pk_live_".len()..][..RANDOM_CHARS] {
                counts[BASE62.iter().position(|digit| digit == byte).unwrap()] += 1;
            }
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= most / 5, "{counts:?}");
    }
}
