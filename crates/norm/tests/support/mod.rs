//! Two or more sessions and a fake wire between them.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod corpus;
pub mod fuzzing;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use shoal_norm::{Config, Event, Session, Source, StreamId, SyncPolicy, Time};

pub const START: Time = Time::from_nanos(1_000_000_000_000);

/// The address of a node.
pub fn address(node: u32) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(0x0a00_0000 | node & 0xffff), 7400))
}

/// What came by multicast from a node.
pub fn from(node: u32) -> Source {
    Source { address: address(node), unicast: false, waited: Duration::ZERO }
}

/// A session with a rate and a seed, adjusted.
pub fn session(node: u32, adjust: impl FnOnce(&mut Config)) -> Session {
    let mut config = Config::new(node, 1, u64::from(node));
    adjust(&mut config);
    Session::new(config).expect("a test's configuration works")
}

/// Segments of so many bytes have the sessions that [`small_and_slow`] adjusts.
pub const SMALL_SEGMENT: usize = 100;

/// Small blocks of small segments, a round-trip time of 10 ms, and everything wanted from its start.
pub fn small_and_slow(config: &mut Config) {
    config.sync = SyncPolicy::Start;
    config.segment_bytes = SMALL_SEGMENT as u16;
    config.block_symbols = 8;
    config.grtt_initial = Duration::from_millis(10);
    config.grtt_min = Duration::from_millis(10);
    config.rate_bytes_per_s = Some(1e6);
}

/// Reads everything there is in a stream; returns how many bytes that was, and whether they continue `expected`,
/// which counts up byte by byte.
pub fn read_counting(
    receiver: &mut Session,
    now: Time,
    stream: StreamId,
    expected: &mut u8,
) -> (usize, bool) {
    let (mut total, mut fine) = (0, true);
    while let Some(chunk) = receiver.read(stream) {
        let length = chunk.bytes.len();
        for &byte in chunk.bytes {
            fine &= byte == *expected;
            *expected = byte.wrapping_add(1);
        }
        total += length;
        receiver.consume(now, stream, length);
    }
    (total, fine)
}

/// Takes events until there are none.
pub fn drain_events(session: &mut Session, mut each: impl FnMut(Event)) {
    while let Some(event) = session.poll_event() {
        each(event);
    }
}

/// Whether a datagram is lost: deterministic, and different for each.
pub struct Loss {
    random: fastrand::Rng,
    share: f64,
}

impl Loss {
    pub fn new(seed: u64, share: f64) -> Loss {
        Loss { random: fastrand::Rng::with_seed(seed), share }
    }

    pub fn strikes(&mut self) -> bool {
        self.share > 0.0 && self.random.f64() < self.share
    }
}

/// Moves everything that may go now from one session to another. Returns how many datagrams were sent.
pub fn carry(sender: &mut Session, receiver: &mut Session, now: Time, loss: &mut Loss) -> usize {
    let source = from(sender.node());
    let mut count = 0;
    while let Some(transmit) = sender.poll_transmit(now) {
        for datagram in transmit.datagrams() {
            count += 1;
            if !loss.strikes() {
                receiver.handle_datagram(now, source, datagram);
            }
        }
    }
    count
}

/// The later of two moments: now plus a step, or the next deadline if that comes later.
pub fn step(now: Time, micros: u64) -> Time {
    now + Duration::from_micros(micros)
}
