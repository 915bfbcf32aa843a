//! One object of known length of a remote sender, from the first that is known of it until it is done.

use super::asked::Asked;
use super::entry::InfoState;
use super::missing::Missing;
use super::object::RxObject;
use crate::config::NackingMode;
use crate::time::Time;
use crate::wire::command::Position;

/// What is known of the object.
#[derive(Debug)]
pub enum Body {
    /// Nothing of it came since then.
    Wanted {
        since: Time,
    },
    Open(Box<RxObject>),
    /// It is complete, given up, or a stream.
    Closed,
}

/// The place of an object among those of its sender.
#[derive(Debug)]
pub struct Slot {
    pub info: InfoState,
    pub body: Body,
    /// A watermark to acknowledge, and from when on.
    pub ack: Option<(Position, Time)>,
    /// What others asked for.
    pub asked: Asked,
}

impl Slot {
    /// An object of which nothing came yet.
    pub fn wanted(now: Time) -> Slot {
        let body = Body::Wanted { since: now };
        Slot { info: InfoState::None, body, ack: None, asked: Asked::default() }
    }

    /// Whether something of it is missing that is to be asked for, unless somebody else did in this cycle.
    pub fn is_missing(&self, nacking: NackingMode, unless_in: Option<u16>) -> bool {
        self.asked.lacks_info(self.info, nacking, unless_in)
            || nacking == NackingMode::Full
                && match &self.body {
                    Body::Open(open) => open.is_missing(unless_in),
                    Body::Wanted { .. } => self.asked.lacks_object(unless_in),
                    Body::Closed => false,
                }
    }

    /// Since when nothing of it came, unless it is done.
    pub fn idle_since(&self) -> Option<Time> {
        match &self.body {
            Body::Wanted { since } => Some(*since),
            Body::Open(open) => Some(open.last_progress),
            Body::Closed => None,
        }
    }
}
