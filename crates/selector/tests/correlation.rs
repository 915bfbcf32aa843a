//! Correlation-ID filters: single IDs, sets and ranges.

use proptest::prelude::*;
use shoal_selector::{CorrelationFilter, CorrelationIndex, DecodeError};

fn filter(text: &str) -> CorrelationFilter {
    CorrelationFilter::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn refusal(text: &str) -> String {
    CorrelationFilter::parse(text).expect_err("refused").expected
}

#[test]
fn a_range_takes_in_its_ends_and_the_numbers_between() {
    let range = filter("[#7;#13]");
    for id in ["#7", "#8", "#10", "#13", "#007"] {
        assert!(range.matches(id), "{id}");
    }
    for id in ["#6", "#14", "#70", "#1", "7", "#", "##7", "#7x", "# 7", ""] {
        assert!(!range.matches(id), "{id}");
    }
}

#[test]
fn sets_and_ranges_are_separated_by_commas() {
    let set = filter("a, [x-1;x-3] ,'b, c'");
    for id in ["a", "x-2", "b, c"] {
        assert!(set.matches(id), "{id}");
    }
    assert!(!set.matches("b") && !set.matches("x-4"));
    assert_eq!(set.to_string(), "a, 'b, c', [x-1;x-3]");
}

#[test]
fn a_range_without_numbers_goes_by_bytes() {
    let range = filter("[apple;cherry]");
    assert!(range.matches("banana") && range.matches("apple") && range.matches("cherry"));
    assert!(!range.matches("cherryx") && !range.matches("Banana") && !range.matches("banana7"));
}

#[test]
fn numbers_longer_than_a_machine_word_are_compared_by_value() {
    let range = filter(&format!("[9;1{}]", "0".repeat(100)));
    assert!(
        range.matches("10")
            && range.matches(&"9".repeat(100))
            && !range.matches(&format!("1{}1", "0".repeat(99)))
    );
}

#[test]
fn ids_may_have_128_bytes_and_not_more() {
    assert!(filter(&"x".repeat(128)).matches(&"x".repeat(128)));
    assert!(refusal(&"x".repeat(129)).contains("128 bytes"));
}

#[test]
fn what_is_no_filter_is_refused_with_a_reason() {
    assert_eq!(refusal(""), "a correlation ID");
    assert_eq!(refusal("a,"), "a correlation ID");
    assert_eq!(refusal("[#1;#2"), "']'");
    assert_eq!(refusal("[#1]"), "';' and the upper end of the range");
    assert_eq!(refusal("a b"), "',' or the end");
    for text in ["[#13;#7]", "[#1;$2]", "[#1;b]", "[b;a]"] {
        assert!(refusal(text).contains("a lower and an upper end"), "{text}");
    }
    assert!(refusal("'a").contains("closing quote"));
    assert!(refusal(&"a,".repeat(1_000_000)).contains("at most"));
    assert!(refusal(&"a,".repeat(5000)).contains("at most 4096"));
}

fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        "[#ab]{1,2}[0-9]{0,2}",
        ("[#a]{1}", 0u32..30, 0u32..30).prop_map(|(p, a, b)| format!("[{p}{};{p}{}]", a.min(b), a.max(b))),
        "'[a ,;]{1,3}'",
        ("[a-c]{1,2}", "[d-f]{1,2}").prop_map(|(a, b)| format!("[{a};{b}]")),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(item(), 1..5).prop_map(|items| items.join(","))
}

proptest! {
    #[test]
    fn text_and_wire_form_bring_back_the_same_filter(text in text()) {
        let filter = filter(&text);
        prop_assert_eq!(CorrelationFilter::parse(&filter.to_string()).unwrap(), filter.clone());
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        prop_assert_eq!(CorrelationFilter::decode(&bytes).unwrap(), filter);
    }

    #[test]
    fn the_index_agrees_with_asking_each_filter(
        texts in prop::collection::vec(text(), 1..12),
        removed in prop::collection::vec(any::<bool>(), 12),
        ids in prop::collection::vec("[#a-f]{1,2}[0-9]{0,2}", 1..8),
    ) {
        let filters: Vec<_> = texts.iter().map(|text| filter(text)).collect();
        let mut index = CorrelationIndex::new(3);
        for (subscriber, filter) in (0..).zip(&filters) {
            index.add(filter, subscriber);
        }
        for (subscriber, filter) in (0..).zip(&filters).filter(|(subscriber, _)| removed[*subscriber as usize]) {
            index.remove(filter, subscriber);
        }
        for id in &ids {
            let expected: Vec<u64> = (0..)
                .zip(&filters)
                .filter(|(subscriber, filter)| !removed[*subscriber as usize] && filter.matches(id))
                .map(|(subscriber, _)| subscriber)
                .collect();
            prop_assert_eq!(index.matches(id), expected, "{}", id);
        }
    }

    #[test]
    fn random_text_and_bytes_never_panic(text in ".{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = CorrelationFilter::parse(&text);
        let _ = CorrelationFilter::decode(&bytes);
    }
}

#[test]
fn an_encoded_filter_with_nothing_in_it_is_refused() {
    assert_eq!(CorrelationFilter::decode(&[1, 0, 0, 0]), Err(DecodeError::InvalidOperand));
    assert_eq!(CorrelationFilter::decode(&[9]), Err(DecodeError::UnknownVersion(9)));
}
