//! Checks that the numbers of detection and scoring are in their tables of parameters, whose content
//! determines the version stored with each insight.

use crate::{files, none};

/// The numbers that decide nothing: neutral elements, halves and squares, percent, and the factors
/// between units of time.
const TRIVIAL: [f64; 8] = [0.0, 0.5, 1.0, 2.0, 60.0, 100.0, 1_000.0, 60_000.0];

/// An exemption: the ending of a file, a part of the line, and the reason. An empty part exempts
/// the whole file.
type Exemption = (&'static str, &'static str, &'static str);

const EXEMPT: &[Exemption] = &[
    (
        "floors/climb.rs",
        "",
        "holds answers of the building model; a test computes them again",
    ),
    (
        "floors/model.rs",
        "libm::sqrt(12.0)",
        "the variance of a uniform distribution is a twelfth of its squared width",
    ),
    (
        "score/knowledge.rs",
        "PLACE_SESSIONS_MAX",
        "the memory of a place is a limit",
    ),
    (
        "score/fingerprint.rs",
        "to_bits()) << 32",
        "packs two values of 32 bits",
    ),
    (
        "score/fingerprint.rs",
        "value >> 30",
        "belongs to the finaliser of SplitMix64",
    ),
    (
        "score/fingerprint.rs",
        "value >> 27",
        "belongs to the finaliser of SplitMix64",
    ),
    (
        "score/fingerprint.rs",
        "value >> 31",
        "belongs to the finaliser of SplitMix64",
    ),
    (
        "score/fraud/noise.rs",
        "fixes.windows(3)",
        "a change of velocity needs three fixes",
    ),
    (
        "score/fingerprint/course.rs",
        "_dm / 10.0",
        "a metre has ten decimetres",
    ),
    (
        "score/fingerprint/course.rs",
        "_m * 10.0",
        "a metre has ten decimetres",
    ),
    ("detect/backtracking.rs", "deg", "a circle has 360 degrees"),
    (
        "backtracking/trail.rs",
        "255.0 / 360.0",
        "stores a course in 255 parts of the circle",
    ),
    (
        "backtracking/trail.rs",
        "(64..=191)",
        "a right angle is a quarter of 255 parts",
    ),
    (
        "backtracking/trail.rs",
        "near_m * 1.001",
        "leaves a thousandth for rounding",
    ),
    (
        "backtracking/trail.rs",
        "trailing_zeros()",
        "a byte has eight bits",
    ),
    (
        "detect/decode.rs",
        "IMPOSSIBLE",
        "exceeds every sum of costs",
    ),
    (
        "detect/decode.rs",
        "ROUNDING",
        "exceeds every error of rounding",
    ),
    (
        "detect/decode.rs",
        "state & 7",
        "packs states of three bits",
    ),
    (
        "detect/decode.rs",
        "walk << 3",
        "packs states of three bits",
    ),
    ("detect/decode.rs", "0_u8, 1, 2, 3, 4", "numbers the states"),
    ("detect/frame.rs", "64.0", "stores evidence in 64ths"),
    ("detect/gate.rs", "wait_ms + 500", "rounds to seconds"),
    (
        "gps/usual.rs",
        "0.999 * ",
        "leaves a thousandth for rounding",
    ),
    (
        "detect/movement.rs",
        "place",
        "a missing second lies between two others",
    ),
    (
        "detect/position.rs",
        "0.99 * ",
        "leaves a hundredth for rounding",
    ),
    (
        "detect/slope.rs",
        "",
        "holds sums and polynomials over equidistant seconds",
    ),
    ("detect/tally.rs", "const BITS", "numbers bits"),
];

/// Returns the code of a file, line by line, without comments, texts, attributes and the tests at
/// its end.
fn code_lines(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut code = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let skipped = match letter {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '#' if rest.starts_with("#[") => rest.find("]\n").map_or(rest.len(), |end| end + 1),
            '"' => quoted_bytes(rest),
            _ => 0,
        };
        let (gone, after) = rest.split_at(skipped);
        code.extend(gone.matches('\n'));
        rest = after;
        if skipped == 0 {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    code.lines().map(str::to_owned).collect()
}

/// Returns the length of the text in quotation marks at the beginning of `rest`.
fn quoted_bytes(rest: &str) -> usize {
    let mut is_escaped = false;
    for (place, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the decimal numbers of a line of code. Lengths of arrays, places in tuples, and
/// hexadecimal numbers, which are those of hashes, do not count.
fn numbers(line: &str) -> Vec<f64> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    let mut place = 0;
    while let Some(from) = line[place..].find(is_part).map(|next| place + next) {
        let word = &line[from..];
        let end = word.find(|letter| !is_part(letter)).unwrap_or(word.len());
        let before = &line[..from];
        let is_place = before.ends_with('.') && !before.ends_with("..");
        let is_length = before.ends_with("; ") && word[end..].starts_with(']');
        let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
        // The fraction of a number, or nothing before a range or a method.
        let fraction = word[end..].strip_prefix('.').map_or(0, |digits| {
            let end = digits
                .find(|letter| !is_part(letter))
                .unwrap_or(digits.len());
            if digits.starts_with(|letter: char| letter.is_ascii_digit()) {
                end + 1
            } else {
                0
            }
        });
        let end = if is_number && !is_place {
            end + fraction
        } else {
            end
        };
        if is_number && !is_place && !is_length && !word.starts_with("0x") {
            found.extend(value(&word[..end]));
        }
        place = from + end;
    }
    found
}

/// Returns the value of a number without its type.
fn value(number: &str) -> Option<f64> {
    let kinds = [
        "usize", "f32", "f64", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64",
    ];
    let plain = kinds.iter().find_map(|kind| number.strip_suffix(kind));
    let plain: String = plain
        .unwrap_or(number)
        .chars()
        .filter(|&letter| letter != '_')
        .collect();
    // A negative exponent is cut off, so the rest ends with an `e`.
    plain.trim_end_matches('e').parse().ok()
}

/// Returns whether a line declares the size or the layout of memory, which the detectors keep beside
/// the code that uses it.
fn is_size(file: &str, line: &str) -> bool {
    let is_integer = |kind: &str| line.contains(&format!(": {kind} = "));
    file.contains("/detect/")
        && line.contains("const ")
        && ["usize", "u16", "u32"].into_iter().any(is_integer)
}

#[test]
fn detection_and_scoring_have_no_numbers_outside_their_tables() {
    let is_exempt = |file: &str, line: &str| {
        let mut exempt = EXEMPT.iter();
        exempt.any(|(ending, part, _)| file.ends_with(ending) && line.contains(part))
    };
    let sources = files(&["actors/core/src"], ".rs");
    let is_of_module = |file: &str| {
        ["detect", "score", "floors"].iter().any(|name| {
            file.ends_with(&format!("core/src/{name}.rs"))
                || file.contains(&format!("core/src/{name}/"))
        })
    };
    let scanned = sources.iter().filter(|(file, _)| {
        is_of_module(file) && !file.contains("parameters") && !file.contains("/tests")
    });
    let mut found = Vec::new();
    for (file, text) in scanned {
        for (number, line) in code_lines(text).iter().enumerate() {
            let is_trivial = |value: &f64| TRIVIAL.iter().any(|one| (one - value).abs() < 1e-9);
            let decides = !numbers(line).iter().all(is_trivial) && !is_size(file, line);
            if decides && !is_exempt(file, line) {
                found.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none(
        "numbers of detection and scoring are in a table of parameters",
        &found,
    );
}

#[test]
fn a_number_in_the_code_is_found_and_one_in_a_text_is_not() {
    let text = "//! 7\n#[expect(dead_code, reason = \"8\")]\nlet a = f(\"9 \\\" 9\", 3_000); // 6\nlet b = [0; 5];\n#[cfg(test)]\n4";
    let lines = code_lines(text);
    let all: Vec<f64> = lines.iter().flat_map(|line| numbers(line)).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(all, [3_000.0, 0.0]);
    let line = "x.0 + 1.5_f32 + pair.1 * 0x9e37 + (3..=4).min(2.0.sqrt()) + u64::from(y2) - 1e-5";
    assert_eq!(numbers(line), [1.5, 3.0, 4.0, 2.0, 1.0, 5.0]);
}
