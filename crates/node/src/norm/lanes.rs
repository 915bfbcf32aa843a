//! The lanes of a bus: which stream carries what.
//!
//! | lane | carries |
//! |---|---|
//! | 0 | what nodes tell each other |
//! | 1, 2, 3 | messages of the classes high, normal and low |
//! | 4 | messages on reserved topics, such as answers to requests |
//! | 5, 6, 7, … | messages of the classes high, normal and low in group 0, 1, …, where the domain has groups |
//!
//! What nodes tell each other goes first, then reserved topics. The classes share the rest 16:4:1: a message of a higher class
//! overtakes those that wait in a lower one, and no class stops another.
//!
//! A reader that falls behind makes the lanes wait that feed it. Answers have a lane of their own, so that
//! whoever waits for one gets it, though everything else of the same sender waits.

use shoal_norm::{ObjectId, Share, StreamOptions};
use shoal_wire::{PriorityClass, is_reserved};

use super::groups::own_lane;

/// The stream that carries what nodes tell each other.
pub const CONTROL: ObjectId = 0;

/// How many lanes there are.
pub const LANES: usize = 5;

/// What may be waiting to be repaired of the control stream.
const CONTROL_CACHE_BYTES: usize = 1 << 20;

/// A lane that carries messages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Of a class.
    Class(PriorityClass),
    /// Of reserved topics.
    Reserved,
}

impl Lane {
    const ALL: [Lane; 4] = [
        Lane::Class(PriorityClass::High),
        Lane::Class(PriorityClass::Normal),
        Lane::Class(PriorityClass::Low),
        Lane::Reserved,
    ];

    /// The lane for a message.
    pub fn of(topic: &[u8], class: PriorityClass) -> Lane {
        if is_reserved(topic) { Lane::Reserved } else { Lane::Class(class) }
    }

    /// Its number, which is its stream's and its chain's too.
    pub fn number(self) -> usize {
        match self {
            Lane::Class(PriorityClass::High) => 1,
            Lane::Class(PriorityClass::Normal) => 2,
            Lane::Class(PriorityClass::Low) => 3,
            Lane::Reserved => 4,
        }
    }

    /// What a lane with this number carries, in whatever group; none if nodes talk there.
    fn numbered(number: usize) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| lane.number() == own_lane(number))
    }

    /// Its precedence, and its weight among lanes of the same.
    fn rank(self) -> (u8, u16) {
        match self {
            // Somebody waits for it.
            Lane::Reserved => (1, 1),
            Lane::Class(PriorityClass::High) => (2, 16),
            Lane::Class(PriorityClass::Normal) => (2, 4),
            Lane::Class(PriorityClass::Low) => (2, 1),
        }
    }

    /// What a lane with this number may send of what all lanes send.
    pub fn share(number: usize) -> Share {
        Lane::numbered(number).map_or_else(Share::default, |lane| Share::new(lane.rank().0, lane.rank().1))
    }

    /// The class whose mark a lane's datagrams carry: what other lanes wait for is urgent.
    pub fn class(number: usize) -> PriorityClass {
        match Lane::numbered(number) {
            Some(Lane::Class(class)) => class,
            Some(Lane::Reserved) | None => PriorityClass::High,
        }
    }
}

/// What a lane is called.
pub fn lane_name(number: usize) -> &'static str {
    match Lane::numbered(number) {
        None => "control",
        Some(Lane::Class(PriorityClass::High)) => "high",
        Some(Lane::Class(PriorityClass::Normal)) => "normal",
        Some(Lane::Class(PriorityClass::Low)) => "low",
        Some(Lane::Reserved) => "reserved",
    }
}

/// The streams of so many lanes, by number.
pub fn lane_streams(lanes: usize, window_bytes: usize, cache_bytes: usize) -> Vec<StreamOptions> {
    // Heartbeats and repeated announcements tell of what was lost.
    let control = StreamOptions { cache_bytes: CONTROL_CACHE_BYTES, quiet: true, ..Default::default() };
    let data = (1..lanes).filter_map(Lane::numbered).map(|lane| StreamOptions {
        precedence: lane.rank().0,
        weight: lane.rank().1,
        window_bytes: Some(window_bytes),
        cache_bytes,
        ..Default::default()
    });
    std::iter::once(control).chain(data).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_listed_by_their_numbers() {
        let numbers: Vec<usize> = Lane::ALL.iter().map(|lane| lane.number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(lane_streams(LANES, 1 << 20, 4 << 20).len(), LANES);
    }

    #[test]
    fn answers_travel_apart_from_every_class() {
        for class in [PriorityClass::High, PriorityClass::Normal, PriorityClass::Low] {
            assert_eq!(Lane::of(b"_reply/00000001", class), Lane::Reserved);
            assert_eq!(Lane::of(b"prices/_reply", class), Lane::Class(class));
        }
    }
}
