//! Numbers that wrap on the wire, in one long stream: block numbers after 2^16, offsets after 4 GiB.

use std::net::SocketAddr;

use shoal_norm::{Config, Event, FecId, Session, Source, StreamOptions, SyncPolicy, Time};

const TOTAL: u64 = (4 << 30) + (64 << 20);

#[test]
fn a_stream_of_more_than_four_gibibytes_arrives_whole_with_sixteen_bit_blocks() {
    let address: SocketAddr = "10.0.0.1:1".parse().unwrap();
    let config = Config {
        fec_id: FecId::NoCode,
        block_symbols: 4,
        segment_bytes: 8192,
        sync: SyncPolicy::Start,
        ..Config::new(1, 1, 1)
    };
    let mut receiver = Session::new(Config { node: 2, ..config.clone() }).unwrap();
    let mut sender = Session::new(config).unwrap();
    let object = sender.open_stream(&StreamOptions { cache_bytes: 2 << 20, ..Default::default() }).unwrap();
    let now = Time::from_nanos(1_000_000_000);
    // Eight bytes that count, over and over: whatever is out of place shows.
    let chunk: Vec<u8> = (0..131_072u64).flat_map(u64::to_le_bytes).collect();
    let (mut written, mut read) = (0u64, 0u64);
    while read < TOTAL {
        if written < TOTAL {
            let at = (written % chunk.len() as u64) as usize;
            written += sender.write(now, object, &chunk[at..], at == 0).unwrap() as u64;
        }
        while let Some(out) = sender.poll_transmit(now) {
            for datagram in out.datagrams() {
                receiver.handle_datagram(
                    now,
                    Source { address, unicast: false, waited: std::time::Duration::ZERO },
                    datagram,
                );
            }
        }
        while let Some(event) = receiver.poll_event() {
            let Event::Readable { stream } = event else { continue };
            while let Some(taken) = receiver.read(stream).map(|piece| {
                let at = (read % chunk.len() as u64) as usize;
                let same = piece.bytes.len().min(chunk.len() - at);
                assert_eq!(piece.bytes[..same], chunk[at..at + same], "at byte {read}");
                same
            }) {
                receiver.consume(now, stream, taken);
                read += taken as u64;
            }
        }
    }
    assert!(read > u64::from(u32::MAX));
    assert!(sender.segments_sent(object) / 4 > 2 * 65_536, "block numbers went round twice");
    assert_eq!(receiver.stats().segments_lost, 0);
}
