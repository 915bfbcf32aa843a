//! Objects and streams share one row of 65,536 numbers, and a long session goes round it.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::{Loss, START, carry, read_counting, session};
use shoal_norm::{Config, Event, Session, StreamId, StreamOptions, SyncPolicy, Time};

const SENDER: u32 = 1;
const RECEIVER: u32 = 2;

fn adjust(config: &mut Config) {
    config.sync = SyncPolicy::Start;
    config.segment_bytes = 64;
    config.grtt_initial = Duration::from_millis(2);
    config.grtt_min = Duration::from_millis(2);
    config.backoff_factor = 1;
    config.send_objects_max = 1024;
    config.acker_patience = Duration::from_secs(5);
}

/// A sender, a receiver whose acknowledgements count, and a path that loses one datagram in twenty.
struct Pair {
    sender: Session,
    receiver: Session,
    now: Time,
    loss: Loss,
    feedback_loss: Loss,
    /// How often each object content came.
    came: HashMap<Vec<u8>, u32>,
    streams: Vec<StreamId>,
    read: HashMap<StreamId, (usize, u8)>,
    closed: usize,
    silent: Vec<u32>,
    watermarks: usize,
}

impl Pair {
    fn new() -> Pair {
        let mut sender = session(SENDER, adjust);
        sender.set_ackers(&[RECEIVER]);
        Pair {
            sender,
            receiver: session(RECEIVER, adjust),
            now: START,
            loss: Loss::new(7, 0.05),
            feedback_loss: Loss::new(8, 0.05),
            came: HashMap::new(),
            streams: Vec::new(),
            read: HashMap::new(),
            closed: 0,
            silent: Vec::new(),
            watermarks: 0,
        }
    }

    /// A millisecond passes.
    fn go_on(&mut self) {
        carry(&mut self.sender, &mut self.receiver, self.now, &mut self.loss);
        carry(&mut self.receiver, &mut self.sender, self.now, &mut self.feedback_loss);
        self.now += Duration::from_millis(1);
        while let Some(event) = self.sender.poll_event() {
            match event {
                Event::WatermarkDone(watermark) => {
                    self.watermarks += 1;
                    self.silent.extend(watermark.silent);
                }
                Event::AckerSilent { node, .. } => self.silent.push(node),
                _ => {}
            }
        }
        while let Some(event) = self.receiver.poll_event() {
            match event {
                Event::StreamOpened { stream } => self.streams.push(stream),
                Event::StreamClosed { .. } => self.closed += 1,
                Event::DataReceived { content, .. } => *self.came.entry(content).or_default() += 1,
                Event::Gap { .. } | Event::ObjectAborted { .. } => panic!("{event:?}"),
                _ => {}
            }
        }
        for &stream in &self.streams {
            let (read, expected) = self.read.entry(stream).or_default();
            let (more, fine) = read_counting(&mut self.receiver, self.now, stream, expected);
            assert!(fine, "the stream is out of order after {read} bytes");
            *read += more;
        }
    }

    /// Sends objects up to a count of all that were sent; `between` is called before each.
    fn send_objects(&mut self, from: u32, to: u32, mut between: impl FnMut(&mut Pair, u32)) {
        let mut next = from;
        while next < to {
            between(self, next);
            match self.sender.send_data(self.now, &next.to_be_bytes(), b"").unwrap() {
                Some(_) => next += 1,
                None => self.go_on(),
            }
            if next.is_multiple_of(64) {
                self.go_on();
            }
        }
        for _ in 0..2_000 {
            self.go_on();
        }
        assert_eq!(self.came.len(), to as usize, "objects that came");
        assert!(self.came.values().all(|times| *times == 1), "an object came twice");
    }
}

#[test]
fn objects_that_go_round_leave_the_number_of_an_open_stream_alone() {
    let mut pair = Pair::new();
    let stream = pair.sender.open_stream(&StreamOptions::default()).unwrap();
    let (mut written, mut next) = (0, 0u8);
    pair.send_objects(0, 66_500, |pair, count| {
        // Densely where the numbers go round, and now and then before.
        if count % 997 == 0 || (65_000..66_500).contains(&count) {
            let message: Vec<u8> = (0..40).map(|at| next.wrapping_add(at)).collect();
            let taken = pair.sender.write(pair.now, stream, &message, true).unwrap();
            written += taken;
            next = next.wrapping_add(taken as u8);
            pair.sender.flush(pair.now, stream).unwrap();
        }
        if count % 500 == 0 {
            pair.sender.request_watermark(pair.now, stream).unwrap();
        }
    });
    assert_eq!(pair.silent, Vec::<u32>::new(), "a live receiver was named as silent");
    assert!(pair.watermarks > 100, "{} watermarks", pair.watermarks);
    assert_eq!(pair.streams.len(), 1);
    assert_eq!(pair.read[&pair.streams[0]].0, written, "bytes of the stream that came");
    assert!(pair.sender.is_acknowledged());
}

#[test]
fn a_number_whose_stream_ended_is_an_objects_and_then_a_streams_again() {
    let mut pair = Pair::new();
    let first = pair.sender.open_stream(&StreamOptions::default()).unwrap();
    pair.sender.write(pair.now, first, &[0, 1, 2], true).unwrap();
    pair.sender.close_stream(pair.now, first).unwrap();
    pair.send_objects(0, 65_535 + 10, |_, _| ());
    assert_eq!(pair.closed, 1);
    pair.sender.request_watermark(pair.now, 0).unwrap();
    // Round once more, up to the number that the first stream had.
    pair.send_objects(65_545, 2 * 65_536 - 1, |_, _| ());
    let second = pair.sender.open_stream(&StreamOptions::default()).unwrap();
    assert_eq!(second, first);
    pair.sender.write(pair.now, second, &[3, 4, 5, 6], true).unwrap();
    pair.sender.close_stream(pair.now, second).unwrap();
    for _ in 0..500 {
        pair.go_on();
    }
    assert_eq!(pair.closed, 2, "the second stream of that number was taken for the first");
    assert_eq!(pair.read.values().map(|(read, _)| read).sum::<usize>(), 7);
    assert_eq!(pair.silent, Vec::<u32>::new());
}
