//! Cables: connections between two stations that keep the order of their bytes and lose none, as TCP does.
//!
//! What the network does to datagrams delays bytes here. Where it loses some they are sent again, and while it is cut they wait.
//! A connection ends when a station hangs up, or begins anew.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use shoal_norm::Time;

use crate::link::Conditions;

/// Bytes of a direction of a connection that may be under way.
const UNDER_WAY_MAX: usize = 64 << 10;
/// What is lost is sent again after so long, and what waits at a cut is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// How often in a row something is lost at the most.
const LOSSES_MAX: u32 = 8;

/// Names a connection.
pub type WireId = u64;

/// What comes out of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    Open,
    Bytes(Vec<u8>),
    End,
}

/// One end of a connection, and what is on its way to it.
#[derive(Debug)]
pub(crate) struct End {
    pub place: usize,
    coming: VecDeque<(Time, Carried)>,
    bytes: usize,
    /// When something is to be looked at again.
    pub due: Time,
    /// It hung up, or heard that the other one did.
    over: bool,
    /// It says nothing more.
    silent: bool,
}

/// A connection; the first end dialled it.
#[derive(Debug)]
pub(crate) struct Wire {
    pub ends: [End; 2],
}

/// All cables, and the connections on them.
#[derive(Debug, Default)]
pub(crate) struct Cables {
    /// Who is at their ends; the first one dials.
    ends: Vec<[usize; 2]>,
    pub wires: BTreeMap<WireId, Wire>,
    last: WireId,
}

impl Cables {
    /// Lays a cable. Its number.
    pub fn add(&mut self, from: usize, to: usize) -> usize {
        self.ends.push([from, to]);
        self.ends.len() - 1
    }

    /// Who is at the ends of a cable.
    pub fn ends(&self, cable: usize) -> [usize; 2] {
        self.ends[cable]
    }

    /// A connection is made, and is there at both ends at these times.
    pub fn open(&mut self, cable: usize, at: [Time; 2]) -> WireId {
        self.last += 1;
        let [one, two] = self.ends[cable];
        let end = |place, at| End {
            place,
            coming: VecDeque::from([(at, Carried::Open)]),
            bytes: 0,
            due: at,
            over: false,
            silent: false,
        };
        self.wires.insert(self.last, Wire { ends: [end(one, at[0]), end(two, at[1])] });
        self.last
    }

    /// The connections of a station that it may speak on, and which end it is.
    pub fn of(&self, place: usize) -> Vec<(WireId, usize)> {
        let mut found = Vec::new();
        for (&id, wire) in &self.wires {
            let ends = wire.ends.iter().enumerate();
            found.extend(ends.filter(|(_, end)| end.place == place && !end.over).map(|(side, _)| (id, side)));
        }
        found
    }

    /// An end hangs up: nothing more comes to it, and the other one hears of it. `speaks_last` if what is on its way to it still comes.
    pub fn hang_up(&mut self, id: WireId, side: usize, at: Time, hears_on: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let end = &mut wire.ends[side];
        if !hears_on {
            end.over = true;
            end.coming.clear();
            end.due = Time::NEVER;
        }
        if !std::mem::replace(&mut end.silent, true) {
            wire.ends[1 - side].push(at, Carried::End);
        }
        if wire.ends.iter().all(|end| end.over) {
            self.wires.remove(&id);
        }
    }

    /// Who has something to look at by then.
    pub fn due(&self, id: WireId, side: usize) -> Time {
        self.wires.get(&id).map_or(Time::NEVER, |wire| wire.ends[side].due)
    }
}

impl Wire {
    /// How many bytes an end may say now.
    pub fn room(&self, side: usize) -> usize {
        if self.ends[side].silent { 0 } else { UNDER_WAY_MAX.saturating_sub(self.ends[1 - side].bytes) }
    }

    /// An end says something, which comes at a time.
    pub fn say(&mut self, side: usize, at: Time, bytes: Vec<u8>) {
        let other = &mut self.ends[1 - side];
        if !other.over {
            other.bytes += bytes.len();
            other.push(at, Carried::Bytes(bytes));
        }
    }
}

impl End {
    fn push(&mut self, at: Time, what: Carried) {
        if self.over {
            return;
        }
        let at = self.coming.back().map_or(at, |(last, _)| at.max(*last));
        if self.coming.is_empty() {
            self.due = at;
        }
        self.coming.push_back((at, what));
    }

    /// Takes what has come by now.
    pub fn take(&mut self, now: Time) -> Option<Carried> {
        if self.coming.front().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        let (_, taken) = self.coming.pop_front()?;
        if let Carried::Bytes(bytes) = &taken {
            self.bytes -= bytes.len();
        }
        Some(taken)
    }

    /// When to look again.
    pub fn look_again(&mut self) -> Time {
        self.due = self.coming.front().map_or(Time::NEVER, |(at, _)| *at);
        self.due
    }

    /// Nothing comes through now: all that is due waits.
    pub fn put_off(&mut self, now: Time) -> Time {
        self.due = now + AGAIN;
        self.due
    }
}

/// How long something is under way.
pub(crate) fn delay(conditions: &Conditions, random: &mut fastrand::Rng) -> Duration {
    let mut delay = conditions.delay + conditions.jitter.mul_f64(random.f64());
    let loss = conditions.loss.max(conditions.run_loss);
    for _ in 0..LOSSES_MAX {
        if loss == 0.0 || random.f64() >= loss {
            break;
        }
        delay += AGAIN;
    }
    delay
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn bytes_keep_their_order_and_are_bounded() {
        let mut cables = Cables::default();
        let cable = cables.add(3, 5);
        let id = cables.open(cable, [at(1), at(2)]);
        let wire = cables.wires.get_mut(&id).unwrap();
        wire.say(0, at(30), b"one".to_vec());
        wire.say(0, at(20), vec![0; UNDER_WAY_MAX]);
        assert_eq!((wire.room(0), wire.room(1)), (0, UNDER_WAY_MAX));
        assert_eq!(wire.ends[1].take(at(2)), Some(Carried::Open));
        assert_eq!(wire.ends[1].take(at(29)), None);
        assert_eq!(wire.ends[1].take(at(30)), Some(Carried::Bytes(b"one".to_vec())));
        assert!(matches!(wire.ends[1].take(at(30)), Some(Carried::Bytes(_))));
        assert_eq!((wire.ends[1].take(at(90)), wire.room(0)), (None, UNDER_WAY_MAX));
    }

    #[test]
    fn who_hangs_up_is_heard_after_its_last_bytes_and_then_the_connection_is_gone() {
        let mut cables = Cables::default();
        let cable = cables.add(3, 5);
        let id = cables.open(cable, [at(0), at(0)]);
        cables.wires.get_mut(&id).unwrap().say(0, at(50), b"last".to_vec());
        cables.hang_up(id, 0, at(10), false);
        assert_eq!(cables.of(3), []);
        assert_eq!(cables.of(5), [(id, 1)]);
        let end = &mut cables.wires.get_mut(&id).unwrap().ends[1];
        assert_eq!(end.take(at(50)), Some(Carried::Open));
        assert_eq!(end.take(at(50)), Some(Carried::Bytes(b"last".to_vec())));
        assert_eq!(end.take(at(50)), Some(Carried::End));
        cables.hang_up(id, 1, at(60), false);
        assert!(cables.wires.is_empty());
    }
}
