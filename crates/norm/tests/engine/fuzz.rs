//! Whatever arrives, the worst that happens is that it is counted.

use crate::support::fuzzing::Fuzz;

#[test]
fn no_datagram_makes_a_session_panic_or_pass_its_memory_bound() {
    for seed in 0..4 {
        println!("seed {seed}");
        let mut fuzz = Fuzz::new(seed);
        fuzz.run(50_000);
        assert!(fuzz.refused() > 10_000, "seed {seed}: only {} were refused", fuzz.refused());
        assert!(fuzz.reasons() >= 12, "seed {seed}: only {} reasons occurred", fuzz.reasons());
    }
}
