//! What finding a topic's subscriptions costs: `cargo run --release -p shoal-node --example topics`.
//!
//! Of the patterns, eight in ten are exact, one in ten has `*`, one in ten ends in `>`. Each figure is the median of
//! eleven rounds, nanoseconds per topic.

use std::hint::black_box;
use std::time::Instant;

use shoal_node::TopicIndex;
use shoal_wire::{Topic, TopicPattern};

const ROUNDS: usize = 11;
const TOPICS: usize = 1000;
const SEED: u64 = 42;

fn main() {
    println!("patterns  matches per topic  remembered, ns  level by level, ns");
    for count in [1, 1000, 100_000] {
        measure(count);
    }
}

fn measure(count: usize) {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut index = TopicIndex::new(SEED);
    for id in 0..count {
        let topic = topic(&mut random, count);
        let (first, rest) = topic.split_once('/').unwrap();
        let text = match id % 10 {
            8 => format!("{first}/*/{}", rest.split_once('/').unwrap().1),
            9 => format!("{first}/{}/>", rest.split_once('/').unwrap().0),
            _ => topic,
        };
        index.insert(&TopicPattern::new(&text).unwrap(), id as u32);
    }
    let topics: Vec<String> = (0..TOPICS).map(|_| topic(&mut random, count)).collect();
    let matches: usize = topics.iter().map(|topic| index.matching(topic.as_bytes()).unwrap().len()).sum();

    let remembered = median(|| {
        for topic in &topics {
            black_box(index.matching(black_box(topic.as_bytes())).unwrap());
        }
    });
    let checked: Vec<Topic<'_>> = topics.iter().map(|topic| Topic::new(topic).unwrap()).collect();
    let mut found = Vec::new();
    let by_level = median(|| {
        for &topic in &checked {
            index.look_up(black_box(topic), &mut found);
            black_box(&found);
        }
    });
    let per_topic = matches as f64 / TOPICS as f64;
    println!("{count:>8}  {per_topic:>17.2}  {remembered:>14.1}  {by_level:>18.1}");
}

/// Three levels, spread so that wildcards match a handful whatever the count.
fn topic(random: &mut fastrand::Rng, count: usize) -> String {
    let spread = count.div_ceil(100);
    format!("market{}/stock{}/{}", random.usize(0..spread), random.usize(0..10), random.usize(0..10))
}

fn median(mut round: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..100).for_each(|_| round());
            start.elapsed().as_nanos() as f64 / (100 * TOPICS) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
