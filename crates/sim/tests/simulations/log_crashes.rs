//! A log whose disk stops, fails, fills up and forgets; see `examples/log_crashes.rs` for a long search.

use shoal_sim::{LogRun, run_log};

#[test]
fn what_was_durable_is_there_once_at_its_offset_after_every_crash() {
    let mut total = LogRun::default();
    for seed in 0..150 {
        let run = run_log(seed).unwrap_or_else(|why| panic!("{why}"));
        total.crashes += run.crashes;
        total.torn += run.torn;
        total.full += run.full;
        total.retired += run.retired;
    }
    // A search in which nothing goes wrong proves nothing.
    assert!(total.crashes > 100 && total.torn > 10 && total.full > 100 && total.retired > 100, "{total:?}");
}

/// Runs that failed once.
#[test]
fn seeds_that_failed_before_pass() {
    for seed in [1142, 1660] {
        run_log(seed).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    assert_eq!(run_log(7), run_log(7));
}
