//! How many segments a receiver says that it missed.

use crate::support::{START, from, session, step};
use shoal_norm::{Config, Session, StreamOptions, SyncPolicy, Time};

const SEGMENT_BYTES: usize = 100;
const SENT: usize = 40;

/// How a sender sends so many bytes.
type Send = fn(&mut Session, Time, usize);

fn send_stream(sender: &mut Session, now: Time, bytes: usize) {
    let stream = sender.open_stream(&StreamOptions::default()).unwrap();
    assert_eq!(sender.write(now, stream, &vec![7; bytes], true), Ok(bytes));
}

fn send_object(sender: &mut Session, now: Time, bytes: usize) {
    assert!(sender.send_data(now, &vec![7; bytes], b"").unwrap().is_some());
}

/// Sends `SENT` segments that arrive as the script says; returns how many the receiver found missing.
fn losses(send: Send, parity_symbols: u16, arrives: impl Fn(usize) -> bool) -> u64 {
    let adjust = |config: &mut Config| {
        (config.segment_bytes, config.block_symbols) = (SEGMENT_BYTES as u16, 16);
        config.parity_symbols = parity_symbols;
        config.sync = SyncPolicy::All;
    };
    let (mut sender, mut receiver) = (session(1, adjust), session(2, adjust));
    let mut now = START;
    send(&mut sender, now, SENT * SEGMENT_BYTES);
    let mut segments = 0;
    for _ in 0..1000 {
        while let Some(out) = sender.poll_transmit(now) {
            for datagram in out.datagrams() {
                let is_data = datagram[0] & 0x0f == 2;
                if !is_data || arrives(segments) {
                    receiver.handle_datagram(now, from(1), datagram);
                }
                segments += usize::from(is_data);
            }
        }
        now = step(now, 1000);
    }
    assert!(segments >= SENT);
    receiver.stats().losses_detected
}

#[test]
fn segments_found_missing_are_counted_once_in_streams_and_in_objects() {
    for (name, send) in [("stream", send_stream as Send), ("object", send_object)] {
        for parity in [0, 4] {
            let what = format!("{name}, {parity} parity symbols");
            assert_eq!(losses(send, parity, |_| true), 0, "{what}, nothing lost");
            assert_eq!(losses(send, parity, |at| !(3..8).contains(&at)), 5, "{what}, lost in the middle");
            assert_eq!(losses(send, parity, |at| at < SENT - 3), 3, "{what}, lost at the end");
        }
    }
}

#[test]
fn the_end_of_an_object_is_missing_once_a_newer_one_has_begun() {
    let two: Send = |sender, now, bytes| {
        send_object(sender, now, bytes / 2);
        send_object(sender, now, bytes / 2);
    };
    assert_eq!(losses(two, 0, |at| at == 0 || at >= SENT / 2), SENT as u64 / 2 - 1);
    assert_eq!(
        losses(two, 0, |at| at >= SENT / 2),
        0,
        "nobody knows how long an object is of which nothing came"
    );
}
