//! Tests that a receipt verifies and that every change of it is found.

use super::*;

fn statement() -> Statement {
    Statement {
        request_id: "erase-4711".to_owned(),
        request_type: "erasure".to_owned(),
        subject: HashedSubject::new(SubjectKind::ExternalRiderId, "rider-12", [7; SALT_BYTES]),
        counts: ErasureCounts {
            sessions: 3,
            telemetry: 120,
            insights: 3,
            images: 3,
            messages: 9,
            places: 2,
            keys: 1,
        },
        completed_at: TimestampMs(1_763_636_100_000),
        key_ids: vec!["7".to_owned(), "12-15".to_owned()],
        other_keys: 2,
    }
}

fn signer(key: u8) -> ReceiptSigner {
    ReceiptSigner::new(&SecretKeys::of_bytes([key; 32], &[]))
}

#[test]
fn a_receipt_verifies_with_its_key_and_no_other() {
    let signer = signer(1);
    let receipt = signer.sign(&statement()).unwrap();
    assert_eq!(receipt, signer.sign(&statement()).unwrap());
    let key = PublicKey::parse(&signer.public_key().to_string()).unwrap();
    assert_eq!(verify(&receipt, &key), Ok(statement()));
    let jwk = serde_json::to_string(&key.jwk()).unwrap();
    assert_eq!(PublicKey::parse(&jwk), Ok(key));
    let other = self::signer(2).public_key();
    assert_eq!(verify(&receipt, &other), Err(ReceiptError::OtherKey));
}

#[test]
fn each_flipped_bit_is_found() {
    let signer = signer(1);
    let receipt = signer.sign(&statement()).unwrap();
    let key = signer.public_key();
    for place in 0..receipt.len() {
        for bit in 0..8 {
            let mut bytes = receipt.clone().into_bytes();
            bytes[place] ^= 1 << bit;
            let is_refused =
                String::from_utf8(bytes).map_or(true, |changed| verify(&changed, &key).is_err());
            assert!(is_refused, "byte {place}, bit {bit}");
        }
    }
    for cut in ["", ".", "..", &receipt[1..], &receipt[..receipt.len() - 1]] {
        assert!(verify(cut, &key).is_err(), "{cut}");
    }
}

#[test]
fn a_changed_statement_under_the_same_header_is_found() {
    let signer = signer(1);
    let receipt = signer.sign(&statement()).unwrap();
    let mut parts: Vec<&str> = receipt.split('.').collect();
    let changed = Statement {
        request_id: "erase-4712".to_owned(),
        ..statement()
    };
    let payload = BASE64.encode(serde_json::to_vec(&changed).unwrap());
    parts[1] = &payload;
    assert_eq!(
        verify(&parts.join("."), &signer.public_key()),
        Err(ReceiptError::Signature)
    );
}

#[test]
fn a_hashed_subject_matches_its_identifier() {
    let subject = statement().subject;
    assert!(subject.matches("rider-12") && !subject.matches("rider-13"));
    let other = HashedSubject::new(SubjectKind::ExternalRiderId, "rider-12", [8; SALT_BYTES]);
    assert_ne!(subject.hash, other.hash);
    let text = serde_json::to_string(&statement()).unwrap();
    assert!(!text.contains("rider-12"));
}

#[test]
fn former_keys_check_former_receipts() {
    let receipt = signer(1).sign(&statement()).unwrap();
    let keys = public_keys(&SecretKeys::of_bytes([2; 32], &[[1; 32]]));
    assert_eq!(verify(&receipt, &keys[0]), Err(ReceiptError::OtherKey));
    assert_eq!(verify(&receipt, &keys[1]), Ok(statement()));
}

#[test]
fn an_invalid_public_key_is_refused() {
    for text in [
        "",
        "AAAA",
        "{}",
        r#"{"kty":"RSA","crv":"Ed25519","x":"AAAA"}"#,
        &"_".repeat(43),
    ] {
        assert_eq!(PublicKey::parse(text), Err(PublicKeyError), "{text}");
    }
}

#[test]
fn several_keys_are_read_from_lines_or_a_key_set() {
    let keys = public_keys(&SecretKeys::of_bytes([2; 32], &[[1; 32]]));
    let of = |keys: &[PublicKey], end: &str| {
        let lines = keys.iter().map(|key| format!("{key}{end}"));
        lines.collect::<String>()
    };
    let set = |keys: &[PublicKey]| {
        let keys: Vec<_> = keys.iter().map(PublicKey::jwk).collect();
        serde_json::json!({ "keys": keys })
    };
    let mut mixed = set(&keys);
    let others = [
        serde_json::json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }),
        serde_json::json!(7),
    ];
    mixed["keys"].as_array_mut().unwrap().extend(others);
    for text in [
        of(&keys, "\n"),
        of(&keys, "\r\n\r\n"),
        set(&keys).to_string(),
        format!("{:#}\n", set(&keys)),
        mixed.to_string(),
    ] {
        assert_eq!(PublicKey::parse_all(&text).as_ref(), Ok(&keys), "{text}");
    }
    let jwk = serde_json::to_string_pretty(&keys[0].jwk()).unwrap();
    for text in [of(&keys[..1], ""), jwk, set(&keys[..1]).to_string()] {
        assert_eq!(PublicKey::parse_all(&text).as_deref(), Ok(&keys[..1]));
    }
    for text in [
        String::new(),
        "\n".to_owned(),
        r#"{"keys":[]}"#.to_owned(),
        r#"{"keys":[{"kty":"RSA"}]}"#.to_owned(),
        format!("{}\nAAAA\n", keys[0]),
    ] {
        assert_eq!(PublicKey::parse_all(&text), Err(PublicKeyError), "{text}");
    }
}

#[test]
fn a_receipt_verifies_with_any_of_the_listed_keys() {
    let receipt = signer(1).sign(&statement()).unwrap();
    let keys = public_keys(&SecretKeys::of_bytes([2; 32], &[[1; 32], [3; 32]]));
    assert_eq!(verify_any(&receipt, &keys), Ok(statement()));
    assert_eq!(
        verify_any(&receipt, &keys[..1]),
        Err(ReceiptError::OtherKey)
    );
    let (signed, _) = receipt.rsplit_once('.').unwrap();
    let forged = format!("{signed}.{}", BASE64.encode([0; 64]));
    assert_eq!(verify_any(&forged, &keys), Err(ReceiptError::Signature));
    assert_eq!(verify_any("x", &keys), Err(ReceiptError::Malformed));
}

/// A customer checks a receipt years later, with the key of the time.
#[test]
fn the_receipts_of_a_secret_key_never_change() {
    let signer = signer(7);
    let subject = statement().subject;
    let receipt = signer.sign(&statement()).unwrap();
    let hash = hex::encode(&Sha256::digest(receipt));
    assert_eq!(
        [signer.public_key().id(), subject.hash, hash],
        [
            "taab__dz1w53Py_60FmpH7nr12bq6meivyaMSZah9ok",
            "e4e8761635cad32567144fa48832a47da1cbdec1e16f68e3c039cd8211d8d5db",
            "f3aa301162d5dd6522d37672df68adb4dedc63ac6f3f1b66a8dc3cabe9c759d2"
        ]
    );
}
