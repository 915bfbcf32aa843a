//! A sender refuses what it no longer has, and nothing else.

use std::time::Duration;

use crate::support::{SMALL_SEGMENT as SEGMENT, START, drain_events, from, session, small_and_slow, step};
use shoal_norm::{AbortReason, CloseReason, Event, Session, StreamOptions, Time};

const DATA: u8 = 2;
const SQUELCH: (u8, u8) = (3, 3);
const OBJECT_BYTES: usize = 16 * SEGMENT;

fn object_of(datagram: &[u8]) -> u16 {
    u16::from_be_bytes([datagram[14], datagram[15]])
}

/// Everything the session sends now.
fn poll(session: &mut Session, now: Time) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    while let Some(transmit) = session.poll_transmit(now) {
        datagrams.extend(transmit.datagrams().map(<[u8]>::to_vec));
    }
    drain_events(session, |_| ());
    datagrams
}

/// Carries everything both ways for a second, but not what `lost` says of what goes to the last receiver.
/// Returns the refusals, and what happened at the last receiver.
fn exchange(
    sender: &mut Session,
    receivers: &mut [Session],
    mut lost: impl FnMut(&[u8]) -> bool,
) -> (Vec<Vec<u8>>, Vec<Event>) {
    let (mut refusals, mut events) = (Vec::new(), Vec::new());
    let last = receivers.len() - 1;
    for tick in 0..10_000 {
        let now = step(START, 100 * tick);
        for datagram in poll(sender, now) {
            for (index, receiver) in receivers.iter_mut().enumerate() {
                if index != last || !lost(&datagram) {
                    receiver.handle_datagram(now, from(sender.node()), &datagram);
                }
            }
            if crate::support::corpus::kind(&datagram) == SQUELCH {
                refusals.push(datagram);
            }
        }
        for (index, receiver) in receivers.iter_mut().enumerate() {
            let source = from(receiver.node());
            while let Some(transmit) = receiver.poll_transmit(now) {
                sender.handle_datagram(now, source, transmit.bytes);
            }
            drain_events(receiver, |event| {
                if index == last {
                    events.push(event);
                }
            });
        }
    }
    (refusals, events)
}

#[test]
fn the_end_of_a_stream_is_repaired_also_for_those_who_need_not_acknowledge_it() {
    let mut sender = session(1, small_and_slow);
    let mut receivers = [session(2, small_and_slow), session(3, small_and_slow)];
    sender.set_ackers(&[2]);
    let stream = sender.open_stream(&StreamOptions::default()).unwrap();
    sender.write(START, stream, &[7; 4 * SEGMENT], true).unwrap();
    sender.request_watermark(START, stream).unwrap();
    assert!(sender.close_stream(START, stream).unwrap());
    let mut losses = 0;
    let (refusals, events) = exchange(&mut sender, &mut receivers, |datagram| {
        // All that is sent before the acker has everything, and the first repair.
        let lost = crate::support::corpus::kind(datagram).0 == DATA && losses < 6;
        losses += usize::from(lost);
        lost
    });
    assert_eq!(losses, 6);
    assert_eq!(refusals, Vec::<Vec<u8>>::new());
    assert!(
        !events.iter().any(|event| matches!(event, Event::StreamClosed { reason: CloseReason::Dropped, .. }))
    );
    assert_eq!(receivers[1].stats().segments_received, 5, "four of data, and the end");
}

/// A receiver heard of objects before and after a stream of which it heard nothing, and asks for the stream.
/// What the sender says then, if `write` was done before.
fn answer_to_a_request_for_a_silent_stream(write: impl Fn(&mut Session, u16)) -> Vec<(u8, u8)> {
    let (mut sender, mut receiver) = (session(1, small_and_slow), session(2, small_and_slow));
    sender.send_data(START, &[7; OBJECT_BYTES], b"").unwrap().unwrap();
    let stream = sender.open_stream(&StreamOptions::default()).unwrap();
    sender.send_data(START, &[7; OBJECT_BYTES], b"").unwrap().unwrap();
    for tick in 0.. {
        let now = step(START, 100 * tick);
        for datagram in poll(&mut sender, now) {
            receiver.handle_datagram(now, from(1), &datagram);
        }
        let requests = poll(&mut receiver, now);
        if receiver.stats().nacks_sent > 0 {
            write(&mut sender, stream);
            requests.iter().for_each(|request| sender.handle_datagram(now, from(2), request));
            let later = now + Duration::from_millis(5);
            return poll(&mut sender, later)
                .iter()
                .map(|datagram| crate::support::corpus::kind(datagram))
                .collect();
        }
        assert!(tick < 10_000, "the receiver never asks");
    }
    unreachable!()
}

#[test]
fn a_stream_to_which_nothing_was_written_is_refused_but_not_one_that_is_about_to_begin() {
    let untouched = answer_to_a_request_for_a_silent_stream(|_, _| ());
    assert!(untouched.contains(&SQUELCH), "{untouched:?}");
    let begun = answer_to_a_request_for_a_silent_stream(|sender, stream| {
        sender.write(START, stream, b"first", true).unwrap();
        sender.flush(START, stream).unwrap();
    });
    assert!(begun.contains(&(DATA, 0)), "{begun:?}");
    assert!(!begun.contains(&SQUELCH), "{begun:?}");
}

#[test]
fn objects_older_than_a_stream_are_not_given_up_when_another_is_refused() {
    let mut sender = session(1, small_and_slow);
    let mut receivers = [session(2, small_and_slow)];
    let objects: Vec<u16> =
        (0..3).map(|_| sender.send_data(START, &[7; OBJECT_BYTES], b"").unwrap().unwrap()).collect();
    sender.open_stream(&StreamOptions::default()).unwrap();
    let mut sent = Vec::new();
    for tick in 0..1_000 {
        sent.extend(poll(&mut sender, step(START, 100 * tick)));
    }
    sent.retain(|datagram| crate::support::corpus::kind(datagram).0 == DATA);
    assert_eq!(sent.len(), 3 * OBJECT_BYTES / SEGMENT);
    assert!(sender.cancel_object(objects[1]));
    // Of the first object one segment arrives, of the second none.
    let arrived = sent.iter().take(1).chain(sent.iter().filter(|datagram| object_of(datagram) == objects[2]));
    arrived.for_each(|datagram| receivers[0].handle_datagram(START, from(1), datagram));
    let (refusals, events) = exchange(&mut sender, &mut receivers, |_| false);
    assert!(!refusals.is_empty());
    for refusal in refusals {
        assert_eq!(object_of(&refusal), objects[0], "the oldest object that can be repaired");
        assert!(refusal.ends_with(&objects[1].to_be_bytes()));
    }
    let mut received: Vec<u16> = Vec::new();
    for event in events {
        match event {
            Event::DataReceived { object, .. } => received.push(object.object),
            Event::ObjectAborted { object, reason } => {
                assert_eq!((object.object, reason), (objects[1], AbortReason::Squelched));
            }
            _ => {}
        }
    }
    received.sort_unstable();
    assert_eq!(received, [objects[0], objects[2]]);
}
