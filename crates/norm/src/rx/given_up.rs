//! The objects a receiver gave up, and what it may therefore not acknowledge.
//!
//! A watermark stands for everything up to it (RFC 5740, section 5.5.3), so nobody acknowledges it who lacks a part
//! of that. An object that was given up is never acknowledged, nor is the first watermark after it that we are
//! asked for. From our silence the sender knows; what it asks for after that speaks of what came since, and is
//! acknowledged again. What the sender itself refused to repair it knows of without our silence.

use std::collections::VecDeque;

use crate::ObjectId;
use crate::serial;

/// So many objects are remembered. Beyond that nothing is acknowledged up to the oldest one forgotten.
const OBJECTS_MAX: usize = 64;
/// Objects farther back than this cannot be told from ones to come.
const REACH: u16 = 1 << 14;

/// An object that was given up.
#[derive(Copy, Clone, Debug)]
struct Lost {
    object: ObjectId,
    /// The first watermark from it on that was left unanswered.
    told_by: Option<ObjectId>,
    /// Something of it came, so it is no stream that has yet to begin.
    heard: bool,
}

/// The objects of one sender that were given up.
#[derive(Debug, Default)]
pub struct GivenUp {
    /// What became of objects before this one is not known.
    since: ObjectId,
    lost: VecDeque<Lost>,
}

impl GivenUp {
    /// Nothing is given up yet; the first object is this one.
    pub fn starting_at(first: ObjectId) -> GivenUp {
        GivenUp { since: first, lost: VecDeque::new() }
    }

    /// Whether a number that is done with was an object's, as far as is known.
    pub fn was_object(&self, object: ObjectId) -> bool {
        self.knows(object) && self.lost.iter().all(|lost| lost.object != object || lost.heard)
    }

    fn knows(&self, object: ObjectId) -> bool {
        !serial::before(object, self.since)
    }

    /// An object, of which something was `heard` or nothing, was given up, while the first watermark from it on that
    /// waits for its answer was `asked`.
    pub fn add(&mut self, object: ObjectId, heard: bool, asked: Option<ObjectId>) {
        if self.lost.iter().any(|lost| lost.object == object) {
            return;
        }
        if self.lost.len() >= OBJECTS_MAX
            && let Some(oldest) = self.lost.pop_front()
            && self.knows(oldest.object)
        {
            self.since = oldest.object.wrapping_add(1);
        }
        self.lost.push_back(Lost { object, told_by: asked, heard });
    }

    /// Whether a watermark at this object, for which we are asked, may be acknowledged as far as objects that were
    /// given up go.
    pub fn on_asked(&mut self, watermark: ObjectId) -> bool {
        let mut allowed = self.knows(watermark);
        for lost in &mut self.lost {
            let covered = !serial::before(watermark, lost.object);
            if covered && lost.told_by.is_none_or(|told| !serial::before(told, watermark)) {
                lost.told_by = Some(watermark);
                allowed = false;
            }
        }
        allowed
    }

    /// The oldest object that is not done with is this one. Numbers come round, so what lies far back is forgotten.
    pub fn on_first(&mut self, first: ObjectId) {
        let limit = first.wrapping_sub(REACH);
        if serial::before(self.since, limit) {
            self.since = limit;
        }
        if self.lost.is_empty() {
            return;
        }
        self.lost.retain(|lost| lost.told_by.is_none_or(|told| !serial::before(told, limit)));
        for lost in self.lost.iter_mut().filter(|lost| serial::before(lost.object, limit)) {
            lost.object = limit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_watermark_that_covers_a_lost_object_is_refused_however_often_it_is_asked_for() {
        let mut given_up = GivenUp::starting_at(65_530);
        given_up.add(65_535, true, None);
        assert!(given_up.on_asked(65_534));
        for _ in 0..2 {
            assert!(!given_up.on_asked(3));
            assert!(given_up.on_asked(4), "it speaks of what came after the one refused");
        }
        assert!(!given_up.on_asked(65_535), "the object itself is never acknowledged");
        assert!(given_up.on_asked(3), "its own watermark told the sender, so this one need not");
    }

    #[test]
    fn a_watermark_that_waited_when_the_object_was_given_up_is_the_one_refused() {
        let mut given_up = GivenUp::starting_at(0);
        given_up.add(5, true, Some(7));
        assert!(!given_up.on_asked(7));
        assert!(given_up.on_asked(8));
    }

    #[test]
    fn what_was_forgotten_is_not_vouched_for() {
        let mut given_up = GivenUp::starting_at(0);
        (0..=OBJECTS_MAX as u16).for_each(|number| given_up.add(2 * number, true, Some(2 * number)));
        assert!(!given_up.on_asked(0));
        assert!(given_up.on_asked(1), "nothing but the oldest is forgotten");
    }

    #[test]
    fn a_lost_object_is_not_taken_for_one_to_come_when_the_numbers_come_round() {
        let mut given_up = GivenUp::starting_at(0);
        given_up.add(10, true, Some(10));
        given_up.add(11, true, None);
        for first in 12..=u16::MAX {
            given_up.on_first(first);
        }
        assert!(!given_up.on_asked(u16::MAX), "no watermark told of the second one, however long ago it was");
        for first in 0..1000 {
            given_up.on_first(first);
        }
        assert!(given_up.on_asked(10), "it is another object");
    }
}
