//! Rate control: how fast to send so that receivers and the paths to them keep up.
//!
//! NORM-CC (RFC 5740 section 5.5.2) is TFMCC: each receiver estimates how often it loses ([`loss`]) and what rate
//! a TCP connection would have on its path ([`tcp_rate`]); the sender follows the one that can take least
//! ([`limiter`]). Another scheme only listens to NACKs ([`nack_driven`]). A third one follows what one receiver gets
//! ([`delivery`]), which a [`meter`] there counts. A sender without any is kept from drowning a path by a [`brake`].
//! [`control`] is whichever is in use.

pub mod brake;
pub mod control;
pub mod delivery;
mod extremes;
pub mod limiter;
pub mod loss;
pub mod meter;
pub mod nack_driven;
pub mod receiver;

use std::time::Duration;

/// Segments per round-trip time to begin with, as TCP begins (RFC 6928).
const SEGMENTS_AT_START: f64 = 10.0;
/// The slowest beginning, so that a wrong first guess of the round-trip time is no crawl.
const RATE_AT_START_MIN: f64 = 125_000.0;

/// The rate in bytes per second to begin with.
fn rate_at_start(packet_bytes: f64, grtt: Duration) -> f64 {
    (SEGMENTS_AT_START * packet_bytes / grtt.as_secs_f64().max(1e-3)).max(RATE_AT_START_MIN)
}

/// The rate in bytes per second a TCP connection reaches with packets of `packet_bytes`, a round-trip time
/// and a loss event rate (RFC 5348 section 3.1, as RFC 5740 simplifies it).
pub fn tcp_rate(packet_bytes: f64, rtt: Duration, loss: f64) -> f64 {
    let root = (2.0 / 3.0 * loss).sqrt();
    let timeouts = 12.0 * (3.0 / 8.0 * loss).sqrt() * loss * (1.0 + 32.0 * loss * loss);
    packet_bytes / (rtt.as_secs_f64().max(1e-6) * (root + timeouts))
}

/// The loss event rate at which [`tcp_rate`] gives this rate.
pub fn loss_at(packet_bytes: f64, rtt: Duration, bytes_per_s: f64) -> f64 {
    // The rate falls with the loss: halve the interval until the answer is close enough.
    let (mut low, mut high) = (1e-8f64, 1.0f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if tcp_rate(packet_bytes, rtt, middle) > bytes_per_s { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_with_loss_and_round_trip_time() {
        let rtt = Duration::from_millis(100);
        let rate = tcp_rate(1000.0, rtt, 0.01);
        // The well-known approximation 1.22 s / (R √p), a little less for timeouts.
        assert!((100_000.0..125_000.0).contains(&rate), "{rate}");
        assert!(tcp_rate(1000.0, rtt, 0.04) < rate / 1.9);
        assert!((tcp_rate(1000.0, rtt / 2, 0.01) / rate - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_inverse_gives_back_the_loss() {
        let rtt = Duration::from_millis(20);
        for loss in [1e-6, 1e-3, 0.02, 0.3] {
            let found = loss_at(1400.0, rtt, tcp_rate(1400.0, rtt, loss));
            assert!((found / loss - 1.0).abs() < 1e-3, "{loss} became {found}");
        }
    }
}
