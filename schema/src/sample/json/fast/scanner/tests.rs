//! The scanner refuses invalid JSON and reads numbers as serde_json does.

use proptest::prelude::*;

use super::*;

/// Parses the number alone, and followed by other text as in a batch.
fn number(text: &str) -> Option<f64> {
    let read = |text: &str, rest: usize| {
        let mut scanner = Scanner::new(text.as_bytes());
        let number = scanner.number();
        number.filter(|_| text.len() - scanner.place() == rest)
    };
    let alone = read(text, 0);
    for behind in [",        ", "}        ", " ,       "] {
        let followed = read(&format!("{text}{behind}"), behind.len());
        assert_eq!(
            followed.map(f64::to_bits),
            alone.map(f64::to_bits),
            "{text}{behind}"
        );
    }
    alone
}

#[test]
fn invalid_numbers_are_rejected() {
    for text in [
        "", "-", "+1", "01", "-01", "1.", ".5", "1e", "1e+", "1.e5", "0x1", "NaN", "1_0", "1 2",
        "--1",
    ] {
        assert_eq!(number(text), None, "{text}");
    }
}

#[test]
fn malformed_input_is_rejected() {
    let reads = |text: &str| {
        let mut scanner = Scanner::new(text.as_bytes());
        let whole = scanner.members(|scanner, _| scanner.skip_scalar());
        whole.and_then(|()| scanner.end()).is_some()
    };
    assert!(reads(" { } ") && reads(r#"{"a" : 1 ,"b":"x","c":null,"d":true,"e":false}"#));
    for text in [
        "",
        "{",
        "{}}",
        "[]",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{,"a":1}"#,
        r#"{"a":1 "b":2}"#,
        r#"{a:1}"#,
        r#"{"a":nul}"#,
        r#"{"a":tru}"#,
        r#"{"a":"\n"}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":"#,
        r#"{"a":"x}"#,
        r#"{"a":{}}"#,
    ] {
        assert!(!reads(text), "{text}");
    }
}

#[test]
fn only_utf_8_is_a_text() {
    let texts: [&[u8]; 3] = [b"{\"\xff\":1}", b"{\"a\":\"\xff\"}", b"{\"a\":[\"\xff\"]}"];
    for text in texts {
        let mut scanner = Scanner::new(text);
        let read = scanner.members(|scanner, _| scanner.skip_value());
        assert_eq!(read, None, "{text:?}");
    }
    let mut scanner = Scanner::new("{\"ä\":\"ö\"}".as_bytes());
    let read = scanner.members(|scanner, _| scanner.skip_value());
    assert_eq!(read, Some(()));
}

proptest! {
    /// The parsed number equals serde_json's, to the last bit.
    #[test]
    fn a_number_is_parsed_as_by_serde_json(text in "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?") {
        if let Some(fast) = number(&text) {
            let slow: f64 = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(fast.to_bits(), slow.to_bits());
        } else {
            prop_assert!(text.contains(['e', 'E']), "{} was left to the slow reader", text);
        }
    }

    /// Short numbers, which are most of a batch, are parsed exactly as by serde_json.
    #[test]
    fn a_short_number_is_parsed_as_by_serde_json(text in "-?[0-9]{0,4}\\.?[0-9]{0,4}") {
        let slow: Option<f64> = serde_json::from_str(&text).ok();
        prop_assert_eq!(number(&text).map(f64::to_bits), slow.map(f64::to_bits), "{}", text);
    }

    /// Numbers of two words are parsed exactly as by serde_json, wherever they end.
    #[test]
    fn a_number_of_two_words_is_parsed_as_by_serde_json_or_refused(text in "-?[0-9]{1,8}\\.[0-9]{1,14}([eE.]?)") {
        let slow: Option<f64> = serde_json::from_str(&text).ok();
        prop_assert_eq!(number(&text).map(f64::to_bits), slow.map(f64::to_bits), "{}", text);
    }

    /// Doubles as programs print them are parsed exactly as by serde_json.
    #[test]
    fn a_double_round_trips(value in -1e9_f64..1e9) {
        let text = value.to_string();
        let slow: f64 = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(number(&text).map(f64::to_bits), Some(slow.to_bits()));
    }
}
