//! One stream of a remote sender, from the first that is known of it until it was read to its end.

use super::asked::Asked;
use super::missing::Missing;
use super::stream::RxStream;
use crate::ObjectId;
use crate::config::{FecId, NackingMode};
use crate::time::Time;
use crate::wire::command::Position;
use crate::wire::object::ObjectHeader;
use crate::wire::repair::RepairWriter;
use crate::wire::{Fti, PayloadId, RepairFlags};

/// Whether NORM_INFO of it is here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InfoState {
    /// None was promised.
    None,
    Missing,
    Have,
}

/// What is known of a stream.
#[derive(Debug)]
pub enum Body {
    /// It exists; this is what to ask for. `None` asks for the whole object.
    Wanted(Option<Position>),
    /// It was heard, and its owner is to say where to join it.
    Unjoined(Heard),
    Open(Box<RxStream>),
    /// It ended and was read.
    Closed,
}

/// The first that was heard of a stream.
#[derive(Debug)]
pub struct Heard {
    pub header: ObjectHeader,
    pub fti: Fti,
    pub payload_id: PayloadId,
    pub symbol: Vec<u8>,
}

#[derive(Debug)]
pub struct StreamEntry {
    pub object: ObjectId,
    pub info: InfoState,
    /// The scheme in which to ask for its NORM_INFO.
    pub fec_id: FecId,
    pub body: Body,
    /// A watermark to acknowledge, and from when on.
    pub ack: Option<(Position, Time)>,
    /// It is to be acknowledged how far it is, and when, though the watermark is farther on: it is full of what was not read.
    pub full_at: Option<Time>,
    /// What others asked for.
    pub asked: Asked,
}

impl StreamEntry {
    /// Bytes of the session's memory it holds.
    pub fn memory(&self) -> usize {
        match &self.body {
            Body::Open(stream) => stream.memory(),
            Body::Unjoined(heard) => heard.symbol.len(),
            Body::Wanted(_) | Body::Closed => 0,
        }
    }

    /// Whether something of it is missing that is to be asked for, unless somebody else did in this cycle.
    pub fn is_missing(&self, nacking: NackingMode, unless_in: Option<u16>) -> bool {
        self.asked.lacks_info(self.info, nacking, unless_in)
            || nacking == NackingMode::Full
                && match &self.body {
                    Body::Open(stream) => stream.is_missing(unless_in),
                    Body::Wanted(_) => self.asked.lacks_object(unless_in),
                    Body::Unjoined(_) | Body::Closed => false,
                }
    }

    pub fn open(&self) -> Option<&RxStream> {
        if let Body::Open(stream) = &self.body { Some(stream) } else { None }
    }

    pub fn open_mut(&mut self) -> Option<&mut RxStream> {
        if let Body::Open(stream) = &mut self.body { Some(stream) } else { None }
    }

    /// Whether a watermark that is to be acknowledged was reached.
    pub fn is_ack_ready(&self) -> bool {
        self.ack.is_some_and(|(position, _)| match &self.body {
            Body::Open(stream) => {
                stream.blocks.layout.fec_id == position.fec_id && stream.has_up_to(position.payload_id)
            }
            Body::Closed => true,
            Body::Wanted(_) | Body::Unjoined(_) => false,
        })
    }

    /// How far it is, if that is to be acknowledged because it is full. It is not, where nothing of it ever came.
    pub fn take_full(&mut self, now: Time) -> Option<Position> {
        self.full_at.take_if(|at| *at <= now)?;
        let stream = self.open().filter(|stream| stream.window.is_full())?;
        let last = stream.window.complete.checked_sub(1)?;
        Some(stream.blocks.layout.position(self.object, last))
    }

    /// Asks for what is missing of one object. False if there was no room for all of it.
    pub fn write_requests(
        &self,
        nacking: NackingMode,
        fresh_only: bool,
        requests: &mut RepairWriter,
    ) -> bool {
        let whole = Position { fec_id: self.fec_id, object: self.object, payload_id: PayloadId::default() };
        if self.info == InfoState::Missing && !requests.push(RepairFlags::INFO, whole, whole) {
            return false;
        }
        if nacking != NackingMode::Full {
            return true;
        }
        match &self.body {
            Body::Unjoined(_) | Body::Closed => true,
            Body::Wanted(position) => {
                let flags = if position.is_some() { RepairFlags::SEGMENT } else { RepairFlags::OBJECT };
                let item = position.unwrap_or(whole);
                requests.push(flags, item, item)
            }
            Body::Open(stream) => stream.write_requests(fresh_only, requests),
        }
    }
}
