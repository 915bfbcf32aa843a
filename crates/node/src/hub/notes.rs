//! What is known of one chain that a source brings: where its lane is, its times, and whether its skips are trusted.

use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::MessageView;

use super::accept::Key;
use super::consumer::Source;
use super::passing::{Chain, HOPS_MAX};
use crate::attributes::Origin;
use crate::clock_offset::ClockOffset;

/// Whether a chain is taken from a source.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// It was not asked, or what came was delivered.
    Free,
    /// It is bringing the chain, and others wait. What comes next has to have this number; our own programs have everything below
    /// the other.
    Busy { next: u64, high: u64 },
    /// Everything below this number was here.
    Below(u64),
}

/// What is known of a chain that a source brings.
#[derive(Debug)]
pub(super) struct Notes {
    pub source: Source,
    /// How many nodes passed it on.
    pub hops: u8,
    /// What comes now is replayed: when it was published at the latest, by our clock. It is for subscriptions that began before.
    pub again: Option<Time>,
    pub hold: Hold,
    pub timestamp_us: u64,
    /// The next message's number in the lane; 0 if not known.
    pub number: u64,
    /// The version of our interest under which the source decides what it skips; none if it may not know of us.
    pub trust: Option<u64>,
    /// Its sender did not count on us below this number, and what it skipped may have been for us.
    pub doubt: u64,
    /// Skips count that were decided under this version.
    pub floor: u64,
    /// The first message that nobody wanted of those that are not delivered yet; 0 if there is none.
    pub left: u64,
    /// Its publisher's clock, once a mark showed it.
    pub clock: Option<ClockOffset>,
    /// When it was turned to last, counted.
    pub used: u64,
}

impl Notes {
    pub fn new(source: Source) -> Notes {
        Notes {
            source,
            hops: 0,
            again: None,
            hold: Hold::Free,
            timestamp_us: 0,
            number: 0,
            trust: None,
            doubt: 0,
            floor: 0,
            left: 0,
            clock: None,
            used: 0,
        }
    }

    pub fn key(&self) -> Key {
        (self.source.publisher, self.source.chain)
    }

    /// The chain as it is passed on.
    pub fn chain(&self) -> Chain {
        let Source { publisher, chain, .. } = self.source;
        Chain { publisher, chain, hops: self.hops + 1, clock: self.clock, again: self.again }
    }

    /// Whether it may be passed on.
    pub fn may_pass(&self) -> bool {
        self.source.publisher > 0 && self.hops < HOPS_MAX
    }

    /// Where the next message comes from. The lane goes on behind it.
    #[inline]
    pub fn next_origin(&mut self) -> Origin {
        let number = self.number;
        if number > 0 {
            self.number = number.checked_add(1).unwrap_or(0);
        }
        Origin {
            publisher: self.source.publisher,
            chain: self.source.chain,
            node: self.source.node,
            number,
            timestamp_us: self.timestamp_us,
        }
    }

    /// A mark shows its publisher's clock.
    pub fn see_clock(&mut self, now: Time, clock_us: u64, is_own: bool) {
        // Whoever passes on a chain may not know its publisher's clock.
        if clock_us > 0 || is_own {
            let first = || ClockOffset::new(now, clock_us);
            self.clock.get_or_insert_with(first).observe(now, clock_us);
        }
    }

    /// How old a message with a time to live or a delivery delay is, and how old it may become.
    pub fn age_and_ttl(&self, view: &MessageView<'_>, now: Time) -> Option<(Duration, Option<Duration>)> {
        let fields = view.fields().ok()?;
        fields.ttl_us.or(fields.delivery_delay_us)?;
        let waited = self.clock.zip(fields.published_us).map(|(clock, published)| clock.age(now, published));
        let held = Duration::from_micros(fields.held_us.unwrap_or(0));
        let age = waited.unwrap_or_default().saturating_add(held);
        Some((age, fields.ttl_us.map(Duration::from_micros)))
    }
}
