//! A simulated node: a session, the application on top of it, and a clock that may be wrong.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use shoal_norm::{
    Chunk, Config, ConfigError, Destination, Event, NodeId, ObjectId, Session, Source, StreamId,
    StreamOptions, Time, WriteError,
};
use shoal_wire::frame::{self, FrameReader};

use crate::station::Station;

/// Longest message a simulated application takes.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A message as an application received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When, by the simulation's clock.
    pub at: Time,
    /// From which stream.
    pub stream: StreamId,
    /// What.
    pub body: Vec<u8>,
}

/// An event a session told, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// When, by the simulation's clock.
    pub at: Time,
    /// What.
    pub event: Event,
}

/// Messages an application wants to send, as frames.
#[derive(Debug, Default)]
struct Outbox {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first frame already written.
    written: usize,
    flush: bool,
    close: bool,
}

/// A clock that runs at its own speed from its own start.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Clock {
    /// What it shows when the simulation starts.
    pub offset: Duration,
    /// How much too fast it runs: 0.01 gains a second in a hundred.
    pub skew: f64,
}

impl Clock {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.skew > -1.0 && self.skew <= 1.0 {
            return Ok(());
        }
        Err(ConfigError::new("skew", "more than -1 and at most 1"))
    }

    pub(crate) fn read(&self, now: Time) -> Time {
        Time::ZERO + self.offset + Duration::from_nanos(now.as_nanos()).mul_f64(1.0 + self.skew)
    }

    /// When the clock will show `local`, never a moment too early.
    pub(crate) fn when(&self, local: Time) -> Time {
        if local == Time::NEVER {
            return local;
        }
        let elapsed = local.since(Time::ZERO + self.offset).div_f64(1.0 + self.skew);
        Time::ZERO + elapsed + Duration::from_nanos(u64::from(self.skew != 0.0))
    }
}

/// A simulated node.
pub struct Node {
    session: Session,
    clock: Clock,
    options: HashMap<ObjectId, StreamOptions>,
    outboxes: Vec<(ObjectId, Outbox)>,
    readers: HashMap<StreamId, FrameReader>,
    reading: bool,
    files: HashMap<ObjectId, Vec<u8>>,
    /// What its application received and nobody took yet.
    pub deliveries: Vec<Delivery>,
    /// How many messages its application received.
    pub delivered: usize,
    /// Pieces of streams in which no message could be found.
    pub unreadable: u64,
    /// What its session told, except what was only about reading and writing.
    pub occurrences: Vec<Occurrence>,
    /// The most receive memory ever held.
    pub receive_bytes_peak: usize,
    /// How it used its time.
    pub work: Work,
}

/// How a node used the time in which it had something to send.
#[derive(Copy, Clone, Debug, Default)]
pub struct Work {
    /// How long data waited to be sent.
    pub busy: Duration,
    /// Bytes sent in that time.
    pub busy_bytes: u64,
    /// Since when data waits, and what was sent by then.
    since: Option<(Time, u64)>,
}

impl Node {
    /// A node with a clock.
    pub fn new(config: Config, clock: Clock) -> Result<Node, ConfigError> {
        Ok(Node {
            session: Session::new(config)?,
            clock,
            options: HashMap::new(),
            outboxes: Vec::new(),
            readers: HashMap::new(),
            reading: true,
            files: HashMap::new(),
            deliveries: Vec::new(),
            delivered: 0,
            unreadable: 0,
            occurrences: Vec::new(),
            receive_bytes_peak: 0,
            work: Work::default(),
        })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Its id.
    pub fn id(&self) -> NodeId {
        self.session.node()
    }

    /// What its clock shows.
    pub fn local(&self, now: Time) -> Time {
        self.clock.read(now)
    }

    /// Starts over as a new instance that remembers nothing, with the same streams.
    pub fn restart(&mut self) -> Result<(), ConfigError> {
        let mut config = self.session.config().clone();
        config.instance = config.instance.wrapping_add(1);
        config.seed = config.seed.wrapping_add(1);
        self.session = Session::new(config)?;
        self.work.since = None;
        self.readers.clear();
        self.outboxes.clear();
        let mut options: Vec<_> = std::mem::take(&mut self.options).into_iter().collect();
        options.sort_by_key(|(object, _)| *object);
        for (_, stream) in options {
            // As many as were open before, so the bound that allowed them allows them again.
            let _ = self.open_stream(stream);
        }
        Ok(())
    }

    /// Opens a stream to send.
    pub fn open_stream(&mut self, options: StreamOptions) -> Result<ObjectId, WriteError> {
        let object = self.session.open_stream(&options)?;
        self.options.insert(object, options);
        self.outboxes.push((object, Outbox::default()));
        Ok(object)
    }

    fn outbox(&mut self, object: ObjectId) -> Result<&mut Outbox, WriteError> {
        let found = self.outboxes.iter_mut().find(|(known, _)| *known == object);
        found.map(|(_, outbox)| outbox).ok_or(WriteError::NoStream)
    }

    /// Queues a message; `flush` sends it without waiting for the segment to fill.
    pub fn publish(&mut self, object: ObjectId, body: &[u8], flush: bool) -> Result<(), WriteError> {
        let outbox = self.outbox(object)?;
        let mut framed = Vec::with_capacity(body.len() + 4);
        frame::write(body, &mut framed);
        outbox.frames.push_back(framed);
        outbox.flush |= flush;
        Ok(())
    }

    /// Sends what is written without waiting for the segment to fill.
    pub fn flush(&mut self, object: ObjectId) -> Result<(), WriteError> {
        self.outbox(object)?.flush = true;
        Ok(())
    }

    /// Ends a stream once its messages are written.
    pub fn close_stream(&mut self, object: ObjectId) -> Result<(), WriteError> {
        self.outbox(object)?.close = true;
        Ok(())
    }

    /// Messages that wait because the session took no more.
    pub fn backlog(&self) -> usize {
        self.outboxes.iter().map(|(_, outbox)| outbox.frames.len()).sum()
    }

    /// Whether the application reads what arrives.
    pub fn set_reading(&mut self, reading: bool) {
        self.reading = reading;
    }

    /// Sends a file whose bytes the node holds in place of a disk. `None` if there is no room for it now.
    pub fn send_file(
        &mut self,
        now: Time,
        content: Vec<u8>,
        info: &[u8],
    ) -> Result<Option<ObjectId>, WriteError> {
        let length = content.len() as u64;
        let object = self.command(now, |session, local| session.send_file(local, length, info))?;
        if let Some(object) = object {
            self.files.insert(object, content);
        }
        Ok(object)
    }

    /// Gives the session the bytes of files it asks for.
    fn supply_files(&mut self) {
        while let Some(read) = self.session.poll_read() {
            let start = read.offset as usize;
            if let Some(bytes) =
                self.files.get(&read.object).and_then(|file| file.get(start..start + read.bytes))
            {
                self.session.supply_file(read.object, read.offset, bytes);
            }
        }
    }

    /// Gives a command to the session.
    pub fn command<R>(&mut self, now: Time, command: impl FnOnce(&mut Session, Time) -> R) -> R {
        let local = self.local(now);
        command(&mut self.session, local)
    }

    /// Writes what the session takes.
    pub fn write(&mut self, now: Time) {
        self.supply_files();
        let local = self.local(now);
        for (object, outbox) in &mut self.outboxes {
            while let Some(framed) = outbox.frames.front() {
                let part = &framed[outbox.written..];
                let Ok(taken) = self.session.write(local, *object, part, outbox.written == 0) else {
                    outbox.frames.clear();
                    break;
                };
                outbox.written += taken;
                if outbox.written < framed.len() {
                    break;
                }
                outbox.frames.pop_front();
                outbox.written = 0;
            }
            if outbox.frames.is_empty() {
                if std::mem::take(&mut outbox.flush) {
                    let _ = self.session.flush(local, *object);
                }
                if outbox.close {
                    outbox.close = !self.session.close_stream(local, *object).unwrap_or(true);
                }
            }
        }
    }

    /// Takes events, and reads what can be read.
    pub fn read(&mut self, now: Time) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Readable { stream } => {
                    self.readers.entry(stream).or_insert_with(|| FrameReader::new(MESSAGE_BYTES_MAX));
                }
                Event::Writable { .. } => self.write(now),
                Event::StreamClosed { stream, .. } => {
                    self.readers.remove(&stream);
                    self.occurrences.push(Occurrence { at: now, event });
                }
                _ => self.occurrences.push(Occurrence { at: now, event }),
            }
            if self.reading {
                self.read_streams(now);
            }
        }
        if self.reading {
            self.read_streams(now);
        }
        self.receive_bytes_peak = self.receive_bytes_peak.max(self.session.receive_bytes());
    }

    fn read_streams(&mut self, now: Time) {
        let local = self.local(now);
        let mut streams: Vec<StreamId> = self.readers.keys().copied().collect();
        streams.sort_unstable();
        let Node { session, readers, deliveries, delivered, unreadable, .. } = self;
        for stream in streams {
            while let Some(chunk) = session.read(stream) {
                let used = chunk.bytes.len();
                *delivered += read_chunk(now, stream, chunk, readers, deliveries, unreadable);
                session.consume(local, stream, used);
            }
        }
    }

    /// Takes note of whether data waits, and of what was sent while it did.
    pub fn account(&mut self, now: Time) {
        let sent = self.session.stats().bytes_sent;
        if let Some((since, before)) = self.work.since {
            self.work.busy += now.since(since);
            self.work.busy_bytes += sent - before;
        }
        let waits = self
            .outboxes
            .iter()
            .any(|(object, outbox)| !outbox.frames.is_empty() || self.session.segments_waiting(*object) > 0);
        self.work.since = waits.then_some((now, sent));
    }
}

impl Station for Node {
    /// Every second node reads what it can where it arrived, so that both ways are tried.
    fn handle_datagram(&mut self, now: Time, _link: usize, from: Source, datagram: &[u8]) {
        let local = self.local(now);
        if self.reading && self.session.node().is_multiple_of(2) {
            let Node { session, readers, deliveries, delivered, unreadable, .. } = self;
            session.handle_datagram_with(local, from, datagram, &mut |stream, chunk| {
                *delivered += read_chunk(now, stream, chunk, readers, deliveries, unreadable);
                true
            });
        } else {
            self.session.handle_datagram(local, from, datagram);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.command(now, |session, local| session.handle_timeout(local));
    }

    fn turn(&mut self, now: Time) {
        self.read(now);
        self.write(now);
    }

    fn transmit(&mut self, now: Time, _link: usize, datagram: &mut dyn FnMut(Destination, &[u8])) -> bool {
        let sent = self.command(now, |session, local| {
            let burst = session.poll_transmit(local)?;
            burst.datagrams().for_each(|bytes| datagram(burst.to, bytes));
            Some(())
        });
        if sent.is_some() {
            self.write(now);
        }
        sent.is_some()
    }

    fn finish_turn(&mut self, now: Time) {
        self.read(now);
        self.account(now);
    }

    fn deadline(&self) -> Time {
        self.clock.when(self.session.poll_timeout())
    }
}

/// Reads the frames in a stream's next bytes; returns how many there were.
fn read_chunk(
    now: Time,
    stream: StreamId,
    chunk: Chunk<'_>,
    readers: &mut HashMap<StreamId, FrameReader>,
    deliveries: &mut Vec<Delivery>,
    unreadable: &mut u64,
) -> usize {
    let reader = readers.entry(stream).or_insert_with(|| FrameReader::new(MESSAGE_BYTES_MAX));
    if chunk.fresh {
        reader.reset();
    }
    let before = deliveries.len();
    let each = |body: &[u8], _| {
        deliveries.push(Delivery { at: now, stream, body: body.to_vec() });
        false
    };
    if reader.read(chunk.bytes, each).is_err() {
        // Simulated applications write whole frames: the engine gave bytes out of place.
        *unreadable += 1;
        reader.reset();
    }
    deliveries.len() - before
}
