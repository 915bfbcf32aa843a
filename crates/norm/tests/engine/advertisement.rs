//! Receivers that ask by unicast hear what others asked for from the sender, and do not ask for it again.

use crate::support::{SMALL_SEGMENT as SEGMENT, START, drain_events, from, session, small_and_slow, step};
use shoal_norm::{Config, Event, FeedbackMode, NackingMode, RepairPolicy, Session, StreamId, StreamOptions};

const INFO: u8 = 1;
const DATA: u8 = 2;
const REPAIR_ADV: (u8, u8) = (3, 5);

/// A message as loss sees it.
struct Seen {
    kind: u8,
    object: u16,
    block: u8,
    symbol: u8,
}

struct Outcome {
    nacks: u64,
    suppressed: u64,
    advertisements: usize,
    /// Bytes of streams, objects and information at both receivers.
    bytes: [usize; 2],
}

fn adjust(config: &mut Config) {
    config.feedback = FeedbackMode::Unicast;
    config.repair = RepairPolicy::Aggregated;
    small_and_slow(config);
}

/// One sender and two receivers, who lose the same of what is sent for the first time.
fn run(
    parity: (u16, u16),
    nacking: NackingMode,
    advertisements_arrive: bool,
    send: impl Fn(&mut Session),
    lost: impl Fn(&Seen) -> bool,
) -> Outcome {
    let configure = |config: &mut Config| {
        adjust(config);
        config.nacking = nacking;
        (config.parity_symbols, config.auto_parity) = parity;
    };
    let mut sender = session(1, configure);
    let mut receivers = [session(2, configure), session(3, configure)];
    let mut outcome = Outcome { nacks: 0, suppressed: 0, advertisements: 0, bytes: [0; 2] };
    let mut now = START;
    send(&mut sender);
    for _ in 0..3_000 {
        while let Some(transmit) = sender.poll_transmit(now) {
            for datagram in transmit.datagrams() {
                let (kind, flavor) = crate::support::corpus::kind(datagram);
                let object = u16::from_be_bytes([datagram[14], datagram[15]]);
                let byte = |at: usize| datagram.get(at).copied().unwrap_or_default();
                let seen = Seen { kind, object, block: byte(18), symbol: byte(19) };
                let first_time = kind == INFO || kind == DATA && datagram[12] & 1 == 0;
                // What is repaired is information too, which has no flag that says so.
                let first_time = first_time && outcome.advertisements == 0 && sent_nacks(&receivers) == 0;
                let advertised = (kind, flavor) == REPAIR_ADV;
                outcome.advertisements += usize::from(advertised);
                if (first_time && lost(&seen)) || (advertised && !advertisements_arrive) {
                    continue;
                }
                receivers.iter_mut().for_each(|receiver| receiver.handle_datagram(now, from(1), datagram));
            }
        }
        for (receiver, bytes) in receivers.iter_mut().zip(&mut outcome.bytes) {
            *bytes += take(receiver, now);
            let source = shoal_norm::Source { unicast: true, ..from(receiver.node()) };
            while let Some(transmit) = receiver.poll_transmit(now) {
                sender.handle_datagram(now, source, transmit.bytes);
            }
        }
        drain_events(&mut sender, |_| ());
        now = step(now, 100);
    }
    outcome.nacks = sent_nacks(&receivers);
    outcome.suppressed = receivers.iter().map(|receiver| receiver.stats().nacks_suppressed).sum();
    outcome
}

fn sent_nacks(receivers: &[Session]) -> u64 {
    receivers.iter().map(|receiver| receiver.stats().nacks_sent).sum()
}

fn take(receiver: &mut Session, now: shoal_norm::Time) -> usize {
    let (mut bytes, mut readable): (usize, Vec<StreamId>) = (0, Vec::new());
    drain_events(receiver, |event| match event {
        Event::Readable { stream } => readable.push(stream),
        Event::DataReceived { content, .. } | Event::Info { content, .. } => bytes += content.len(),
        _ => {}
    });
    for stream in readable {
        while let Some(chunk) = receiver.read(stream) {
            let length = chunk.bytes.len();
            bytes += length;
            receiver.consume(now, stream, length);
        }
    }
    bytes
}

/// With the advertisement one NACK serves both receivers; without it each asks for itself.
fn one_asks_for_both(
    parity: (u16, u16),
    bytes: usize,
    send: impl Fn(&mut Session),
    lost: impl Fn(&Seen) -> bool,
) {
    let told = run(parity, NackingMode::Full, true, &send, &lost);
    assert_eq!(told.bytes, [bytes; 2], "everything arrives");
    assert_eq!((told.nacks, told.suppressed), (1, 1), "{} advertisements", told.advertisements);
    let untold = run(parity, NackingMode::Full, false, &send, &lost);
    assert_eq!((untold.bytes, untold.nacks), ([bytes; 2], 2), "without it both must ask");
}

fn stream(sender: &mut Session) {
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    assert_eq!(sender.write(START, object, &[7; 24 * SEGMENT], true), Ok(24 * SEGMENT));
}

fn objects(sender: &mut Session) {
    for _ in 0..3 {
        sender.send_data(START, &[7; 16 * SEGMENT], b"").unwrap().unwrap();
    }
}

#[test]
fn segments_and_whole_blocks_of_a_stream() {
    let bytes = 24 * SEGMENT;
    one_asks_for_both((0, 0), bytes, stream, |seen| seen.kind == DATA && seen.symbol == 3);
    one_asks_for_both((0, 0), bytes, stream, |seen| seen.kind == DATA && seen.block == 1);
}

#[test]
fn parity_of_a_stream() {
    one_asks_for_both((4, 0), 24 * SEGMENT, stream, |seen| {
        seen.kind == DATA && [2, 5].contains(&seen.symbol)
    });
}

#[test]
fn segments_of_objects() {
    one_asks_for_both((0, 0), 48 * SEGMENT, objects, |seen| {
        seen.kind == DATA && seen.object == 1 && [1, 2, 6].contains(&seen.symbol)
    });
}

#[test]
fn parity_of_objects() {
    one_asks_for_both((4, 0), 48 * SEGMENT, objects, |seen| {
        seen.kind == DATA && seen.object != 2 && [1, 6].contains(&seen.symbol)
    });
}

#[test]
fn objects_of_which_nothing_came() {
    one_asks_for_both((0, 0), 48 * SEGMENT, objects, |seen| seen.kind == DATA && seen.object == 1);
    one_asks_for_both((4, 1), 48 * SEGMENT, objects, |seen| seen.kind == DATA && seen.object == 1);
}

#[test]
fn information_is_sent_again_at_once_and_needs_no_advertisement() {
    let once = |nacking, bytes, send: &dyn Fn(&mut Session)| {
        let outcome = run((0, 0), nacking, false, send, |seen| seen.kind == INFO);
        assert_eq!((outcome.bytes, outcome.nacks), ([bytes; 2], 1));
    };
    let informed = |sender: &mut Session| {
        sender.send_data(START, &[7; 16 * SEGMENT], b"about the object").unwrap().unwrap();
    };
    for nacking in [NackingMode::Full, NackingMode::InfoOnly] {
        once(nacking, 16 * SEGMENT + 16, &informed);
    }
    let informed = |sender: &mut Session| {
        let options = StreamOptions { info: b"about the stream".to_vec(), ..StreamOptions::default() };
        let object = sender.open_stream(&options).unwrap();
        assert_eq!(sender.write(START, object, &[7; 16 * SEGMENT], true), Ok(16 * SEGMENT));
    };
    once(NackingMode::Full, 16 * SEGMENT + 16, &informed);
}
