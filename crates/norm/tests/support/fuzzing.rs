//! A session under a rain of random and of mutated datagrams.

use shoal_norm::{
    AuthLabel, CongestionControl, Event, FecId, Join, Session, Source, StreamId, StreamOptions, SyncPolicy,
    Time,
};

use super::{START, address, corpus, session, step};

const RECEIVE_BYTES_MAX: usize = 4 << 20;
/// After so many inputs the session is served, as a driver would.
const SERVE_EVERY: u64 = 16;
/// More datagrams at one moment than the session can have reason to send.
const TRANSMITS_MAX: usize = 100_000;

/// The session and what rains on it.
pub struct Fuzz {
    random: fastrand::Rng,
    corpus: Vec<Vec<u8>>,
    cursor: usize,
    victim: Session,
    stream: u16,
    readable: Vec<StreamId>,
    now: Time,
    input: Vec<u8>,
    fed: u64,
}

impl Fuzz {
    pub fn new(seed: u64) -> Fuzz {
        // It has the id of the corpus's sender, so that feedback in the corpus is for it.
        let mut victim = session(corpus::SENDER, |config| {
            config.receive_bytes_max = RECEIVE_BYTES_MAX;
            config.receive_window_bytes = 256 << 10;
            config.senders_max = 32;
            config.sender_idle_after = std::time::Duration::from_millis(50);
            config.streams_per_sender_max = 16;
            config.fec_id = [FecId::ReedSolomon8, FecId::NoCode, FecId::SmallBlock][(seed % 3) as usize];
            config.segment_bytes = if seed.is_multiple_of(2) { 100 } else { 16 };
            config.block_symbols = 8;
            if config.fec_id != FecId::NoCode {
                (config.parity_symbols, config.auto_parity) = (4, 1);
            }
            config.congestion =
                [CongestionControl::NormCc, CongestionControl::NackDriven, CongestionControl::Delivery]
                    [(seed / 3 % 3) as usize];
            config.object_idle_after = std::time::Duration::from_millis(200);
            config.rate_bytes_per_s = Some(1e6);
            // Feedback in the corpus claims all kinds of loss; it must not stop the victim from sending.
            config.rate_min_bytes_per_s = 1e5;
            if seed % 3 == 2 {
                config.auth = Some(std::sync::Arc::new(AuthLabel::new(b"corpus", false)));
            }
            config.sync = if seed.is_multiple_of(2) { SyncPolicy::All } else { SyncPolicy::Current };
            if seed % 4 == 3 {
                // As a bus has it.
                config.sync = SyncPolicy::Ask;
                (config.receive_objects, config.backoff_factor) = (false, 0);
            }
        });
        let options = StreamOptions { cache_bytes: 64 << 10, ..StreamOptions::default() };
        let stream = victim.open_stream(&options).expect("the first stream");
        victim.set_ackers(&[2, 3]);
        Fuzz {
            random: fastrand::Rng::with_seed(seed),
            corpus: corpus::capture(),
            cursor: 0,
            victim,
            stream,
            readable: Vec::new(),
            now: START,
            input: Vec::new(),
            fed: 0,
        }
    }

    /// Feeds `count` inputs; panics if a bound is passed.
    pub fn run(&mut self, count: u64) {
        for _ in 0..count {
            self.make_input();
            let source = Source {
                address: address(self.random.u32(1..60_000)),
                unicast: self.random.bool(),
                waited: std::time::Duration::from_millis(self.random.u64(..5000)),
            };
            self.victim.handle_datagram(self.now, source, &self.input);
            self.fed += 1;
            assert!(self.victim.receive_bytes() <= RECEIVE_BYTES_MAX, "input {} broke the bound", self.fed);
            if self.fed.is_multiple_of(SERVE_EVERY) {
                self.serve();
            }
        }
        assert_eq!(self.victim.stats().datagrams_received, self.fed);
        assert!(self.victim.senders().count() <= 32);
    }

    /// How many inputs were refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.victim.stats().rejected.iter().sum()
    }

    /// How many reasons for a refusal occurred.
    pub fn reasons(&self) -> usize {
        self.victim.stats().rejected.iter().filter(|&&count| count > 0).count()
    }

    fn make_input(&mut self) {
        self.input.clear();
        if self.random.u8(..) < 12 {
            let length = self.random.usize(0..200);
            self.input.extend((0..length).map(|_| self.random.u8(..)));
            return;
        }
        // About in the order of the capture, so that positions make sense to whoever accepted the ones before.
        self.cursor = (self.cursor + self.random.usize(0..2)) % self.corpus.len();
        let picked = (self.cursor + self.random.usize(0..30)) % self.corpus.len();
        self.input.extend_from_slice(&self.corpus[picked]);
        let (kind, _) = corpus::kind(&self.input);
        if kind <= 3 {
            // What a sender says comes from a handful of others; they change as the capture goes on.
            let somebody = 2 + (self.cursor / 300 * 3) as u32 % 3_000 + self.random.u32(0..4);
            self.input[4..8].copy_from_slice(&somebody.to_be_bytes());
        }
        if self.random.u8(..) < 128 {
            for _ in 0..self.random.u32(1..4) {
                self.mutate();
            }
        }
    }

    fn mutate(&mut self) {
        let length = self.input.len();
        if length < 8 {
            return;
        }
        // Headers decide more than payloads do.
        let at = if self.random.bool() {
            self.random.usize(0..length.min(48))
        } else {
            self.random.usize(0..length)
        };
        match self.random.u8(0..9) {
            0 => self.input[at] ^= 1 << self.random.u8(0..8),
            1 => self.input[at] = self.random.u8(..),
            2 => self.input[at] = [0, 1, 0x7f, 0x80, 0xff][self.random.usize(0..5)],
            3 => self.input.truncate(at),
            4 => {
                let added = self.random.usize(0..40);
                self.input.extend((0..added).map(|_| self.random.u8(..)));
            }
            5 => {
                let end = (at + 4).min(length);
                let extreme = if self.random.bool() { 0xff } else { 0 };
                self.input[at..end].fill(extreme);
            }
            // Object ids and positions, where both data and commands have them.
            6 if length > 20 => self.input[15] = self.random.u8(0..8),
            7 if length > 20 => self.input[16 + self.random.usize(0..4)] = self.random.u8(..),
            _ => {
                let other = &self.corpus[self.random.usize(0..self.corpus.len())];
                let end = length.min(other.len()).min(at + 24);
                if at < end {
                    self.input[at..end].copy_from_slice(&other[at..end]);
                }
            }
        }
    }

    fn serve(&mut self) {
        self.now = step(self.now, self.random.u64(0..2_000));
        let _ = self.victim.write(self.now, self.stream, &[7; 64], true);
        let _ = self.victim.send_data(self.now, &[9; 700], b"");
        while let Some(read) = self.victim.poll_read() {
            self.victim.supply_file(read.object, read.offset, &vec![1; read.bytes]);
        }
        self.victim.handle_timeout(self.now);
        let mut transmits = 0;
        while self.victim.poll_transmit(self.now).is_some() {
            transmits += 1;
            assert!(transmits < TRANSMITS_MAX, "after input {} it never stops sending", self.fed);
        }
        while let Some(event) = self.victim.poll_event() {
            match event {
                Event::Readable { stream } => self.readable.push(stream),
                // An application that wants no more of some objects, and thinks that some senders are dead.
                Event::ObjectOpened { object, .. } | Event::DataReceived { object, .. }
                    if self.random.u8(..) < 16 =>
                {
                    self.victim.abandon_object(object);
                    self.victim.rest_sender(object.node, object.instance);
                }
                Event::StreamHeard { stream } => {
                    let join = if self.random.bool() { Join::Here } else { Join::At(self.random.u64(..200)) };
                    self.victim.join(self.now, stream, join);
                }
                Event::StreamClosed { stream, .. } => self.readable.retain(|known| *known != stream),
                _ => {}
            }
        }
        let _ = self.victim.poll_timeout();
        // An application that sometimes does not read.
        if self.random.u8(..) < 200 {
            self.read();
        }
    }

    fn read(&mut self) {
        for stream in std::mem::take(&mut self.readable) {
            while let Some(chunk) = self.victim.read(stream) {
                let used = self.random.usize(0..=chunk.bytes.len());
                self.victim.consume(self.now, stream, used);
                if used == 0 {
                    break;
                }
            }
            if self.random.u8(..) < 16 {
                self.victim.rest_sender(stream.node, stream.instance);
            }
        }
    }
}

impl Fuzz {
    /// Every counter that moved, for reports.
    pub fn counters(&self) -> String {
        let moved = self.victim.stats().named().filter(|(_, count)| *count > 0);
        moved.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}
