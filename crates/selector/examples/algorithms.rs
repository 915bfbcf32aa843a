//! Measures ways of matching many selectors at once, on the workload of `shoal bench selectors`.
//!
//! ```text
//! cargo run --release -p shoal-selector --features workload --example algorithms -- 10000 0.01
//! ```

use std::time::Instant;

use shoal_selector::{Selector, SelectorIndex, workload};

const ROUNDS: usize = 5;
const MESSAGES: usize = 500;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let rate = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0.01);
    let scan_messages = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut rng = fastrand::Rng::with_seed(1);
    let selectors = workload::selectors(&mut rng, count, rate);
    let messages: Vec<_> = (0..MESSAGES).map(|_| workload::message(&mut rng)).collect();

    let mut index = SelectorIndex::new(1);
    let began = Instant::now();
    for (subscriber, selector) in (0..).zip(&selectors) {
        index.add(selector, subscriber);
    }
    println!("add: {:.2} µs", began.elapsed().as_secs_f64() * 1e6 / count as f64);
    for message in &messages {
        index.matches(message);
    }
    let began = Instant::now();
    index.tune(count);
    println!("tune: {:.2} µs", began.elapsed().as_secs_f64() * 1e6 / count as f64);
    println!("bytes per selector: {}", index.heap_bytes() / count);
    let before = index.counters();
    let mut index_ns = Vec::new();
    let mut scan_ns = Vec::new();
    for _ in 0..ROUNDS {
        let repeats = if scan_messages == 0 { 100 } else { 10 };
        let began = Instant::now();
        let mut found = 0;
        for _ in 0..repeats {
            for message in &messages {
                found += index.matches(message).filters().len();
            }
        }
        index_ns.push(began.elapsed().as_nanos() as f64 / (MESSAGES * repeats) as f64);
        let began = Instant::now();
        let scanned: usize = messages[..scan_messages].iter().map(|message| scan(&selectors, message)).sum();
        scan_ns.push(began.elapsed().as_nanos() as f64 / scan_messages.max(1) as f64);
        std::hint::black_box((found, scanned));
    }
    let after = index.counters();
    let per_message = |total: u64| total as f64 / (after.messages - before.messages) as f64;
    println!(
        "per message: {:.1} looked at, {:.1} predicates evaluated, {:.1} matched",
        per_message(after.evaluations - before.evaluations),
        per_message(after.predicates_evaluated - before.predicates_evaluated),
        per_message(after.matches - before.matches)
    );
    let (index_ns, scan_ns) = (median(index_ns), median(scan_ns));
    println!("index {index_ns:.0} ns, scan {scan_ns:.0} ns, ratio {:.0}", scan_ns / index_ns);
}

fn scan(selectors: &[Selector], message: &workload::Message) -> usize {
    selectors.iter().filter(|selector| selector.matches(message)).count()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
