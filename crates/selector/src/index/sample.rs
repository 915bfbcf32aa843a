//! The latest values of an attribute, by which the planner guesses how often a predicate holds.

use crate::condition::Leaf;
use crate::value::{Truth, Value};

const VALUES_MAX: usize = 32;
/// How many sampled values a guess made without any is worth.
const PRIOR_WEIGHT: f64 = 2.0;

#[derive(Debug, Default)]
pub(crate) struct Sample {
    values: Vec<Kept>,
    next: usize,
}

/// A value that is kept; the text buffer is reused, so that sampling allocates nothing in the long run.
#[derive(Debug, Default)]
struct Kept {
    number: Value<'static>,
    text: Option<String>,
    spare: String,
}

impl Kept {
    fn set(&mut self, value: Value<'_>) {
        if let Some(buffer) = self.text.take() {
            self.spare = buffer;
        }
        self.number = match value {
            Value::Str(text) => {
                let mut buffer = std::mem::take(&mut self.spare);
                buffer.clear();
                buffer.push_str(text);
                self.text = Some(buffer);
                Value::Null
            }
            Value::Null => Value::Null,
            Value::Bool(v) => Value::Bool(v),
            Value::Byte(v) => Value::Byte(v),
            Value::Short(v) => Value::Short(v),
            Value::Int(v) => Value::Int(v),
            Value::Long(v) => Value::Long(v),
            Value::Float(v) => Value::Float(v),
            Value::Double(v) => Value::Double(v),
        };
    }

    fn value(&self) -> Value<'_> {
        self.text.as_deref().map_or(self.number, Value::Str)
    }
}

impl Sample {
    pub(crate) fn record(&mut self, value: Value<'_>) {
        if self.values.len() < VALUES_MAX {
            self.values.push(Kept::default());
        }
        self.values[self.next].set(value);
        self.next = (self.next + 1) % VALUES_MAX;
    }

    /// How often all of these predicates on this attribute hold: `prior` where nothing was seen yet.
    pub(crate) fn estimate(&self, leaves: &[&Leaf], prior: f64) -> f64 {
        let hold = |kept: &&Kept| {
            let value = kept.value();
            leaves.iter().all(|leaf| leaf.predicate.truth_of(value).negated_if(leaf.negated) == Truth::True)
        };
        let hits = self.values.iter().filter(hold).count() as f64;
        (hits + prior * PRIOR_WEIGHT) / (self.values.len() as f64 + PRIOR_WEIGHT)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let texts: usize = self.values.iter().map(|kept| kept.value_bytes()).sum();
        texts + self.values.capacity() * size_of::<Kept>()
    }
}

impl Kept {
    fn value_bytes(&self) -> usize {
        self.spare.capacity() + self.text.as_ref().map_or(0, String::capacity)
    }
}
