//! What a router passes on: messages of one source, on their way from its inbox into the buffers of other links.

use foldhash::HashMap;
use shoal_norm::Time;

use super::accept::Key;
use super::chain::LinkId;
use crate::clock_offset::ClockOffset;

/// A message that was passed on so often is not passed on any more: the last guard against a circle that nobody noticed.
pub(super) const HOPS_MAX: u8 = 64;

/// How often a chain was passed on is not known where nothing but a loss is told of it.
pub(super) const HOPS_UNKNOWN: u8 = 0;

/// Whose messages follow.
#[derive(Copy, Clone, Debug)]
pub(super) struct Chain {
    pub publisher: u64,
    pub chain: u32,
    /// How many nodes will have passed them on, we included.
    pub hops: u8,
    /// Their publisher's clock, once a mark showed it.
    pub clock: Option<ClockOffset>,
    /// They may have been said before on another way, and were published then: whoever has read nothing of the chain leaves them,
    /// unless it wanted them then.
    pub again: Option<Time>,
}

impl Chain {
    pub fn key(&self) -> (u64, u32) {
        (self.publisher, self.chain)
    }

    /// What their publisher's clock shows now, as far as known.
    pub fn clock_us(&self, now: Time) -> u64 {
        self.clock.map_or(0, |clock| clock.shows_us(now))
    }
}

/// What is to be passed on, in order.
#[derive(Copy, Clone, Debug)]
pub(super) enum Item {
    /// What follows is of this chain.
    Chain(Chain),
    /// A message that lies at a place in the source's buffer, and which links get it.
    Message { start: u32, length: u32, number: u64, timestamp_us: u64, links: u32 },
    /// These numbers are lost, and may have been for any of these links.
    Lost { first: u64, last: u64, links: u32 },
    /// The chain is new here, and this number comes next: any of these links may lack what was before.
    Begins { number: u64, links: u32 },
}

/// What a router passes on of one source.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    pub items: Vec<Item>,
    /// The version of what is wanted by which the links were chosen.
    pub version: u64,
    /// Sets of links, one after the other, and where each begins and ends.
    members: Vec<LinkId>,
    sets: Vec<(u32, u32)>,
    known: HashMap<Vec<LinkId>, u32>,
    /// What others bring over links that rest: the last number of each chain.
    owed: Vec<(LinkId, Key, u64)>,
    chain: Option<(u64, u32, u8, Option<Time>)>,
}

impl Outbound {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn clear(&mut self) {
        self.items.clear();
        self.members.clear();
        self.sets.clear();
        self.known.clear();
        self.owed.clear();
        self.chain = None;
    }

    /// The links of a set.
    pub fn links(&self, set: u32) -> &[LinkId] {
        let (start, end) = self.sets[set as usize];
        &self.members[start as usize..end as usize]
    }

    /// The set of these links.
    fn set_of(&mut self, links: &[LinkId]) -> u32 {
        // Messages that follow each other mostly go the same ways.
        if let Some(last) = self.sets.len().checked_sub(1)
            && self.links(last as u32) == links
        {
            return last as u32;
        }
        if let Some(&known) = self.known.get(links) {
            return known;
        }
        let start = self.members.len() as u32;
        self.members.extend_from_slice(links);
        self.sets.push((start, self.members.len() as u32));
        let set = self.sets.len() as u32 - 1;
        self.known.insert(links.to_vec(), set);
        set
    }

    fn follow(&mut self, chain: &Chain) {
        let key = (chain.publisher, chain.chain, chain.hops, chain.again);
        if self.chain != Some(key) {
            self.chain = Some(key);
            self.items.push(Item::Chain(*chain));
        }
    }

    /// A message goes to these links.
    pub fn add_message(
        &mut self,
        chain: &Chain,
        (start, length): (usize, usize),
        (number, timestamp_us): (u64, u64),
        links: &[LinkId],
    ) {
        self.follow(chain);
        let links = self.set_of(links);
        let (start, length) = (start as u32, length as u32);
        self.items.push(Item::Message { start, length, number, timestamp_us, links });
    }

    /// A message is wanted behind these links, too, which rest.
    pub fn add_owed(&mut self, key: Key, number: u64, links: &[LinkId]) {
        for &link in links {
            match self.owed.iter_mut().rev().find(|(of, owed, _)| (*of, *owed) == (link, key)) {
                Some((.., last)) => *last = number,
                None => self.owed.push((link, key, number)),
            }
        }
    }

    /// What others bring over links that rest.
    pub fn owed(&self) -> &[(LinkId, Key, u64)] {
        &self.owed
    }

    /// Numbers are lost.
    pub fn add_lost(&mut self, chain: &Chain, (first, last): (u64, u64), links: &[LinkId]) {
        self.follow(chain);
        let links = self.set_of(links);
        self.items.push(Item::Lost { first, last, links });
    }

    /// A chain begins with this number.
    pub fn add_begins(&mut self, chain: &Chain, number: u64, links: &[LinkId]) {
        self.follow(chain);
        let links = self.set_of(links);
        self.items.push(Item::Begins { number, links });
    }
}

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    /// Links that were given something, and how many bytes wait for each.
    pub given: Vec<(LinkId, usize)>,
    /// Those of them that have no room for more.
    pub full: Vec<LinkId>,
    touched: Vec<LinkId>,
}

impl PassedOn {
    pub fn note(&mut self, link: LinkId) {
        if self.touched.last() != Some(&link) && !self.touched.contains(&link) {
            self.touched.push(link);
        }
    }

    /// Looks at what waits for the links: how many bytes, whether that is too much, and whether none can be sent.
    pub fn settle(&mut self, mut look: impl FnMut(LinkId) -> Option<(usize, bool, bool)>) {
        for link in std::mem::take(&mut self.touched) {
            let Some((waiting, is_full, blocked)) = look(link) else { continue };
            if is_full {
                self.full.push(link);
            }
            if !blocked && waiting > 0 {
                self.given.push((link, waiting));
            }
        }
    }
}
