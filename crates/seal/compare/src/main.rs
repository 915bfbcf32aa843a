//! AES-256-GCM of `ring` and of `aws-lc-rs`, as a link uses it: `cargo run --release --manifest-path
//! crates/seal/compare/Cargo.toml`.
//!
//! Each datagram is copied, sealed where it lies with its header as associated data, and opened again. The libraries take
//! turns; medians of nine rounds are printed.

use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(200);
const HEADER: [u8; 28] = [7; 28];

/// How long sealing and opening one datagram takes, in nanoseconds.
macro_rules! measure {
    ($library:ident, $bytes:expr) => {{
        use $library::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[9; 32]).expect("a key"));
        let nonce = |counter: u64| {
            let mut bytes = [0; 12];
            bytes[4..].copy_from_slice(&counter.to_be_bytes());
            Nonce::assume_unique_for_key(bytes)
        };
        let plain = vec![3; $bytes];
        let mut datagram: Vec<u8> = Vec::with_capacity($bytes + 16);
        let (mut sealing, mut opening, mut count) = (Duration::ZERO, Duration::ZERO, 0u64);
        while sealing + opening < ROUND {
            // Clocks are slow beside a short datagram: many at a time.
            let mut sealed = Vec::with_capacity(64);
            let began = Instant::now();
            for at in 0..64 {
                datagram.clear();
                datagram.extend_from_slice(&plain);
                let tag = key
                    .seal_in_place_separate_tag(nonce(count + at), Aad::from(&HEADER), &mut datagram)
                    .expect("it is short");
                datagram.extend_from_slice(tag.as_ref());
                sealed.push(datagram.clone());
            }
            sealing += began.elapsed();
            let began = Instant::now();
            for (at, datagram) in sealed.iter_mut().enumerate() {
                let opened = key.open_in_place(nonce(count + at as u64), Aad::from(&HEADER), datagram);
                assert_eq!(opened.expect("it is whole").len(), $bytes);
            }
            opening += began.elapsed();
            count += 64;
        }
        let each = |took: Duration| took.as_nanos() as f64 / count as f64;
        (each(sealing), each(opening))
    }};
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    for bytes in [64, 1400] {
        let (mut ring_seals, mut ring_opens, mut aws_seals, mut aws_opens) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let (seal, open) = measure!(ring, bytes);
            ring_seals.push(seal);
            ring_opens.push(open);
            let (seal, open) = measure!(aws_lc_rs, bytes);
            aws_seals.push(seal);
            aws_opens.push(open);
        }
        for (name, seals, opens) in [("ring", ring_seals, ring_opens), ("aws-lc-rs", aws_seals, aws_opens)] {
            let (seal, open) = (median(seals), median(opens));
            println!("{bytes:>5} bytes, {name:<9}: sealed in {seal:.0} ns, opened in {open:.0} ns");
        }
    }
}
