//! Everything that is indexed about one attribute: which posting lists a value of it opens.

use crate::condition::Name;
use crate::index::hash::{Seed, SeededMap};
use crate::index::posting::{Access, Entry, Side};
use crate::index::range::{Domain, ExactKey, double_key};
use crate::index::sample::Sample;
use crate::index::slots::{Class, NO_POSTING, PostingId, PrefixSpan, Slot, SlotState, View};
use crate::index::thresholds::Thresholds;
use crate::value::Value;

/// Longer prefixes are cut: the lengths in use are a set of 64 bits.
pub(crate) const PREFIX_BYTES_MAX: usize = 63;

#[derive(Debug)]
pub(crate) struct Attribute {
    pub name: Name,
    /// How many filters mention the attribute.
    pub references: u32,
    pub sample: Sample,
    pub texts: SeededMap<Box<str>, PostingId>,
    prefixes: SeededMap<Box<[u8]>, PostingId>,
    prefix_lengths: Levels,
    exact: NumberIndex,
    double: NumberIndex,
    bools: [PostingId; 2],
    present: PostingId,
    absent: PostingId,
}

impl Attribute {
    pub(crate) fn new(name: Name, seed: Seed) -> Self {
        Self {
            name,
            references: 0,
            sample: Sample::default(),
            texts: SeededMap::with_hasher(seed),
            prefixes: SeededMap::with_hasher(seed),
            prefix_lengths: Levels::default(),
            exact: NumberIndex::new(seed),
            double: NumberIndex::new(seed),
            bools: [NO_POSTING; 2],
            present: NO_POSTING,
            absent: NO_POSTING,
        }
    }

    /// The posting list of `access`, made by `create` if there is none.
    pub(crate) fn posting(&mut self, access: &Access, create: impl FnOnce() -> PostingId) -> PostingId {
        fn set(place: &mut PostingId, create: impl FnOnce() -> PostingId) -> PostingId {
            if *place == NO_POSTING {
                *place = create();
            }
            *place
        }
        match access {
            Access::Text { text, .. } => match self.texts.get(text) {
                Some(posting) => *posting,
                None => *self.texts.entry(text.clone()).or_insert(create()),
            },
            Access::Prefix { bytes, .. } => match self.prefixes.get(bytes) {
                Some(posting) => *posting,
                None => {
                    self.prefix_lengths.add(bytes.len());
                    *self.prefixes.entry(bytes.clone()).or_insert(create())
                }
            },
            Access::Bin { domain, level, bin, .. } => {
                let numbers = self.numbers(*domain);
                *numbers.bins.entry((*level, *bin)).or_insert_with(|| {
                    numbers.levels.add((*level).into());
                    create()
                })
            }
            Access::Bool { value, .. } => set(&mut self.bools[usize::from(*value)], create),
            Access::Present { .. } => set(&mut self.present, create),
            Access::Absent { .. } => set(&mut self.absent, create),
            Access::Above { .. } | Access::Below { .. } | Access::Always => NO_POSTING,
        }
    }

    /// Forgets the posting list of `access`.
    pub(crate) fn forget(&mut self, access: &Access) {
        match access {
            Access::Text { text, .. } => drop(self.texts.remove(text)),
            Access::Prefix { bytes, .. } => {
                self.prefixes.remove(bytes);
                self.prefix_lengths.remove(bytes.len());
            }
            Access::Bin { domain, level, bin, .. } => {
                let numbers = self.numbers(*domain);
                numbers.bins.remove(&(*level, *bin));
                numbers.levels.remove((*level).into());
            }
            Access::Bool { value, .. } => self.bools[usize::from(*value)] = NO_POSTING,
            Access::Present { .. } => self.present = NO_POSTING,
            Access::Absent { .. } => self.absent = NO_POSTING,
            Access::Above { .. } | Access::Below { .. } | Access::Always => {}
        }
    }

    pub(crate) fn thresholds(&mut self, domain: Domain, side: Side) -> &mut Thresholds {
        let numbers = self.numbers(domain);
        match side {
            Side::Above => &mut numbers.above,
            Side::Below => &mut numbers.below,
        }
    }

    fn numbers(&mut self, domain: Domain) -> &mut NumberIndex {
        match domain {
            Domain::Exact => &mut self.exact,
            Domain::Double => &mut self.double,
        }
    }

    /// The posting list for messages without the attribute.
    pub(crate) fn absent(&self) -> PostingId {
        self.absent
    }

    /// Takes a value apart; `prefixes` collects the posting lists of the prefixes that a text begins with.
    #[inline]
    pub(crate) fn read(&self, value: Value<'_>, prefixes: &mut Vec<PostingId>) -> SlotState {
        let mut state = SlotState::new(value);
        if let Value::Str(text) = value {
            state.text = self.texts.get(text).copied().unwrap_or(NO_POSTING);
            let start = prefixes.len() as u32;
            for length in self.prefix_lengths.iter() {
                let Some(prefix) = text.as_bytes().get(..length) else {
                    break;
                };
                prefixes.extend(self.prefixes.get(prefix));
            }
            state.prefixes = PrefixSpan { start, end: prefixes.len() as u32 };
        }
        state
    }

    /// Shows every posting list that the attribute's value, which is not null, may open; the tests beside
    /// each entry decide exactly.
    #[inline]
    pub(crate) fn open(&self, slot: Slot, view: View<'_>, open: &mut impl FnMut(PostingId)) {
        if self.present != NO_POSTING {
            open(self.present);
        }
        let state = &view.states[slot as usize];
        match state.class {
            Class::Null => {}
            Class::Bool => {
                let posting = self.bools[usize::from(state.exact != 0)];
                if posting != NO_POSTING {
                    open(posting);
                }
            }
            Class::Text => {
                if state.text != NO_POSTING {
                    open(state.text);
                }
                view.prefixes_of(slot).iter().for_each(|posting| open(*posting));
            }
            Class::Exact | Class::Float | Class::Double => {
                match ExactKey::of(state) {
                    Some(ExactKey::At(key)) => self.exact.open(key, open),
                    Some(ExactKey::Anywhere) => self.exact.bins.values().for_each(|posting| open(*posting)),
                    None => {}
                }
                if !state.double.is_nan() {
                    self.double.open(double_key(state.double), open);
                }
            }
        }
    }

    /// Shows the entries whose thresholds a number may pass.
    #[inline]
    pub(crate) fn pass(&self, state: &SlotState, consider: &mut impl FnMut(&Entry)) {
        if !matches!(state.class, Class::Exact | Class::Float | Class::Double) {
            return;
        }
        match ExactKey::of(state) {
            Some(ExactKey::At(key)) => self.exact.pass(key, key, consider),
            Some(ExactKey::Anywhere) => self.exact.pass(i64::MAX, i64::MIN, consider),
            None => {}
        }
        if !state.double.is_nan() {
            let key = double_key(state.double);
            self.double.pass(key, key, consider);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let texts: usize = self.texts.keys().map(|text| text.len()).sum();
        let prefixes: usize = self.prefixes.keys().map(|bytes| bytes.len()).sum();
        texts
            + prefixes
            + self.texts.capacity() * (size_of::<(Box<str>, PostingId)>() + 1)
            + self.prefixes.capacity() * (size_of::<(Box<[u8]>, PostingId)>() + 1)
            + self.exact.heap_bytes()
            + self.double.heap_bytes()
            + self.sample.heap_bytes()
    }

    pub(crate) fn slot_of(access: &Access) -> Option<Slot> {
        match access {
            Access::Text { slot, .. }
            | Access::Prefix { slot, .. }
            | Access::Bin { slot, .. }
            | Access::Above { slot, .. }
            | Access::Below { slot, .. }
            | Access::Bool { slot, .. }
            | Access::Present { slot }
            | Access::Absent { slot } => Some(*slot),
            Access::Always => None,
        }
    }
}

/// Which of up to 64 sizes are in use, smallest first.
#[derive(Debug)]
struct Levels {
    counts: [u32; 64],
    used: u64,
}

impl Default for Levels {
    fn default() -> Self {
        Self { counts: [0; 64], used: 0 }
    }
}

impl Levels {
    fn add(&mut self, level: usize) {
        self.counts[level] += 1;
        self.used |= 1 << level;
    }

    fn remove(&mut self, level: usize) {
        self.counts[level] -= 1;
        if self.counts[level] == 0 {
            self.used &= !(1 << level);
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let level = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(level)
        })
    }
}

/// Ranges of one attribute, in bins and by threshold.
///
/// A range with two ends lies in one or two neighbouring bins of the smallest size that is larger than the
/// range; a value is in exactly one bin of each size. A range with one end is found by its threshold.
#[derive(Debug)]
struct NumberIndex {
    bins: SeededMap<(u8, i64), PostingId>,
    levels: Levels,
    above: Thresholds,
    below: Thresholds,
}

impl NumberIndex {
    fn new(seed: Seed) -> Self {
        Self {
            bins: SeededMap::with_hasher(seed),
            levels: Levels::default(),
            above: Thresholds::default(),
            below: Thresholds::default(),
        }
    }

    #[inline]
    fn open(&self, key: i64, open: &mut impl FnMut(PostingId)) {
        for level in self.levels.iter() {
            if let Some(posting) = self.bins.get(&(level as u8, key >> level)) {
                open(*posting);
            }
        }
    }

    #[inline]
    fn pass(&self, highest_low: i64, lowest_high: i64, consider: &mut impl FnMut(&Entry)) {
        self.above.up_to(highest_low).for_each(&mut *consider);
        self.below.from(lowest_high).for_each(consider);
    }

    fn heap_bytes(&self) -> usize {
        let bins = self.bins.capacity() * (size_of::<((u8, i64), PostingId)>() + 1);
        bins + self.above.heap_bytes() + self.below.heap_bytes()
    }
}

/// The bins of a range with two ends: level, first and last bin (the same, or neighbours).
pub(crate) fn bins(low: i64, high: i64) -> (u8, i64, i64) {
    let width = high.wrapping_sub(low) as u64;
    let level = 64 - width.leading_zeros();
    // Only every other size is used, which halves the look-ups for bins that are at most twice as wide.
    let level = level.next_multiple_of(2).min(63) as u8;
    (level, low >> level, high >> level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_touches_at_most_two_bins_and_all_of_its_keys_are_in_them() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let low = rng.i64(..) >> rng.u32(..64);
            let high = low.saturating_add(rng.i64(0..) >> rng.u32(..63));
            let (level, first, last) = bins(low, high);
            assert!(last - first <= 1, "{low}..={high}");
            for key in [low, high, low + (high.wrapping_sub(low) as u64 / 2) as i64] {
                assert!((first..=last).contains(&(key >> level)), "{key} of {low}..={high}");
            }
        }
        assert_eq!(bins(7, 7), (0, 7, 7));
        assert_eq!(bins(i64::MIN, i64::MAX), (63, -1, 0));
    }
}
