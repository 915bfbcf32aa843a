//! What a receiver does when the round-trip time that its sender advertises changes.

use std::time::Duration;

use crate::support::{SMALL_SEGMENT, START, from, session, small_and_slow};

/// The datagrams of one object of ten segments, as a sender with this round-trip time sends them.
fn datagrams(grtt: Duration) -> Vec<Vec<u8>> {
    let mut sender = session(1, |config| {
        small_and_slow(config);
        (config.grtt_initial, config.rate_bytes_per_s) = (grtt, None);
    });
    sender.send_data(START, &[7; 10 * SMALL_SEGMENT], b"").unwrap();
    let mut sent: Vec<Vec<u8>> = Vec::new();
    while let Some(out) = sender.poll_transmit(START) {
        sent.extend(out.datagrams().map(<[u8]>::to_vec));
    }
    sent
}

#[test]
fn a_receiver_that_waits_for_a_slow_sender_asks_soon_once_the_sender_is_fast() {
    let (slow, fast) = (datagrams(Duration::from_secs(2)), datagrams(Duration::from_millis(10)));
    let mut receiver = session(2, small_and_slow);
    // The one between them is lost.
    receiver.handle_datagram(START, from(1), &slow[1]);
    receiver.handle_datagram(START, from(1), &slow[3]);
    let soon = START + Duration::from_millis(60);
    assert!(receiver.poll_transmit(soon).is_none(), "a round trip takes seconds, so it waits for one");
    receiver.handle_datagram(soon, from(1), &fast[6]);
    let asked = receiver.poll_transmit(soon + Duration::from_millis(60)).expect("it asks");
    assert_eq!(asked.datagrams().next().map(|datagram| datagram[0] & 0x0f), Some(4), "a NORM_NACK");
}
