//! The random back-off of NACKs: truncated exponential (RFC 5740 section 5.3).
//!
//! Few receivers draw an early time and most a late one, so that in a large group the early ones'
//! requests reach the others before they speak.

use std::time::Duration;

/// A time in `0..=longest`; the larger the group, the more the draws crowd at the end.
pub fn draw(random: &mut fastrand::Rng, longest: Duration, group_size: f64) -> Duration {
    if longest.is_zero() {
        return Duration::ZERO;
    }
    let span = longest.as_secs_f64();
    let lambda = group_size.max(1.0).ln() + 1.0;
    let growth = lambda.exp() - 1.0;
    let x = random.f64() * (lambda / span) + lambda / (span * growth);
    let drawn = span / lambda * (x * growth * span / lambda).ln();
    Duration::from_secs_f64(drawn.clamp(0.0, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_bounds_and_crowd_late_in_large_groups() {
        let mut random = fastrand::Rng::with_seed(1);
        let longest = Duration::from_millis(400);
        let mut mean_of = |size: f64| {
            let total: f64 = (0..4000)
                .map(|_| {
                    let drawn = draw(&mut random, longest, size);
                    assert!(drawn <= longest);
                    drawn.as_secs_f64()
                })
                .sum();
            total / 4000.0
        };
        let (small, large) = (mean_of(10.0), mean_of(10_000.0));
        assert!(small > 0.2 && large > small, "means {small} and {large}");
    }

    #[test]
    fn no_longest_time_means_no_back_off() {
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(draw(&mut random, Duration::ZERO, 10.0), Duration::ZERO);
    }
}
