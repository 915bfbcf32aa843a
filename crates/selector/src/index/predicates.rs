//! The predicates that only evaluation can decide, each kept once however many filters contain it, and
//! evaluated at most once per message.

use crate::condition::{Condition, Leaf};
use crate::index::hash::{Seed, SeededMap};
use crate::index::slab::Slab;
use crate::index::slots::Slot;
use crate::value::{Attributes, Truth, Value};

type PredicateId = u32;

/// What is left of a branch, with its predicates by number.
#[derive(Debug)]
pub(crate) enum Formula {
    Constant(bool),
    Predicate(PredicateId),
    All(Box<[Formula]>),
    Any(Box<[Formula]>),
}

#[derive(Debug)]
struct SharedPredicate {
    leaf: Leaf,
    /// The attribute, if it is only one.
    slot: Option<Slot>,
    references: u32,
    /// The message for which `holds` was computed.
    epoch: u64,
    holds: bool,
}

#[derive(Debug)]
pub(crate) struct Predicates {
    shared: Slab<SharedPredicate>,
    by_leaf: SeededMap<Leaf, PredicateId>,
}

impl Predicates {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { shared: Slab::default(), by_leaf: SeededMap::with_hasher(seed) }
    }

    /// Takes a condition in; `slot` finds the slot of a predicate's only attribute.
    pub(crate) fn acquire(
        &mut self,
        condition: &Condition,
        slot: &impl Fn(&Leaf) -> Option<Slot>,
    ) -> Formula {
        match condition {
            Condition::Constant(value) => Formula::Constant(*value),
            Condition::All(parts) => {
                Formula::All(parts.iter().map(|part| self.acquire(part, slot)).collect())
            }
            Condition::Any(parts) => {
                Formula::Any(parts.iter().map(|part| self.acquire(part, slot)).collect())
            }
            Condition::Leaf(leaf) => {
                let shared = &mut self.shared;
                let id = *self.by_leaf.entry(leaf.clone()).or_insert_with(|| {
                    let slot = slot(leaf);
                    shared.insert(SharedPredicate {
                        leaf: leaf.clone(),
                        slot,
                        references: 0,
                        epoch: 0,
                        holds: false,
                    })
                });
                if let Some(shared) = self.shared.get_mut(id) {
                    shared.references += 1;
                }
                Formula::Predicate(id)
            }
        }
    }

    pub(crate) fn release(&mut self, formula: &Formula) {
        match formula {
            Formula::Constant(_) => {}
            Formula::All(parts) | Formula::Any(parts) => parts.iter().for_each(|part| self.release(part)),
            Formula::Predicate(id) => {
                let Some(shared) = self.shared.get_mut(*id) else {
                    return;
                };
                shared.references -= 1;
                if shared.references == 0 {
                    self.by_leaf.remove(&shared.leaf);
                    self.shared.remove(*id);
                }
            }
        }
    }

    /// Whether the formula is true of the message of this epoch; counts what it has to evaluate.
    pub(crate) fn holds<A: Attributes + ?Sized>(
        &mut self,
        formula: &Formula,
        message: &A,
        values: &[Value<'_>],
        epoch: u64,
        evaluated: &mut u64,
    ) -> bool {
        match formula {
            Formula::Constant(value) => *value,
            Formula::All(parts) => {
                parts.iter().all(|part| self.holds(part, message, values, epoch, evaluated))
            }
            Formula::Any(parts) => {
                parts.iter().any(|part| self.holds(part, message, values, epoch, evaluated))
            }
            Formula::Predicate(id) => {
                let Some(shared) = self.shared.get_mut(*id) else {
                    return false;
                };
                if shared.epoch != epoch {
                    *evaluated += 1;
                    let truth = match shared.slot {
                        Some(slot) => {
                            let value = values[slot as usize];
                            shared.leaf.predicate.truth_of(value).negated_if(shared.leaf.negated)
                        }
                        None => shared.leaf.truth(message),
                    };
                    (shared.epoch, shared.holds) = (epoch, truth == Truth::True);
                }
                shared.holds
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.shared.heap_bytes() + self.by_leaf.capacity() * (size_of::<(Leaf, PredicateId)>() + 1)
    }
}
