//! However little was sent to make a session take memory, the allocator says that it took no more than it may.

#[path = "support/counting.rs"]
mod counting;
mod support;

use std::time::Duration;

use counting::{peak_of, with_memory};
use shoal_norm::wire::object::{Flags, ObjectHeader, SegmentHeader};
use shoal_norm::wire::{FecId, Fti, Info, PayloadId, SenderHeader, command, finish_header, message_type};
use shoal_norm::{
    Config, Event, FeedbackMode, Reject, Session, StreamId, StreamOptions, SyncPolicy, Time, WriteError,
};
use support::fuzzing::Fuzz;
use support::{Loss, START, carry, from, read_counting, session};

const RECEIVE_BYTES_MAX: usize = 16 << 20;
const SENDERS_MAX: usize = 64;
/// What is known of senders and streams beside their buffers, and what Rust's maps and lists have to spare.
const RECORDS_BYTES: usize = 4 << 20;

/// A session as a bus has it: its owner says which streams to join, and there are no objects.
fn like_a_bus(config: &mut Config) {
    config.sync = SyncPolicy::Ask;
    config.receive_objects = false;
    config.feedback = FeedbackMode::UnicastAcks;
    config.backoff_factor = 0;
}

/// A session as `shoal.norm` has it.
fn like_a_session(config: &mut Config) {
    config.sync = SyncPolicy::All;
}

const MODES: [fn(&mut Config); 2] = [like_a_bus, like_a_session];

fn victim(mode: fn(&mut Config)) -> Session {
    session(2, |config| {
        config.receive_bytes_max = RECEIVE_BYTES_MAX;
        config.receive_window_bytes = 8 << 20;
        config.senders_max = SENDERS_MAX;
        mode(config);
    })
}

fn begin(node: u32, object: u16, flags: u8, fti: Fti, payload_id: PayloadId) -> Vec<u8> {
    let sender = SenderHeader { sequence: 0, source: node, instance: 1, grtt: 0, backoff: 0, group_size: 1 };
    let header = ObjectHeader { sender, flags: Flags(flags), fec_id: FecId::ReedSolomon8, object };
    let mut out = Vec::new();
    header.begin(message_type::DATA, &mut out);
    payload_id.write(FecId::ReedSolomon8, &mut out);
    fti.write(FecId::ReedSolomon8, &mut out);
    finish_header(&mut out);
    out
}

/// A segment of a stream, with as much data as its segments have.
fn segment(node: u32, object: u16, segment_bytes: u16, number: u32, data: usize) -> Vec<u8> {
    let fti = Fti { object_bytes: 1 << 40, segment_bytes, block_symbols: 64, parity_symbols: 0 };
    let payload_id = PayloadId { block: number / 64, block_len: 0, symbol: (number % 64) as u16 };
    let mut out = begin(node, object, Flags::STREAM, fti, payload_id);
    out.extend_from_slice(&SegmentHeader { length: data as u16, message_start: 1, offset: 0 }.to_bytes());
    out.resize(out.len() + data, 7);
    out
}

/// Joins whatever is heard, as an application may, and reads nothing.
fn join_all(victim: &mut Session, now: Time) {
    while let Some(event) = victim.poll_event() {
        if let Event::StreamHeard { stream } = event {
            victim.join(now, stream, shoal_norm::Join::At(0));
        }
    }
}

fn serve(victim: &mut Session, now: Time) {
    join_all(victim, now);
    let mut sent = 0;
    while victim.poll_transmit(now).is_some() {
        sent += 1;
        assert!(sent < 10_000, "it never stops sending");
    }
}

#[test]
fn a_few_short_datagrams_far_ahead_take_next_to_nothing() {
    for mode in MODES {
        for segment_bytes in [1, 16, 1400, u16::MAX] {
            let mut now = START;
            let (peak, victim) = peak_of(|| {
                let mut victim = victim(mode);
                for round in 0..128u32 {
                    let (node, object) = (10 + round % 8, (round / 8) as u16);
                    // First where it can be joined, and then as far ahead as a window may reach.
                    for number in [0, 5_000, 1_000_000] {
                        victim.handle_datagram(
                            now,
                            from(node),
                            &segment(node, object, segment_bytes, number, 1),
                        );
                        serve(&mut victim, now);
                        now += Duration::from_micros(100);
                    }
                }
                victim
            });
            let held = victim.receive_bytes();
            assert!(held <= RECEIVE_BYTES_MAX, "{held} bytes are held");
            let most = 128 * 2 * usize::from(segment_bytes).max(8 << 10) + RECORDS_BYTES;
            assert!(
                peak <= most.min(RECEIVE_BYTES_MAX + RECORDS_BYTES),
                "segments of {segment_bytes}: {peak} bytes"
            );
        }
    }
}

#[test]
fn a_flood_of_tiny_segments_stays_within_the_bound() {
    for mode in MODES {
        let (peak, victim) = peak_of(|| {
            let (mut victim, mut now) = (victim(mode), START);
            for number in 0..60_000u32 {
                for (node, object) in [(10, 0), (10, 1), (11, 0)] {
                    // Every second one is missing.
                    victim.handle_datagram(now, from(node), &segment(node, object, 1, 2 * number, 1));
                }
                if number.is_multiple_of(64) {
                    serve(&mut victim, now);
                    now += Duration::from_millis(1);
                }
            }
            victim
        });
        assert!(victim.receive_bytes() <= RECEIVE_BYTES_MAX);
        // A window that grows is there twice for a moment.
        assert!(peak <= RECEIVE_BYTES_MAX * 3 / 2 + RECORDS_BYTES, "{peak} bytes");
    }
}

#[test]
fn streams_that_nobody_joins_count() {
    let (peak, victim) = peak_of(|| {
        let mut victim = victim(like_a_bus);
        for round in 0..SENDERS_MAX as u32 * 16 {
            let (node, object) = (10 + round / 16, (round % 16) as u16);
            victim.handle_datagram(START, from(node), &segment(node, object, 60_000, 0, 60_000));
            while victim.poll_event().is_some() {}
        }
        victim
    });
    assert!(victim.stats().count(Reject::NoMemory) > 0, "{:?}", victim.stats());
    assert!(peak <= RECEIVE_BYTES_MAX + RECORDS_BYTES, "{peak} bytes");
}

#[test]
fn events_that_nobody_takes_are_bounded_by_their_bytes() {
    for mode in MODES {
        let (peak, mut victim) = peak_of(|| {
            let mut victim = victim(mode);
            let mut out = Vec::new();
            for round in 0..20_000u32 {
                let node = 10 + round % 16;
                let header = SenderHeader {
                    sequence: round as u16,
                    source: node,
                    instance: 1,
                    grtt: 0,
                    backoff: 4,
                    group_size: 1,
                };
                command::write_application(&header, &[7; 1400], &mut out);
                victim.handle_datagram(START, from(node), &out);
                for flags in [Flags::STREAM | Flags::INFO, Flags::INFO] {
                    let object = (round / 16) as u16;
                    let header = ObjectHeader {
                        sender: header,
                        flags: Flags(flags),
                        fec_id: FecId::ReedSolomon8,
                        object,
                    };
                    let fti =
                        Fti { object_bytes: 5000, segment_bytes: 1400, block_symbols: 64, parity_symbols: 0 };
                    Info::write(&header, Some(fti), &[7; 1400], &mut out);
                    victim.handle_datagram(START, from(node), &out);
                }
                // Whole objects of one segment each.
                let fti =
                    Fti { object_bytes: 1400, segment_bytes: 1400, block_symbols: 64, parity_symbols: 0 };
                let mut whole = begin(node, 20_000 + (round / 16) as u16, 0, fti, PayloadId::default());
                whole.resize(whole.len() + 1400, 7);
                victim.handle_datagram(START, from(node), &whole);
            }
            victim
        });
        assert!(victim.stats().count(Reject::NoRoom) > 0, "{:?}", victim.stats());
        assert!(peak <= RECEIVE_BYTES_MAX + 2 * RECORDS_BYTES, "{peak} bytes");
        while victim.poll_event().is_some() {}
        command::write_application(
            &SenderHeader { sequence: 1, source: 10, instance: 1, grtt: 0, backoff: 4, group_size: 1 },
            b"hello",
            &mut Vec::new(),
        );
    }
}

#[test]
fn objects_of_every_kind_stay_within_the_bound() {
    let (peak, victim) = peak_of(|| {
        let (mut victim, mut now) = (victim(like_a_session), START);
        for round in 0..200_000u32 {
            let node = 10 + round % 8;
            let fti = Fti {
                object_bytes: [1 << 23, 1 << 20, 100_000, 3][(round / 8 % 4) as usize],
                segment_bytes: [1400, 1, 50, 1400][(round / 8 % 4) as usize],
                block_symbols: 64,
                parity_symbols: 4,
            };
            let payload_id =
                PayloadId { block: round.wrapping_mul(77) % 50, block_len: 0, symbol: (round % 68) as u16 };
            let flags = if round % 16 < 8 { 0 } else { Flags::FILE };
            let object = (round / 50).wrapping_mul(31) as u16;
            let mut datagram = begin(node, object, flags, fti, payload_id);
            datagram
                .resize(datagram.len() + usize::from(fti.segment_bytes).min(fti.object_bytes as usize), 7);
            victim.handle_datagram(now, from(node), &datagram);
            if round.is_multiple_of(64) {
                serve(&mut victim, now);
                now += Duration::from_millis(1);
            }
        }
        victim
    });
    assert!(victim.receive_bytes() <= RECEIVE_BYTES_MAX);
    assert!(peak <= RECEIVE_BYTES_MAX * 3 / 2 + RECORDS_BYTES, "{peak} bytes");
}

#[test]
fn random_and_mutated_datagrams_stay_within_the_bound() {
    for seed in 0..6 {
        let (peak, _) = peak_of(|| {
            let mut fuzz = Fuzz::new(seed);
            fuzz.run(30_000);
            fuzz
        });
        // The corpus, the victim's own cache, and four megabytes that it may receive.
        assert!(peak < 24 << 20, "seed {seed}: {peak} bytes");
    }
}

#[test]
fn a_flow_goes_on_though_strangers_took_all_memory() {
    for mode in MODES {
        let (mut victim, mut now) = (victim(mode), START);
        let mut honest = session(1, |config| {
            config.rate_bytes_per_s = Some(2e7);
            config.grtt_initial = Duration::from_millis(1);
        });
        let object = honest.open_stream(&StreamOptions::default()).unwrap();
        let stream = StreamId { node: 1, instance: 1, object };
        let (mut loss, mut no_loss) = (Loss::new(3, 0.02), Loss::new(4, 0.0));
        let (mut expected, mut read, mut written) = (0, 0, 0u8);
        let mut attack = 0u32;
        for millis in 0..2_000 {
            let body: Vec<u8> = (0..10_000).map(|at| written.wrapping_add(at as u8)).collect();
            let taken = honest.write(now, object, &body, millis == 0).unwrap();
            written = written.wrapping_add(taken as u8);
            carry(&mut honest, &mut victim, now, &mut loss);
            carry(&mut victim, &mut honest, now, &mut no_loss);
            // From when the flow is known on, sixty strangers take all they can get.
            for _ in 0..if millis > 100 { 50 } else { 0 } {
                attack += 1;
                let (node, object) = (10 + attack % 60, (attack / 60 % 16) as u16);
                let number = [0, 60, 3][(attack / 960 % 3) as usize];
                victim.handle_datagram(now, from(node), &segment(node, object, 60_000, number, 4));
            }
            join_all(&mut victim, now);
            let (more, fine) = read_counting(&mut victim, now, stream, &mut expected);
            assert!(fine, "the flow is out of order");
            read += more;
            now += Duration::from_millis(1);
        }
        assert!(
            victim.stats().count(Reject::NoMemory) > 0,
            "the strangers never took all: {:?}",
            victim.stats()
        );
        assert!(read > 12_000_000, "{read} bytes arrived");
    }
}

#[test]
fn where_there_is_no_memory_something_is_refused_and_nothing_ends() {
    for mode in MODES {
        let mut victim = victim(mode);
        let (refused, ()) = with_memory(2 << 20, || {
            for round in 0..3_000u32 {
                let (node, object) = (10 + round % 8, (round / 8 % 16) as u16);
                let now = START + Duration::from_millis(round.into());
                victim.handle_datagram(
                    now,
                    from(node),
                    &segment(node, object, 1400, 2 * (round / 128), 1400),
                );
                let fti = Fti {
                    object_bytes: 8 << 20,
                    segment_bytes: 60_000,
                    block_symbols: 64,
                    parity_symbols: 4,
                };
                let payload_id =
                    PayloadId { block: round % 3, block_len: 0, symbol: (round / 3 % 68) as u16 };
                let mut whole = begin(node, 1_000 + (round % 5) as u16, 0, fti, payload_id);
                whole.resize(whole.len() + 20_000, 7);
                victim.handle_datagram(now, from(node), &whole);
                serve(&mut victim, now);
            }
        });
        assert!(refused > 0, "there was memory for everything");
        assert!(victim.stats().count(Reject::NoMemory) > 0, "{:?}", victim.stats());
    }
}

#[test]
fn a_sender_for_which_there_is_no_memory_keeps_less_for_repair_and_goes_on() {
    let mut sender = session(1, |_| ());
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    let (refused, ()) = with_memory(1 << 20, || {
        for _ in 0..5_000 {
            assert_eq!(sender.write(START, object, &[7; 2800], true), Ok(2800));
            while sender.poll_transmit(START).is_some() {}
        }
    });
    assert!(refused > 0, "there was memory for everything");
    assert_eq!(sender.segments_sent(object), 10_000);
    let kept = sender.segments_sent(object) - sender.oldest_segment(object);
    assert!((64..1000).contains(&kept), "{kept} segments are kept");
}

#[test]
fn blocks_with_parity_go_on_where_there_is_no_memory_for_more_of_them() {
    let coded = |config: &mut Config| {
        (config.block_symbols, config.parity_symbols, config.auto_parity) = (128, 16, 2);
    };
    let mut sender = session(1, coded);
    let (_, opened) = with_memory(0, || sender.open_stream(&StreamOptions::default()));
    assert_eq!(opened, Err(WriteError::NoMemory), "two blocks have to be kept");
    let object = sender.open_stream(&StreamOptions::default()).unwrap();
    let (refused, ()) = with_memory(256 << 10, || {
        for _ in 0..2_000 {
            assert_eq!(sender.write(START, object, &[7; 2800], true), Ok(2800));
            while sender.poll_transmit(START).is_some() {}
        }
    });
    assert!(refused > 0, "there was memory for everything");
    assert_eq!(sender.segments_sent(object), 4_000);
}

#[test]
fn a_window_for_which_there_is_no_memory_becomes_smaller_and_its_stream_goes_on() {
    let mut sender = session(1, |config| config.rate_bytes_per_s = Some(1e9));
    let mut receiver = session(2, |_| ());
    sender.set_ackers(&[2]);
    let options = StreamOptions { window_bytes: Some(8 << 20), ..Default::default() };
    let object = sender.open_stream(&options).unwrap();
    let (stream, mut lossless) = (StreamId { node: 1, instance: 1, object }, Loss::new(1, 0.0));
    let (mut now, mut written, mut refused) = (START, 0, 0);
    for round in 0..3_000 {
        let memory = if round < 50 { 1 << 30 } else { 0 };
        let (times, taken) = with_memory(memory, || sender.write(now, object, &[7; 2800], true).unwrap());
        (written, refused) = (written + taken, refused + times);
        carry(&mut sender, &mut receiver, now, &mut lossless);
        read_counting(&mut receiver, now, stream, &mut 0);
        carry(&mut receiver, &mut sender, now, &mut lossless);
        now += Duration::from_millis(1);
    }
    assert!(refused > 0, "there was memory for everything");
    assert!(written > 4 << 20, "it took {written} bytes");
}
