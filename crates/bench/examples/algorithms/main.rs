//! Ways of matching many selectors at once, on the workload of `shoal bench selectors`: evaluating each, the
//! counting algorithm, and the index. They run in turns, and must find the same.
//!
//! ```text
//! cargo run --release -p shoal-bench --example algorithms -- 10000 0.01
//! ```

mod counting;

use std::time::Instant;

use counting::Counting;
use shoal_bench::workload::{self, Message};
use shoal_selector::{Selector, SelectorIndex};

const ROUNDS: usize = 7;
const MESSAGES: usize = 500;
const SCANNED_EVALUATIONS: usize = 1_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let rate: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0.01);
    let mut rng = fastrand::Rng::with_seed(1);
    let selectors = workload::selectors(&mut rng, count, rate);
    let messages: Vec<_> = (0..MESSAGES).map(|_| workload::message(&mut rng)).collect();
    let mut index = index_over(&selectors, &messages);
    let mut counting = Counting::new(&selectors);
    for message in &messages[..10] {
        let found = index.matches(message).filters().len();
        assert_eq!(found, scan(&selectors, message), "the index disagrees");
        assert_eq!(found, counting.matches(message), "the counting algorithm disagrees");
    }

    let scanned = &messages[..(SCANNED_EVALUATIONS / count).clamp(3, MESSAGES)];
    let (before, increments) = (index.counters(), counting.increments);
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        times[0].push(nanoseconds_each(scanned, |message| scan(&selectors, message)));
        times[1].push(nanoseconds_each(&messages, |message| counting.matches(message)));
        times[2].push(nanoseconds_each(&messages, |message| index.matches(message).filters().len()));
    }
    let counted = (counting.increments - increments) as f64 / (ROUNDS * MESSAGES) as f64;
    let looked_at = (index.counters().evaluations - before.evaluations) as f64 / (ROUNDS * MESSAGES) as f64;
    let [scan_ns, counting_ns, index_ns] = times.map(median);
    println!("{count} selectors, match rate {rate}");
    println!("evaluating each     {:10.1} µs", scan_ns / 1e3);
    println!("counting algorithm  {:10.1} µs  {counted:.0} counters incremented", counting_ns / 1e3);
    println!("index               {:10.1} µs  {looked_at:.0} filters looked at", index_ns / 1e3);
}

fn index_over(selectors: &[Selector], messages: &[Message]) -> SelectorIndex {
    let mut index = SelectorIndex::new(1);
    for (subscriber, selector) in (0..).zip(selectors) {
        index.add(selector, subscriber);
    }
    for message in messages.iter().cycle().take(2048) {
        index.matches(message);
    }
    index.tune(selectors.len());
    index
}

fn scan(selectors: &[Selector], message: &Message) -> usize {
    selectors.iter().filter(|selector| selector.matches(message)).count()
}

fn nanoseconds_each(messages: &[Message], mut matches: impl FnMut(&Message) -> usize) -> f64 {
    let began = Instant::now();
    let found: usize = messages.iter().map(&mut matches).sum();
    std::hint::black_box(found);
    began.elapsed().as_nanos() as f64 / messages.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
