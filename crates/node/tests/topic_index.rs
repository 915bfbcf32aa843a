//! The index against asking every pattern.

use std::collections::BTreeSet;

use proptest::prelude::*;
use shoal_node::TopicIndex;
use shoal_wire::{Topic, TopicPattern};

#[derive(Debug, Clone)]
enum Step {
    Insert(String, u8),
    /// Of those inserted before, by position.
    Remove(prop::sample::Index),
    Match(String),
}

fn topic() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ab_](/[abc_]){0,4}", 1 => "[ab]=[abc](,[ab]=[abc]){0,2}"]
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "([ab_]|\\*)(/([abc_]|\\*)){0,3}(/>)?",
        1 => "[ab]=([abc]|\\*)(,[ab]=([abc]|\\*)){0,1}(,>)?",
        1 => Just(">".to_owned()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (pattern(), 0..8u8).prop_map(|(text, id)| Step::Insert(text, id)),
        any::<prop::sample::Index>().prop_map(Step::Remove),
        topic().prop_map(Step::Match),
    ]
}

/// The pattern in its one spelling, so that `a=b` and `a/b` of one subscription count as the same.
fn key(text: &str, id: u8) -> (String, u8) {
    (TopicPattern::new(text).unwrap().with_slashes(), id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_index_finds_what_asking_every_pattern_finds(steps in prop::collection::vec(step(), 1..80)) {
        let mut index = TopicIndex::new(7);
        let mut present: BTreeSet<(String, u8)> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Insert(text, id) => {
                    let inserted = index.insert(&TopicPattern::new(&text).unwrap(), id);
                    prop_assert_eq!(inserted, present.insert(key(&text, id)));
                }
                Step::Remove(which) => {
                    let Some((text, id)) = (!present.is_empty())
                        .then(|| present.iter().nth(which.index(present.len())).unwrap().clone())
                    else { continue };
                    prop_assert!(index.remove(&TopicPattern::new(&text).unwrap(), id));
                    present.remove(&(text, id));
                }
                Step::Match(text) => {
                    let topic = Topic::new(&text).unwrap();
                    let expected: BTreeSet<u8> = present
                        .iter()
                        .filter(|(pattern, _)| TopicPattern::new(pattern).unwrap().matches(topic))
                        .map(|&(_, id)| id)
                        .collect();
                    let expected: Vec<u8> = expected.into_iter().collect();
                    for _ in 0..2 {
                        prop_assert_eq!(index.matching(text.as_bytes()).unwrap(), &expected);
                    }
                }
            }
            prop_assert_eq!(index.len(), present.len());
        }
    }
}
