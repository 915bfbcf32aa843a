//! Random selectors over random messages, against the reference evaluator.

mod reference;

use proptest::prelude::*;
use reference::{condition, message};
use shoal_selector::{Selector, Truth};

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn evaluation_agrees_with_the_reference(tree in condition(), messages in prop::collection::vec(message(), 4)) {
        let selector = parse(&tree.text());
        for message in &messages {
            let expected = tree.truth(message);
            let found = match selector.condition().truth(message.as_slice()) {
                Truth::True => Some(true),
                Truth::False => Some(false),
                Truth::Unknown => None,
            };
            prop_assert_eq!(found, expected, "{} over {:?}", tree.text(), message);
            prop_assert_eq!(selector.matches(message.as_slice()), expected == Some(true));
        }
    }

    #[test]
    fn the_printed_canonical_form_is_its_own_canonical_form(tree in condition()) {
        let selector = parse(&tree.text());
        let printed = selector.to_string();
        prop_assert_eq!(&parse(&printed), &selector, "{}", printed);
        prop_assert_eq!(parse(&printed).to_string(), printed);
    }

    #[test]
    fn the_wire_form_brings_back_the_same_selector(tree in condition()) {
        let selector = parse(&tree.text());
        let mut bytes = Vec::new();
        selector.encode(&mut bytes);
        prop_assert_eq!(Selector::decode(&bytes).unwrap(), selector);
    }

    #[test]
    fn a_merged_selector_matches_what_any_of_its_parts_matches(
        trees in prop::collection::vec(condition(), 1..5),
        message in message(),
    ) {
        let selectors: Vec<_> = trees.iter().map(|tree| parse(&tree.text())).collect();
        let merged = Selector::any_of(&selectors);
        let expected = trees.iter().any(|tree| tree.matches(&message));
        prop_assert_eq!(merged.matches(message.as_slice()), expected, "{}", merged);
    }
}
