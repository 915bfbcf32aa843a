//! What is known of one chain that a source brings: its numbers, its times, and what of it is lost.

use std::time::Duration;

use shoal_norm::Time;
use shoal_wire::{Mark, MessageView, Skip, SkipReason};

use super::consumer::Source;
use super::inbox::Told;
use super::origins::Key;
use super::passing::{Chain, HOPS_MAX};
use super::skips::Skips;
use crate::attributes::Origin;
use crate::clock_offset::ClockOffset;

/// For so long whoever takes over a chain is not believed that nobody wanted what it skips: by then everybody on the way
/// knows of us.
const DOUBT: Duration = Duration::from_secs(5);

/// Whether a chain is taken from a source.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nobody asked yet.
    Free,
    /// It is.
    Ours,
    /// Another one brings it, and brought everything below this number.
    Elsewhere(u64),
}

/// What is known of a source beside its messages.
#[derive(Debug)]
pub(super) struct Notes {
    pub source: Source,
    /// How many nodes passed it on.
    pub hops: u8,
    /// What comes now may have come before, on another way; when it was published, by our clock.
    pub again: Option<Time>,
    /// It was said before we knew of the chain: it is for those who wanted it then, here and behind us.
    pub is_late: bool,
    /// Whether it is taken from here.
    pub hold: Hold,
    /// What came of it is not delivered yet, and nobody else gets it before.
    pub busy: bool,
    /// Its source said that nothing more comes this way for now.
    pub rests: bool,
    pub timestamp_us: u64,
    /// The next message's number; 0 if not known.
    pub number: u64,
    /// After a gap: the number that was expected before it.
    pub expected: u64,
    /// Messages below this number were here already.
    pub floor: u64,
    /// Until then its source may not have counted on us: what it skips may have been for us.
    pub doubted: Time,
    /// When its source skipped something last.
    pub skipped: Time,
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
            again: None,
            is_late: false,
            hold: Hold::Free,
            busy: false,
            rests: false,
            timestamp_us: 0,
            number: 0,
            expected: 0,
            floor: 0,
            doubted: Time::ZERO,
            skipped: Time::ZERO,
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
        Chain { publisher, chain, hops: self.hops + 1, clock: self.clock, again: self.published() }
    }

    /// When it was published, if it is for those alone who wanted it then.
    pub fn published(&self) -> Option<Time> {
        self.again.filter(|_| self.is_late)
    }

    /// Whether it may be passed on.
    pub fn may_pass(&self) -> bool {
        self.source.publisher > 0 && self.hops < HOPS_MAX && self.hold == Hold::Ours
    }

    /// Whether what comes of it is left aside, though it is numbered and not our own: another source may be about to fail.
    pub fn is_withheld(&self, publisher: u64) -> bool {
        let is_strange = self.source.publisher > 0 && self.source.publisher != publisher;
        is_strange && self.number > 0 && self.hold != Hold::Ours
    }

    /// What it skips for a while may have been for us.
    pub fn doubt(&mut self, now: Time) {
        self.doubted = now + DOUBT;
    }

    /// Whoever passes it on did not count on us until now: what it skipped a moment ago may have been for us, too.
    pub fn doubt_recent(&mut self, now: Time, told: &mut impl FnMut(Told)) {
        let source = self.source;
        self.skips.lose_since(now - DOUBT, |(first, last)| told(Told::Lost(source, first, last)));
        self.doubt(now);
    }

    /// The chain is taken from here from now on, beginning with this number; 0 if nothing came before.
    pub fn take_over(&mut self, next: u64, told: &mut impl FnMut(Told)) {
        self.hold = Hold::Ours;
        if next == 0 {
            return;
        }
        let awaited = self.awaited();
        if awaited == 0 {
            self.expected = next;
        } else if awaited > next {
            told(Told::Lost(self.source, next, awaited - 1));
        }
        self.floor = next;
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
        if self.hold == Hold::Ours {
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
    pub fn on_skip(&mut self, now: Time, skip: Skip, told: &mut impl FnMut(Told)) {
        if skip.count == 0 {
            return;
        }
        let (source, last, is_ours) = (self.source, skip.next() - 1, self.hold == Hold::Ours);
        let is_late = self.awaited() > 0 && last < self.awaited();
        if is_late && skip.reason == SkipReason::Lost {
            // What was skipped before as nobody's turned out to be lost to whoever passes it on. It is told once: in a circle
            // it would go round for ever. Only of whoever held the chain then is it known that it skipped them.
            self.skips.lose(skip.number, last, |(first, last)| told(Told::Lost(source, first, last)));
            return;
        }
        self.reach(skip.number, told);
        // What another source brought before this one took over is not lost, whatever this one says of it.
        let (first, is_here) = (skip.number.max(self.floor), last < self.floor);
        let lost = |first: u64, last: u64, told: &mut dyn FnMut(Told)| {
            if is_ours && !is_here {
                told(Told::Lost(source, first, last));
            }
        };
        // The first one after that time may have been late.
        let is_doubted = self.skipped <= self.doubted && self.doubted > Time::ZERO;
        self.skipped = now;
        match skip.reason {
            SkipReason::Unwanted if is_doubted => lost(first, last, told),
            // While another source brings the chain, nothing depends on what this one skips.
            SkipReason::Unwanted if is_here || matches!(self.hold, Hold::Elsewhere(_)) => {}
            SkipReason::Unwanted => {
                self.skips.add(now, first, last, |(first, last)| lost(first, last, told));
            }
            SkipReason::Expired | SkipReason::Rests | SkipReason::Older => {}
            SkipReason::Dropped | SkipReason::Lost | SkipReason::Other(_) => lost(first, last, told),
        }
        self.number = skip.next();
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source = Source { publisher: 7, chain: 2, node: 3 };
    const NOW: Time = Time::from_nanos(1_000_000_000);

    fn skip(notes: &mut Notes, reason: SkipReason, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut lost = Vec::new();
        let skip = Skip { reason, number: first, count: last - first + 1 };
        notes.on_skip(NOW, skip, &mut |told| {
            if let Told::Lost(_, first, last) = told {
                lost.push((first, last));
            }
        });
        lost
    }

    #[test]
    fn what_another_source_brought_is_not_told_as_lost_by_whoever_takes_over() {
        let mut notes = Notes::new(SOURCE);
        notes.hold = Hold::Elsewhere(100);
        assert_eq!(skip(&mut notes, SkipReason::Unwanted, 10, 59), []);
        notes.take_over(100, &mut |told| panic!("{told:?}"));
        assert_eq!(skip(&mut notes, SkipReason::Lost, 10, 59), [], "it was here");
        assert_eq!(skip(&mut notes, SkipReason::Lost, 50, 119), [(100, 119)]);
        assert_eq!(skip(&mut notes, SkipReason::Lost, 50, 129), [(120, 129)], "each is told once");
        assert_eq!(skip(&mut notes, SkipReason::Lost, 50, 129), []);
    }

    #[test]
    fn what_was_skipped_as_nobodys_since_then_may_turn_out_to_be_lost() {
        let mut notes = Notes::new(SOURCE);
        notes.take_over(100, &mut |told| panic!("{told:?}"));
        assert_eq!(skip(&mut notes, SkipReason::Unwanted, 90, 119), []);
        assert_eq!(skip(&mut notes, SkipReason::Lost, 95, 109), [(100, 109)]);
        assert_eq!(skip(&mut notes, SkipReason::Lost, 95, 119), [(110, 119)]);
    }
}
