//! From how many filters on looking them up together is cheaper than evaluating each of them, for messages
//! with many properties and with few.
//!
//! ```text
//! cargo run --release -p shoal-bench --example crossover
//! ```

use std::time::Instant;

use shoal_bench::workload;
use shoal_selector::{Attributes, Selector, SelectorIndex, Value};

const ROUNDS: usize = 15;
const LAPS: usize = 20;
const FILTERS: [usize; 8] = [1, 4, 8, 12, 16, 24, 32, 64];

fn main() {
    let mut rng = fastrand::Rng::with_seed(1);
    println!("filters  25 properties: each, together    5 properties: each, together   (ns a message)");
    for count in FILTERS {
        let messages: Vec<_> = (0..500).map(|_| workload::message(&mut rng)).collect();
        let many = compare(&workload::selectors(&mut rng, count, 0.01), &messages);
        let texts: Vec<_> = (0..500).map(|_| rng.u32(..1000).to_string()).collect();
        let messages: Vec<_> = texts.iter().map(|text| five(text, &mut rng)).collect();
        let selectors: Vec<_> = (0..count).map(five_selector).collect();
        let few = compare(&selectors, &messages);
        println!("{count:7}  {:19.0} {:9.0}    {:18.0} {:9.0}", many.0, many.1, few.0, few.1);
    }
}

fn five<'a>(text: &'a str, rng: &mut fastrand::Rng) -> [(&'static str, Value<'a>); 5] {
    [
        ("region", Value::Str(text)),
        ("price", Value::Double(rng.f64())),
        ("volume", Value::Long(rng.i64(0..1000))),
        ("urgent", Value::Bool(rng.bool())),
        ("desk", Value::Str("equities")),
    ]
}

fn five_selector(number: usize) -> Selector {
    let text = match number % 3 {
        0 => format!("region = '{number}' AND urgent = TRUE"),
        1 => format!("volume > {} AND desk = 'equities'", 1000 - number),
        _ => format!("price < {} AND region LIKE '{number}%'", number as f64 / 1000.0),
    };
    Selector::parse(&text).expect("it is a selector")
}

/// Nanoseconds a message by evaluating each selector, and by looking all of them up; medians, in turns.
fn compare<A: Attributes>(selectors: &[Selector], messages: &[A]) -> (f64, f64) {
    let index = |evaluated_max| {
        let mut index = SelectorIndex::new(1).evaluating_up_to(evaluated_max);
        for (subscriber, selector) in (0..).zip(selectors) {
            index.add(selector, subscriber);
        }
        for message in messages {
            index.matches(message);
        }
        index.tune(selectors.len());
        index
    };
    let mut indexes = [index(usize::MAX), index(0)];
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (index, times) in indexes.iter_mut().zip(&mut times) {
            let began = Instant::now();
            for message in messages.iter().cycle().take(LAPS * messages.len()) {
                std::hint::black_box(index.matches(message).filters());
            }
            times.push(began.elapsed().as_nanos() as f64 / (LAPS * messages.len()) as f64);
        }
    }
    let [each, together] = times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    });
    (each, together)
}
