//! A fast hash for short keys, keyed by a seed so that nobody who does not know it can make keys collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// A map with that hash.
pub type SeededMap<K, V> = HashMap<K, V, Seed>;

/// What the hash is keyed by.
#[derive(Debug, Clone, Copy)]
pub struct Seed(pub u64);

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl BuildHasher for Seed {
    type Hasher = Mixer;

    fn build_hasher(&self) -> Mixer {
        Mixer { state: self.0 ^ MULTIPLIER }
    }
}

/// Folds each word in with a 128-bit multiplication.
pub struct Mixer {
    state: u64,
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.state = fold(self.state ^ word, MULTIPLIER).rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_left(56));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.state, MULTIPLIER ^ self.state.rotate_left(32))
    }
}
