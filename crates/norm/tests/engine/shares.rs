//! Streams of one precedence share what is sent, and what is repaired, by weight.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::{Loss, START, carry, session};
use shoal_norm::{Config, Event, ObjectId, Session, StreamOptions, SyncPolicy, Time};

/// A sender of so many bytes a second with a stream for each rank, in their order.
fn sender(ranks: &[(u8, u16)], rate: f64) -> (Session, Vec<ObjectId>) {
    let mut sender = session(1, |config: &mut Config| config.rate_bytes_per_s = Some(rate));
    let open = |&(precedence, weight): &(u8, u16)| {
        let options = StreamOptions { precedence, weight, cache_bytes: 1 << 20, ..StreamOptions::default() };
        sender.open_stream(&options).unwrap()
    };
    let streams = ranks.iter().map(open).collect();
    (sender, streams)
}

/// Keeps streams full for so long; returns how many bytes of datagrams each sent.
fn send(sender: &mut Session, full: &[ObjectId], now: &mut Time, millis: u64) -> HashMap<ObjectId, usize> {
    let mut sent = HashMap::new();
    for _ in 0..millis * 10 {
        *now += Duration::from_micros(100);
        for &stream in full {
            while sender.write(*now, stream, &[7; 1000], true).unwrap() > 0 {}
        }
        while let Some(out) = sender.poll_transmit(*now) {
            if let Some(stream) = out.stream {
                *sent.entry(stream).or_default() += out.bytes.len();
            }
        }
        while sender.poll_event().is_some() {}
    }
    sent
}

#[test]
fn three_full_classes_share_a_rate_16_to_4_to_1() {
    // A quantum is a run: 64 KB at high rates, and what fits into a millisecond at low ones.
    for rate in [1e6, 1e7, 1e9] {
        let (mut sender, streams) = sender(&[(2, 16), (2, 4), (2, 1)], rate);
        let sent = send(&mut sender, &streams, &mut START.clone(), 2000);
        let total: usize = sent.values().sum();
        for (stream, weight) in streams.iter().zip([16.0, 4.0, 1.0]) {
            let share = sent[stream] as f64 / total as f64;
            assert!((share * 21.0 / weight - 1.0).abs() < 0.1, "{share} of weight {weight} at {rate}");
        }
    }
}

#[test]
fn what_is_more_urgent_goes_before_what_waits_and_a_smaller_precedence_before_all() {
    let (mut sender, streams) = sender(&[(1, 1), (2, 16), (2, 4), (2, 1)], 1e6);
    let mut now = START;
    for round in 0..100 {
        send(&mut sender, &streams[2..], &mut now, 1 + round % 7);
        for urgent in [1, 0] {
            sender.write(now, streams[urgent], &[1; 100], true).unwrap();
            sender.flush(now, streams[urgent]).unwrap();
        }
        let mut order = Vec::new();
        while order.len() < 2 {
            now += Duration::from_micros(100);
            order.extend(sender.poll_transmit(now).and_then(|out| out.stream));
        }
        assert_eq!(order, streams[..2], "round {round}");
    }
}

#[test]
fn repairs_of_a_low_class_are_not_starved_by_those_of_a_high_one() {
    let (mut sender, streams) = sender(&[(2, 16), (2, 1)], 1e7);
    let mut receiver = session(2, |config| config.sync = SyncPolicy::All);
    let (mut loss, mut no_loss) = (Loss::new(3, 0.3), Loss::new(3, 0.0));
    let (mut now, mut read) = (START, HashMap::<ObjectId, usize>::new());
    for _ in 0..20_000 {
        now += Duration::from_micros(100);
        for &stream in &streams {
            while sender.write(now, stream, &[7; 1000], true).unwrap() > 0 {}
        }
        carry(&mut sender, &mut receiver, now, &mut loss);
        carry(&mut receiver, &mut sender, now, &mut no_loss);
        while sender.poll_event().is_some() {}
        while let Some(event) = receiver.poll_event() {
            if let Event::Readable { stream } = event {
                while let Some(chunk) = receiver.read(stream) {
                    let length = chunk.bytes.len();
                    *read.entry(stream.object).or_default() += length;
                    receiver.consume(now, stream, length);
                }
            }
        }
    }
    let (high, low) = (read[&streams[0]], read[&streams[1]]);
    assert!(low * 30 > high, "{low} bytes of the low class arrived, and {high} of the high one");
    assert!(high > 8 * low, "{low} bytes of the low class arrived, and {high} of the high one");
}
