//! Watermarks and the receiver window together.

use std::net::SocketAddr;
use std::time::Duration;

use shoal_norm::{Config, Event, Session, Source, StreamOptions, SyncPolicy, Time};

fn deliver(now: Time, from: &mut Session, to: &mut Session, address: SocketAddr) {
    let mut datagrams: Vec<Vec<u8>> = Vec::new();
    while let Some(out) = from.poll_transmit(now) {
        datagrams.extend(out.datagrams().map(<[u8]>::to_vec));
    }
    for datagram in datagrams {
        to.handle_datagram(now, Source { address, unicast: false }, &datagram);
    }
}

#[test]
fn a_watermark_asked_for_while_the_window_is_full_does_not_stop_the_window() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let mut sender = Session::new(Config::new(1, 1, 1)).unwrap();
    let mut receiver = Session::new(Config { sync: SyncPolicy::Start, ..Config::new(2, 1, 2) }).unwrap();
    sender.set_ackers(&[2]);
    let options = StreamOptions { window_bytes: Some(100_000), cache_bytes: 4 << 20, ..Default::default() };
    let object = sender.open_stream(&options).unwrap();
    let mut now = Time::from_nanos(1_000_000_000);
    assert_eq!(sender.write(now, object, &[7; 2_000_000], true), Ok(2_000_000));
    sender.request_watermark(now, object).unwrap();
    let mut settled = None;
    let mut read = 0;
    while settled.is_none() && now < Time::from_nanos(11_000_000_000) {
        now += Duration::from_millis(1);
        deliver(now, &mut sender, &mut receiver, address);
        while let Some(event) = receiver.poll_event() {
            if let Event::Readable { stream } = event {
                while let Some(bytes) = receiver.read(stream).map(|chunk| chunk.bytes.len()) {
                    receiver.consume(now, stream, bytes);
                    read += bytes;
                }
            }
        }
        deliver(now, &mut receiver, &mut sender, address);
        while let Some(event) = sender.poll_event() {
            if let Event::WatermarkDone(watermark) = event {
                settled = Some(watermark);
            }
        }
    }
    assert_eq!(read, 2_000_000);
    assert_eq!(settled.expect("the watermark is settled").acked, [2]);
    assert_eq!(receiver.stats().nacks_sent, 0, "nothing was lost, so nothing may be asked for");
}
