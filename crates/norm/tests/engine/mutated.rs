//! Copies of a flow's own datagrams, with bytes changed, as anybody can send them who has no key.

use std::time::Duration;

use crate::support::{START, address, from, read_counting, session};
use shoal_norm::{
    Config, Destination, Event, FeedbackMode, Join, Session, Source, StreamId, StreamOptions, SyncPolicy,
    Time,
};

const SENDER: u32 = 1;
const READERS: [u32; 2] = [2, 3];
const STRANGER: u32 = 99;
/// So many copies come in a millisecond, of what was sent in the last seconds.
const COPIES_PER_MS: usize = 4;
const RECORDED_MAX: usize = 4_000;
/// Bytes that the sender's application has in a millisecond.
const WRITTEN_PER_MS: usize = 3_000;

/// A session as a bus has it.
fn member(node: u32) -> Session {
    session(node, |config: &mut Config| {
        config.sync = SyncPolicy::Ask;
        config.receive_objects = false;
        config.feedback = FeedbackMode::UnicastAcks;
        config.backoff_factor = 0;
        config.segment_bytes = 500;
        config.grtt_initial = Duration::from_millis(1);
        config.acker_patience = Duration::from_millis(500);
    })
}

struct Reader {
    session: Session,
    stream: Option<StreamId>,
    expected: u8,
    read: usize,
    /// For how long it read nothing, at the most, and since when.
    longest: Duration,
    read_at: Time,
    suspicious: Vec<Event>,
}

/// A flow to two readers, and somebody who sends changed copies of it.
struct Flow {
    sender: Session,
    object: u16,
    written: u8,
    readers: Vec<Reader>,
    now: Time,
    recorded: Vec<Vec<u8>>,
    random: fastrand::Rng,
    suspicious: Vec<Event>,
}

impl Flow {
    fn new(seed: u64) -> Flow {
        println!("seed {seed}");
        let mut sender = member(SENDER);
        let options = StreamOptions { window_bytes: Some(256 << 10), ..StreamOptions::default() };
        let object = sender.open_stream(&options).unwrap();
        sender.set_ackers(&READERS);
        let reader = |node| Reader {
            session: member(node),
            stream: None,
            expected: 0,
            read: 0,
            longest: Duration::ZERO,
            read_at: START,
            suspicious: Vec::new(),
        };
        Flow {
            sender,
            object,
            written: 0,
            readers: READERS.into_iter().map(reader).collect(),
            now: START,
            recorded: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            suspicious: Vec::new(),
        }
    }

    /// What somebody at the group hears is recorded; what is sent to one node he does not hear.
    fn record(&mut self, datagram: &[u8]) {
        if self.recorded.len() < RECORDED_MAX {
            self.recorded.push(datagram.to_vec());
        } else {
            let at = self.random.usize(..RECORDED_MAX);
            self.recorded[at] = datagram.to_vec();
        }
    }

    fn deliver(&mut self, from: Source, to: Destination, datagram: &[u8]) {
        let is_for = |node: u32| match to {
            Destination::Group => from.address != address(node),
            Destination::Node(address_of) => address_of == address(node),
        };
        let from = Source { unicast: matches!(to, Destination::Node(_)), ..from };
        if is_for(SENDER) {
            self.sender.handle_datagram(self.now, from, datagram);
        }
        for (node, reader) in READERS.into_iter().zip(&mut self.readers) {
            if is_for(node) {
                reader.session.handle_datagram(self.now, from, datagram);
            }
        }
    }

    fn transmit(&mut self) {
        let mut sent = Vec::new();
        while let Some(transmit) = self.sender.poll_transmit(self.now) {
            sent.extend(transmit.datagrams().map(|datagram| (SENDER, transmit.to, datagram.to_vec())));
        }
        for (node, reader) in READERS.into_iter().zip(&mut self.readers) {
            while let Some(transmit) = reader.session.poll_transmit(self.now) {
                sent.extend(transmit.datagrams().map(|datagram| (node, transmit.to, datagram.to_vec())));
            }
        }
        for (node, to, datagram) in sent {
            if to == Destination::Group {
                self.record(&datagram);
            }
            self.deliver(from(node), to, &datagram);
        }
    }

    /// A copy of which up to three bytes among the first are others.
    fn changed_copy(&mut self, first: std::ops::Range<usize>) -> Vec<u8> {
        let mut copy = self.recorded[self.random.usize(..self.recorded.len())].clone();
        for _ in 0..self.random.usize(1..4) {
            let at = self.random.usize(first.start..first.end.min(copy.len()).max(first.start + 1));
            if let Some(byte) = copy.get_mut(at) {
                *byte = self.random.u8(..);
            }
        }
        copy
    }

    /// A millisecond of the flow. What is changed, if anything, is a few bytes of these.
    fn go_on(&mut self, attack: Option<std::ops::Range<usize>>, written: usize) {
        let body: Vec<u8> = (0..written).map(|at| self.written.wrapping_add(at as u8)).collect();
        let taken = self.sender.write(self.now, self.object, &body, true).unwrap();
        let _ = self.sender.flush(self.now, self.object);
        self.written = self.written.wrapping_add(taken as u8);
        self.transmit();
        if let Some(bytes) = attack {
            for _ in 0..COPIES_PER_MS {
                let copy = self.changed_copy(bytes.clone());
                self.deliver(from(STRANGER), Destination::Group, &copy);
            }
        }
        self.now += Duration::from_millis(1);
        self.sender.handle_timeout(self.now);
        while let Some(event) = self.sender.poll_event() {
            if matches!(event, Event::AckerSilent { .. } | Event::NodeIdTaken) {
                self.suspicious.push(event);
            }
        }
        for reader in &mut self.readers {
            reader.session.handle_timeout(self.now);
            while let Some(event) = reader.session.poll_event() {
                match event {
                    Event::StreamHeard { stream }
                        if stream == StreamId { node: SENDER, instance: 1, object: self.object } =>
                    {
                        reader.stream = Some(stream);
                        reader.session.join(self.now, stream, Join::At(0));
                    }
                    Event::Gap { stream, .. } | Event::StreamClosed { stream, .. }
                        if Some(stream) == reader.stream =>
                    {
                        reader.suspicious.push(event);
                    }
                    _ => {}
                }
            }
            let Some(stream) = reader.stream else { continue };
            let (read, fine) = read_counting(&mut reader.session, self.now, stream, &mut reader.expected);
            assert!(fine, "after {:?} the stream is not what was written", self.now.since(START));
            reader.read += read;
            reader.longest = reader.longest.max(self.now.since(reader.read_at));
            if read > 0 {
                reader.read_at = self.now;
            }
        }
    }
}

/// What becomes of a flow while bytes of its copies are changed: which share of it arrives, and how long nothing does.
fn under_attack(seed: u64, bytes: &std::ops::Range<usize>) -> (f64, Duration) {
    let mut flow = Flow::new(seed);
    (0..500).for_each(|_| flow.go_on(None, WRITTEN_PER_MS));
    let before: Vec<usize> = flow.readers.iter().map(|reader| reader.read).collect();
    const MILLIS: usize = 5_000;
    (0..MILLIS).for_each(|_| flow.go_on(Some(bytes.clone()), WRITTEN_PER_MS));
    let least = flow.readers.iter().zip(before).map(|(reader, before)| reader.read - before).min().unwrap();
    let longest = flow.readers.iter().map(|reader| reader.longest).max().unwrap();
    // All of it comes once the attack is over.
    (0..3_000).for_each(|_| flow.go_on(None, 0));
    let written = flow.sender.bytes_written(flow.object);
    let share = least as f64 / (MILLIS * WRITTEN_PER_MS) as f64;
    for reader in &flow.readers {
        assert_eq!(reader.suspicious, [], "bytes {bytes:?}: {:?}", reader.session.stats());
        assert_eq!(reader.read as u64, written, "bytes {bytes:?}: {:?}", reader.session.stats());
    }
    assert_eq!(flow.suspicious, [], "bytes {bytes:?}: {:?}", flow.sender.stats());
    (share, longest)
}

#[test]
fn a_flow_goes_on_under_changed_copies_of_its_datagrams_whatever_is_changed() {
    // Everything, the common header, what is announced of the group, object and place, and what follows.
    for bytes in [0..40, 0..8, 8..12, 12..16, 16..20, 14..24, 20..40] {
        for seed in 0..2 {
            let (share, longest) = under_attack(seed, &bytes);
            println!("bytes {bytes:?}: {share:.2} of it arrived, nothing for {longest:?}");
            assert!(share > 0.9, "bytes {bytes:?}: {share:.2} of the flow arrived");
            assert!(longest < Duration::from_millis(500), "bytes {bytes:?}: nothing came for {longest:?}");
        }
    }
}
