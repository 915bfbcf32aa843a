//! Records by which routers know the network's shape, and by which a node learns that everything behind its neighbours was
//! done.
//!
//! All numbers are varints unless their width is given. A record may grow at its end.

use std::num::NonZeroU32;

use crate::control::after_kind;
use crate::error::DecodeError;
use crate::limits::NUMBER_MAX;
use crate::record::RecordKind;
use crate::varint::write_varint;

/// Where one link of a node leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Whether whoever is on it hears all others, as on multicast; otherwise there is one neighbour.
    pub is_shared: bool,
    /// What a step over it costs, if somebody said so.
    pub cost: Option<NonZeroU32>,
    /// Whether somebody is on it who has no other link, and is no router.
    pub has_programs: bool,
    /// Neighbours on it that have several links, too, eight bytes each.
    pub neighbours: Vec<u64>,
}

/// Bits of a node, and of a link.
mod bit {
    pub const ROUTER: u8 = 1;
    pub const SERVES: u8 = 2;
    pub const SHARED: u8 = 1;
    pub const PROGRAMS: u8 = 2;
}

/// Where the links of a node lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    /// Its domain, eight bytes.
    pub domain: u64,
    /// Who it is, eight bytes.
    pub publisher: u64,
    /// Counts what it says of itself.
    pub version: u64,
    /// Whether it passes on what comes over one link to others.
    pub is_router: bool,
    /// Whether its own programs want something, or somebody is behind it over a link with a single neighbour who has no other link.
    pub serves: bool,
    /// Its links.
    pub links: Vec<Reach>,
}

impl LinkState {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::LinkState.first_byte());
        out.extend_from_slice(&self.domain.to_be_bytes());
        out.extend_from_slice(&self.publisher.to_be_bytes());
        write_varint(out, self.version);
        out.push((u8::from(self.is_router) * bit::ROUTER) | (u8::from(self.serves) * bit::SERVES));
        write_varint(out, self.links.len() as u64);
        for link in &self.links {
            out.push(
                (u8::from(link.is_shared) * bit::SHARED) | (u8::from(link.has_programs) * bit::PROGRAMS),
            );
            write_varint(out, link.cost.map_or(0, |cost| cost.get().into()));
            write_varint(out, link.neighbours.len() as u64);
            link.neighbours.iter().for_each(|neighbour| out.extend_from_slice(&neighbour.to_be_bytes()));
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<LinkState, DecodeError> {
        let mut cursor = after_kind(record);
        let domain = u64::from_be_bytes(cursor.array("domain")?);
        let publisher = u64::from_be_bytes(cursor.array("publisher")?);
        let version = cursor.varint("version")?;
        let role = cursor.byte("role")?;
        let count = cursor.count("number of links", 3)?;
        let mut links = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = cursor.byte("kind of link")?;
            let cost = cursor.varint("cost of a link")?;
            let cost = NonZeroU32::new(u32::try_from(cost).unwrap_or(u32::MAX));
            let count = cursor.count("number of neighbours", 8)?;
            let mut neighbours = Vec::with_capacity(count);
            for _ in 0..count {
                neighbours.push(u64::from_be_bytes(cursor.array("neighbour")?));
            }
            let (is_shared, has_programs) = (kind & bit::SHARED != 0, kind & bit::PROGRAMS != 0);
            links.push(Reach { is_shared, cost, has_programs, neighbours });
        }
        let (is_router, serves) = (role & bit::ROUTER != 0, role & bit::SERVES != 0);
        Ok(LinkState { domain, publisher, version, is_router, serves, links })
    }
}

/// What a node asks routers next to it to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// That everybody behind them has what they passed on by then.
    Messages,
    /// That every router behind them knows what they asked for by then.
    Interest,
}

/// A node asks routers next to it; each answers once, when everybody behind it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Who asks, eight bytes.
    pub from: u64,
    /// Which question of its.
    pub number: u64,
    /// What it asks about.
    pub about: About,
    /// Who is asked, eight bytes each.
    pub to: Vec<u64>,
    /// Whose question it was at first, eight bytes, and which: routers ask on.
    pub origin: (u64, u64),
    /// All routers on a multicast network as the asker knows them, itself included if it is one: their publishers, eight bytes each,
    /// exclusive or. 0 on other links.
    pub routers: u64,
}

impl Question {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Question.first_byte());
        out.extend_from_slice(&self.from.to_be_bytes());
        write_varint(out, self.number);
        out.push(match self.about {
            About::Messages => 0,
            About::Interest => 1,
        });
        write_varint(out, self.to.len() as u64);
        self.to.iter().for_each(|publisher| out.extend_from_slice(&publisher.to_be_bytes()));
        out.extend_from_slice(&self.origin.0.to_be_bytes());
        write_varint(out, self.origin.1);
        out.extend_from_slice(&self.routers.to_be_bytes());
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Question, DecodeError> {
        let mut cursor = after_kind(record);
        let from = u64::from_be_bytes(cursor.array("asking publisher")?);
        let number = cursor.varint("question")?;
        let about = if cursor.byte("what is asked about")? == 0 { About::Messages } else { About::Interest };
        let count = cursor.count("number of those asked", 8)?;
        let mut to = Vec::with_capacity(count);
        for _ in 0..count {
            to.push(u64::from_be_bytes(cursor.array("asked publisher")?));
        }
        let origin =
            (u64::from_be_bytes(cursor.array("first asking publisher")?), cursor.varint("its question")?);
        let routers = u64::from_be_bytes(cursor.array("routers on the network")?);
        Ok(Question { from, number, about, to, origin, routers })
    }
}

/// A router answers a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Who answers, eight bytes.
    pub from: u64,
    /// Who asked, eight bytes.
    pub to: u64,
    /// Which question.
    pub number: u64,
    /// It is none yet: those who are named are waited for.
    pub is_pending: bool,
    /// Node ids of those behind it that did not answer, four bytes each.
    pub silent: Vec<u32>,
    /// A way changed meanwhile: whoever asked at first should ask again, because somebody may be behind another router now.
    pub is_stale: bool,
    /// Those behind it that lost something of whoever asked at first, for good.
    pub losers: Vec<Loser>,
}

/// A node that lost something of a publisher for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loser {
    /// Its node id, four bytes.
    pub node: u32,
    /// Of which chain.
    pub chain: u32,
    /// The last number that it may have lost.
    pub number: u64,
}

impl Answer {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Answer.first_byte());
        out.extend_from_slice(&self.from.to_be_bytes());
        out.extend_from_slice(&self.to.to_be_bytes());
        write_varint(out, self.number);
        write_varint(out, self.silent.len() as u64);
        self.silent.iter().for_each(|node| out.extend_from_slice(&node.to_be_bytes()));
        out.push(u8::from(self.is_stale) | u8::from(self.is_pending) << 1);
        write_varint(out, self.losers.len() as u64);
        for Loser { node, chain, number } in &self.losers {
            out.extend_from_slice(&node.to_be_bytes());
            write_varint(out, u64::from(*chain));
            write_varint(out, *number);
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Answer, DecodeError> {
        let mut cursor = after_kind(record);
        let from = u64::from_be_bytes(cursor.array("answering publisher")?);
        let to = u64::from_be_bytes(cursor.array("asking publisher")?);
        let number = cursor.varint("question")?;
        let count = cursor.count("number of silent nodes", 4)?;
        let mut silent = Vec::with_capacity(count);
        for _ in 0..count {
            silent.push(u32::from_be_bytes(cursor.array("silent node")?));
        }
        let flags = cursor.byte("whether a way changed")?;
        let (is_stale, is_pending) = (flags & 1 != 0, flags & 2 != 0);
        let count = cursor.count("number of those that lost something", 6)?;
        let mut losers = Vec::with_capacity(count);
        for _ in 0..count {
            let node = u32::from_be_bytes(cursor.array("node that lost something")?);
            let chain = u32::try_from(cursor.varint("chain")?).unwrap_or(u32::MAX);
            losers.push(Loser { node, chain, number: cursor.varint("lost number")? });
        }
        Ok(Answer { from, to, number, is_pending, silent, is_stale, losers })
    }
}

/// From where on a node lacks a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lacking {
    /// Who publishes it, eight bytes.
    pub publisher: u64,
    /// Which of its chains.
    pub chain: u32,
    /// The number that should come next; 0 if nothing of the chain is known.
    pub next: u64,
    /// If nothing is known: messages of the last so many milliseconds are asked for.
    pub age_ms: u64,
}

/// A node asks a neighbour for what it lacks of chains. The answer is in the lanes for messages, behind a
/// [`Mark`](crate::Mark) that names the asker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Who asks, eight bytes.
    pub from: u64,
    /// Who is asked, eight bytes; 0 for every router on the link.
    pub to: u64,
    /// The version that the asker announced before. A neighbour that does not have that announcement yet does not answer.
    pub version: u64,
    /// What it lacks.
    pub chains: Vec<Lacking>,
}

impl Replay {
    /// Chains of one record, at the most.
    pub const CHAINS_MAX: usize = 4096;

    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(RecordKind::Replay.first_byte());
        out.extend_from_slice(&self.from.to_be_bytes());
        out.extend_from_slice(&self.to.to_be_bytes());
        write_varint(out, self.version);
        write_varint(out, self.chains.len() as u64);
        for lacking in &self.chains {
            out.extend_from_slice(&lacking.publisher.to_be_bytes());
            write_varint(out, lacking.chain.into());
            write_varint(out, lacking.next);
            if lacking.next == 0 {
                write_varint(out, lacking.age_ms);
            }
        }
    }

    /// Reads the record.
    pub fn read(record: &[u8]) -> Result<Replay, DecodeError> {
        let mut cursor = after_kind(record);
        let from = u64::from_be_bytes(cursor.array("asking publisher")?);
        let to = u64::from_be_bytes(cursor.array("asked publisher")?);
        let version = cursor.varint("version of its interest")?;
        let count = cursor.varint_up_to("number of chains", Self::CHAINS_MAX as u64)?;
        let mut chains = Vec::new();
        for _ in 0..count {
            let publisher = u64::from_be_bytes(cursor.array("publisher")?);
            let chain = cursor.varint32("chain")?;
            let next = cursor.varint_up_to("message number", NUMBER_MAX)?;
            let age_ms = if next == 0 { cursor.varint("age")? } else { 0 };
            chains.push(Lacking { publisher, chain, next, age_ms });
        }
        Ok(Replay { from, to, version, chains })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_back_cut_ones_are_refused_and_longer_ones_are_read() {
        let state = LinkState {
            domain: 7,
            publisher: 1 << 63,
            version: 300,
            is_router: true,
            serves: true,
            links: vec![
                Reach { is_shared: true, cost: None, has_programs: false, neighbours: vec![1, 2, u64::MAX] },
                Reach {
                    is_shared: false,
                    cost: NonZeroU32::new(300),
                    has_programs: true,
                    neighbours: vec![],
                },
            ],
        };
        let question = Question {
            from: 5,
            number: 1 << 40,
            about: About::Interest,
            to: vec![9, 10],
            origin: (4, 300),
            routers: 9 ^ 10,
        };
        let losers =
            vec![Loser { node: 7, chain: 2, number: 1 << 40 }, Loser { node: 8, chain: 1, number: 3 }];
        let silent = vec![1, u32::MAX];
        let answer =
            Answer { from: 9, to: 5, number: 1 << 40, is_pending: true, silent, is_stale: true, losers };
        let replay = Replay {
            from: 1 << 63,
            to: 0,
            version: 300,
            chains: vec![
                Lacking { publisher: 7, chain: 2, next: 1 << 40, age_ms: 0 },
                Lacking { publisher: 8, chain: 3, next: 0, age_ms: 30_000 },
            ],
        };
        let mut records = vec![Vec::new(); 4];
        state.write(&mut records[0]);
        question.write(&mut records[1]);
        answer.write(&mut records[2]);
        replay.write(&mut records[3]);
        assert_eq!(LinkState::read(&records[0]), Ok(state));
        assert_eq!(Question::read(&records[1]), Ok(question));
        assert_eq!(Answer::read(&records[2]), Ok(answer));
        assert_eq!(Replay::read(&records[3]), Ok(replay));
        for record in &records {
            for length in 0..record.len() {
                let cut = &record[..length];
                let all = [
                    LinkState::read(cut).is_err(),
                    Question::read(cut).is_err(),
                    Answer::read(cut).is_err(),
                    Replay::read(cut).is_err(),
                ];
                assert!(all.contains(&true));
            }
        }
        let mut longer = records[0].clone();
        longer.extend([1, 2, 3]);
        assert!(LinkState::read(&longer).is_ok());
    }

    #[test]
    fn counts_beyond_the_bytes_that_are_left_are_refused() {
        let mut record = vec![RecordKind::LinkState.first_byte()];
        record.extend([0; 18]);
        write_varint(&mut record, 1 << 40);
        assert!(matches!(LinkState::read(&record), Err(DecodeError::CountClaim { .. })));
        let lacking = Lacking { publisher: 7, chain: 2, next: 1, age_ms: 0 };
        for (chains, is_taken) in [(Replay::CHAINS_MAX, true), (Replay::CHAINS_MAX + 1, false)] {
            let mut record = Vec::new();
            Replay { from: 1, to: 2, version: 3, chains: vec![lacking; chains] }.write(&mut record);
            assert_eq!(Replay::read(&record).is_ok(), is_taken);
        }
    }
}
