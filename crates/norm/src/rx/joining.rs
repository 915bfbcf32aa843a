//! Which of a sender's numbers are streams, and where a receiver joins them.

use super::asked::Asked;
use super::entry::{Body, InfoState, StreamEntry};
use super::remote::Remote;
use super::scope::Scope;
use super::stream::RxStream;
use crate::ObjectId;
use crate::config::{FecId, Join, SyncPolicy};
use crate::event::Event;
use crate::stats::{Reject, Taken};
use crate::wire::command::Position;
use crate::wire::object::ObjectHeader;
use crate::wire::{Data, Flags};

/// A stream that ended is forgotten when objects are so many numbers on: the same number may come again.
const ENDED_KEPT_NUMBERS: u16 = 1 << 14;

/// Whether a number is so far behind another that its stream, which ended, need not be remembered.
fn is_long_past(ended: ObjectId, newer: ObjectId) -> bool {
    (ENDED_KEPT_NUMBERS..1 << 15).contains(&newer.wrapping_sub(ended))
}

impl Remote {
    pub(super) fn stream_for(&mut self, header: &ObjectHeader, scope: &mut Scope<'_>) -> Taken<usize> {
        self.objects.set_stream(header.object, scope);
        if !self.refused.is_empty() {
            self.refused.retain(|refused| *refused != header.object);
        }
        self.find_or_add(header.object, None, scope)
    }

    /// A number that was asked for as if it were a stream's is an object's; so is that of a stream that ended long
    /// ago.
    pub(super) fn forget_wanted(&mut self, object: ObjectId) {
        self.streams.retain(|known| match known.body {
            Body::Wanted(_) => known.object != object,
            Body::Closed => known.object != object && !is_long_past(known.object, object),
            Body::Unjoined(_) | Body::Open(_) => true,
        });
    }

    pub(super) fn find_or_add(
        &mut self,
        object: ObjectId,
        position: Option<Position>,
        scope: &mut Scope<'_>,
    ) -> Taken<usize> {
        if let Some(index) = self.streams.iter().position(|known| known.object == object) {
            return Ok(index);
        }
        self.add(object, position, scope)?;
        if !self.synced {
            self.synced = true;
            if scope.config.sync == SyncPolicy::All {
                let older = (0..object).rev().take(scope.config.streams_per_sender_max);
                for object in older {
                    if self.add(object, None, scope).is_err() {
                        break;
                    }
                }
            }
        }
        self.streams.iter().position(|known| known.object == object).ok_or(Reject::TooManyObjects)
    }

    fn add(&mut self, object: ObjectId, position: Option<Position>, scope: &mut Scope<'_>) -> Taken {
        self.streams
            .retain(|known| !matches!(known.body, Body::Closed) || !is_long_past(known.object, object));
        if self.streams.len() >= scope.config.streams_per_sender_max {
            let closed = |known: &StreamEntry| matches!(known.body, Body::Closed);
            // Anybody can name a stream; where its owner says which ones to join, one that is there is heard again.
            let asks = scope.config.sync == SyncPolicy::Ask;
            let unjoined =
                |known: &StreamEntry| asks && matches!(known.body, Body::Wanted(_) | Body::Unjoined(_));
            let dispensable =
                self.streams.iter().position(closed).or_else(|| self.streams.iter().position(unjoined));
            let gone = self.streams.remove(dispensable.ok_or(Reject::TooManyObjects)?);
            *scope.memory_left += gone.memory();
        }
        self.streams.push(StreamEntry {
            object,
            info: InfoState::None,
            fec_id: FecId::ReedSolomon8,
            body: Body::Wanted(position),
            ack: None,
            full_at: None,
            asked: Asked::default(),
        });
        Ok(())
    }

    pub(super) fn open(
        &mut self,
        index: usize,
        data: &Data<'_>,
        at: Option<u64>,
        scope: &mut Scope<'_>,
    ) -> Taken {
        let id = self.stream_id(data.header.object);
        let stream = RxStream::join(id, data, at, scope)?;
        self.streams[index].body = Body::Open(Box::new(stream));
        scope.events.push_back(Event::StreamOpened { stream: id });
        Ok(())
    }

    /// The owner says where to join a stream, before or after it was heard.
    pub fn join(&mut self, object: ObjectId, join: Join, scope: &mut Scope<'_>) -> Taken {
        let index = self.streams.iter().position(|known| known.object == object);
        let heard = index.and_then(|index| match &mut self.streams[index].body {
            Body::Unjoined(heard) => {
                Some((index, heard.header, heard.payload_id, heard.fti, &mut heard.symbol))
            }
            _ => None,
        });
        let Some((index, header, payload_id, fti, symbol)) = heard else {
            if self.told.len() < scope.config.streams_per_sender_max {
                self.told.push((object, join));
            }
            return Ok(());
        };
        // It counts as what is sent for the first time, whatever it was.
        let (header, symbol) = (ObjectHeader { flags: Flags::default(), ..header }, std::mem::take(symbol));
        let data = Data { header, payload_id, fti: Some(fti), payload: &symbol };
        *scope.memory_left += symbol.len();
        let at = match join {
            Join::Here => None,
            Join::At(segment) => Some(segment),
        };
        self.open(index, &data, at, scope)?;
        if let Some(stream) = self.streams[index].open_mut() {
            // What was heard may lie before where we join, and then counts as a duplicate.
            stream.receive(&data, &mut |_, _| false, scope)?;
        }
        self.after_progress(index, scope);
        Ok(())
    }
}
