//! Searches for runs in which a log on a simulated disk loses, doubles or changes something.
//!
//! `cargo run --release -p shoal-sim --example log_crashes -- 10000` runs so many seeds; with a second number it begins
//! there, so `-- 1 4711` repeats one.

use std::process::ExitCode;

use shoal_sim::{LogRun, run_log};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (count, first) = match (numbers.next(), numbers.next()) {
        (Some(Ok(count)), None) => (count, 0),
        (Some(Ok(count)), Some(Ok(first))) => (count, first),
        _ => {
            eprintln!("usage: log_crashes SEEDS [FIRST]");
            return ExitCode::from(2);
        }
    };
    let mut total = LogRun::default();
    let mut failed = 0;
    for seed in first..first + count {
        match std::panic::catch_unwind(|| run_log(seed)) {
            Ok(Ok(run)) => {
                total.steps += run.steps;
                total.crashes += run.crashes;
                total.messages += run.messages;
                total.torn += run.torn;
                total.full += run.full;
                total.retired += run.retired;
            }
            Ok(Err(why)) => {
                failed += 1;
                eprintln!("FAILED {why}");
            }
            Err(_) => {
                failed += 1;
                eprintln!("FAILED seed {seed}: panicked");
            }
        }
    }
    println!(
        "{count} seeds, {failed} failed: {} steps, {} crashes, {} messages, {} torn tails, {} refusals of a full disk, \
         {} segments retired",
        total.steps, total.crashes, total.messages, total.torn, total.full, total.retired
    );
    if failed > 0 {
        println!("repeat one with: cargo run --release -p shoal-sim --example log_crashes -- 1 SEED");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
