//! Rains random and mutated datagrams on a session: `cargo run --release --example fuzz -- 10000000 [seed]`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use support::fuzzing::Fuzz;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let count = arguments.next().transpose().expect("a number of inputs").unwrap_or(10_000_000);
    let first_seed = arguments.next().transpose().expect("a seed").unwrap_or(0);
    let began = Instant::now();
    // A fresh session now and then reaches early states again.
    let rounds = count.div_ceil(500_000).max(1);
    let mut refused = 0;
    for seed in first_seed..first_seed + rounds {
        let mut fuzz = Fuzz::new(seed);
        fuzz.run(count / rounds);
        refused += fuzz.refused();
        if seed == first_seed {
            println!("seed {seed}: {}", fuzz.counters());
        }
    }
    println!("{count} inputs, {refused} refusals, {:.1} s, no panic", began.elapsed().as_secs_f64());
}
