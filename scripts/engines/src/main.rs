//! The store's log beside `fjall` and `redb`, with the same committer around each; see docs/adr/0005-log.md.
//!
//! `cargo run --release --manifest-path scripts/engines/Cargo.toml -- DIRECTORY [RECORDS] [ROUNDS]`
//!
//! Contestants alternate, each in a process of its own that ends without closing anything. Another one opens what it left,
//! and reads it all. Printed are medians, with the least and the most.

mod committer;
mod engine;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use committer::Committer;
use engine::{ENGINES, Engine};

const RECORD: [u8; 1000] = [7; 1000];
const BATCH: usize = 1000;
/// How long writers that wait for each record are watched.
const WATCHED: Duration = Duration::from_secs(3);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["write", name, path, records] => write(name, Path::new(path), number(records)),
        ["read", name, path, records] => read(name, Path::new(path), number(records)),
        [path] => compare(Path::new(path), 300_000, 3),
        [path, records] => compare(Path::new(path), number(records), 3),
        [path, records, rounds] => compare(Path::new(path), number(records), number(rounds)),
        _ => {
            eprintln!("usage: engines DIRECTORY [RECORDS] [ROUNDS]");
            std::process::exit(2);
        }
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// Writes in three ways, prints how fast, and ends as a crash would.
fn write(name: &str, path: &Path, records: usize) {
    let engine = engine::open(name, path);
    let began = Instant::now();
    for _ in 0..records / BATCH {
        engine.commit(&vec![&RECORD[..]; BATCH]);
    }
    println!("batches_of_1000_per_s {}", rate(records / BATCH * BATCH, began));
    for writers in [1, 8] {
        let (count, began) = (waiting_writers(&*engine, writers), Instant::now() - WATCHED);
        println!("{writers}_waiting_per_s {}", rate(count, began));
    }
    println!("memory_mb {}", memory_mb());
    std::process::abort();
}

/// How many records so many threads get durable while they are watched, each waiting for its own.
fn waiting_writers(engine: &dyn Engine, writers: usize) -> usize {
    let committer = Committer::new(engine);
    let deadline = Instant::now() + WATCHED;
    let writer = || {
        let mut count = 0;
        while Instant::now() < deadline {
            committer.put(&RECORD);
            count += 1;
        }
        count
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(writer)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer failed")).sum()
    })
}

/// Opens what a crash left, and reads it all.
fn read(name: &str, path: &Path, records: usize) {
    let began = Instant::now();
    let engine = engine::open(name, path);
    println!("open_ms {}", began.elapsed().as_secs_f64() * 1000.0);
    let began = Instant::now();
    let (count, bytes) = engine.read();
    assert!(count >= records / BATCH * BATCH, "{count} of {records} records are there");
    println!("read_mb_per_s {}", rate(bytes, began) / 1e6);
}

fn compare(path: &Path, records: usize, rounds: usize) {
    let mut figures: BTreeMap<(String, &str), Vec<f64>> = BTreeMap::new();
    for round in 0..rounds {
        for name in ENGINES {
            let place = path.join(format!("{name}-{round}"));
            for what in ["write", "read"] {
                for line in run(what, name, &place, records).lines() {
                    let (key, value) = line.split_once(' ').expect("a name and a number");
                    let values = figures.entry((key.to_owned(), name)).or_default();
                    values.push(value.parse().expect("a number"));
                }
            }
            std::fs::remove_dir_all(&place).expect("what was written can be removed");
        }
    }
    for ((key, name), mut values) in figures {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values[0], values[values.len() - 1]);
        println!("{key:24} {name:6} {:12.1}  ({least:.1} to {most:.1})", values[values.len() / 2]);
    }
}

fn run(what: &str, name: &str, place: &Path, records: usize) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let words = [what, name, place.to_str().expect("a path in UTF-8"), &records.to_string()];
    let done = Command::new(program).args(words).output().expect("a process");
    assert!(what == "write" || done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("figures")
}

fn rate(count: usize, began: Instant) -> f64 {
    count as f64 / began.elapsed().as_secs_f64()
}

fn memory_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the most so far");
    let kb = line.split_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok());
    kb.expect("kilobytes") / 1000.0
}
