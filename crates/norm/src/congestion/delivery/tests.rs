//! Tests of rate control by what is delivered.

use super::*;

const PACKET: usize = 1400;
/// 50 Mbit/s, and 40 ms there and back.
const CAPACITY: f64 = 6.25e6;
const BASE_MS: u64 = 40;

/// A TCP connection as it is on paper: a segment more per round trip, 0.7 of its window at a loss.
struct Tcp {
    window: f64,
    cut_at_ms: u64,
    came: f64,
}

/// What is in the queue: bytes of ours and of the other, and the probe behind them.
struct Chunk {
    ours: f64,
    others: f64,
    probe: Option<(u16, u64)>,
}

/// A path with a queue, in steps of a millisecond.
struct Path {
    control: DeliveryControl,
    ms: u64,
    capacity: f64,
    queue_max: f64,
    loss: f64,
    /// What there is to send, per second.
    demand: f64,
    tcp: Option<Tcp>,
    queue: VecDeque<Chunk>,
    answers: VecDeque<(u64, CcFeedback, Duration)>,
    sent: f64,
    probe_at_ms: u64,
    sequence: u16,
    /// Since the last probe that came through.
    came: f64,
    came_since_ms: u64,
    dropped: bool,
    came_ever: f64,
}

impl Path {
    fn new(queue_ms: u64, loss: f64) -> Path {
        Path {
            control: DeliveryControl::new(PACKET, Duration::from_millis(10), 0.0, None),
            ms: 1000,
            capacity: CAPACITY,
            queue_max: CAPACITY * queue_ms as f64 / 1e3,
            loss,
            demand: f64::MAX,
            tcp: None,
            queue: VecDeque::new(),
            answers: VecDeque::new(),
            sent: 0.0,
            probe_at_ms: 1000,
            sequence: 0,
            came: 0.0,
            came_since_ms: 0,
            dropped: false,
            came_ever: 0.0,
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.ms * 1_000_000)
    }

    fn queued(&self) -> f64 {
        self.queue.iter().map(|chunk| chunk.ours + chunk.others).sum()
    }

    fn wait_ms(&self) -> f64 {
        self.queued() / self.capacity * 1e3
    }

    fn step(&mut self) {
        while self.answers.front().is_some_and(|(at, ..)| *at <= self.ms) {
            let (_, feedback, rtt) = self.answers.pop_front().unwrap();
            self.control.on_feedback(self.now(), 7, &feedback, Some(rtt));
        }
        if self.ms >= self.probe_at_ms {
            self.sequence += 1;
            self.control.on_sent(self.sent as u64);
            self.control.on_probe(self.now(), self.sequence, &mut Vec::new());
            self.probe_at_ms = self.ms + self.control.round().as_millis() as u64;
            self.queue.push_back(Chunk { ours: 0.0, others: 0.0, probe: Some((self.sequence, self.ms)) });
        }
        let ours = self.control.rate().min(self.demand) / 1e3;
        self.sent += ours;
        let rtt_ms = BASE_MS as f64 + self.wait_ms();
        let others = self.tcp.as_ref().map_or(0.0, |tcp| tcp.window / rtt_ms);
        let room = (self.queue_max - self.queued() + self.capacity / 1e3).max(0.0);
        let taken = (room / (ours + others).max(1e-9)).min(1.0);
        self.queue.push_back(Chunk { ours: taken * ours, others: taken * others, probe: None });
        self.dropped |= taken < 1.0;
        if let Some(tcp) = &mut self.tcp {
            if taken < 1.0 && (self.ms - tcp.cut_at_ms) as f64 >= rtt_ms {
                (tcp.window, tcp.cut_at_ms) = (0.7 * tcp.window, self.ms);
            } else {
                tcp.window += PACKET as f64 / rtt_ms;
            }
        }
        self.drain();
        self.ms += 1;
    }

    fn drain(&mut self) {
        let mut left = self.capacity / 1e3;
        while let Some(chunk) = self.queue.front_mut() {
            let bytes = chunk.ours + chunk.others;
            let part = (left / bytes.max(1e-9)).min(1.0);
            let (ours, others) = (part * chunk.ours, part * chunk.others);
            (chunk.ours, chunk.others) = (chunk.ours - ours, chunk.others - others);
            let probe = chunk.probe;
            left -= ours + others;
            self.came += ours * (1.0 - self.loss);
            self.came_ever += ours * (1.0 - self.loss);
            if let Some(tcp) = &mut self.tcp {
                tcp.came += others;
            }
            if part < 1.0 {
                return;
            }
            self.queue.pop_front();
            if let Some((sequence, sent_ms)) = probe {
                self.answer(sequence, sent_ms);
            }
        }
    }

    fn answer(&mut self, sequence: u16, sent_ms: u64) {
        let seconds = (self.ms - self.came_since_ms).max(1) as f64 / 1e3;
        let lost = ((255.0 * self.loss) as u8).max(u8::from(self.dropped || self.loss > 0.0));
        let delivered = Delivered { lost, rate: quantize::quantize_rate(self.came / seconds) };
        let feedback = CcFeedback { sequence, delivered: Some(delivered), ..CcFeedback::default() };
        let at = self.ms + BASE_MS;
        self.answers.push_back((at, feedback, Duration::from_millis(at - sent_ms)));
        (self.came, self.came_since_ms, self.dropped) = (0.0, self.ms, false);
    }

    /// What came per second, as a share of the path: ours, and the other's.
    fn run(&mut self, seconds: u64) -> (f64, f64) {
        let before = (self.came_ever, self.tcp.as_ref().map_or(0.0, |tcp| tcp.came));
        for _ in 0..seconds * 1000 {
            self.step();
        }
        let share = |came: f64, before: f64| (came - before) / seconds as f64 / self.capacity;
        let tcp = self.tcp.as_ref().map_or(0.0, |tcp| tcp.came);
        (share(self.came_ever, before.0), share(tcp, before.1))
    }
}

#[test]
fn it_finds_what_a_path_takes_within_a_second_and_keeps_its_queue_short() {
    for queue_ms in [10, 50, 200] {
        let mut path = Path::new(queue_ms, 0.0);
        path.run(1);
        let (share, _) = path.run(1);
        assert!(share > 0.85, "{share} of the path in the second second, queue {queue_ms} ms");
        let mut waits = 0.0;
        for _ in 0..10_000 {
            path.step();
            waits += path.wait_ms() / 10_000.0;
        }
        let (share, _) = path.run(10);
        assert!(share > 0.95, "{share} of the path, queue {queue_ms} ms");
        assert!(waits < 10.0, "{waits} ms in the queue on average");
    }
}

#[test]
fn random_loss_does_not_slow_it_down() {
    for loss in [0.01, 0.05, 0.1] {
        let mut path = Path::new(50, loss);
        path.run(2);
        let (share, _) = path.run(20);
        println!("{share:.3} of the path with {loss} lost");
        assert!(share > 0.95 * (1.0 - loss), "{share} of the path with {loss} lost");
    }
}

#[test]
fn beside_tcp_both_have_at_least_a_quarter() {
    let mut shares = Vec::new();
    for queue_ms in [20, 50, 100, 200] {
        let mut path = Path::new(queue_ms, 0.0);
        path.run(5);
        path.tcp = Some(Tcp { window: 14_000.0, cut_at_ms: 0, came: 0.0 });
        path.run(30);
        let (ours, tcp) = path.run(60);
        path.tcp = None;
        path.run(15);
        let (again, _) = path.run(10);
        println!("queue {queue_ms} ms: {ours:.2} and {tcp:.2}, alone again {again:.2}");
        shares.push((ours, tcp, again));
    }
    for (ours, tcp, again) in shares {
        assert!(ours > 0.25 && tcp > 0.25, "{ours:.2} of ours, {tcp:.2} of TCP");
        assert!(again > 0.9, "{again:.2} alone again");
    }
}

#[test]
fn it_follows_a_path_that_becomes_slower_and_faster() {
    let mut path = Path::new(50, 0.01);
    path.run(5);
    path.capacity = CAPACITY / 4.0;
    path.run(3);
    let (share, _) = path.run(10);
    assert!(share > 0.8, "{share} of a slower path");
    path.capacity = CAPACITY;
    path.run(3);
    let (share, _) = path.run(10);
    assert!(share > 0.85, "{share} of a faster path");
}

#[test]
fn a_publisher_with_little_to_send_loses_nothing_of_what_is_known() {
    let mut path = Path::new(50, 0.01);
    path.run(5);
    path.demand = 1e5;
    path.run(20);
    assert!(path.control.rate() > 0.6 * CAPACITY, "{}", path.control.rate());
    path.demand = f64::MAX;
    let (share, _) = path.run(2);
    assert!(share > 0.85, "{share} of the path at once");
}

#[test]
fn it_begins_anew_when_nobody_answers() {
    let mut path = Path::new(50, 0.01);
    let start = path.control.rate();
    path.run(5);
    path.answers.clear();
    for sequence in 1..30 {
        path.ms += 50;
        path.control.on_probe(path.now(), 10_000 + sequence, &mut Vec::new());
    }
    assert_eq!((path.control.rate(), path.control.limiting_receiver()), (start, None));
}

#[test]
fn whatever_is_claimed_it_stays_within_its_bounds() {
    let answer = |sequence: u16, rate: f64| CcFeedback {
        sequence,
        delivered: Some(Delivered { lost: 255, rate: quantize::quantize_rate(rate) }),
        ..CcFeedback::default()
    };
    let rtt = Duration::from_millis(40);
    for (claimed, least, most) in [(1.0, 3e5, 3e5), (1e12, 3e5, 2e6)] {
        let mut control = DeliveryControl::new(PACKET, rtt, 3e5, Some(2e6));
        let mut sent = 0.0;
        for step in 1..500u16 {
            let now = Time::from_nanos(u64::from(step) * 40_000_000);
            control.on_sent(sent as u64);
            control.on_probe(now, step, &mut Vec::new());
            control.on_feedback(now, 7, &answer(step, claimed), Some(rtt));
            sent += control.rate() * 0.04;
            let rate = control.rate();
            assert!((3e5..=2e6).contains(&rate), "{rate}");
        }
        assert!((least..=most).contains(&control.rate()), "{} when {claimed} is claimed", control.rate());
    }
}

#[test]
fn it_follows_the_first_that_answers_and_asks_it_what_comes() {
    let mut control = DeliveryControl::new(PACKET, Duration::from_millis(10), 0.0, None);
    let mut nodes = Vec::new();
    control.on_probe(Time::from_nanos(1), 1, &mut nodes);
    assert!(nodes.is_empty());
    control.on_feedback(Time::from_nanos(2), 7, &CcFeedback::default(), None);
    control.on_feedback(Time::from_nanos(3), 8, &CcFeedback::default(), None);
    control.on_probe(Time::from_nanos(4), 2, &mut nodes);
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].node, nodes[0].flags & CcFeedback::DELIVERED), (7, CcFeedback::DELIVERED));
}
