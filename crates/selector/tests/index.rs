//! The index finds what evaluating each selector finds, whatever was added, removed and tuned before.

mod reference;

use std::collections::BTreeSet;

use proptest::prelude::*;
use reference::{Message, Tree, condition, message};
use shoal_selector::{Selector, SelectorIndex, Value};

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn subscribers_of(index: &mut SelectorIndex, message: &Message) -> BTreeSet<u64> {
    let matches = index.matches(message.as_slice());
    let filters: BTreeSet<_> = matches.filters().iter().collect();
    assert_eq!(filters.len(), matches.filters().len(), "a filter was reported twice");
    matches.subscribers().flat_map(|(_, subscribers)| subscribers.iter().copied()).collect()
}

fn expected(trees: &[(u64, &Tree)], message: &Message) -> BTreeSet<u64> {
    trees.iter().filter(|(_, tree)| tree.matches(message)).map(|(id, _)| *id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_index_agrees_with_the_reference(
        trees in prop::collection::vec(condition(), 1..24),
        messages in prop::collection::vec(message(), 1..8),
        evaluated_max in prop::sample::select(vec![0, 8]),
    ) {
        let mut index = SelectorIndex::new(7).evaluating_up_to(evaluated_max);
        let numbered: Vec<_> = (0..).zip(&trees).collect();
        for (id, tree) in &numbered {
            index.add(&parse(&tree.text()), *id);
        }
        for message in &messages {
            prop_assert_eq!(subscribers_of(&mut index, message), expected(&numbered, message), "{:?}", message);
        }
    }

    #[test]
    fn asking_for_single_filters_agrees_with_the_reference(
        trees in prop::collection::vec(condition(), 1..24),
        messages in prop::collection::vec(message(), 1..8),
        asked_max in prop::sample::select(vec![4, 100]),
    ) {
        let mut index = SelectorIndex::new(7).evaluating_up_to(8);
        let filters: Vec<_> =
            (0..).zip(&trees).map(|(id, tree)| (index.add(&parse(&tree.text()), id), tree)).collect();
        for message in &messages {
            let mut verdicts = index.ask(message.as_slice(), asked_max);
            for (filter, tree) in filters.iter().chain(&filters) {
                prop_assert_eq!(verdicts.accepts(*filter), tree.matches(message), "{:?}", message);
            }
        }
    }

    #[test]
    fn adding_removing_and_tuning_between_messages_changes_nothing_else(
        trees in prop::collection::vec(condition(), 1..16),
        steps in prop::collection::vec((0usize..16, any::<bool>(), message()), 1..64),
        evaluated_max in prop::sample::select(vec![0, 8]),
    ) {
        let mut index = SelectorIndex::new(7).evaluating_up_to(evaluated_max);
        let selectors: Vec<_> = trees.iter().map(|tree| parse(&tree.text())).collect();
        let mut live = BTreeSet::new();
        for (pick, tune, message) in &steps {
            let pick = pick % trees.len();
            // More messages than steps, so that samples are taken and tuning has something to go by.
            for _ in 0..9 {
                index.matches(message.as_slice());
            }
            if live.insert(pick) {
                index.add(&selectors[pick], pick as u64);
            } else {
                live.remove(&pick);
                prop_assert!(index.remove(&selectors[pick], pick as u64));
                prop_assert!(!index.remove(&selectors[pick], pick as u64));
            }
            if *tune {
                index.tune(3);
            }
            let numbered: Vec<_> = live.iter().map(|pick| (*pick as u64, &trees[*pick])).collect();
            prop_assert_eq!(subscribers_of(&mut index, message), expected(&numbered, message));
        }
        for pick in live {
            index.remove(&selectors[pick], pick as u64);
        }
        prop_assert!(index.is_empty());
        prop_assert!(subscribers_of(&mut index, &steps[0].2).is_empty());
    }
}

/// Numbers around the places where promotion to `float` and `double` rounds.
#[test]
fn numeric_ranges_agree_with_evaluation_for_every_type_and_around_every_rounding() {
    let longs = [
        -3,
        -1,
        0,
        1,
        2,
        3,
        16_777_215,
        16_777_216,
        16_777_217,
        16_777_219,
        1 << 53,
        (1 << 53) + 1,
        (1 << 53) + 3,
    ];
    let ends = [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX];
    let exact: Vec<i64> = longs.iter().flat_map(|v| [*v, -*v]).chain(ends).collect();
    let mut selectors = Vec::new();
    for (number, value) in exact.iter().enumerate() {
        let next = exact[(number + 5) % exact.len()];
        for op in ["=", "<>", "<", "<=", ">", ">="] {
            selectors.push(format!("x {op} {value}"));
            selectors.push(format!("x {op} {value:?}e0"));
        }
        selectors.push(format!("x BETWEEN {value} AND {next}"));
        selectors.push(format!("x > {value} AND x < {next}"));
        selectors.push(format!("x >= {value}.5 AND x < {next}.25"));
        selectors.push(format!("x = {value} AND x <> {next} AND x > -5f"));
    }
    let selectors: Vec<_> = selectors.iter().map(|text| parse(text)).collect();
    let mut index = SelectorIndex::new(7);
    for (id, selector) in (0..).zip(&selectors) {
        index.add(selector, id);
    }
    let mut messages = Vec::new();
    for value in &exact {
        messages.push(Value::Long(*value));
        for double in
            [*value as f64, *value as f64 + 0.5, (*value as f64).next_up(), (*value as f64).next_down()]
        {
            messages.extend([Value::Double(double), Value::Float(double as f32)]);
        }
    }
    messages.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0].map(Value::Double));
    messages.extend([
        Value::Byte(1),
        Value::Short(2),
        Value::Int(3),
        Value::Bool(true),
        Value::Str("1"),
        Value::Null,
    ]);
    for value in messages {
        let message = vec![("x", value)];
        let evaluated: BTreeSet<u64> = (0..)
            .zip(&selectors)
            .filter(|(_, selector)| selector.matches(message.as_slice()))
            .map(|(id, _)| id)
            .collect();
        assert_eq!(subscribers_of(&mut index, &message), evaluated, "{value:?}");
    }
}

#[test]
fn a_thousand_subscribers_with_two_filters_cost_two_evaluations() {
    for evaluated_max in [0, 8] {
        let mut index = SelectorIndex::new(7).evaluating_up_to(evaluated_max);
        let filters = [parse("region = 'EU' AND price > 10"), parse("price * 2 > 10")];
        for subscriber in 0..1000 {
            index.add(&filters[subscriber as usize % 2], subscriber);
        }
        assert_eq!(index.len(), 2);
        let message = vec![("region", Value::Str("EU")), ("price", Value::Int(20))];
        assert_eq!(subscribers_of(&mut index, &message).len(), 1000);
        assert_eq!(index.counters().evaluations, 2);
    }
}

#[test]
fn a_filter_asked_for_a_thousand_times_is_evaluated_once_and_others_never() {
    let mut index = SelectorIndex::new(7);
    let asked = index.add(&parse("region = 'EU'"), 0);
    index.add(&parse("region = 'US'"), 1);
    for message in 1..=3 {
        let attributes = [("region", Value::Str("EU"))];
        let mut verdicts = index.ask(&attributes, 1000);
        assert!((0..1000).all(|_| verdicts.accepts(asked)));
        assert_eq!(index.counters().evaluations, message);
        assert_eq!(index.counters().matches, message);
    }
}

#[test]
fn a_shared_predicate_is_evaluated_once_per_message() {
    let mut index = SelectorIndex::new(7);
    for number in 0..100 {
        index.add(&parse(&format!("group = 'g' AND name LIKE '%needle%' AND size > {number}")), number);
    }
    let message =
        vec![("group", Value::Str("g")), ("name", Value::Str("a needle in hay")), ("size", Value::Int(50))];
    for round in 1..=3 {
        assert_eq!(subscribers_of(&mut index, &message).len(), 50);
        assert_eq!(index.counters().predicates_evaluated, round);
    }
}

#[test]
fn a_message_that_opens_no_list_costs_no_evaluation() {
    let mut index = SelectorIndex::new(7);
    for number in 0..1000 {
        index.add(&parse(&format!("id = {number} OR name IN ('a{number}', 'b{number}')")), number);
    }
    assert!(subscribers_of(&mut index, &vec![("id", Value::Int(-1)), ("name", Value::Str("c"))]).is_empty());
    assert_eq!(index.counters().evaluations, 0);
    assert_eq!(subscribers_of(&mut index, &vec![("name", Value::Str("b7"))]), BTreeSet::from([7]));
    assert_eq!(index.counters().evaluations, 1);
}

#[test]
fn tuning_files_filters_under_what_turns_out_to_be_rare() {
    let mut index = SelectorIndex::new(7);
    for number in 0..200 {
        // Before any message, an equality looks rarer than a threshold; here it always holds.
        index.add(&parse(&format!("kind = 'same' AND size > {}", 1000 + number)), number);
    }
    let message = vec![("kind", Value::Str("same")), ("size", Value::Int(5))];
    for _ in 0..2000 {
        index.matches(message.as_slice());
    }
    let before = index.counters().evaluations;
    index.tune(200);
    index.matches(message.as_slice());
    assert_eq!(index.counters().evaluations, before, "no filter is looked at any more");
}

#[test]
fn removing_everything_frees_everything_but_the_buffers() {
    let mut index = SelectorIndex::new(7);
    let selectors: Vec<_> = (0..500)
        .map(|n| {
            parse(&format!("a{n} = {n} AND b LIKE 'p{n}%' AND c IN ('x{n}', 'y') OR d > {n} AND e IS NULL"))
        })
        .collect();
    for (id, selector) in (0..).zip(&selectors) {
        index.add(selector, id);
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let full = index.heap_bytes();
        for (id, selector) in (0..).zip(&selectors) {
            assert!(index.remove(selector, id));
        }
        assert!(index.is_empty() && index.heap_bytes() < full);
        for (id, selector) in (0..).zip(&selectors) {
            index.add(selector, id);
        }
        sizes.push(index.heap_bytes());
    }
    assert_eq!(sizes[1], sizes[2], "places are used again");
}

/// Long lists, long prefixes, several bounds of one attribute, and `float`s that promotion rounds literals
/// to.
#[test]
fn what_guards_and_tests_decide_agrees_with_evaluation() {
    const SEED: u64 = 11;
    println!("seed {SEED}");
    let mut rng = fastrand::Rng::with_seed(SEED);
    let stem = "a prefix of more than sixty-three bytes, which is where the index stops keeping all of one";
    let text = |rng: &mut fastrand::Rng| match rng.u8(..3) {
        0 => format!("v{}", rng.u8(..40)),
        1 => stem[..rng.usize(1..stem.len())].to_owned(),
        _ => format!("{stem}{}", rng.u8(..3)),
    };
    let number = |rng: &mut fastrand::Rng| match rng.u8(..3) {
        0 => rng.i64(-5..5),
        1 => 16_777_216 + rng.i64(-4..4),
        _ => (1 << 53) + rng.i64(-4..4),
    };
    let predicate = |rng: &mut fastrand::Rng| {
        let name = ["s", "t", "n", "m"][rng.usize(..4)];
        match rng.u8(..5) {
            0 => {
                let texts: Vec<_> = (0..rng.usize(1..9)).map(|_| format!("'{}'", text(rng))).collect();
                format!("{name} IN ({})", texts.join(","))
            }
            1 => format!("{name} LIKE '{}%'", text(rng)),
            2 => format!("{name} = '{}'", text(rng)),
            3 => format!("{name} {} {}", [">", ">=", "<", "<=", "="][rng.usize(..5)], number(rng)),
            _ => format!("{name} {} {}.5", [">", ">=", "<", "<="][rng.usize(..4)], rng.i8(-5..5)),
        }
    };
    let selectors: Vec<_> = (0..400)
        .map(|_| {
            let predicates: Vec<_> = (0..rng.usize(1..5)).map(|_| predicate(&mut rng)).collect();
            parse(&predicates.join(" AND "))
        })
        .collect();
    let mut index = SelectorIndex::new(7);
    for (id, selector) in (0..).zip(&selectors) {
        index.add(selector, id);
    }
    let mut matched = 0;
    for round in 0..600 {
        let (s, t) = (text(&mut rng), text(&mut rng));
        let numbers = [number(&mut rng), number(&mut rng)].map(|value| match rng.u8(..4) {
            0 => Value::Long(value),
            1 => Value::Int(value as i32),
            2 => Value::Float(value as f32),
            _ => Value::Double(value as f64 + if rng.bool() { 0.5 } else { 0.0 }),
        });
        let message = [("s", Value::Str(&s)), ("t", Value::Str(&t)), ("n", numbers[0]), ("m", numbers[1])];
        let matches = index.matches(&message);
        let found: BTreeSet<u64> = matches.subscribers().flat_map(|(_, all)| all.iter().copied()).collect();
        let evaluated: BTreeSet<u64> = (0..)
            .zip(&selectors)
            .filter(|(_, selector)| selector.matches(&message))
            .map(|(id, _)| id)
            .collect();
        assert_eq!(found, evaluated, "{message:?}");
        matched += found.len();
        if round % 50 == 49 {
            index.tune(100);
        }
    }
    assert!(matched > 1000, "too few matches to show anything: {matched}");
}
