//! How much a stream can repair: bytes count, not datagrams.

use std::time::Duration;

use crate::support::{START, session};
use shoal_norm::StreamOptions;

#[test]
fn small_messages_sent_one_by_one_can_be_repaired_as_long_as_their_bytes_fit() {
    let mut sender = session(1, |_| ());
    let options = StreamOptions { cache_bytes: 4 << 20, ..StreamOptions::default() };
    let stream = sender.open_stream(&options).unwrap();
    let mut now = START;
    for _ in 0..60_000 {
        assert_eq!(sender.write(now, stream, &[7; 64], true).unwrap(), 64);
        sender.flush(now, stream).unwrap();
        while sender.poll_transmit(now).is_some() {}
        now += Duration::from_millis(1);
    }
    let kept = sender.segments_sent(stream) - sender.oldest_segment(stream);
    assert!(kept >= 30_000, "{kept} messages can be repaired");
}
