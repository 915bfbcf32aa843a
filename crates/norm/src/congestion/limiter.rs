//! The sender's share of NORM-CC: who limits it, and how fast it may send.
//!
//! | what happens                                   | what follows                                           |
//! |------------------------------------------------|--------------------------------------------------------|
//! | somebody answers who can take less than the CLR | becomes the CLR; the old one is kept as a PLR          |
//! | the CLR answers, in slow start                  | up to twice the rate, once per round trip              |
//! | the CLR answers, and can take less              | down to that at once                                   |
//! | the CLR answers, and can take more              | up by a segment per round trip and round trip          |
//! | the CLR is silent for long                      | the PLR that can take least becomes the CLR            |
//! | everybody is silent for long                    | half the rate, but never below where it began          |
//!
//! A receiver's word is all there is to go by, so one that lies can claim any loss. Whatever is claimed, the rate
//! stays above its configured least, and above a segment per round trip.
//!
//! CLR is the current limiting receiver; PLRs are potential ones, whose round-trip times are kept.

use std::time::Duration;

use super::{rate_at_start, tcp_rate};
use crate::NodeId;
use crate::quantize;
use crate::time::Time;
use crate::wire::CcFeedback;
use crate::wire::command::CcNode;

/// Receivers kept beside the limiting one.
const POTENTIAL_MAX: usize = 4;
/// A receiver that leaves so many probes unanswered is forgotten.
const UNANSWERED_MAX: u32 = 10;
/// Probes are not closer than this: a round trip within a machine is shorter than its timers.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(5);
/// So many round trips are made up for at once when answers are far apart.
const ROUNDS_MAX: f64 = 50.0;
/// Over so many round trips the average round-trip time forgets.
const RTT_MEMORY: f64 = 20.0;
/// What one measurement counts at the most, however long none came.
const WEIGHT_MAX: f64 = 0.5;
/// The rate of the moment is at most so far from the average one.
const DAMPING_MAX: f64 = 1.5;
/// So much slower a receiver may think it is, because what it is told is rounded.
const ROUNDING_MAX: f64 = 1.1;

#[derive(Copy, Clone, Debug)]
struct Candidate {
    node: NodeId,
    rtt: Duration,
    rtt_measured: bool,
    /// When it was measured last, and what it was then.
    measured_at: Time,
    rtt_now: Duration,
    rate: f64,
    start: bool,
    unanswered: u32,
}

impl Candidate {
    /// Takes a measured round-trip time into the average. The average changes over many round trips, as the loss
    /// estimate does: if it followed the filling and draining of a queue, the rate would swing with it.
    fn measure(&mut self, now: Time, rtt: Duration) {
        let age = now.since(self.measured_at).as_secs_f64();
        let weight = (age / (RTT_MEMORY * self.rtt.as_secs_f64().max(1e-6))).min(WEIGHT_MAX);
        let queue_builds = self.start && rtt > self.rtt;
        self.rtt = if !self.rtt_measured || queue_builds {
            rtt
        } else {
            self.rtt.mul_f64(1.0 - weight) + rtt.mul_f64(weight)
        };
        self.rtt_measured = true;
        self.measured_at = now;
        self.rtt_now = rtt;
    }

    /// How much slower or faster than its average rate to send now, so that a queue neither fills nor drains
    /// (RFC 5348 section 4.5).
    fn damping(&self) -> f64 {
        if self.start {
            return 1.0;
        }
        let ratio = self.rtt.as_secs_f64() / self.rtt_now.as_secs_f64().max(1e-6);
        ratio.sqrt().clamp(1.0 / DAMPING_MAX, DAMPING_MAX)
    }
}

/// The sender's congestion control.
#[derive(Debug)]
pub struct RateLimiter {
    rate: f64,
    rate_start: f64,
    rate_min: f64,
    rate_max: f64,
    packet_bytes: f64,
    /// The CLR first, then PLRs.
    candidates: Vec<Candidate>,
    adjusted_at: Time,
    silent_probes: u32,
}

impl RateLimiter {
    pub fn new(packet_bytes: usize, grtt: Duration, rate_min: f64, rate_max: Option<f64>) -> RateLimiter {
        let packet_bytes = packet_bytes as f64;
        let rate_max = rate_max.unwrap_or(f64::MAX);
        let rate_start = rate_at_start(packet_bytes, grtt).max(rate_min).min(rate_max);
        RateLimiter {
            rate: rate_start,
            rate_start,
            rate_min,
            rate_max,
            packet_bytes,
            candidates: Vec::with_capacity(POTENTIAL_MAX + 1),
            adjusted_at: Time::ZERO,
            silent_probes: 0,
        }
    }

    /// Sets the most that may be sent.
    pub fn set_max(&mut self, rate_max: Option<f64>) {
        self.rate_max = rate_max.unwrap_or(f64::MAX);
        self.rate = self.rate.min(self.rate_max);
    }

    /// Bytes per second that may be sent.
    pub fn rate(&self) -> f64 {
        let damping = self.candidates.first().map_or(1.0, Candidate::damping);
        (self.rate * damping).max(self.rate_min).min(self.rate_max)
    }

    /// The receiver that limits us.
    pub fn limiting_receiver(&self) -> Option<NodeId> {
        self.candidates.first().map(|clr| clr.node)
    }

    /// How long until the next probe: the limiting receiver's round-trip time.
    pub fn probe_interval(&self, grtt: Duration) -> Duration {
        self.candidates.first().map_or(grtt, |clr| clr.rtt).max(PROBE_INTERVAL_MIN)
    }

    /// A probe goes out: counts who owes an answer, and lists those whose answers matter.
    pub fn on_probe(&mut self, nodes: &mut Vec<CcNode>) {
        nodes.clear();
        let clr = self.candidates.first().map(|clr| clr.node);
        for candidate in &mut self.candidates {
            candidate.unanswered += 1;
        }
        self.candidates.retain(|candidate| candidate.unanswered <= UNANSWERED_MAX);
        if self.candidates.first().map(|clr| clr.node) != clr {
            self.elect();
        }
        self.silent_probes += 1;
        if self.silent_probes > UNANSWERED_MAX {
            self.silent_probes = 0;
            self.rate = (self.rate / 2.0).max(self.rate_start.min(self.rate));
        }
        for (index, candidate) in self.candidates.iter().enumerate() {
            let role = if index == 0 { CcFeedback::CLR } else { CcFeedback::PLR };
            let start = if candidate.start { CcFeedback::START } else { 0 };
            let measured = if candidate.rtt_measured { CcFeedback::RTT } else { 0 };
            nodes.push(CcNode {
                node: candidate.node,
                flags: role | start | measured,
                rtt: quantize::quantize_rtt(candidate.rtt),
                rate: quantize::quantize_rate(candidate.rate),
            });
        }
    }

    /// The receiver that can take least limits us.
    fn elect(&mut self) {
        let least = (0..self.candidates.len())
            .min_by(|a, b| self.candidates[*a].rate.total_cmp(&self.candidates[*b].rate));
        if let Some(least) = least {
            self.candidates.swap(0, least);
        }
    }

    /// A receiver answered; `rtt` if its answer tells the round-trip time.
    pub fn on_feedback(&mut self, now: Time, node: NodeId, feedback: &CcFeedback, rtt: Option<Duration>) {
        self.silent_probes = 0;
        let known = self.candidates.iter().position(|candidate| candidate.node == node);
        let mut candidate = match known {
            Some(index) => self.candidates[index],
            None => Candidate {
                node,
                rtt: rtt.unwrap_or(quantize::unquantize_rtt(feedback.rtt)),
                rtt_measured: false,
                measured_at: now,
                rtt_now: rtt.unwrap_or_default(),
                rate: 0.0,
                start: true,
                unanswered: 0,
            },
        };
        if let Some(rtt) = rtt {
            candidate.measure(now, rtt);
        }
        let loss = quantize::unquantize_loss(feedback.loss);
        candidate.start = feedback.flags & CcFeedback::START != 0;
        let said = quantize::unquantize_rate(feedback.rate);
        candidate.rate = if candidate.start || loss == 0.0 {
            said
        } else {
            let computed = tcp_rate(self.packet_bytes, candidate.rtt, loss);
            // A receiver that knows its round-trip time has it from us, rounded up.
            let told_rtt = feedback.flags & CcFeedback::RTT != 0;
            if told_rtt { computed.clamp(said, ROUNDING_MAX * said) } else { computed }
        };
        candidate.unanswered = 0;
        match known {
            Some(index) => self.candidates[index] = candidate,
            None => self.add(candidate),
        }
        let clr = self.candidates.first().map(|clr| clr.node);
        self.elect_if_slower();
        if self.candidates.first().is_some_and(|limiting| limiting.node == node || Some(limiting.node) != clr)
        {
            self.adjust(now);
        }
    }

    fn add(&mut self, candidate: Candidate) {
        if self.candidates.len() > POTENTIAL_MAX {
            let fastest = (1..self.candidates.len())
                .max_by(|a, b| self.candidates[*a].rate.total_cmp(&self.candidates[*b].rate));
            let Some(fastest) = fastest.filter(|at| self.candidates[*at].rate > candidate.rate) else {
                return;
            };
            self.candidates.swap_remove(fastest);
        }
        self.candidates.push(candidate);
    }

    fn elect_if_slower(&mut self) {
        let clr_rate = self.candidates.first().map_or(f64::MAX, |clr| clr.rate);
        if self.candidates.iter().skip(1).any(|candidate| candidate.rate < clr_rate) {
            self.elect();
        }
    }

    /// Follows the limiting receiver.
    fn adjust(&mut self, now: Time) {
        let Some(clr) = self.candidates.first() else { return };
        let floor = self.packet_bytes / clr.rtt.as_secs_f64().clamp(1e-3, 1.0);
        let round_trip_over = now.since(self.adjusted_at) >= clr.rtt.max(PROBE_INTERVAL_MIN).mul_f64(0.9);
        let target = if clr.start {
            // While nothing is lost the receiver asks for twice what it gets; a sender that has little to
            // send keeps what it has.
            clr.rate.clamp(self.rate, 2.0 * self.rate)
        } else if clr.rate > self.rate {
            // TCP gains a segment per round trip in each round trip.
            let rtt = clr.rtt.as_secs_f64().max(1e-6);
            let rounds = (now.since(self.adjusted_at).as_secs_f64() / rtt).clamp(1.0, ROUNDS_MAX);
            clr.rate.min(self.rate + rounds * self.packet_bytes / rtt)
        } else {
            clr.rate
        };
        if target > self.rate && !round_trip_over {
            return;
        }
        self.adjusted_at = now;
        self.rate = target.max(floor).max(self.rate_min).min(self.rate_max);
    }
}

#[cfg(test)]
mod tests {
    use super::super::loss_at;
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    /// Of a receiver that loses so much that this is its rate.
    fn lossy(rate: f64) -> CcFeedback {
        answer(rate, loss_at(1400.0, RTT, rate))
    }

    fn answer(rate: f64, loss: f64) -> CcFeedback {
        CcFeedback {
            sequence: 1,
            flags: CcFeedback::RTT | if loss == 0.0 { CcFeedback::START } else { 0 },
            rtt: quantize::quantize_rtt(RTT),
            loss: quantize::quantize_loss(loss),
            rate: quantize::quantize_rate(rate),
            delivered: None,
        }
    }

    #[test]
    fn it_begins_well_above_a_crawl_and_doubles_while_nothing_is_lost() {
        let mut limiter = RateLimiter::new(1400, Duration::from_millis(100), 0.0, None);
        assert!(limiter.rate() >= 125_000.0);
        let mut now = 0;
        while limiter.rate() < 1e8 {
            now += 20;
            let rate = limiter.rate();
            limiter.on_feedback(at(now), 2, &answer(2.0 * rate, 0.0), Some(RTT));
        }
        assert!(now <= 300, "{now} ms to 100 MB/s");
    }

    #[test]
    fn it_falls_at_once_to_what_the_slowest_can_take_and_rises_slowly() {
        let mut limiter = RateLimiter::new(1400, RTT, 0.0, None);
        limiter.on_feedback(at(20), 2, &lossy(5e6), Some(RTT));
        limiter.on_feedback(at(40), 3, &lossy(2e5), Some(RTT));
        assert!((1.9e5..2.1e5).contains(&limiter.rate()), "{}", limiter.rate());
        limiter.on_feedback(at(50), 2, &lossy(5e6), Some(RTT));
        assert!(limiter.rate() < 2.1e5, "a faster receiver changes nothing");
        limiter.on_feedback(at(70), 3, &lossy(1e6), Some(RTT));
        assert!((2.4e5..3.2e5).contains(&limiter.rate()), "{}", limiter.rate());
    }

    #[test]
    fn a_limiting_receiver_that_is_gone_is_forgotten() {
        let mut limiter = RateLimiter::new(1400, RTT, 0.0, None);
        limiter.on_feedback(at(20), 2, &lossy(5e6), Some(RTT));
        limiter.on_feedback(at(40), 3, &lossy(2e5), Some(RTT));
        let mut nodes = Vec::new();
        for probe in 0..12 {
            limiter.on_probe(&mut nodes);
            limiter.on_feedback(at(60 + probe * 20), 2, &lossy(5e6), Some(RTT));
        }
        let listed: Vec<NodeId> = nodes.iter().map(|node| node.node).collect();
        assert_eq!(listed, [2]);
        assert!(limiter.rate() > 2.5e5, "{}", limiter.rate());
    }

    #[test]
    fn silence_halves_the_rate_but_never_to_a_crawl() {
        let mut limiter = RateLimiter::new(1400, RTT, 0.0, None);
        let start = limiter.rate();
        limiter.on_feedback(at(20), 2, &answer(1e7, 0.0), Some(RTT));
        let mut nodes = Vec::new();
        for _ in 0..1000 {
            limiter.on_probe(&mut nodes);
        }
        assert!((limiter.rate() / start - 1.0).abs() < 1e-9, "{} began at {start}", limiter.rate());
        assert!(nodes.is_empty());
    }

    #[test]
    fn whatever_receivers_claim_it_never_falls_below_its_least_rate() {
        for (rate_min, expected) in [(3e5, 3e5), (0.0, 1400.0 / RTT.as_secs_f64())] {
            let mut limiter = RateLimiter::new(1400, RTT, rate_min, None);
            for step in 1..100 {
                limiter.on_feedback(at(step * 20), 2, &answer(1.0, 0.99), Some(RTT));
            }
            assert!((limiter.rate() / expected - 1.0).abs() < 0.01, "{} of {expected}", limiter.rate());
            assert_eq!(limiter.limiting_receiver(), Some(2));
        }
    }

    #[test]
    fn it_never_exceeds_its_bound() {
        let mut limiter = RateLimiter::new(1400, RTT, 0.0, Some(1e6));
        for step in 1..100 {
            limiter.on_feedback(at(step * 20), 2, &answer(1e9, 0.0), Some(RTT));
        }
        assert!(limiter.rate() <= 1e6);
    }
}
