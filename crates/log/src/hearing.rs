//! Messages that a store heard on the bus for its subscriptions: which of them are new, and where they go.
//!
//! A message comes once for each of the store's filters that it passes, and again after a start where its publisher still
//! has it. What was heard is known by its number: one by one in memory, and up to the highest in the log.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use shoal_norm::Runs;
use shoal_wire::MessageView;

use crate::filter::Filter;
use crate::rows::{RowsReader, RowsWriter};
use crate::turn::count_for;

/// Chains that are remembered at the most. Beyond, the half of them that is silent for longest is forgotten; the log knows
/// how far they were.
pub const HEARD_CHAINS_MAX: usize = 10_000;
/// Runs of numbers remembered of a chain. Beyond, all before the oldest gap counts as heard.
const RUNS_MAX: usize = 4096;
/// Numbers of chains that are not those of a link: they are the store's own affair.
const FIRST_KEPT_CHAIN: u32 = 5;

/// What of some rows is new.
#[derive(Debug, Default)]
pub struct Heard {
    /// The new ones.
    pub rows: RowsWriter,
    /// Where they go: name, messages, bytes of their records.
    pub destinations: Vec<(String, u64, u64)>,
    /// The highest number of each of their chains.
    pub chains: Vec<((u64, u32), u64)>,
}

#[derive(Debug)]
struct Chain {
    seen: Runs,
    used: u64,
}

/// What was heard so far.
#[derive(Debug)]
pub struct Hearing {
    /// Topics that come into the log on another way.
    unless: Filter,
    chains: HashMap<(u64, u32), Chain, FixedState>,
    turns: u64,
}

impl Hearing {
    /// Nothing was heard. Messages on topics of `unless`, if it has patterns, are left out.
    pub fn new(unless: Filter) -> Hearing {
        Hearing { unless, chains: HashMap::default(), turns: 0 }
    }

    /// Takes in rows. `stored` is how far a chain was heard before that is not in memory. What cannot be read, has no number,
    /// is persistent or came from a store is left out.
    pub fn sift(&mut self, payload: &[u8], stored: impl Fn(u64, u32) -> u64) -> Heard {
        self.turns += 1;
        let mut heard = Heard::default();
        let Some(mut rows) = RowsReader::new(payload, 0) else { return heard };
        while let Ok(Some((_, meta, record))) = rows.next_row() {
            let (Some(number), Ok(view)) = (meta.number, MessageView::parse(record)) else { continue };
            if meta.chain >= FIRST_KEPT_CHAIN
                || view.is_persistent()
                || view.check().is_err()
                || (!self.unless.is_any_topic() && self.unless.destination_matches(&view))
            {
                continue;
            }
            let key = (meta.publisher, meta.chain);
            let turns = self.turns;
            let chain = self.chains.entry(key).or_insert_with(|| {
                let mut seen = Runs::default();
                seen.insert(0..stored(key.0, key.1).saturating_add(1));
                Chain { seen, used: turns }
            });
            chain.used = turns;
            if chain.seen.insert(number..number.saturating_add(1)) == 0 {
                continue;
            }
            chain.forget_oldest();
            count_for(&mut heard.destinations, view.name_bytes(), record.len() as u64);
            heard.raise(key, number);
            heard.rows.push(&meta, record);
        }
        self.trim(HEARD_CHAINS_MAX);
        heard
    }

    fn trim(&mut self, count_max: usize) {
        if self.chains.len() > count_max {
            let mut uses: Vec<u64> = self.chains.values().map(|chain| chain.used).collect();
            let (_, &mut median, _) = uses.select_nth_unstable(count_max / 2);
            self.chains.retain(|_, chain| chain.used > median);
        }
    }
}

impl Chain {
    fn forget_oldest(&mut self) {
        let second = if self.seen.runs() > RUNS_MAX { self.seen.iter().nth(1) } else { None };
        if let Some(second) = second {
            self.seen.insert(0..second.end);
        }
    }
}

impl Heard {
    fn raise(&mut self, key: (u64, u32), number: u64) {
        match self.chains.iter_mut().find(|known| known.0 == key) {
            Some(known) => known.1 = known.1.max(number),
            None => self.chains.push((key, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Meta;
    use shoal_wire::{BodyKind, Destination, Outgoing, Topic, TopicPattern};

    fn record(name: &str, persistent: bool) -> Vec<u8> {
        let mut record = Vec::new();
        let destination = Destination::topic(Topic::new(name).unwrap());
        let mut message = Outgoing::new(destination, BodyKind::Bytes, b"body");
        message.persistent = persistent;
        message.encode_into(&mut record).unwrap();
        record
    }

    fn rows(messages: &[(u64, u32, u64, &str)]) -> RowsWriter {
        let mut rows = RowsWriter::default();
        for &(publisher, chain, number, topic) in messages {
            rows.push(
                &Meta { publisher, chain, number: Some(number), timestamp_us: 1 },
                &record(topic, false),
            );
        }
        rows
    }

    fn numbers(heard: &Heard) -> Vec<u64> {
        let mut reader = RowsReader::new(heard.rows.bytes(), 0).unwrap();
        std::iter::from_fn(|| reader.next_row().unwrap()).map(|(_, meta, _)| meta.number.unwrap()).collect()
    }

    fn hearing() -> Hearing {
        Hearing::new(Filter::new(Vec::new(), None))
    }

    #[test]
    fn a_message_that_passes_two_filters_is_taken_once() {
        let mut hearing = hearing();
        let first = hearing.sift(rows(&[(7, 2, 1, "a/b"), (7, 2, 3, "a/c")]).bytes(), |_, _| 0);
        assert_eq!(numbers(&first), [1, 3]);
        assert_eq!(first.destinations.iter().map(|each| each.1).collect::<Vec<_>>(), [1, 1]);
        let second = hearing.sift(rows(&[(7, 2, 1, "a/b"), (7, 2, 2, "x/b")]).bytes(), |_, _| 0);
        assert_eq!(numbers(&second), [2]);
        assert_eq!(second.chains, [((7, 2), 2)]);
    }

    #[test]
    fn what_the_log_knows_is_not_taken_again() {
        let heard =
            hearing().sift(rows(&[(7, 2, 4, "a"), (7, 2, 5, "a"), (8, 2, 1, "a")]).bytes(), |who, _| {
                if who == 7 { 4 } else { 0 }
            });
        assert_eq!(numbers(&heard), [5, 1]);
    }

    #[test]
    fn what_comes_on_another_way_is_left_out() {
        let unless = Filter::new(vec![TopicPattern::new("r/>").unwrap()], None);
        let mut both = rows(&[(7, 2, 1, "r/x"), (7, 2, 2, "a"), (7, 6, 3, "a")]);
        both.push(&Meta { publisher: 7, chain: 2, number: Some(4), timestamp_us: 1 }, &record("a", true));
        both.push(&Meta { publisher: 7, chain: 2, number: None, timestamp_us: 1 }, &record("a", false));
        both.push(&Meta { publisher: 7, chain: 2, number: Some(9), timestamp_us: 1 }, b"nonsense");
        assert_eq!(numbers(&Hearing::new(unless).sift(both.bytes(), |_, _| 0)), [2]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut hearing = hearing();
        for number in 1..=3 * RUNS_MAX as u64 {
            hearing.sift(rows(&[(7, 2, 2 * number, "a")]).bytes(), |_, _| 0);
        }
        assert!(hearing.chains[&(7, 2)].seen.runs() <= RUNS_MAX);
        for publisher in 0..100 {
            hearing.sift(rows(&[(publisher, 1, 1, "a")]).bytes(), |_, _| 0);
        }
        hearing.trim(50);
        assert!(hearing.chains.len() <= 75 && hearing.chains.contains_key(&(99, 1)));
    }

    #[test]
    fn rows_that_are_none_are_nothing() {
        let whole = rows(&[(7, 2, 1, "a"), (7, 2, 2, "a")]);
        for length in 0..whole.bytes().len() {
            assert!(numbers(&hearing().sift(&whole.bytes()[..length], |_, _| 0)).len() < 2, "{length}");
        }
    }
}
