//! Guards: a condition that an entry needs, as one range of one integer.
//!
//! Each slot has a few *views*, integers made from its value once per message: the exact number, the
//! `double`, the text's number, the first bytes of the text, a bit for the text. A guard says in which range
//! one view must lie. It may let through what the tests then refuse, and never refuses what they would let
//! through, so it can be crude where exactness is rare.

use crate::index::posting::Test;
use crate::index::range::{Ends, FLOAT_EXACT_MAX, double_key};
use crate::index::slots::{Class, NO_POSTING, PostingId, Slot, SlotState};
use crate::value::Value;

/// The views of one slot.
const VIEWS: usize = 5;
const EXACT: u32 = 0;
const DOUBLE: u32 = 1;
const TEXT: u32 = 2;
const HEAD: u32 = 3;
const BITS: u32 = 4;

/// The view of a value of another type: below every guard.
const MISSING: i64 = i64::MIN;
/// Literals beyond this are rounded when they are promoted to `double`.
const EXACT_MAX: i64 = 1 << 53;
const FALSE: i64 = -1;
const TRUE: i64 = -2;

/// The range that a view must lie in.
#[derive(Debug, Clone, Copy)]
struct Guard {
    view: u32,
    low: i64,
    high: i64,
}

/// The views of the message at hand. The first one has all bits set, for entries that need nothing.
#[derive(Debug, Default)]
pub(crate) struct Views {
    views: Vec<i64>,
    /// Whether promotion rounds in a way that views cannot show: then every guard is open.
    rounding: bool,
}

fn view(slot: Slot, which: u32) -> u32 {
    1 + slot * VIEWS as u32 + which
}

impl Guard {
    /// Lets everything through.
    const OPEN: Self = Self { view: 0, low: i64::MIN, high: i64::MAX };

    /// The guard of a test; `head` is the text of a prefix.
    fn of(test: &Test, head: &[u8]) -> Self {
        match *test {
            Test::Always | Test::OneOf { .. } | Test::InSet { .. } => Self::OPEN,
            Test::Exact { slot, ends, low, high } => Self::exact(slot, low, high, ends),
            Test::Double { slot, low, high } => Self {
                view: view(slot, DOUBLE),
                low: if low == f64::NEG_INFINITY { MISSING + 1 } else { double_key(low) },
                high: if high == f64::INFINITY { i64::MAX } else { double_key(high) },
            },
            Test::Text { slot, text } => Self { view: view(slot, TEXT), low: text.into(), high: text.into() },
            Test::Bool { slot, value } => {
                let code = if value { TRUE } else { FALSE };
                Self { view: view(slot, TEXT), low: code, high: code }
            }
            Test::Prefix { slot, .. } => {
                Self { view: view(slot, HEAD), low: head_key(head, 0), high: head_key(head, u8::MAX) }
            }
        }
    }

    /// Exact numbers are doubled, which leaves room between them for numbers with a fraction.
    fn exact(slot: Slot, low: i64, high: i64, ends: Ends) -> Self {
        let low_key = if ends.has(Ends::LOW) {
            doubled(low) - i64::from(ends.has(Ends::LOW_EXCLUDED))
        } else {
            MISSING + 1
        };
        let high_key = if ends.has(Ends::HIGH) {
            doubled(high) + i64::from(ends.has(Ends::HIGH_EXCLUDED))
        } else {
            i64::MAX
        };
        let rounded = |end: i64, is_there| is_there && end.unsigned_abs() >= EXACT_MAX.unsigned_abs();
        if rounded(low, ends.has(Ends::LOW)) || rounded(high, ends.has(Ends::HIGH)) {
            return Self::OPEN;
        }
        Self { view: view(slot, EXACT), low: low_key, high: high_key }
    }
}

/// How many ranges an entry is guarded by.
const RANGES: usize = 2;

/// The guards beside an entry: two ranges, and for a list of texts a set of bits, of which the text's own
/// must be one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guards {
    views: [u32; RANGES],
    bit_view: u32,
    lows: [i64; RANGES],
    highs: [i64; RANGES],
    bits: i64,
}

impl Guards {
    const OPEN: Self = Self {
        views: [0; RANGES],
        bit_view: 0,
        lows: [i64::MIN; RANGES],
        highs: [i64::MAX; RANGES],
        bits: -1,
    };

    /// The guards of tests that come in the order in which they are expected to fail.
    pub(crate) fn of<'a>(tests: impl IntoIterator<Item = GuardedTest<'a>>) -> Self {
        let mut guards = Self::OPEN;
        let mut ranges = 0..RANGES;
        for GuardedTest { test, head, texts } in tests {
            match *test {
                Test::OneOf { slot, .. } | Test::InSet { slot, .. } if guards.bit_view == 0 => {
                    guards.bit_view = view(slot, BITS);
                    guards.bits = texts.iter().fold(0, |bits, text| bits | bit(*text));
                }
                Test::Always | Test::OneOf { .. } | Test::InSet { .. } => {}
                _ => {
                    if let Some(number) = ranges.next() {
                        let Guard { view, low, high } = Guard::of(test, head);
                        guards.views[number] = view;
                        (guards.lows[number], guards.highs[number]) = (low, high);
                    }
                }
            }
        }
        guards
    }

    #[inline]
    pub(crate) fn admit(&self, views: &Views) -> bool {
        let in_range = |number: usize| {
            let value = views.views[self.views[number] as usize];
            self.lows[number] <= value && value <= self.highs[number]
        };
        (0..RANGES).all(in_range) && views.views[self.bit_view as usize] & self.bits != 0
    }
}

/// A test with what its guard needs to know besides.
pub(crate) struct GuardedTest<'a> {
    pub test: &'a Test,
    /// The bytes of a prefix.
    pub head: &'a [u8],
    /// The numbers of a list of texts.
    pub texts: &'a [PostingId],
}

/// One of 64 bits for each text; texts may share one.
fn bit(text: PostingId) -> i64 {
    1 << (text % 64)
}

impl Views {
    pub(crate) fn clear(&mut self, slot_count: usize) {
        self.views.clear();
        self.views.resize(1 + slot_count * VIEWS, MISSING);
        self.views[0] = -1;
        self.rounding = false;
    }

    pub(crate) fn rounding(&self) -> bool {
        self.rounding
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: Slot, state: &SlotState, value: Value<'_>) {
        let at = view(slot, 0) as usize;
        let views = &mut self.views[at..at + VIEWS];
        match state.class {
            Class::Null => {}
            Class::Bool => views[TEXT as usize] = if state.exact != 0 { TRUE } else { FALSE },
            Class::Exact => {
                views[EXACT as usize] = doubled(state.exact);
                views[DOUBLE as usize] = double_key(state.double);
            }
            Class::Float | Class::Double => {
                if state.double.is_nan() {
                    return;
                }
                views[EXACT as usize] =
                    doubled(state.double.floor() as i64) + i64::from(state.double.fract() != 0.0);
                views[DOUBLE as usize] = double_key(state.double);
                self.rounding |= state.class == Class::Float && state.double.abs() >= FLOAT_EXACT_MAX;
            }
            Class::Text => {
                views[TEXT as usize] = state.text.into();
                views[BITS as usize] = if state.text == NO_POSTING { 0 } else { bit(state.text) };
                if let Value::Str(text) = value {
                    views[HEAD as usize] = head_key(text.as_bytes(), 0);
                }
            }
        }
    }
}

/// Twice the number, as far as that fits: literals with guards are far smaller than where it stops.
fn doubled(value: i64) -> i64 {
    value.clamp(-(1 << 61), 1 << 61) * 2
}

/// The first eight bytes as a number that orders as they do; `fill` stands for those that are missing.
fn head_key(bytes: &[u8], fill: u8) -> i64 {
    let mut head = [fill; 8];
    let length = bytes.len().min(head.len());
    head[..length].copy_from_slice(&bytes[..length]);
    (u64::from_be_bytes(head) ^ (1 << 63)) as i64
}
