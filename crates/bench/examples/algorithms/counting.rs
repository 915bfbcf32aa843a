//! The counting algorithm, for comparison: every predicate is indexed, and a conjunction matches when as many
//! of its predicates hold as it has. Enough of it for the conjunctions of the workload.

use std::collections::HashMap;

use shoal_selector::condition::{Condition, Leaf, Literal, Predicate};
use shoal_selector::{Attributes, ComparisonOp, Number, Selector, Value};

type PredicateId = usize;

#[derive(Default)]
struct AttributeIndex {
    texts: HashMap<String, Vec<PredicateId>>,
    prefixes: HashMap<String, Vec<PredicateId>>,
    prefix_lengths: Vec<usize>,
    /// Thresholds that a value must not be below, and not be above, sorted.
    lows: Vec<(f64, PredicateId)>,
    highs: Vec<(f64, PredicateId)>,
}

#[derive(Default)]
pub struct Counting {
    attributes: HashMap<String, AttributeIndex>,
    predicates: HashMap<Leaf, PredicateId>,
    /// The conjunctions that contain each predicate.
    conjunctions: Vec<Vec<u32>>,
    needed: Vec<u32>,
    counts: Vec<(u32, u32)>,
    epoch: u32,
    /// Counters incremented so far.
    pub increments: u64,
}

impl Counting {
    pub fn new(selectors: &[Selector]) -> Self {
        let mut counting = Self::default();
        for (number, selector) in (0..).zip(selectors) {
            let parts = match selector.condition() {
                Condition::All(parts) => parts.as_slice(),
                other => std::slice::from_ref(other),
            };
            for part in parts {
                let Condition::Leaf(leaf) = part else { panic!("the workload has conjunctions only") };
                let predicate = counting.predicate(leaf);
                counting.conjunctions[predicate].push(number);
            }
            counting.needed.push(parts.len() as u32);
        }
        counting.counts = vec![(0, 0); selectors.len()];
        for index in counting.attributes.values_mut() {
            index.lows.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
            index.highs.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
            index.prefix_lengths.sort_unstable();
            index.prefix_lengths.dedup();
        }
        counting
    }

    fn predicate(&mut self, leaf: &Leaf) -> PredicateId {
        if let Some(id) = self.predicates.get(leaf) {
            return *id;
        }
        let id = self.conjunctions.len();
        self.conjunctions.push(Vec::new());
        self.predicates.insert(leaf.clone(), id);
        match &leaf.predicate {
            Predicate::Compare { name, op, literal } => {
                let index = self.attributes.entry(name.to_string()).or_default();
                match literal {
                    Literal::Text(text) => index.texts.entry(text.to_string()).or_default().push(id),
                    Literal::Number(number) => add_threshold(index, *op, *number, id),
                    Literal::Bool(_) => panic!("the workload has no booleans"),
                }
            }
            Predicate::In { name, values } => {
                let index = self.attributes.entry(name.to_string()).or_default();
                for value in values {
                    index.texts.entry(value.to_string()).or_default().push(id);
                }
            }
            Predicate::Like { name, pattern } => {
                let index = self.attributes.entry(name.to_string()).or_default();
                index.prefixes.entry(pattern.prefix().to_owned()).or_default().push(id);
                index.prefix_lengths.push(pattern.prefix().len());
            }
            other => panic!("the workload has no {other:?}"),
        }
        id
    }

    /// How many selectors match.
    pub fn matches<A: Attributes>(&mut self, message: &A) -> usize {
        self.epoch += 1;
        let mut matched = 0;
        let (attributes, conjunctions) = (&self.attributes, &self.conjunctions);
        let (counts, needed, epoch) = (&mut self.counts, &self.needed, self.epoch);
        let increments = &mut self.increments;
        let mut satisfied = |predicate: PredicateId| {
            for conjunction in &conjunctions[predicate] {
                let count = &mut counts[*conjunction as usize];
                *count = if count.0 == epoch { (epoch, count.1 + 1) } else { (epoch, 1) };
                *increments += 1;
                matched += usize::from(count.1 == needed[*conjunction as usize]);
            }
        };
        message.visit(&mut |name, value| {
            let Some(index) = attributes.get(name) else { return };
            match value {
                Value::Str(text) => {
                    index.texts.get(text).into_iter().flatten().for_each(|id| satisfied(*id));
                    for length in &index.prefix_lengths {
                        let found = text.get(..*length).and_then(|prefix| index.prefixes.get(prefix));
                        found.into_iter().flatten().for_each(|id| satisfied(*id));
                    }
                }
                Value::Long(value) => pass_thresholds(index, value as f64, &mut satisfied),
                Value::Double(value) => pass_thresholds(index, value, &mut satisfied),
                other => panic!("the workload has no {other:?}"),
            }
        });
        matched
    }
}

fn add_threshold(index: &mut AttributeIndex, op: ComparisonOp, number: Number, id: PredicateId) {
    let value = match number {
        Number::Long(value) => value as f64,
        Number::Double(value) => value,
        other => panic!("the workload has no {other:?}"),
    };
    match op {
        ComparisonOp::GreaterOrEqual => index.lows.push((value, id)),
        ComparisonOp::Greater => index.lows.push((value.next_up(), id)),
        ComparisonOp::LessOrEqual => index.highs.push((value, id)),
        ComparisonOp::Less => index.highs.push((value.next_down(), id)),
        other => panic!("the workload has no {other:?} of numbers"),
    }
}

fn pass_thresholds(index: &AttributeIndex, value: f64, satisfied: &mut impl FnMut(PredicateId)) {
    index.lows.iter().take_while(|(low, _)| *low <= value).for_each(|(_, id)| satisfied(*id));
    index.highs.iter().take_while(|(high, _)| *high >= value).for_each(|(_, id)| satisfied(*id));
}
