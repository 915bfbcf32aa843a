//! Somebody in the group wishes us ill: bounds hold, and an honest sender's stream goes on meanwhile.

use std::time::Duration;

use crate::support::{Loss, START, carry, from, read_counting, session};
use shoal_norm::quantize;
use shoal_norm::wire::command::Position;
use shoal_norm::wire::feedback::{self, FeedbackHeader};
use shoal_norm::wire::object::{Flags, ObjectHeader, SegmentHeader};
use shoal_norm::wire::repair::RepairWriter;
use shoal_norm::wire::{
    CcFeedback, FecId, Fti, Nack, PayloadId, RepairFlags, SenderHeader, command, finish_header, message_type,
};
use shoal_norm::{
    Config, CongestionControl, Event, FeedbackMode, Join, Reject, Session, StreamId, StreamOptions,
    SyncPolicy, Time,
};

const HONEST: u32 = 1;
const VICTIM: u32 = 2;
const RECEIVE_BYTES_MAX: usize = 16 << 20;

fn sender_header(node: u32) -> SenderHeader {
    SenderHeader { sequence: 0, source: node, instance: 1, grtt: 100, backoff: 4, group_size: 1 }
}

/// A NORM_DATA of a stream, as a hostile sender may make one up.
fn data(node: u32, object: u16, fti: Fti, payload_id: PayloadId) -> Vec<u8> {
    let mut out = begin_data(node, object, Flags::STREAM, fti, payload_id);
    out.extend_from_slice(&SegmentHeader { length: 4, message_start: 1, offset: 0 }.to_bytes());
    out.extend_from_slice(b"evil");
    out
}

/// The header of a NORM_DATA.
fn begin_data(node: u32, object: u16, flags: u8, fti: Fti, payload_id: PayloadId) -> Vec<u8> {
    let header = ObjectHeader {
        sender: sender_header(node),
        flags: Flags(flags),
        fec_id: FecId::ReedSolomon8,
        object,
    };
    let mut out = Vec::new();
    header.begin(message_type::DATA, &mut out);
    payload_id.write(FecId::ReedSolomon8, &mut out);
    fti.write(FecId::ReedSolomon8, &mut out);
    finish_header(&mut out);
    out
}

const SMALL: Fti = Fti { object_bytes: 1 << 20, segment_bytes: 1400, block_symbols: 64, parity_symbols: 0 };
const HUGE: Fti =
    Fti { object_bytes: (1 << 48) - 1, segment_bytes: u16::MAX, block_symbols: 255, parity_symbols: 0 };

/// An honest sender, and a victim that listens to it while others attack.
struct Scene {
    honest: Session,
    victim: Session,
    object: u16,
    stream: Option<StreamId>,
    written: u8,
    expected: u8,
    read: usize,
    loss: Loss,
    no_loss: Loss,
    now: Time,
}

/// What a bus sets.
fn like_a_bus(config: &mut Config) {
    config.sync = SyncPolicy::Ask;
    config.receive_objects = false;
    config.feedback = FeedbackMode::UnicastAcks;
    config.backoff_factor = 0;
}

impl Scene {
    fn new() -> Scene {
        Scene::adjusted(|_| ())
    }

    /// A victim as `shoal.norm` has it, and one as a bus has it, who joins whatever it hears.
    fn in_both_modes() -> [Scene; 2] {
        [Scene::new(), Scene::adjusted(like_a_bus)]
    }

    fn adjusted(more: impl Fn(&mut Config)) -> Scene {
        let adjust = |config: &mut Config| {
            config.sync = SyncPolicy::Start;
            config.receive_bytes_max = RECEIVE_BYTES_MAX;
            config.receive_window_bytes = 1 << 20;
            config.senders_max = 64;
            config.grtt_initial = Duration::from_millis(1);
            config.rate_bytes_per_s = Some(1e7);
            more(config);
        };
        let mut honest = session(HONEST, adjust);
        let object = honest.open_stream(&StreamOptions::default()).unwrap();
        let mut scene = Scene {
            honest,
            victim: session(VICTIM, adjust),
            object,
            stream: None,
            written: 0,
            expected: 0,
            read: 0,
            loss: Loss::new(3, 0.05),
            no_loss: Loss::new(3, 0.0),
            now: START,
        };
        scene.go_on();
        scene
    }

    fn attack(&mut self, node: u32, datagram: &[u8]) {
        self.victim.handle_datagram(self.now, from(node), datagram);
        assert!(self.victim.receive_bytes() <= RECEIVE_BYTES_MAX, "the bound is broken");
    }

    /// A millisecond of honest work.
    fn go_on(&mut self) {
        let mut body = [0; 4_000];
        body.fill_with(|| {
            self.written = self.written.wrapping_add(1);
            self.written.wrapping_sub(1)
        });
        let taken = self.honest.write(self.now, self.object, &body, false).unwrap();
        self.written = self.written.wrapping_sub((body.len() - taken) as u8);
        carry(&mut self.honest, &mut self.victim, self.now, &mut self.loss);
        self.now += Duration::from_millis(1);
        carry(&mut self.victim, &mut self.honest, self.now, &mut self.no_loss);
        while self.honest.poll_event().is_some() {}
        while let Some(event) = self.victim.poll_event() {
            match event {
                Event::StreamOpened { stream } if stream.node == HONEST => self.stream = Some(stream),
                Event::StreamHeard { stream } => self.victim.join(self.now, stream, Join::At(0)),
                Event::Gap { stream, .. } => assert_ne!(stream.node, HONEST, "the honest stream has a gap"),
                _ => {}
            }
        }
        if let Some(stream) = self.stream {
            let (read, fine) = read_counting(&mut self.victim, self.now, stream, &mut self.expected);
            assert!(fine, "the honest stream is out of order");
            self.read += read;
        }
    }

    /// Lets the honest sender end its work undisturbed, and checks that nothing of it is missing.
    fn finish(mut self) {
        let written = self.honest.bytes_written(self.object);
        self.honest.set_rate(Some(1e7));
        self.honest.flush(self.now, self.object).unwrap();
        for _ in 0..3_000 {
            carry(&mut self.honest, &mut self.victim, self.now, &mut self.loss);
            self.now += Duration::from_millis(1);
            carry(&mut self.victim, &mut self.honest, self.now, &mut self.no_loss);
            let stream = self.stream.expect("the honest stream is open");
            let (read, fine) = read_counting(&mut self.victim, self.now, stream, &mut self.expected);
            assert!(fine);
            self.read += read;
            while self.victim.poll_event().is_some() {}
        }
        assert_eq!(self.read as u64, written);
    }
}

#[test]
fn a_hundred_thousand_source_ids_stay_within_the_bounds() {
    for mut scene in Scene::in_both_modes() {
        for node in 0..100_000u32 {
            scene.attack(node + 10, &data(node + 10, 0, SMALL, PayloadId::default()));
            if node.is_multiple_of(200) {
                scene.go_on();
            }
        }
        assert_eq!(scene.victim.senders().count(), 64);
        assert!(scene.victim.stats().count(Reject::TooManySenders) > 99_000);
        assert!(scene.read > 1_000_000, "only {} honest bytes arrived", scene.read);
        scene.finish();
    }
}

#[test]
fn huge_announced_streams_stay_within_the_bounds() {
    for mut scene in Scene::in_both_modes() {
        for round in 0..20_000u32 {
            let node = 10 + round % 40;
            let payload_id =
                PayloadId { block: round.wrapping_mul(0x9e37) & 0xff_ffff, block_len: 0, symbol: 254 };
            scene.attack(node, &data(node, (round % 50) as u16, HUGE, payload_id));
            if round.is_multiple_of(40) {
                scene.go_on();
            }
        }
        let stats = scene.victim.stats();
        assert!(stats.count(Reject::NoMemory) + stats.count(Reject::BeyondWindow) > 0, "{stats:?}");
        assert!(scene.read > 1_000_000, "only {} honest bytes arrived", scene.read);
        scene.finish();
    }
}

/// Forty strangers announce objects of every size and say next to nothing of each. Then a newcomer has one that is
/// worth having.
fn announce_objects(flags: u8, adjust: impl Fn(&mut Config)) -> (Scene, bool) {
    const SIZES: [(u64, u16, u16); 5] = [
        (RECEIVE_BYTES_MAX as u64 / 2, 1400, 64),
        (1 << 20, 1400, 255),
        (1 << 24, 1, 1),
        (1 << 42, 1400, 255),
        (1 << 35, 2800, 255),
    ];
    let mut scene = Scene::adjusted(&adjust);
    for round in 0..4_000u32 {
        let (object_bytes, segment_bytes, block_symbols) = SIZES[(round / 40) as usize % SIZES.len()];
        let fti = Fti { object_bytes, segment_bytes, block_symbols, parity_symbols: 0 };
        let payload_id =
            PayloadId { block: round.wrapping_mul(0x9e37) % 23, block_len: 0, symbol: 1 % block_symbols };
        let node = 10 + round % 40;
        let mut datagram = begin_data(node, (round / 40 % 50) as u16, flags, fti, payload_id);
        datagram.resize(datagram.len() + usize::from(segment_bytes), 7);
        scene.attack(node, &datagram);
        if round.is_multiple_of(40) {
            scene.go_on();
        }
    }
    let mut newcomer = session(3, |config| config.rate_bytes_per_s = Some(1e8));
    newcomer.send_data(scene.now, &[1; 300_000], b"").unwrap().unwrap();
    let mut arrived = false;
    for _ in 0..100 {
        carry(&mut newcomer, &mut scene.victim, scene.now, &mut scene.no_loss);
        let events = std::iter::from_fn(|| scene.victim.poll_event());
        arrived |= events.filter(|event| matches!(event, Event::DataReceived { .. })).count() > 0;
        scene.go_on();
    }
    (scene, arrived)
}

#[test]
fn objects_that_are_announced_and_do_not_come_leave_memory_for_others() {
    for flags in [0, Flags::FILE] {
        let (scene, arrived) = announce_objects(flags, |_| ());
        let held = scene.victim.receive_bytes();
        assert!(
            held < RECEIVE_BYTES_MAX * 15 / 16,
            "{held} bytes of {RECEIVE_BYTES_MAX} held, flags {flags}"
        );
        assert!(arrived, "the newcomer's object found no memory, flags {flags}");
        assert!(scene.read > 400_000, "only {} honest bytes arrived", scene.read);
        scene.finish();
    }
}

#[test]
fn who_receives_no_objects_spends_nothing_on_them() {
    for flags in [0, Flags::FILE] {
        let (scene, arrived) = announce_objects(flags, |config| config.receive_objects = false);
        let stats = scene.victim.stats();
        assert!(!arrived && stats.count(Reject::Unwanted) >= 4_000, "{stats:?}");
        assert!(scene.victim.receive_bytes() <= 1 << 20, "one stream's window is all that is held");
        assert!(scene.read > 400_000, "only {} honest bytes arrived", scene.read);
        scene.finish();
    }
}

#[test]
fn flushes_far_ahead_of_what_was_sent_stay_within_the_bounds() {
    for mut scene in Scene::in_both_modes() {
        let mut out = Vec::new();
        for round in 0..20_000u32 {
            let node = 10 + round % 40;
            let payload_id =
                PayloadId { block: round.wrapping_mul(0x7f_fff0) & 0xff_ffff, block_len: 0, symbol: 63 };
            let position = command::Position { fec_id: FecId::ReedSolomon8, object: 0, payload_id };
            if round < 40 {
                scene.attack(node, &data(node, 0, SMALL, PayloadId::default()));
            }
            command::write_flush(&sender_header(node), position, &[VICTIM], &mut out);
            scene.attack(node, &out);
            if round.is_multiple_of(40) {
                scene.go_on();
            }
        }
        assert!(scene.read > 1_000_000, "only {} honest bytes arrived", scene.read);
        scene.finish();
    }
}

/// A NACK that asks for every block there can be.
fn nack_for_everything(node: u32, object: u16) -> Vec<u8> {
    let mut requests = RepairWriter::default();
    requests.reset(1400);
    let item = |block: u32| Position {
        fec_id: FecId::ReedSolomon8,
        object,
        payload_id: PayloadId { block, block_len: 0, symbol: 0 },
    };
    for start in 0..40 {
        requests.push(RepairFlags::BLOCK, item(start), item(0x7f_ffff));
    }
    requests.push(RepairFlags::OBJECT, item(0), item(0));
    let header = FeedbackHeader {
        sequence: 0,
        source: node,
        sender: HONEST,
        instance: 1,
        probe_response: Time::ZERO,
        cc: None,
    };
    let mut out = Vec::new();
    Nack::write(&header, requests.content(), &mut out);
    out
}

#[test]
fn nacks_for_everything_leave_new_data_half_of_the_rate() {
    let mut scene = Scene::new();
    // Twice what the rate allows, so that data always waits.
    scene.honest.set_rate(Some(2e6));
    let nack = nack_for_everything(66, scene.object);
    let before = scene.honest.stats().clone();
    let began = scene.now;
    for _ in 0..2_000 {
        for _ in 0..5 {
            scene.honest.handle_datagram(scene.now, from(66), &nack);
        }
        scene.go_on();
    }
    let stats = scene.honest.stats();
    let allowed = 2e6 * scene.now.since(began).as_secs_f64();
    let fresh = (stats.payload_bytes_sent - before.payload_bytes_sent) as f64;
    assert!(stats.repairs_sent > 500, "the attack had no effect at all: {stats:?}");
    assert!(fresh > 0.4 * allowed, "{fresh} new bytes of {allowed} allowed");
    scene.finish();
}

/// NORM_ACK(CC) of a receiver that claims to get nearly nothing.
fn claim_of_loss(node: u32, probe_response: Time) -> Vec<u8> {
    let cc = CcFeedback {
        sequence: 1,
        flags: CcFeedback::RTT,
        rtt: quantize::quantize_rtt(Duration::from_millis(1)),
        loss: quantize::quantize_loss(0.99),
        rate: quantize::quantize_rate(1.0),
        delivered: None,
    };
    let header = FeedbackHeader {
        sequence: 0,
        source: node,
        sender: HONEST,
        instance: 1,
        probe_response,
        cc: Some(cc),
    };
    let mut out = Vec::new();
    feedback::write_probe_ack(&header, &mut out);
    out
}

#[test]
fn a_receiver_that_claims_loss_slows_norm_cc_down_to_its_least_rate_and_no_further() {
    let mut goodput = Vec::new();
    for rate_min in [0.0, 2e6] {
        let mut scene = Scene::adjusted(|config| {
            config.congestion = CongestionControl::NormCc;
            config.rate_min_bytes_per_s = rate_min;
        });
        for millis in 0..3_000 {
            if millis % 5 == 0 {
                let claim = claim_of_loss(66, scene.now);
                scene.honest.handle_datagram(scene.now, from(66), &claim);
            }
            scene.go_on();
        }
        assert_eq!(scene.honest.limiting_receiver(), Some(66), "whoever looks finds out who it is");
        goodput.push(scene.read as f64 / 3.0);
    }
    println!("{goodput:?} bytes/s");
    assert!(goodput[0] < 1.6e6, "without a least rate: {goodput:?}");
    assert!(goodput[1] > 1.8e6, "with one: {goodput:?}");
}

#[test]
fn a_stranger_that_asks_for_everything_brakes_an_unpaced_sender_only_where_nobody_is_listed() {
    const RATE_MIN: f64 = 2e6;
    let slowest = |ackers: &[u32]| {
        let mut scene = Scene::adjusted(|config| {
            config.rate_bytes_per_s = None;
            config.rate_min_bytes_per_s = RATE_MIN;
        });
        scene.honest.set_ackers(ackers);
        let nack = nack_for_everything(66, scene.object);
        let mut slowest: Option<f64> = None;
        for _ in 0..2_000 {
            scene.honest.handle_datagram(scene.now, from(66), &nack);
            scene.go_on();
            let rate = scene.honest.rate_bytes_per_s();
            slowest = slowest.into_iter().chain(rate).reduce(f64::min);
        }
        scene.finish();
        slowest
    };
    assert_eq!(slowest(&[]), Some(RATE_MIN), "it is believed, down to the least rate");
    assert_eq!(slowest(&[VICTIM]), None, "it is not believed");
}

#[test]
fn a_least_rate_above_a_fixed_rate_is_refused() {
    let mut config = Config::new(1, 1, 1);
    config.congestion = CongestionControl::Fixed;
    (config.rate_bytes_per_s, config.rate_min_bytes_per_s) = (Some(1e6), 2e6);
    let error = config.check().unwrap_err().to_string();
    assert_eq!(
        error,
        "rate_min_bytes_per_s must be at least 0, and at most rate_bytes_per_s where that is given"
    );
    config.rate_bytes_per_s = None;
    assert_eq!(config.check(), Ok(()));
}

#[test]
fn ids_made_up_one_after_the_other_do_not_keep_a_newcomer_out() {
    for mut scene in Scene::in_both_modes() {
        let mut newcomer = session(7, |config| config.rate_bytes_per_s = Some(1e6));
        let object = newcomer.open_stream(&StreamOptions::default()).unwrap();
        let mut made_up = 1_000;
        let mut let_in = None;
        for millis in 0..5_000 {
            for _ in 0..20 {
                made_up += 1;
                scene.attack(made_up, &data(made_up, 0, SMALL, PayloadId::default()));
            }
            if millis > 2_000 {
                newcomer.write(scene.now, object, &[7; 500], true).unwrap();
                newcomer.flush(scene.now, object).unwrap();
                carry(&mut newcomer, &mut scene.victim, scene.now, &mut Loss::new(1, 0.0));
            }
            scene.go_on();
            if let_in.is_none() && scene.victim.senders().any(|node| node == 7) {
                let_in = Some(millis);
            }
        }
        assert!(let_in.is_some_and(|at| at < 4_000), "let in at {let_in:?} ms, it came at 2000");
        assert!(scene.victim.senders().any(|node| node == 7), "and it stays");
        assert!(scene.victim.senders().any(|node| node == HONEST));
        scene.finish();
    }
}

#[test]
fn a_sender_that_starts_over_again_and_again_stays_within_the_bounds() {
    for mut scene in Scene::in_both_modes() {
        for round in 0..20_000u32 {
            let mut datagram = data(66, 0, HUGE, PayloadId::default());
            datagram[8..10].copy_from_slice(&(round as u16).to_be_bytes());
            scene.attack(66, &datagram);
            if round.is_multiple_of(40) {
                scene.go_on();
            }
        }
        assert!(scene.victim.senders().count() <= 64);
        scene.finish();
    }
}
