//! What is known of one chain that a source brings: its numbers, its times, and what of it is lost.

use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::{Mark, MessageView, Skip, SkipReason};

use super::consumer::Source;
use super::inbox::Told;
use super::origins::{Claim, Key};
use super::passing::{Chain, HOPS_MAX};
use super::skips::Skips;
use crate::attributes::Origin;
use crate::clock_offset::ClockOffset;

/// What is known of a source beside its messages.
#[derive(Debug)]
pub(super) struct Notes {
    pub source: Source,
    /// How many nodes passed it on.
    pub hops: u8,
    /// Another link brings it: what comes here is left aside.
    pub elsewhere: bool,
    pub timestamp_us: u64,
    /// The next message's number; 0 if not known.
    pub number: u64,
    /// After a gap: the number that was expected before it.
    pub expected: u64,
    /// Messages below this number were here already.
    pub floor: u64,
    /// Whoever passes it on did not count on us for a while: what it skips next may have been for us.
    pub suspect: bool,
    /// Its publisher's clock, once a mark showed it.
    pub clock: Option<ClockOffset>,
    pub skips: Skips,
    /// When it was turned to last, counted.
    pub used: u64,
}

impl Notes {
    pub fn new(source: Source) -> Notes {
        Notes {
            source,
            hops: 0,
            elsewhere: false,
            timestamp_us: 0,
            number: 0,
            expected: 0,
            floor: 0,
            suspect: false,
            clock: None,
            skips: Skips::default(),
            used: 0,
        }
    }

    pub fn key(&self) -> Key {
        (self.source.publisher, self.source.chain)
    }

    /// The chain as it is passed on.
    pub fn chain(&self) -> Chain {
        let Source { publisher, chain, .. } = self.source;
        Chain { publisher, chain, hops: self.hops + 1, clock: self.clock }
    }

    /// Whether it may be passed on.
    pub fn may_pass(&self) -> bool {
        self.source.publisher > 0 && self.hops < HOPS_MAX && !self.elsewhere
    }

    /// The link may bring the chain, or may not.
    pub fn settle(&mut self, claim: Claim, told: &mut impl FnMut(Told)) {
        self.elsewhere = claim == Claim::Elsewhere;
        if let Claim::Granted(next) = claim
            && next > 0
        {
            let awaited = self.awaited();
            if awaited == 0 {
                self.expected = next;
            } else if awaited > next {
                // What came here while another link brought it was left aside.
                told(Told::Lost(self.source, next, awaited - 1));
            }
            self.floor = next;
        }
    }

    /// Where the next message comes from.
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

    /// The number that should come next, as far as known.
    pub fn awaited(&self) -> u64 {
        if self.number > 0 { self.number } else { self.expected }
    }

    /// What comes next has this number. What was expected before it is lost.
    pub fn reach(&mut self, number: u64, told: &mut impl FnMut(Told)) {
        let awaited = self.awaited();
        if !self.elsewhere {
            let missing = awaited.max(self.floor);
            if awaited > 0 && number > missing {
                told(Told::Lost(self.source, missing, number - 1));
            }
            // A source that is joined anew may begin where it was before.
            self.floor = missing;
        }
        (self.number, self.expected) = (number, 0);
    }

    /// Takes a mark in.
    pub fn on_mark(&mut self, now: Time, mark: &Mark, told: &mut impl FnMut(Told)) {
        self.reach(mark.number, told);
        self.timestamp_us = mark.timestamp_us;
        // Whoever passes on a chain may not know its publisher's clock.
        if mark.clock_us > 0 || mark.source.is_none() {
            let first = || ClockOffset::new(now, mark.clock_us);
            self.clock.get_or_insert_with(first).observe(now, mark.clock_us);
        }
    }

    /// Takes a skip in.
    pub fn on_skip(&mut self, skip: Skip, told: &mut impl FnMut(Told)) {
        if skip.count == 0 {
            return;
        }
        let (source, last) = (self.source, skip.next() - 1);
        let lost = |first, last, told: &mut dyn FnMut(Told)| told(Told::Lost(source, first, last));
        let is_late = self.awaited() > 0 && last < self.awaited();
        if is_late && skip.reason == SkipReason::Lost {
            // What was skipped before as nobody's turned out to be lost to whoever passes it on.
            if !self.elsewhere {
                lost(skip.number, last, told);
            }
            return;
        }
        self.reach(skip.number, told);
        match skip.reason {
            SkipReason::Unwanted if std::mem::take(&mut self.suspect) => lost(skip.number, last, told),
            SkipReason::Unwanted => {
                self.skips.add(skip.number, last, |(first, last)| lost(first, last, told));
            }
            SkipReason::Expired => {}
            _ if self.elsewhere => {}
            SkipReason::Dropped | SkipReason::Lost | SkipReason::Other(_) => lost(skip.number, last, told),
        }
        self.number = skip.next();
    }

    /// How old a message with a time to live is, and how old it may become.
    pub fn age_and_ttl(&self, view: &MessageView<'_>, now: Time) -> Option<(Duration, Duration)> {
        let clock = self.clock?;
        let fields = view.fields().ok()?;
        let held = Duration::from_micros(fields.held_us.unwrap_or(0));
        let age = clock.age(now, fields.published_us?).saturating_add(held);
        Some((age, Duration::from_micros(fields.ttl_us?)))
    }
}
