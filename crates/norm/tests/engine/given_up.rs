//! An acknowledgement means that everything is here: what a receiver gave up it does not acknowledge, and the
//! sender learns within its bound who has not got it.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use shoal_norm::{
    AbortReason, Config, Event, NackingMode, ObjectId, Session, Source, StreamId, StreamOptions, Time,
    Watermark,
};

const PATIENCE: Duration = Duration::from_secs(1);

/// A sender, node 1, and a receiver, node 2, with nothing but the clock between them.
struct Pair {
    sender: Session,
    receiver: Session,
    now: Time,
    /// Events of the receiver.
    heard: Vec<Event>,
    watermarks: Vec<Watermark>,
}

impl Pair {
    fn new(adjust: impl Fn(&mut Config)) -> Pair {
        let session = |node: u32| {
            let mut config = Config::new(node, 1, u64::from(node));
            (config.robust_factor, config.acker_patience) = (5, PATIENCE);
            adjust(&mut config);
            Session::new(config).unwrap()
        };
        let mut sender = session(1);
        sender.set_ackers(&[2]);
        let now = Time::from_nanos(1_000_000_000);
        Pair { sender, receiver: session(2), now, heard: Vec::new(), watermarks: Vec::new() }
    }

    fn send(&mut self, bytes: usize) -> ObjectId {
        self.sender.send_data(self.now, &vec![7; bytes], b"").unwrap().unwrap()
    }

    fn ask(&mut self, object: ObjectId) {
        self.sender.request_watermark(self.now, object).unwrap();
    }

    fn abandon(&mut self, object: ObjectId) {
        self.receiver.abandon_object(StreamId { node: 1, instance: 1, object });
    }

    /// Lets time pass. `keep` says which datagrams get through: of the sender if true, else of the receiver.
    fn run(&mut self, millis: u64, keep: impl Fn(bool, &[u8]) -> bool) {
        let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
        let source = Source { address, unicast: false, waited: Duration::ZERO };
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            let (sender, receiver, now) = (&mut self.sender, &mut self.receiver, self.now);
            while let Some(out) = sender.poll_transmit(now) {
                out.datagrams()
                    .filter(|datagram| keep(true, datagram))
                    .for_each(|datagram| receiver.handle_datagram(now, source, datagram));
            }
            while let Some(out) = receiver.poll_transmit(now) {
                out.datagrams()
                    .filter(|datagram| keep(false, datagram))
                    .for_each(|datagram| sender.handle_datagram(now, source, datagram));
            }
            self.heard.extend(std::iter::from_fn(|| receiver.poll_event()));
            while let Some(event) = sender.poll_event() {
                if let Event::WatermarkDone(watermark) = event {
                    self.watermarks.push(watermark);
                }
            }
        }
    }

    /// What became of an object's watermark: who has it, and who has not.
    fn outcome(&self, object: ObjectId) -> Option<(&[u32], &[u32])> {
        let found = self.watermarks.iter().rfind(|watermark| watermark.object == object);
        found.map(|watermark| (&watermark.acked[..], &watermark.silent[..]))
    }

    fn aborted(&self) -> Vec<(ObjectId, AbortReason)> {
        let events = self.heard.iter();
        let aborted = events.filter_map(|event| match event {
            Event::ObjectAborted { object, reason } => Some((object.object, *reason)),
            _ => None,
        });
        aborted.collect()
    }
}

const HAS_IT: Option<(&[u32], &[u32])> = Some((&[2], &[]));
const LACKS_IT: Option<(&[u32], &[u32])> = Some((&[], &[2]));

fn all(_: bool, _: &[u8]) -> bool {
    true
}

fn is_data(datagram: &[u8]) -> bool {
    datagram[0] & 0xf == 2
}

fn is_ack(datagram: &[u8]) -> bool {
    datagram[0] & 0xf == 5
}

#[test]
fn what_the_receiver_abandoned_is_not_acknowledged_and_what_comes_later_is() {
    let mut pair = Pair::new(|config| config.rate_bytes_per_s = Some(1e6));
    let lost = pair.send(100_000);
    pair.run(20, all);
    pair.abandon(lost);
    pair.run(200, all);
    assert_eq!(pair.aborted(), [(lost, AbortReason::Abandoned)]);
    pair.ask(lost);
    pair.run(PATIENCE.as_millis() as u64 + 500, all);
    assert_eq!(pair.outcome(lost), LACKS_IT, "settled within the sender's bound");
    let next = pair.send(1000);
    pair.ask(next);
    pair.run(100, all);
    assert_eq!(pair.outcome(next), HAS_IT);
}

#[test]
fn a_watermark_that_waits_when_its_object_expires_is_not_acknowledged() {
    let mut pair = Pair::new(|config| {
        config.rate_bytes_per_s = Some(1e6);
        config.nacking = NackingMode::None;
        config.object_idle_after = Duration::from_millis(300);
    });
    let object = pair.send(50_000);
    pair.ask(object);
    pair.run(20, all);
    pair.run(40, |_, datagram| !is_data(datagram));
    pair.run(PATIENCE.as_millis() as u64 + 1000, all);
    assert_eq!(pair.aborted(), [(object, AbortReason::Expired)]);
    assert_eq!(pair.outcome(object), LACKS_IT);
}

#[test]
fn a_complete_object_that_could_not_be_kept_is_not_acknowledged() {
    for newer in [0, 3] {
        let mut pair = Pair::new(|_| ());
        let object = pair.send(1000);
        (0..newer).for_each(|_| assert!(pair.send(1000) > object));
        pair.run(100, all);
        pair.abandon(object);
        pair.ask(object);
        pair.run(PATIENCE.as_millis() as u64 + 500, all);
        assert_eq!(pair.outcome(object), LACKS_IT, "{newer} newer objects");
    }
}

#[test]
fn a_watermark_speaks_for_the_objects_before_it_too() {
    let mut pair = Pair::new(|_| ());
    pair.send(1000);
    let lost = pair.send(1000);
    pair.run(50, all);
    pair.abandon(lost);
    let first = pair.send(1000);
    pair.ask(first);
    pair.run(PATIENCE.as_millis() as u64 + 500, all);
    assert_eq!(pair.outcome(first), LACKS_IT, "it is here, but not everything up to it");
    let second = pair.send(1000);
    pair.ask(second);
    pair.run(100, all);
    assert_eq!(pair.outcome(second), HAS_IT, "the sender knows of what came before");
}

#[test]
fn an_acknowledgement_that_was_lost_is_given_again_though_newer_objects_followed() {
    let mut pair = Pair::new(|_| ());
    let object = pair.send(1000);
    pair.ask(object);
    pair.run(20, |of_sender, datagram| of_sender || !is_ack(datagram));
    (0..5).for_each(|_| assert!(pair.send(1000) > object));
    pair.run(20, |of_sender, datagram| of_sender || !is_ack(datagram));
    assert_eq!(pair.outcome(object), None);
    pair.run(300, all);
    assert_eq!(pair.outcome(object), HAS_IT);
    assert_eq!(pair.receiver.stats().nacks_sent, 0, "nothing is missing");
}

#[test]
fn a_stream_whose_number_was_refused_before_it_began_is_asked_for_once_it_did() {
    let mut pair = Pair::new(|_| ());
    pair.send(1000);
    let stream = pair.sender.open_stream(&StreamOptions::default()).unwrap();
    (0..3).for_each(|_| assert!(pair.send(1000) > stream));
    // Its number is missing between objects, and the sender says that there is nothing of it.
    pair.run(8000, all);
    assert_eq!(pair.aborted(), [(stream, AbortReason::Squelched)]);
    pair.sender.write(pair.now, stream, b"begins", true).unwrap();
    pair.ask(stream);
    pair.run(10, |_, datagram| !is_data(datagram));
    pair.run(500, all);
    assert_eq!(pair.outcome(stream), HAS_IT);
}

#[test]
fn an_object_is_told_of_after_its_information_however_late_that_comes() {
    for (nacking, expected) in [
        (NackingMode::Full, &["opened", "info", "received"][..]),
        // Whoever asks for nothing has what comes.
        (NackingMode::None, &["opened", "received"][..]),
    ] {
        let mut pair = Pair::new(|config| config.nacking = nacking);
        pair.sender.send_data(pair.now, b"content", b"info").unwrap().unwrap();
        // The information is lost when it is sent first.
        pair.run(1, |of_sender, datagram| !of_sender || datagram[0] & 0xf != 1);
        pair.run(500, all);
        let order: Vec<&str> = pair
            .heard
            .iter()
            .filter_map(|event| match event {
                Event::ObjectOpened { .. } => Some("opened"),
                Event::Info { .. } => Some("info"),
                Event::DataReceived { .. } => Some("received"),
                _ => None,
            })
            .collect();
        assert_eq!(order, expected, "{nacking:?}");
    }
}

#[test]
fn a_stream_taken_for_an_object_at_first_is_not_acknowledged_before_it_is_here() {
    let mut pair = Pair::new(|_| ());
    pair.send(1000);
    pair.run(50, all);
    let stream = pair.sender.open_stream(&StreamOptions::default()).unwrap();
    pair.sender.write(pair.now, stream, &[7; 20_000], true).unwrap();
    pair.ask(stream);
    pair.run(10, |_, datagram| !is_data(datagram));
    // One segment shows that it is a stream; the others are lost for good.
    let sent = Cell::new(0);
    pair.run(PATIENCE.as_millis() as u64 + 2000, |of_sender, datagram| {
        let is_segment = of_sender && is_data(datagram);
        sent.set(sent.get() + u32::from(is_segment));
        !is_segment || sent.get() == 1
    });
    assert!(sent.get() > 1);
    assert_eq!(pair.outcome(stream), LACKS_IT);
}
