//! Random selectors and messages with a known match rate, to measure with.
//!
//! Messages have 25 properties of four kinds. A selector is a conjunction of one to five predicates; the
//! match rate is split at random between them, so that some have one rare predicate and others only common
//! ones.

use std::collections::HashSet;

use fastrand::Rng;
use shoal_selector::index::hash::{Seed, SeededMap};
use shoal_selector::{Attributes, Selector, Value};

/// How many different texts each of the properties `c0` … `c10` has.
const CARDINALITIES: [u32; 11] = [2, 5, 10, 20, 50, 100, 100, 1000, 1000, 10_000, 10_000];
/// Properties `t0` … : texts of random digits, for `LIKE`.
const DIGIT_TEXTS: u32 = 4;
const DIGITS: usize = 8;
/// Properties `n0` … : whole numbers below [`WHOLE_MAX`].
const WHOLE_NUMBERS: u32 = 6;
const WHOLE_MAX: i64 = 1_000_000;
/// Properties `d0` … : numbers between 0 and 1.
const FRACTIONS: u32 = 4;

/// A message that is ready to be matched.
#[derive(Debug, Clone)]
pub struct Message {
    attributes: SeededMap<String, Property>,
}

#[derive(Debug, Clone)]
enum Property {
    Text(String),
    Whole(i64),
    Fraction(f64),
}

impl Property {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Text(text) => Value::Str(text),
            Self::Whole(value) => Value::Long(*value),
            Self::Fraction(value) => Value::Double(*value),
        }
    }
}

impl Attributes for Message {
    fn get(&self, name: &str) -> Value<'_> {
        self.attributes.get(name).map_or(Value::Null, Property::value)
    }

    fn visit<'a>(&'a self, visitor: &mut dyn FnMut(&'a str, Value<'a>)) {
        for (name, property) in &self.attributes {
            visitor(name, property.value());
        }
    }
}

/// A message with all 25 properties.
pub fn message(rng: &mut Rng) -> Message {
    let mut attributes = SeededMap::with_hasher(Seed(rng.u64(..)));
    for (number, cardinality) in CARDINALITIES.into_iter().enumerate() {
        attributes.insert(format!("c{number}"), Property::Text(format!("v{}", rng.u32(..cardinality))));
    }
    for number in 0..DIGIT_TEXTS {
        attributes.insert(format!("t{number}"), Property::Text(digits(rng, DIGITS)));
    }
    for number in 0..WHOLE_NUMBERS {
        attributes.insert(format!("n{number}"), Property::Whole(rng.i64(0..WHOLE_MAX)));
    }
    for number in 0..FRACTIONS {
        attributes.insert(format!("d{number}"), Property::Fraction(rng.f64()));
    }
    Message { attributes }
}

/// `count` different selectors of which each matches about the share `rate` of the messages.
pub fn selectors(rng: &mut Rng, count: usize, rate: f64) -> Vec<Selector> {
    let mut seen = HashSet::new();
    while seen.len() < count {
        let text = conjunction(rng, rate);
        // The generator writes valid selectors only; a mistake here would show as an endless loop, so fail
        // instead.
        let selector = Selector::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        seen.insert(selector);
    }
    let mut selectors: Vec<_> = seen.into_iter().collect();
    selectors.sort_unstable();
    rng.shuffle(&mut selectors);
    selectors
}

/// `count` filters, each the conjunction of `terms` equalities of which only the last one is rare: the AND
/// experiment of the Fiorano study.
pub fn and_filters(count: usize, terms: usize) -> Vec<Selector> {
    let text = |number: usize| {
        let terms: Vec<_> =
            (0..terms).map(|term| format!("d{} >= 0.{term}", term % FRACTIONS as usize)).collect();
        format!("{} AND n0 = {number}", terms.join(" AND "))
    };
    (0..count).filter_map(|number| Selector::parse(&text(number)).ok()).collect()
}

/// `count` filters, each the disjunction of `terms` equalities: the OR experiment of the Fiorano study.
pub fn or_filters(count: usize, terms: usize) -> Vec<Selector> {
    let text = |number: usize| {
        let terms: Vec<_> =
            (0..terms).map(|term| format!("n{} = {}", term % 6, number * terms + term)).collect();
        terms.join(" OR ")
    };
    (0..count).filter_map(|number| Selector::parse(&text(number)).ok()).collect()
}

fn conjunction(rng: &mut Rng, rate: f64) -> String {
    let count = rng.usize(1..=5);
    let weights: Vec<f64> = (0..count).map(|_| -(1.0 - rng.f64()).ln()).collect();
    let whole: f64 = weights.iter().sum();
    let predicates: Vec<_> = weights.iter().map(|weight| predicate(rng, rate.powf(weight / whole))).collect();
    predicates.join(" AND ")
}

/// A predicate of a random kind that holds about as often as `rate`.
fn predicate(rng: &mut Rng, rate: f64) -> String {
    match rng.u8(..4) {
        0 => equality(rng, rate),
        1 => membership(rng, rate),
        2 => range(rng, rate),
        _ => prefix(rng, rate),
    }
}

fn equality(rng: &mut Rng, rate: f64) -> String {
    let distance = |cardinality: u32| (f64::from(cardinality).ln() + rate.ln()).abs();
    let nearest = CARDINALITIES.into_iter().map(distance).fold(f64::INFINITY, f64::min);
    let fitting: Vec<_> =
        (0..CARDINALITIES.len()).filter(|n| distance(CARDINALITIES[*n]) <= nearest).collect();
    let number = fitting[rng.usize(..fitting.len())];
    format!("c{number} = 'v{}'", rng.u32(..CARDINALITIES[number]))
}

fn membership(rng: &mut Rng, rate: f64) -> String {
    const VALUES_MAX: f64 = 20.0;
    let size = |cardinality: u32| (f64::from(cardinality) * rate).round();
    let fitting: Vec<_> =
        (0..CARDINALITIES.len()).filter(|n| (2.0..=VALUES_MAX).contains(&size(CARDINALITIES[*n]))).collect();
    if fitting.is_empty() {
        return equality(rng, rate);
    }
    let number = fitting[rng.usize(..fitting.len())];
    let cardinality = CARDINALITIES[number];
    let first = rng.u32(..cardinality);
    let values: Vec<_> = (0..size(cardinality) as u32)
        .map(|step| format!("'v{}'", (first + step * 7) % cardinality))
        .collect();
    format!("c{number} IN ({})", values.join(", "))
}

fn range(rng: &mut Rng, rate: f64) -> String {
    let low = rng.f64() * (1.0 - rate);
    if rng.bool() {
        let number = rng.u32(..WHOLE_NUMBERS);
        let at = |share: f64| (share * WHOLE_MAX as f64) as i64;
        match rng.u8(..4) {
            0 => format!("n{number} < {}", at(rate) + rng.i64(0..3)),
            1 => format!("n{number} >= {}", at(1.0 - rate) - rng.i64(0..3)),
            _ => format!("n{number} BETWEEN {} AND {}", at(low), at(low + rate)),
        }
    } else {
        let number = rng.u32(..FRACTIONS);
        match rng.u8(..4) {
            0 => format!("d{number} < {:?}", rate * (0.95 + rng.f64() / 10.0)),
            1 => format!("d{number} >= {:?}", 1.0 - rate * (0.95 + rng.f64() / 10.0)),
            _ => format!("d{number} > {low:?} AND d{number} <= {:?}", low + rate),
        }
    }
}

fn prefix(rng: &mut Rng, rate: f64) -> String {
    let length = (-rate.log10()).round().clamp(1.0, DIGITS as f64) as usize;
    format!("t{} LIKE '{}%'", rng.u32(..DIGIT_TEXTS), digits(rng, length))
}

fn digits(rng: &mut Rng, count: usize) -> String {
    (0..count).map(|_| rng.digit(10)).collect()
}
