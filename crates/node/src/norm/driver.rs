//! What a NORM link does between its sockets and what runs on top of it: receive, deliver, write, transmit.
//!
//! Whoever moves the datagrams calls, in each turn: [`Driver::note_room`], [`Driver::handle_datagrams`] for what came,
//! [`Driver::deliver`], [`Driver::serve`], [`Driver::write`], [`Driver::poll_transmit`] until there is nothing, and
//! [`Driver::deliver`] once more. Then nothing is to be done before [`Driver::poll_timeout`].

use std::sync::Arc;

use shoal_norm::{
    Chunk, Event, NodeId, Session, Source, StreamId, StreamOptions, Time, Transmit, WriteError,
};

use super::application::{Application, Taken};
use super::lane::LaneWriter;
use crate::hub::{Chains, LinkId};

/// What an application is offered at once, though its window holds more: it may have room for no more than that.
const READ_BYTES: usize = 64 << 10;

/// The driver of a link.
pub struct Driver {
    /// The protocol.
    pub session: Session,
    lanes: Vec<LaneWriter>,
    chains: Arc<Chains>,
    link: LinkId,
    application: Box<dyn Application>,
    /// Streams that may have something to read.
    readable: Vec<StreamId>,
    /// Streams whose reader lost its place.
    broken: Vec<StreamId>,
    /// Lanes that were said to be blocked.
    blocked: Vec<bool>,
    ending: bool,
    /// Kept for its memory.
    control: Vec<u8>,
}

/// Takes the place of an application that is gone.
struct Deaf;

impl Application for Deaf {
    fn take(&mut self, _now: Time, _stream: StreamId, _chunk: Chunk<'_>) -> Taken {
        Taken::Nothing
    }

    fn event(&mut self, _now: Time, _session: &mut Session, _event: &Event) {}

    fn batch_done(&mut self, _now: Time) {}

    fn fail(&mut self, _why: &str) {}
}

impl Driver {
    /// Opens a stream for each lane. What is to be sent comes from a link's buffers.
    pub fn new(
        mut session: Session,
        ackers: &[NodeId],
        streams: &[StreamOptions],
        chains: Arc<Chains>,
        link: LinkId,
        application: Box<dyn Application>,
    ) -> Result<Driver, WriteError> {
        session.set_ackers(ackers);
        let mut lanes = Vec::new();
        for options in streams {
            lanes.push(LaneWriter::new(session.open_stream(options)?));
        }
        Ok(Driver {
            session,
            blocked: vec![false; lanes.len()],
            lanes,
            chains,
            link,
            application,
            readable: Vec::new(),
            broken: Vec::new(),
            ending: false,
            control: Vec::new(),
        })
    }

    // --- getters ---

    /// What runs on top.
    pub fn application(&self) -> &dyn Application {
        &*self.application
    }

    /// Bytes that wait to be written to streams.
    pub fn waiting(&self) -> usize {
        self.chains.waiting(self.link) + self.lanes.iter().map(LaneWriter::waiting).sum::<usize>()
    }

    /// Bytes of a lane's frames that its stream has taken, ever.
    pub fn written(&self, lane: usize) -> u64 {
        self.lanes.get(lane).map_or(0, LaneWriter::written)
    }

    /// Whether somebody may be there who has not everything yet.
    pub fn has_audience(&self) -> bool {
        self.application.has_audience(&self.session)
    }

    /// Everything given to the link was sent, and acknowledged or announced.
    pub fn is_drained(&self) -> bool {
        self.waiting() == 0 && (self.session.is_quiet() || (self.session.is_sent() && !self.has_audience()))
    }

    /// Whether lanes other than the first are not written yet.
    pub fn holds_writes(&self) -> bool {
        self.application.holds_writes()
    }

    // --- input ---

    /// Tells the session whether the application has room, which asks for what it could not take if it has it again.
    pub fn note_room(&mut self, now: Time) {
        self.session.set_room(now, self.application.has_room());
    }

    /// Takes datagrams that came together.
    pub fn handle_datagrams<'a>(
        &mut self,
        now: Time,
        from: Source,
        datagrams: impl IntoIterator<Item = &'a [u8]>,
    ) {
        let Driver { session, application, broken, .. } = self;
        let mut take = |stream, chunk: Chunk<'_>| {
            // What follows in this run belongs to a message of which the beginning was thrown away.
            if broken.contains(&stream) {
                return false;
            }
            let taken = application.take(now, stream, chunk);
            if taken == Taken::Broken {
                broken.push(stream);
            }
            taken != Taken::Nothing
        };
        for datagram in datagrams {
            session.handle_datagram_with(now, from, datagram, &mut take);
        }
        for stream in self.broken.drain(..) {
            self.session.resync(now, stream);
        }
    }

    /// Whether what came decides what becomes of what comes next: then deliver and serve first.
    pub fn wants_turn(&self) -> bool {
        self.session.has_events() || self.application.wants_turn()
    }

    /// A batch was received: whoever waits for it may be woken.
    pub fn batch_done(&mut self, now: Time) {
        self.application.batch_done(now);
    }

    /// Hands everything that can be read to the application.
    pub fn deliver(&mut self, now: Time) {
        let mut told = false;
        while let Some(event) = self.session.poll_event() {
            told = true;
            match event {
                Event::Readable { stream } => {
                    if !self.readable.contains(&stream) {
                        self.readable.push(stream);
                    }
                    self.read_streams(now);
                }
                Event::Writable { .. } => {}
                event => self.application.event(now, &mut self.session, &event),
            }
        }
        told |= self.read_streams(now);
        if told {
            self.application.batch_done(now);
        }
    }

    fn read_streams(&mut self, now: Time) -> bool {
        if self.readable.is_empty() {
            return false;
        }
        let mut readable = std::mem::take(&mut self.readable);
        readable.retain(|&stream| self.read_stream(stream, now));
        self.readable = readable;
        true
    }

    /// Reads a stream as far as the application takes it. True if there may be more.
    fn read_stream(&mut self, stream: StreamId, now: Time) -> bool {
        while let Some(chunk) = self.session.read(stream) {
            let used = chunk.bytes.len().min(READ_BYTES);
            let taken = self.application.take(now, stream, Chunk { bytes: &chunk.bytes[..used], ..chunk });
            if taken == Taken::Nothing {
                return true;
            }
            self.session.consume(now, stream, used);
            if taken == Taken::Broken {
                self.session.resync(now, stream);
            }
        }
        false
    }

    /// Gives the application its turn.
    pub fn serve(&mut self, now: Time) {
        let mut control = std::mem::take(&mut self.control);
        self.application.serve(now, &mut self.session, &self.lanes, &mut control);
        if let Some(lane) = self.lanes.first_mut() {
            lane.say_first(&control);
        }
        control.clear();
        self.control = control;
    }

    // --- commands ---

    /// Moves what waits into the streams.
    pub fn write(&mut self, now: Time) {
        let open = if self.application.holds_writes() { 1 } else { self.lanes.len() };
        for (index, lane) in self.lanes[..open].iter_mut().enumerate() {
            lane.write(now, &mut self.session, &self.chains, self.link, index);
            if self.ending && lane.waiting() == 0 {
                let _ = self.session.close_stream(now, lane.object);
            }
        }
        for index in 0..self.lanes.len() {
            // What it could not take waits for receivers, and publishers need not ring for more.
            let blocked = index >= open || self.lanes[index].waiting() > 0;
            if self.set_blocked(index, blocked) && !blocked {
                // What came while nobody rang.
                self.lanes[index].write(now, &mut self.session, &self.chains, self.link, index);
            }
        }
    }

    /// Nothing more can be sent now. Lanes whose segments have to wait need not be rung for: what is published meanwhile
    /// gathers, and goes along with them. True if a lane waits no more, so that something may have gathered for it.
    pub fn settle(&mut self) -> bool {
        let mut goes_on = false;
        for index in 0..self.lanes.len() {
            let waits = self.session.segments_waiting(self.lanes[index].object) > 0;
            let blocked =
                waits || self.application.holds_writes() && index > 0 || self.lanes[index].waiting() > 0;
            goes_on |= self.set_blocked(index, blocked) && !blocked;
        }
        goes_on
    }

    /// Publishers need not ring for a lane, or need to. True if that is new.
    fn set_blocked(&mut self, index: usize, blocked: bool) -> bool {
        let changes = std::mem::replace(&mut self.blocked[index], blocked) != blocked;
        if changes {
            self.chains.set_blocked(index, self.link, blocked);
        }
        changes
    }

    /// Lets the application say its last word. Once that was transmitted, [`Session::leave`] may follow.
    pub fn begin_leaving(&mut self, now: Time) {
        self.application.leave(now, &mut self.session);
    }

    /// Ends every lane's stream once its frames are written. True if that was not asked for before.
    pub fn end_streams(&mut self) -> bool {
        !std::mem::replace(&mut self.ending, true)
    }

    /// Somebody is not heard, and does not hear us: why.
    pub fn tell(&mut self, why: &str) {
        self.application.tell(why);
    }

    /// The link's interface is gone: why.
    pub fn down(&mut self, why: &str) {
        self.application.down(why);
    }

    /// The link is on an interface again, with this address.
    pub fn up(&mut self, address: &str) {
        self.application.up(address);
    }

    /// The link cannot go on: why. The application is told, and hears nothing more.
    pub fn fail(&mut self, why: &str) {
        self.application.fail(why);
        self.drop_application();
    }

    /// Puts an application in place of the one there was, which hears nothing.
    pub fn drop_application(&mut self) {
        self.application = Box::new(Deaf);
    }

    // --- output ---

    /// The next run of datagrams to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        self.application.supply(&mut self.session);
        for lane in &mut self.lanes {
            lane.flush(now, &mut self.session);
        }
        self.session.poll_transmit(now)
    }

    /// When something is to be done though nothing comes.
    pub fn poll_timeout(&self) -> Time {
        self.session.poll_timeout().min(self.application.deadline())
    }
}
