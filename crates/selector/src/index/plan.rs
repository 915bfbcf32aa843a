//! Where a filter is filed: under which predicate, with which tests beside it, and what is left to evaluate.
//!
//! A filter is cut into branches, the operands of its top `OR`. Each branch is filed under a *cover*: a set
//! of predicates of which at least one holds whenever the branch does. The cover of a conjunction is the
//! cheapest cover of its operands, that of a disjunction the covers of all of them; its cost is how often it
//! is expected to be opened.

use std::sync::Arc;

use crate::ast::ComparisonOp;
use crate::condition::{Condition, Leaf, Literal, Name, Operand, Predicate};
use crate::index::attribute::{Attribute, PREFIX_BYTES_MAX, bins};
use crate::index::hash::SeededMap;
use crate::index::posting::{Access, TESTS_MAX};
use crate::index::range::Range;
use crate::index::slab::Slab;
use crate::index::slots::Slot;
use crate::like::Pattern;

/// Pairs of bounds are looked for among this many operands of a conjunction.
const PAIRED_OPERANDS_MAX: usize = 32;

/// A longer disjunction inside a conjunction is not used as a cover.
const COVERED_OPERANDS_MAX: usize = 256;

/// How a branch is filed.
#[derive(Debug)]
pub(crate) struct BranchPlan {
    pub accesses: Vec<Access>,
    /// The one that is expected to fail most often first.
    pub tests: Vec<PlannedTest>,
    /// What must hold besides, the least likely first.
    pub rest: Vec<Condition>,
}

/// A test before its texts have numbers.
#[derive(Debug, Clone)]
pub(crate) enum PlannedTest {
    Range { slot: Slot, range: Range },
    Texts { slot: Slot, texts: Vec<Arc<str>> },
    Prefix { slot: Slot, bytes: Box<[u8]> },
    Bool { slot: Slot, value: bool },
}

impl PlannedTest {
    /// The bytes of a prefix, which its test knows by number only.
    pub(crate) fn head(&self) -> Box<[u8]> {
        match self {
            Self::Prefix { bytes, .. } => bytes.clone(),
            _ => Box::default(),
        }
    }
}

#[derive(Debug)]
struct Cover {
    cost: f64,
    accesses: Vec<Access>,
    /// What must be tested because the accesses are wider than their predicates, and how often the test is
    /// passed.
    test: Option<(f64, PlannedTest)>,
    /// The operands that are true once an access was opened and the tests were passed.
    decided: Vec<usize>,
}

pub(crate) struct Planner<'a> {
    pub slots: &'a SeededMap<Name, Slot>,
    pub attributes: &'a Slab<Attribute>,
}

impl Planner<'_> {
    /// The branches of a filter; none for a filter that never matches.
    pub(crate) fn branches(&self, condition: &Condition) -> Vec<BranchPlan> {
        match condition {
            Condition::Constant(false) => Vec::new(),
            Condition::Any(parts) => parts.iter().map(|part| self.branch(part)).collect(),
            other => vec![self.branch(other)],
        }
    }

    fn branch(&self, condition: &Condition) -> BranchPlan {
        let operands = operands(condition);
        let cover = self.cover(operands);
        let undecided = operands.iter().enumerate().filter(|(index, _)| !cover.decided.contains(index));
        let mut left: Vec<(f64, &Condition)> =
            undecided.map(|(_, operand)| (self.likelihood(operand), operand)).collect();
        left.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut tests: Vec<(f64, PlannedTest)> = cover.test.into_iter().collect();
        let mut rest = Vec::new();
        for (likelihood, operand) in left {
            match operand {
                Condition::Constant(true) => {}
                Condition::Leaf(leaf) => match self.test(leaf) {
                    Some(test) if joined(&mut tests, &test) => {}
                    Some(test) if tests.len() < TESTS_MAX => tests.push((likelihood, test)),
                    _ => rest.push(operand.clone()),
                },
                _ => rest.push(operand.clone()),
            }
        }
        tests.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let tests = tests.into_iter().map(|(_, test)| test).collect();
        BranchPlan { accesses: cover.accesses, tests, rest }
    }

    /// The cheapest cover of a conjunction.
    fn cover(&self, operands: &[Condition]) -> Cover {
        let mut best = Cover { cost: 1.0, accesses: vec![Access::Always], test: None, decided: Vec::new() };
        let mut offer = |cover: Option<Cover>| {
            if let Some(cover) = cover
                && cover.cost < best.cost
            {
                best = cover;
            }
        };
        for (index, operand) in operands.iter().enumerate() {
            match operand {
                Condition::Leaf(leaf) => offer(self.leaf_cover(index, leaf)),
                Condition::Any(parts) if parts.len() <= COVERED_OPERANDS_MAX => {
                    offer(Some(self.any_cover(index, parts)));
                }
                Condition::Any(_) | Condition::Constant(_) | Condition::All(_) => {}
            }
        }
        let ranged: Vec<_> =
            operands.iter().enumerate().filter_map(ranged_leaf).take(PAIRED_OPERANDS_MAX).collect();
        for (number, a) in ranged.iter().enumerate() {
            for b in &ranged[number + 1..] {
                offer(self.pair_cover(a, b));
            }
        }
        best
    }

    fn any_cover(&self, index: usize, parts: &[Condition]) -> Cover {
        let mut whole = Cover { cost: 0.0, accesses: Vec::new(), test: None, decided: vec![index] };
        for part in parts {
            let operands = operands(part);
            let cover = self.cover(operands);
            whole.cost += cover.cost;
            if cover.decided.len() < operands.len() || cover.test.is_some() {
                whole.decided.clear();
            }
            for access in cover.accesses {
                if !whole.accesses.contains(&access) {
                    whole.accesses.push(access);
                }
            }
        }
        whole
    }

    fn leaf_cover(&self, index: usize, leaf: &Leaf) -> Option<Cover> {
        let slot = self.slot(required_name(&leaf.predicate)?)?;
        let cost = self.leaf_likelihood(leaf);
        let exact = |accesses| Cover { cost, accesses, test: None, decided: vec![index] };
        let present = || {
            let cost = self.presence(slot);
            Cover { cost, accesses: vec![Access::Present { slot }], test: None, decided: Vec::new() }
        };
        if leaf.negated {
            return Some(match leaf.predicate {
                Predicate::IsNull { .. } => exact(vec![Access::Present { slot }]),
                _ => present(),
            });
        }
        Some(match &leaf.predicate {
            Predicate::IsNull { .. } => exact(vec![Access::Absent { slot }]),
            Predicate::Compare { op: ComparisonOp::Equal, literal: Literal::Text(text), .. } => {
                exact(vec![Access::Text { slot, text: (&**text).into() }])
            }
            Predicate::Compare { op: ComparisonOp::Equal, literal: Literal::Bool(value), .. } => {
                exact(vec![Access::Bool { slot, value: *value }])
            }
            Predicate::Compare { op, literal, .. } => match Range::of(*op, literal) {
                Some(range) => range_cover(cost, slot, range, vec![index]),
                None => present(),
            },
            Predicate::In { values, .. } => {
                exact(values.iter().map(|value| Access::Text { slot, text: (&**value).into() }).collect())
            }
            Predicate::Like { pattern, .. } if !pattern.prefix().is_empty() => {
                let prefix = pattern.prefix().as_bytes();
                let bytes = prefix[..prefix.len().min(PREFIX_BYTES_MAX)].into();
                let decided = if is_indexed_prefix(pattern) { vec![index] } else { Vec::new() };
                Cover { cost, accesses: vec![Access::Prefix { slot, bytes }], test: None, decided }
            }
            Predicate::Like { .. } | Predicate::Relation { .. } => present(),
        })
    }

    fn pair_cover(&self, a: &RangedLeaf<'_>, b: &RangedLeaf<'_>) -> Option<Cover> {
        if a.name != b.name {
            return None;
        }
        let range = a.range.joined(b.range)?;
        let slot = self.slot(a.name)?;
        let attribute = self.attributes.get(slot)?;
        let cost = attribute.sample.estimate(&[a.leaf, b.leaf], PRIOR_INTERVAL);
        Some(range_cover(cost, slot, range, vec![a.index, b.index]))
    }

    /// The test that says the same as the predicate.
    fn test(&self, leaf: &Leaf) -> Option<PlannedTest> {
        if leaf.negated {
            return None;
        }
        match &leaf.predicate {
            Predicate::Compare { name, op: ComparisonOp::Equal, literal: Literal::Text(text) } => {
                Some(PlannedTest::Texts { slot: self.slot(name)?, texts: vec![text.clone()] })
            }
            Predicate::Compare { name, op: ComparisonOp::Equal, literal: Literal::Bool(value) } => {
                Some(PlannedTest::Bool { slot: self.slot(name)?, value: *value })
            }
            Predicate::Compare { name, op, literal } => {
                Some(PlannedTest::Range { slot: self.slot(name)?, range: Range::of(*op, literal)? })
            }
            Predicate::In { name, values } => {
                Some(PlannedTest::Texts { slot: self.slot(name)?, texts: values.clone() })
            }
            Predicate::Like { name, pattern } if is_indexed_prefix(pattern) => {
                let bytes = pattern.prefix().as_bytes().into();
                Some(PlannedTest::Prefix { slot: self.slot(name)?, bytes })
            }
            _ => None,
        }
    }

    fn slot(&self, name: &Name) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// How often the operand is expected to hold.
    fn likelihood(&self, operand: &Condition) -> f64 {
        match operand {
            Condition::Constant(value) => f64::from(u8::from(*value)),
            Condition::Leaf(leaf) => self.leaf_likelihood(leaf),
            Condition::All(parts) => parts.iter().map(|part| self.likelihood(part)).product(),
            Condition::Any(parts) => parts.iter().map(|part| self.likelihood(part)).sum::<f64>().min(1.0),
        }
    }

    fn leaf_likelihood(&self, leaf: &Leaf) -> f64 {
        let attribute = attribute_name(&leaf.predicate)
            .and_then(|name| self.slot(name))
            .and_then(|slot| self.attributes.get(slot));
        let Some(attribute) = attribute else {
            return PRIOR_RELATION;
        };
        let prior = prior(&leaf.predicate, attribute);
        attribute.sample.estimate(&[leaf], if leaf.negated { 1.0 - prior } else { prior })
    }

    fn presence(&self, slot: Slot) -> f64 {
        let Some(attribute) = self.attributes.get(slot) else {
            return PRIOR_PRESENT;
        };
        let predicate = Predicate::IsNull { name: attribute.name.clone() };
        attribute.sample.estimate(&[&Leaf { predicate, negated: true }], PRIOR_PRESENT)
    }
}

// How often predicates hold before any message was seen. Only their order matters.
const PRIOR_INTERVAL: f64 = 0.1;
const PRIOR_THRESHOLD: f64 = 0.4;
const PRIOR_EXACT_EQUALITY: f64 = 0.02;
const PRIOR_LIKE: f64 = 0.2;
const PRIOR_PRESENT: f64 = 0.9;
const PRIOR_RELATION: f64 = 0.5;
/// How much of its bins a range fills, on average.
const BIN_PASSED: f64 = 0.35;

fn prior(predicate: &Predicate, attribute: &Attribute) -> f64 {
    let one_text = || 1.0 / (attribute.texts.len() as f64 + 8.0);
    match predicate {
        Predicate::Compare { op: ComparisonOp::Equal, literal, .. } => match literal {
            Literal::Text(_) => one_text(),
            Literal::Bool(_) => 0.5,
            Literal::Number(_) => PRIOR_EXACT_EQUALITY,
        },
        Predicate::Compare { op: ComparisonOp::NotEqual, .. } => 1.0 - PRIOR_EXACT_EQUALITY,
        Predicate::Compare { .. } => PRIOR_THRESHOLD,
        Predicate::In { values, .. } => (one_text() * values.len() as f64).min(0.9),
        Predicate::Like { pattern, .. } => PRIOR_LIKE / (1.0 + pattern.prefix().len() as f64),
        Predicate::IsNull { .. } => 1.0 - PRIOR_PRESENT,
        Predicate::Relation { .. } => PRIOR_RELATION,
    }
}

fn operands(condition: &Condition) -> &[Condition] {
    match condition {
        Condition::All(parts) => parts,
        other => std::slice::from_ref(other),
    }
}

/// Makes a lower and an upper bound of the same attribute one test; returns whether there was another bound.
fn joined(tests: &mut [(f64, PlannedTest)], test: &PlannedTest) -> bool {
    let PlannedTest::Range { slot, range } = test else { return false };
    for (_, known) in tests {
        if let PlannedTest::Range { slot: same, range: other } = known
            && same == slot
            && let Some(both) = other.joined(*range)
        {
            *other = both;
            return true;
        }
    }
    false
}

/// Whether the pattern asks for a prefix and nothing else, and the index keeps all of it.
fn is_indexed_prefix(pattern: &Pattern) -> bool {
    pattern.is_prefix_only() && (1..=PREFIX_BYTES_MAX).contains(&pattern.prefix().len())
}

/// The attribute, of a predicate on one attribute.
fn attribute_name(predicate: &Predicate) -> Option<&Name> {
    match predicate {
        Predicate::Compare { name, .. }
        | Predicate::In { name, .. }
        | Predicate::Like { name, .. }
        | Predicate::IsNull { name } => Some(name),
        Predicate::Relation { .. } => None,
    }
}

/// An attribute without which the predicate, negated or not, is never true (`IS NULL` aside).
fn required_name(predicate: &Predicate) -> Option<&Name> {
    match predicate {
        Predicate::Relation { left, right, .. } => required_operand(left).or_else(|| required_operand(right)),
        other => attribute_name(other),
    }
}

fn required_operand(operand: &Operand) -> Option<&Name> {
    match operand {
        Operand::Name(name) => Some(name),
        Operand::Sign { operand, .. } => required_operand(operand),
        Operand::Arithmetic { left, right, .. } => required_operand(left).or_else(|| required_operand(right)),
        // A condition can be true or false whatever is null in it.
        Operand::Condition(_) | Operand::Literal(_) => None,
    }
}

struct RangedLeaf<'a> {
    index: usize,
    leaf: &'a Leaf,
    name: &'a Name,
    range: Range,
}

fn ranged_leaf((index, operand): (usize, &Condition)) -> Option<RangedLeaf<'_>> {
    match operand {
        Condition::Leaf(
            leaf @ Leaf { predicate: Predicate::Compare { name, op, literal }, negated: false },
        ) => Some(RangedLeaf { index, leaf, name, range: Range::of(*op, literal)? }),
        _ => None,
    }
}

fn range_cover(cost: f64, slot: Slot, range: Range, decided: Vec<usize>) -> Cover {
    let domain = range.domain();
    let accesses = match range.keys() {
        (Some(low), Some(high)) if low > high => Vec::new(),
        (Some(low), Some(high)) => {
            let (level, first, last) = bins(low, high);
            (first..=last).map(|bin| Access::Bin { slot, domain, level, bin }).collect()
        }
        (Some(key), None) => vec![Access::Above { slot, domain, key }],
        (None, Some(key)) => vec![Access::Below { slot, domain, key }],
        (None, None) => vec![Access::Present { slot }],
    };
    let passed = if matches!(*accesses, [Access::Bin { .. }, ..]) { BIN_PASSED } else { 1.0 };
    Cover { cost, accesses, test: Some((passed, PlannedTest::Range { slot, range })), decided }
}
