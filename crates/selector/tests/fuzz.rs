//! Text and bytes from outside never panic, never overflow the stack and never get past the bounds.

use shoal_selector::{DecodeError, NESTING_MAX, SELECTOR_BYTES_MAX, Selector, SelectorError};

const SEED: u64 = 0x5e1e_c705;
const CASES: usize = 60_000;

const FRAGMENTS: [&str; 60] = [
    "a",
    "JMSType",
    "JMSFoo",
    "JMSX1",
    "_x$",
    "é",
    "AND",
    "or",
    "NOT",
    "BETWEEN",
    "IN",
    "LIKE",
    "ESCAPE",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "(",
    ")",
    "((",
    "))",
    ",",
    "'",
    "''",
    "'x'",
    "'%_'",
    "'\\'",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "0",
    "1",
    "9223372036854775808",
    "0x",
    "0xFFp1",
    "0b1",
    "017",
    "08",
    "1.",
    ".5",
    "1e5",
    "1e",
    "1f",
    "2L",
    "1_0",
    " ",
    "\t",
    "\n",
    "\0",
    "\"",
    "🐟",
    "--",
    "!=",
];

fn random_text(rng: &mut fastrand::Rng) -> String {
    let glue = if rng.bool() { " " } else { "" };
    (0..rng.usize(..24)).map(|_| FRAGMENTS[rng.usize(..FRAGMENTS.len())]).collect::<Vec<_>>().join(glue)
}

/// Whatever the parser says, it must be consistent.
fn check(text: &str) {
    match Selector::parse(text) {
        Ok(selector) => {
            let printed = selector.to_string();
            let again =
                Selector::parse(&printed).unwrap_or_else(|error| panic!("{text:?} → {printed:?}\n{error}"));
            assert_eq!(again, selector, "{text:?}");
        }
        Err(error) => {
            assert!(error.position <= text.chars().count(), "{text:?}");
            assert!(
                error.caret().ends_with('^') && error.caret().lines().count() == 2,
                "{text:?}: {}",
                error.caret()
            );
            assert!(!error.found.is_empty() && !error.expected.is_empty());
        }
    }
}

#[test]
fn random_token_sequences_are_parsed_or_refused() {
    println!("seed {SEED:#x}");
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 0..CASES {
        check(&random_text(&mut rng));
    }
}

#[test]
fn mutated_valid_selectors_are_parsed_or_refused() {
    println!("seed {SEED:#x}");
    let mut rng = fastrand::Rng::with_seed(SEED);
    let valid = [
        "JMSType = 'car' AND color = 'blue' AND weight > 2500",
        "NOT (a + 1) * -2.5e3 BETWEEN 0x1F AND b / 3 OR c IS NOT NULL",
        "underscored LIKE '\\_%' ESCAPE '\\' AND Country NOT IN ('UK', 'US', 'it''s')",
    ];
    for _ in 0..CASES {
        let mut chars: Vec<char> = valid[rng.usize(..valid.len())].chars().collect();
        for _ in 0..rng.usize(1..5) {
            let at = rng.usize(..chars.len());
            match rng.u8(..4) {
                0 => drop(chars.remove(at)),
                1 => chars.insert(at, FRAGMENTS[rng.usize(..FRAGMENTS.len())].chars().next().unwrap()),
                2 => chars[at] = rng.char(..),
                _ => chars.swap(at, 0),
            }
            if chars.is_empty() {
                break;
            }
        }
        check(&chars.into_iter().collect::<String>());
    }
}

#[test]
fn random_and_mutated_bytes_decode_or_are_refused() {
    println!("seed {SEED:#x}");
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut valid = Vec::new();
    Selector::parse("a IN ('x','y') AND (b + 1 > c OR d LIKE '%z') AND (e > 5) = f AND g = 1.5")
        .unwrap()
        .encode(&mut valid);
    let mut accepted = 0;
    for _ in 0..CASES {
        let mut bytes = valid.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        bytes.truncate(bytes.len() - if rng.bool() { 0 } else { rng.usize(..bytes.len()) });
        if let Ok(selector) = Selector::decode(&bytes) {
            accepted += 1;
            let printed = selector.to_string();
            assert_eq!(Selector::parse(&printed).expect(&printed), selector, "{bytes:?}");
        }
    }
    assert!(accepted > 0, "the mutations never left a valid filter");
}

fn refusal(text: &str) -> SelectorError {
    Selector::parse(text).expect_err("refused")
}

#[test]
fn deep_nesting_is_refused_with_a_clear_error() {
    let nested = [
        format!("{}a{}", "(".repeat(30_000), ")".repeat(30_000)),
        format!("{}a", "NOT ".repeat(15_000)),
        format!("a = {}1", "-".repeat(60_000)),
        format!("a = {}(1)", "+".repeat(60_000)),
        format!("a = 1{}", " + 1".repeat(15_000)),
        format!("a{}", " = a".repeat(15_000)),
    ];
    for text in nested {
        let error = refusal(&text);
        assert!(error.expected.contains("levels of nesting"), "{error}");
    }
    let within = NESTING_MAX / 2 - 2;
    check(&format!("{}a{}", "(".repeat(within), ")".repeat(within)));
    assert!(Selector::parse(&format!("{}a{}", "(".repeat(within), ")".repeat(within))).is_ok());
}

#[test]
fn a_megabyte_of_selector_is_refused_with_a_clear_error() {
    let error = refusal(&"a = 1 OR ".repeat(120_000));
    assert!(error.expected.contains("at most 65536 bytes"), "{error}");
    assert_eq!(error.position, SELECTOR_BYTES_MAX);
}

#[test]
fn a_long_flat_selector_is_fine() {
    let terms: Vec<_> = (0..4000).map(|number| format!("a = {number}")).collect();
    check(&terms.join(" OR "));
}

#[test]
fn an_encoded_filter_nested_too_deeply_is_refused() {
    let mut bytes = vec![1];
    for _ in 0..10_000 {
        bytes.extend([2, 1]);
    }
    bytes.push(1);
    assert_eq!(Selector::decode(&bytes), Err(DecodeError::TooLarge));
    assert_eq!(Selector::decode(&vec![1; 1 << 20]), Err(DecodeError::TooLarge));
}
