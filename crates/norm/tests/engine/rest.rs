//! A sender that fell silent holds no memory, and goes on where it was if it speaks again.

use std::net::SocketAddr;
use std::time::Duration;

use shoal_norm::{
    Config, Event, NodeId, ObjectId, Session, Source, StreamId, StreamOptions, SyncPolicy, Time,
};

const SEGMENT: usize = 1400;

/// A receiver, and what it read of each sender.
struct Reader {
    session: Session,
    read: Vec<(NodeId, u8)>,
    /// Leave what comes unread.
    parked: bool,
    readable: Vec<StreamId>,
}

impl Reader {
    fn new(receive_bytes_max: usize) -> Reader {
        let mut config = Config { sync: SyncPolicy::Start, receive_bytes_max, ..Config::new(9, 1, 9) };
        config.receive_window_bytes = 1 << 20;
        let session = Session::new(config).unwrap();
        Reader { session, read: Vec::new(), parked: false, readable: Vec::new() }
    }

    fn read(&mut self, now: Time) {
        while let Some(event) = self.session.poll_event() {
            if let Event::Readable { stream } = event {
                self.readable.push(stream);
            }
        }
        if self.parked {
            return;
        }
        for stream in self.readable.drain(..) {
            while let Some(bytes) = self.session.read(stream).map(|chunk| chunk.bytes.to_vec()) {
                self.session.consume(now, stream, bytes.len());
                self.read.extend(bytes.chunks(SEGMENT).map(|segment| (stream.node, segment[0])));
            }
        }
    }
}

struct Sender {
    session: Session,
    object: ObjectId,
    node: NodeId,
    /// The first byte of the next segment.
    next: u8,
}

impl Sender {
    fn new(node: NodeId) -> Sender {
        let mut config = Config::new(node, 1, node.into());
        config.segment_bytes = SEGMENT as u16;
        config.grtt_initial = Duration::from_millis(1);
        let mut session = Session::new(config).unwrap();
        let object = session.open_stream(&StreamOptions::default()).unwrap();
        Sender { session, object, node, next: 0 }
    }

    fn write(&mut self, now: Time, segments: usize) {
        for _ in 0..segments {
            let body = [self.next; SEGMENT];
            assert_eq!(self.session.write(now, self.object, &body, true), Ok(SEGMENT));
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Sends to the receiver what `keep` lets through, by count, and takes its answers.
    fn run(&mut self, now: &mut Time, reader: &mut Reader, keep: impl Fn(usize) -> bool) {
        let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let source = Source { address, unicast: false, waited: Duration::ZERO };
        let mut count = 0;
        for _ in 0..200 {
            *now += Duration::from_millis(1);
            while let Some(out) = self.session.poll_transmit(*now) {
                for datagram in out.datagrams() {
                    count += 1;
                    if keep(count) {
                        reader.session.handle_datagram(*now, source, datagram);
                    }
                }
            }
            reader.read(*now);
            while let Some(out) = reader.session.poll_transmit(*now) {
                let to_us = out.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>();
                to_us.iter().for_each(|datagram| self.session.handle_datagram(*now, source, datagram));
            }
        }
    }
}

fn is_in_order(read: &[(NodeId, u8)], node: NodeId, segments: usize) {
    let numbers: Vec<u8> = read.iter().filter(|(from, _)| *from == node).map(|(_, number)| *number).collect();
    assert_eq!(numbers, (0..segments).map(|number| number as u8).collect::<Vec<_>>(), "node {node}");
}

#[test]
fn a_silent_sender_gives_its_memory_to_others_and_goes_on_without_a_gap_or_a_repetition() {
    let mut now = Time::from_nanos(1_000_000_000);
    // Room for one window that has grown, and not for two.
    let mut reader = Reader::new(1_100_000);
    let (mut silent, mut other) = (Sender::new(1), Sender::new(2));
    for sender in [&mut silent, &mut other] {
        reader.parked = true;
        sender.write(now, 500);
        sender.run(&mut now, &mut reader, |_| true);
        reader.parked = false;
        reader.read(now);
        assert!(reader.session.receive_bytes() > 700_000, "{} bytes", reader.session.receive_bytes());
        if sender.node == 1 {
            assert!(reader.session.rest_sender(1, 1));
            assert!(
                reader.session.receive_bytes() <= 2 * SEGMENT,
                "{} bytes",
                reader.session.receive_bytes()
            );
        }
        sender.run(&mut now, &mut reader, |_| true);
        is_in_order(&reader.read, sender.node, 500);
    }
    assert_eq!(reader.session.stats().rejected.iter().sum::<u64>(), 0);
    assert!(reader.session.rest_sender(2, 1));
    silent.write(now, 300);
    silent.run(&mut now, &mut reader, |count| count % 10 != 3);
    is_in_order(&reader.read, 1, 800);
}

#[test]
fn what_came_after_a_gap_is_asked_for_again() {
    let mut now = Time::from_nanos(1_000_000_000);
    let mut reader = Reader::new(64 << 20);
    let mut sender = Sender::new(1);
    sender.write(now, 10);
    sender.run(&mut now, &mut reader, |_| true);
    sender.write(now, 100);
    // These are lost; the beginning of what follows them is the last that is heard, and lies beyond a gap.
    sender.run(&mut now, &mut Reader::new(64 << 20), |_| true);
    sender.write(now, 50);
    sender.run(&mut now, &mut reader, |count| count <= 40);
    let held = reader.session.receive_bytes();
    assert!(reader.session.rest_sender(1, 1));
    assert!(reader.session.receive_bytes() < held);
    sender.write(now, 1);
    // So much loss has slowed the sender down.
    (0..10).for_each(|_| sender.run(&mut now, &mut reader, |_| true));
    is_in_order(&reader.read, 1, 161);
}

#[test]
fn what_waits_to_be_read_is_kept() {
    let mut now = Time::from_nanos(1_000_000_000);
    let mut reader = Reader::new(64 << 20);
    let mut sender = Sender::new(1);
    reader.parked = true;
    sender.write(now, 100);
    sender.run(&mut now, &mut reader, |_| true);
    assert!(!reader.session.rest_sender(1, 1), "something waits");
    reader.parked = false;
    reader.read(now);
    is_in_order(&reader.read, 1, 100);
    assert!(reader.session.rest_sender(1, 1));
    assert!(reader.session.rest_sender(77, 1), "nothing is held for somebody unknown");
}
