//! A receiver's share of NORM-CC: what it measures about one sender, and what it answers to probes.

use std::time::Duration;

use super::{loss_at, tcp_rate};
use crate::congestion::loss::LossEstimator;
use crate::congestion::meter::DeliveryMeter;
use crate::quantize;
use crate::time::Time;
use crate::wire::CcFeedback;
use crate::wire::command::CcNode;

/// The receive rate is measured over at least this long.
const RATE_WINDOW_MIN: Duration = Duration::from_millis(10);
/// The losses of so many round trips count as one event at the most.
const EVENT_MAX: u32 = 4;

/// So many probes go by until the sender must have heard of the first loss.
const UNHEARD_MAX: u32 = 10;

/// The end of slow start.
#[derive(Debug)]
struct FirstLoss {
    /// What came through then, in bytes per second.
    came_through: f64,
    /// Probes that did not know of it.
    unheard: u32,
}

/// What one receiver knows about the path from one sender.
#[derive(Debug, Default)]
pub struct ReceiverCongestion {
    loss: LossEstimator,
    /// Bytes since `window_start`, and the rate of the windows before.
    window_bytes: u64,
    window_start: Time,
    bytes_per_s: f64,
    /// Mean length of the sender's messages.
    packet_bytes: f64,
    /// How slow start ended, until the sender has heard of it.
    first_loss: Option<FirstLoss>,
    /// Our round-trip time, once the sender told us.
    rtt: Option<Duration>,
    /// How the sender lists us: CC_CLR, CC_PLR.
    role: u8,
    meter: DeliveryMeter,
}

impl ReceiverCongestion {
    pub fn new(now: Time) -> ReceiverCongestion {
        let meter = DeliveryMeter::new(now);
        ReceiverCongestion { window_start: now, packet_bytes: 1000.0, meter, ..Default::default() }
    }

    fn rtt(&self, grtt: Duration) -> Duration {
        self.rtt.unwrap_or(grtt)
    }

    /// A message of the sender came.
    pub fn on_message(&mut self, now: Time, sequence: u16, bytes: usize, grtt: Duration) {
        let rtt = self.rtt(grtt);
        self.meter.on_message(sequence, bytes);
        self.window_bytes += bytes as u64;
        if bytes > 100 {
            self.packet_bytes += (bytes as f64 - self.packet_bytes) / 16.0;
        }
        let span = now.since(self.window_start);
        if span >= rtt.max(RATE_WINDOW_MIN) {
            let rate = self.window_bytes as f64 / span.as_secs_f64();
            self.bytes_per_s = if self.bytes_per_s == 0.0 { rate } else { (self.bytes_per_s + rate) / 2.0 };
            (self.window_bytes, self.window_start) = (0, now);
        }
        let first_loss = !self.loss.has_lost();
        // The sender answers to one loss after a round trip through the queue that lost it, which is longer than
        // our average. The group's round-trip time knows; a member far away is no reason to overlook losses. Whoever
        // else fills the queue answers in a round trip of his own: until then it loses once more.
        // Before the first loss no queue was ever full, and no round-trip time tells how long this one is: the event
        // ends when the sender says that it has heard.
        let heard = self.first_loss.is_none();
        let event = if heard { (2 * grtt).clamp(2 * rtt, EVENT_MAX * rtt) } else { Duration::MAX };
        if self.loss.on_message(now, sequence, event) && first_loss {
            // Slow start ends with twice the path's rate at the most: begin at what came through.
            self.first_loss = Some(FirstLoss { came_through: self.bytes_per_s, unheard: 0 });
            self.begin(now, rtt, self.bytes_per_s);
        }
    }

    /// Slow start ended at a rate, which is at least a message per round trip.
    fn begin(&mut self, now: Time, rtt: Duration, bytes_per_s: f64) {
        let rate = bytes_per_s.max(self.packet_bytes / rtt.as_secs_f64().max(1e-6));
        self.loss.begin(now, loss_at(self.packet_bytes, rtt, rate));
    }

    /// What a probe says about us, which came at a time, perhaps before it is read.
    pub fn on_probe(&mut self, now: Time, arrived_at: Time, listed: Option<CcNode>, grtt: Duration) {
        let is_asked = listed.is_some_and(|node| node.flags & CcFeedback::DELIVERED != 0);
        self.meter.on_probe(arrived_at, is_asked);
        self.role = listed.map_or(0, |node| node.flags & (CcFeedback::CLR | CcFeedback::PLR));
        if let Some(node) = listed.filter(|node| node.flags & CcFeedback::RTT != 0) {
            self.rtt = Some(quantize::unquantize_rtt(node.rtt));
        }
        let heard = listed.is_none_or(|node| node.flags & CcFeedback::START == 0);
        if let Some(mut first) = self.first_loss.take() {
            first.unheard += 1;
            if heard || first.unheard > UNHEARD_MAX {
                // The queue that lost something made the way longer than we knew.
                self.begin(now, self.rtt(grtt), first.came_through);
            } else {
                self.first_loss = Some(first);
            }
        }
    }

    /// The rate we can take.
    pub fn rate(&self, grtt: Duration) -> f64 {
        if self.loss.has_lost() {
            tcp_rate(self.packet_bytes, self.rtt(grtt), self.loss.estimate())
        } else {
            2.0 * self.bytes_per_s
        }
    }

    /// EXT_CC in answer to a probe.
    pub fn feedback(&self, sequence: u16, grtt: Duration) -> CcFeedback {
        let start = if self.loss.has_lost() { 0 } else { CcFeedback::START };
        let measured = if self.rtt.is_some() { CcFeedback::RTT } else { 0 };
        CcFeedback {
            sequence,
            flags: self.role | start | measured,
            rtt: quantize::quantize_rtt(self.rtt(grtt)),
            loss: quantize::quantize_loss(self.loss.estimate()),
            rate: quantize::quantize_rate(self.rate(grtt)),
            delivered: self.meter.delivered,
        }
    }

    /// Whether another receiver's answer makes ours needless: it can take no more than we can.
    pub fn is_covered_by(&self, other: Option<CcFeedback>, grtt: Duration) -> bool {
        let limits = self.role & CcFeedback::CLR != 0;
        !limits && other.is_none_or(|other| quantize::unquantize_rate(other.rate) <= self.rate(grtt) * 1.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRTT: Duration = Duration::from_millis(20);

    fn receive(receiver: &mut ReceiverCongestion, from: u64, count: u64, skip_every: u64) -> u64 {
        for number in from..from + count {
            if skip_every == 0 || number % skip_every != 0 {
                let now = Time::from_nanos(number * 1_000_000);
                receiver.on_message(now, number as u16, 1000, GRTT);
            }
        }
        from + count
    }

    #[test]
    fn without_loss_it_takes_twice_what_comes() {
        let mut receiver = ReceiverCongestion::new(Time::ZERO);
        receive(&mut receiver, 1, 500, 0);
        let feedback = receiver.feedback(7, GRTT);
        assert_eq!((feedback.sequence, feedback.flags), (7, CcFeedback::START));
        let rate = quantize::unquantize_rate(feedback.rate);
        assert!((1.9e6..2.1e6).contains(&rate), "{rate}");
    }

    #[test]
    fn with_loss_it_takes_what_tcp_would() {
        let mut receiver = ReceiverCongestion::new(Time::ZERO);
        let next = receive(&mut receiver, 1, 500, 0);
        let next = receive(&mut receiver, next, 150, 100);
        let now = Time::from_nanos(next * 1_000_000);
        receiver.on_probe(now, now, None, GRTT);
        receive(&mut receiver, next, 5000, 100);
        let feedback = receiver.feedback(8, GRTT);
        assert_eq!(feedback.flags & CcFeedback::START, 0);
        let (rate, wanted) = (quantize::unquantize_rate(feedback.rate), tcp_rate(1000.0, GRTT, 0.01));
        assert!((0.8..1.25).contains(&(rate / wanted)), "{rate} instead of {wanted}");
    }

    #[test]
    fn whatever_is_lost_until_the_sender_heard_of_it_is_one_event_over_the_way_as_long_as_it_is_now() {
        let near = Duration::from_micros(300);
        let told = |rtt: Duration, flags: u8| {
            Some(CcNode {
                node: 2,
                flags: flags | CcFeedback::RTT,
                rtt: quantize::quantize_rtt(rtt),
                rate: 0,
            })
        };
        let mut receiver = ReceiverCongestion::new(Time::ZERO);
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        receiver.on_probe(at(1), at(1), told(near, CcFeedback::CLR | CcFeedback::START), near);
        let next = receive(&mut receiver, 1, 500, 0);
        // A queue overflows for many times the round trip that was known before it filled.
        let next = receive(&mut receiver, next, 100, 2);
        receiver.on_probe(at(next), at(next), told(near, CcFeedback::CLR | CcFeedback::START), near);
        let next = receive(&mut receiver, next, 100, 2);
        receiver.on_probe(at(next), at(next), told(GRTT, CcFeedback::CLR), GRTT);
        let rate = receiver.rate(GRTT);
        assert!((0.9e6..1.1e6).contains(&rate), "{rate} instead of what came before anything was lost");
        let next = receive(&mut receiver, next, 500, 0);
        receive(&mut receiver, next, 500, 50);
        assert!(receiver.rate(GRTT) < 0.9 * rate, "what is lost afterwards counts");
    }

    #[test]
    fn an_answer_that_asks_for_more_does_not_silence_ours() {
        let mut receiver = ReceiverCongestion::new(Time::ZERO);
        receive(&mut receiver, 1, 500, 0);
        let with_rate =
            |rate: f64| Some(CcFeedback { rate: quantize::quantize_rate(rate), ..Default::default() });
        assert!(receiver.is_covered_by(with_rate(1e6), GRTT));
        assert!(!receiver.is_covered_by(with_rate(1e7), GRTT));
        let listed = CcNode { node: 1, flags: CcFeedback::CLR, rtt: 0, rate: 0 };
        receiver.on_probe(Time::ZERO, Time::ZERO, Some(listed), GRTT);
        assert!(!receiver.is_covered_by(with_rate(1e6), GRTT), "the limiting receiver always answers");
    }
}
