//! Datagrams that say they come from somebody else: what they do without a key, and what they do not.

use std::time::Duration;

use crate::support::{Loss, START, address, carry, from, read_counting, session};
use shoal_norm::wire::command::Position;
use shoal_norm::wire::feedback::{self, FeedbackHeader};
use shoal_norm::wire::repair::RepairWriter;
use shoal_norm::wire::{FecId, Nack, PayloadId, RepairFlags, SenderHeader, command};
use shoal_norm::{
    Config, Destination, Event, FeedbackMode, Session, StreamId, StreamOptions, SyncPolicy, Time,
};

const HONEST: u32 = 1;
const VICTIM: u32 = 2;
const STRANGER: u32 = 99;

fn forged(instance: u16) -> SenderHeader {
    SenderHeader { sequence: 5_000, source: HONEST, instance, grtt: 50, backoff: 4, group_size: 1 }
}

/// An honest sender whose stream a victim reads, and somebody who speaks in its name.
struct Scene {
    honest: Session,
    victim: Session,
    object: u16,
    now: Time,
    loss: Loss,
    no_loss: Loss,
    stream: Option<StreamId>,
    written: u8,
    expected: u8,
    read: usize,
    /// Events that no honest sender is a reason for.
    suspicious: Vec<Event>,
}

impl Scene {
    fn new() -> Scene {
        let adjust = |config: &mut Config| {
            config.sync = SyncPolicy::Start;
            config.grtt_initial = Duration::from_millis(1);
            config.rate_bytes_per_s = Some(1e7);
        };
        let mut honest = session(HONEST, adjust);
        let object = honest.open_stream(&StreamOptions::default()).unwrap();
        let mut scene = Scene {
            honest,
            victim: session(VICTIM, adjust),
            object,
            now: START,
            loss: Loss::new(3, 0.02),
            no_loss: Loss::new(3, 0.0),
            stream: None,
            written: 0,
            expected: 0,
            read: 0,
            suspicious: Vec::new(),
        };
        (0..20).for_each(|_| scene.go_on());
        scene
    }

    fn forge(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.victim.handle_datagram(self.now, from(STRANGER), &out);
    }

    /// A millisecond of honest work.
    fn go_on(&mut self) {
        let body: Vec<u8> = (0..3_000).map(|at| self.written.wrapping_add(at as u8)).collect();
        let taken = self.honest.write(self.now, self.object, &body, false).unwrap();
        self.written = self.written.wrapping_add(taken as u8);
        carry(&mut self.honest, &mut self.victim, self.now, &mut self.loss);
        self.now += Duration::from_millis(1);
        carry(&mut self.victim, &mut self.honest, self.now, &mut self.no_loss);
        while self.honest.poll_event().is_some() {}
        self.victim.handle_timeout(self.now);
        while let Some(event) = self.victim.poll_event() {
            match event {
                Event::StreamOpened { stream } if stream.instance == 1 => self.stream = Some(stream),
                Event::Gap { .. } | Event::StreamClosed { .. } => self.suspicious.push(event),
                Event::SenderGone { instance: 1, .. } => self.suspicious.push(event),
                _ => {}
            }
        }
        if let Some(stream) = self.stream {
            let (read, fine) = read_counting(&mut self.victim, self.now, stream, &mut self.expected);
            assert!(fine, "the stream is out of order");
            self.read += read;
        }
    }

    /// Goes on for a while, and checks that everything came.
    fn check(mut self) {
        (0..2_000).for_each(|_| self.go_on());
        self.honest.flush(self.now, self.object).unwrap();
        let written = self.honest.bytes_written(self.object);
        for _ in 0..500 {
            carry(&mut self.honest, &mut self.victim, self.now, &mut self.no_loss);
            self.now += Duration::from_millis(1);
            carry(&mut self.victim, &mut self.honest, self.now, &mut self.no_loss);
            let (read, fine) =
                read_counting(&mut self.victim, self.now, self.stream.unwrap(), &mut self.expected);
            assert!(fine);
            self.read += read;
        }
        assert_eq!(self.suspicious, []);
        assert_eq!(self.read as u64, written);
    }
}

#[test]
fn a_forged_refusal_of_repair_moves_nobody_beyond_what_it_heard() {
    let mut scene = Scene::new();
    for block in [100_000, 1_000, 30, 0x7f_ffff] {
        let payload_id = PayloadId { block, block_len: 0, symbol: 0 };
        let position = command::Position { fec_id: FecId::ReedSolomon8, object: scene.object, payload_id };
        scene.forge(|out| command::write_squelch(&forged(1), position, [], out));
        (0..10).for_each(|_| scene.go_on());
    }
    scene.check();
}

#[test]
fn a_forged_goodbye_makes_nobody_deaf() {
    let mut scene = Scene::new();
    for round in 0..20 {
        // Also with a number that makes all that follows look late.
        let sequence = scene.honest.stats().datagrams_sent as u16 + 40 * round;
        let header = SenderHeader { sequence, ..forged(1) };
        scene.forge(|out| command::write_end_of_transmission(&header, out));
        (0..50).for_each(|_| scene.go_on());
    }
    scene.check();
}

#[test]
fn a_sender_that_says_goodbye_and_nothing_more_is_gone() {
    let mut scene = Scene::new();
    scene.honest.leave(scene.now);
    for _ in 0..1_500 {
        scene.go_on();
    }
    let gone = scene.suspicious.iter().any(|event| matches!(event, Event::SenderGone { .. }));
    assert!(gone, "{:?}", scene.suspicious);
}

#[test]
fn forged_messages_of_another_instance_displace_nobody_who_goes_on_speaking() {
    let mut scene = Scene::new();
    for round in 0..50 {
        for _ in 0..8 {
            scene.forge(|out| command::write_application(&forged(2 + round % 3), b"", out));
        }
        (0..10).for_each(|_| scene.go_on());
    }
    scene.check();
}

#[test]
fn feedback_goes_where_data_comes_from() {
    let adjust = |config: &mut Config| {
        config.sync = SyncPolicy::Start;
        config.feedback = FeedbackMode::Unicast;
    };
    let (mut honest, mut victim) = (session(HONEST, adjust), session(VICTIM, adjust));
    let object = honest.open_stream(&StreamOptions::default()).unwrap();
    honest.set_ackers(&[VICTIM]);
    honest.write(START, object, b"hello", true).unwrap();
    honest.request_watermark(START, object).unwrap();
    carry(&mut honest, &mut victim, START, &mut Loss::new(1, 0.0));
    let payload_id = PayloadId::default();
    let position = command::Position { fec_id: FecId::ReedSolomon8, object, payload_id };
    let mut out = Vec::new();
    command::write_flush(&SenderHeader { sequence: 3, ..forged(1) }, position, &[VICTIM], &mut out);
    victim.handle_datagram(START, from(STRANGER), &out);
    let mut destinations = Vec::new();
    while let Some(transmit) = victim.poll_transmit(START + Duration::from_secs(1)) {
        destinations.push(transmit.to);
    }
    assert!(!destinations.is_empty());
    assert!(destinations.iter().all(|to| *to == Destination::Node(address(HONEST))), "{destinations:?}");
}

#[test]
fn data_that_somebody_sends_once_more_takes_no_feedback_away() {
    let adjust = |config: &mut Config| {
        config.sync = SyncPolicy::Start;
        config.feedback = FeedbackMode::Unicast;
    };
    let (mut honest, mut victim) = (session(HONEST, adjust), session(VICTIM, adjust));
    let object = honest.open_stream(&StreamOptions::default()).unwrap();
    honest.set_ackers(&[VICTIM]);
    honest.write(START, object, b"hello", true).unwrap();
    honest.request_watermark(START, object).unwrap();
    let mut recorded = Vec::new();
    while let Some(transmit) = honest.poll_transmit(START) {
        recorded.extend(transmit.datagrams().map(<[u8]>::to_vec));
    }
    for who in [HONEST, STRANGER] {
        recorded.iter().for_each(|datagram| victim.handle_datagram(START, from(who), datagram));
    }
    assert!(victim.stats().duplicates_received > 0);
    let mut destinations = Vec::new();
    while let Some(transmit) = victim.poll_transmit(START + Duration::from_secs(1)) {
        destinations.push(transmit.to);
    }
    assert!(!destinations.is_empty());
    assert!(destinations.iter().all(|to| *to == Destination::Node(address(HONEST))), "{destinations:?}");
}

#[test]
fn commands_that_somebody_sends_once_more_hold_nobody_back() {
    let mut scene = Scene::new();
    scene.honest.set_ackers(&[VICTIM]);
    let mut recorded: Vec<Vec<u8>> = Vec::new();
    for _ in 0..300 {
        while let Some(transmit) = scene.honest.poll_transmit(scene.now) {
            for datagram in transmit.datagrams() {
                recorded.push(datagram.to_vec());
                scene.victim.handle_datagram(scene.now, from(HONEST), datagram);
            }
        }
        scene.go_on();
    }
    // Commands have the type 3.
    recorded.retain(|datagram| datagram[0] & 0xf == 3);
    assert!(recorded.len() > 5, "{}", recorded.len());
    (0..3_000).for_each(|_| scene.go_on());
    let before = scene.honest.grtt();
    for round in 0..2_000 {
        let datagram = recorded[round % recorded.len()].clone();
        scene.forge(|out| out.extend(datagram));
        scene.go_on();
    }
    let after = scene.honest.grtt();
    assert!(after < before * 4 + Duration::from_millis(20), "{before:?} became {after:?}");
    scene.check();
}

/// A sender with a stream of two thousand segments, one of whom counts.
fn sender_of_much() -> (Session, u16) {
    let mut sender = session(HONEST, |_| ());
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    sender.set_ackers(&[VICTIM]);
    for _ in 0..2_000 {
        sender.write(START, object, &[7; 1400], true).unwrap();
    }
    while sender.poll_transmit(START).is_some() {}
    (sender, object)
}

fn nack_for_everything(node: u32, object: u16) -> Vec<u8> {
    let header = FeedbackHeader {
        sequence: 0,
        source: node,
        sender: HONEST,
        instance: 1,
        probe_response: Time::ZERO,
        cc: None,
    };
    let mut requests = RepairWriter::default();
    requests.reset(1400);
    let item = Position { fec_id: FecId::ReedSolomon8, object, payload_id: PayloadId::default() };
    assert!(requests.push(RepairFlags::OBJECT, item, item));
    let mut out = Vec::new();
    Nack::write(&header, requests.content(), &mut out);
    out
}

fn repairs_for(node: u32, nacks: u64) -> u64 {
    let (mut sender, object) = sender_of_much();
    let nack = nack_for_everything(node, object);
    let mut now = START;
    for _ in 0..nacks {
        now += Duration::from_millis(1);
        sender.handle_datagram(now, from(node), &nack);
        while sender.poll_transmit(now).is_some() {}
    }
    sender.stats().repairs_sent
}

#[test]
fn a_stranger_who_asks_for_everything_gets_a_little() {
    assert_eq!(repairs_for(VICTIM, 1), 2_000, "who counts gets what it asks for");
    let once = repairs_for(STRANGER, 1);
    assert!((64..=700).contains(&once), "{once} segments");
    let often = repairs_for(STRANGER, 1_000);
    assert!((1_000..=2_500).contains(&often), "{often} segments in a second");
}

#[test]
fn only_those_who_count_set_the_round_trip_time() {
    let (mut sender, _) = sender_of_much();
    let before = sender.grtt();
    let answer = |node: u32, held: Duration| {
        let header = FeedbackHeader {
            sequence: 0,
            source: node,
            sender: HONEST,
            instance: 1,
            probe_response: START - held,
            cc: None,
        };
        let mut out = Vec::new();
        feedback::write_probe_ack(&header, &mut out);
        out
    };
    sender.handle_datagram(START, from(STRANGER), &answer(STRANGER, Duration::from_secs(60)));
    assert_eq!(sender.grtt(), before);
    sender.handle_datagram(START, from(VICTIM), &answer(VICTIM, Duration::from_secs(60)));
    assert!(sender.grtt() > before && sender.grtt() < Duration::from_secs(17), "{:?}", sender.grtt());
}

#[test]
fn a_stream_that_is_refused_as_a_whole_goes_on_if_its_sender_does() {
    let mut scene = Scene::new();
    for _ in 0..200 {
        let payload_id = PayloadId::default();
        let position = command::Position { fec_id: FecId::ReedSolomon8, object: scene.object, payload_id };
        let object = scene.object;
        scene.forge(|out| command::write_squelch(&forged(1), position, [object], out));
        (0..5).for_each(|_| scene.go_on());
    }
    scene.check();
}

#[test]
fn a_probe_with_another_time_does_not_take_the_place_of_the_next() {
    let mut scene = Scene::new();
    let mut probe = None;
    while probe.is_none() {
        while let Some(transmit) = scene.honest.poll_transmit(scene.now) {
            for datagram in transmit.datagrams() {
                scene.victim.handle_datagram(scene.now, from(HONEST), datagram);
                // A command of flavor 4.
                if datagram[0] & 0xf == 3 && datagram[12] == 4 {
                    probe = Some(datagram.to_vec());
                }
            }
        }
        scene.go_on();
    }
    let mut later = probe.unwrap();
    let seconds = u32::from_be_bytes(later[16..20].try_into().unwrap()) + 100;
    later[16..20].copy_from_slice(&seconds.to_be_bytes());
    scene.forge(|out| out.extend(later));
    let before = scene.honest.stats().acks_received;
    (0..5_000).for_each(|_| scene.go_on());
    assert!(scene.honest.stats().acks_received > before, "no probe was answered for five seconds");
    scene.check();
}
