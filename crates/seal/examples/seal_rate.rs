//! How fast runs of datagrams are sealed and opened on this machine: `cargo run --release -p shoal-seal --example
//! seal_rate`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use shoal_seal::{GroupKey, Keys, OVERHEAD_BYTES, Seal};

const RUNS: usize = 20_000;

fn member(name: u8) -> Seal {
    let keys = Keys::parse(&GroupKey::new([7; 32]).to_text()).expect("a key");
    // Salts only have to differ here.
    let mut drawn = [name; 16];
    Seal::new(keys, move || {
        drawn[0] = drawn[0].wrapping_add(1);
        drawn
    })
}

fn main() {
    let from = SocketAddr::from(([10, 0, 0, 1], 1));
    for datagram_bytes in [100, 1400, 8000] {
        let (mut one, mut other) = (member(1), member(100));
        let plain = vec![9; datagram_bytes * (62_000 / datagram_bytes).min(64)];
        let mut run = Vec::new();
        // They get to know each other.
        one.seal_run(&plain[..datagram_bytes], datagram_bytes, &mut run);
        other.open(Duration::ZERO, from, &mut run);
        while let Some((_, mut datagram)) = other.poll_transmit() {
            one.open(Duration::ZERO, from, &mut datagram);
        }
        while let Some((_, mut datagram)) = one.poll_transmit() {
            other.open(Duration::ZERO, from, &mut datagram);
        }
        let (mut sealing, mut opening, mut opened) = (Duration::ZERO, Duration::ZERO, 0);
        for _ in 0..RUNS {
            let began = Instant::now();
            one.seal_run(&plain, datagram_bytes, &mut run);
            sealing += began.elapsed();
            let began = Instant::now();
            for datagram in run.chunks_mut(datagram_bytes + OVERHEAD_BYTES) {
                opened += other.open(Duration::ZERO, from, datagram).map_or(0, <[u8]>::len);
            }
            opening += began.elapsed();
        }
        assert_eq!(opened, RUNS * plain.len(), "every datagram was opened");
        let gbit_s = |took: Duration| (RUNS * plain.len() * 8) as f64 / took.as_secs_f64() / 1e9;
        println!(
            "{datagram_bytes:>5} bytes: sealed at {:.1}, opened at {:.1} Gbit/s",
            gbit_s(sealing),
            gbit_s(opening)
        );
    }
}
