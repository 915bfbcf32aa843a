//! The sender's rate control, whichever it is.

use std::time::Duration;

use super::brake::Brake;
use super::delivery::DeliveryControl;
use super::limiter::RateLimiter;
use super::nack_driven::NackDriven;
use crate::NodeId;
use crate::config::{Config, CongestionControl};
use crate::time::Time;
use crate::wire::SEGMENT_HEADER_BYTES;
use crate::wire::command::CcNode;
use crate::wire::feedback::FeedbackHeader;

/// Where NACK-driven control begins if no bound is given.
const NACK_DRIVEN_START: f64 = 12.5e6;

/// What decides the rate.
#[derive(Debug)]
pub enum RateControl {
    /// The configuration, and the brake where it names no rate.
    Fixed(Option<f64>, Brake),
    /// NACKs.
    NackDriven(NackDriven),
    /// Receivers, by NORM-CC.
    NormCc(RateLimiter),
    /// What one receiver gets.
    Delivery(DeliveryControl),
}

impl RateControl {
    pub fn new(config: &Config) -> RateControl {
        let (rate_min, rate_max) = (config.rate_min_bytes_per_s, config.rate_bytes_per_s);
        let packet_bytes =
            config.data_header_bytes() + SEGMENT_HEADER_BYTES + usize::from(config.segment_bytes);
        match config.congestion {
            CongestionControl::Fixed => RateControl::Fixed(rate_max, Brake::new(rate_min)),
            CongestionControl::NackDriven => {
                let start = rate_max.map_or(NACK_DRIVEN_START, |rate| rate.min(NACK_DRIVEN_START));
                RateControl::NackDriven(NackDriven::new(start, rate_min, rate_max))
            }
            CongestionControl::NormCc => {
                RateControl::NormCc(RateLimiter::new(packet_bytes, config.grtt_initial, rate_min, rate_max))
            }
            CongestionControl::Delivery => RateControl::Delivery(DeliveryControl::new(
                packet_bytes,
                config.grtt_initial,
                rate_min,
                rate_max,
            )),
        }
    }

    /// Bytes per second to send at; `None` is without limit.
    pub fn rate(&self) -> Option<f64> {
        match self {
            RateControl::Fixed(rate, brake) => rate.or(brake.rate()),
            RateControl::NackDriven(control) => Some(control.rate),
            RateControl::NormCc(limiter) => Some(limiter.rate()),
            RateControl::Delivery(control) => Some(control.rate()),
        }
    }

    /// Whether there is always a rate, not only when the brake is on.
    pub fn is_pacing(&self) -> bool {
        !matches!(self, RateControl::Fixed(None, _))
    }

    /// The receiver whose reports limit the rate, if any does.
    pub fn limiting_receiver(&self) -> Option<NodeId> {
        match self {
            RateControl::NormCc(limiter) => limiter.limiting_receiver(),
            RateControl::Delivery(control) => control.limiting_receiver(),
            RateControl::Fixed(..) | RateControl::NackDriven(_) => None,
        }
    }

    /// Sets the rate, or the most the control may choose.
    pub fn set_max(&mut self, rate_max: Option<f64>) {
        match self {
            RateControl::Fixed(rate, _) => *rate = rate_max,
            RateControl::NackDriven(control) => control.set_max(rate_max),
            RateControl::NormCc(limiter) => limiter.set_max(rate_max),
            RateControl::Delivery(control) => control.set_max(rate_max),
        }
    }

    /// A receiver said something; `rtt` if that tells its round-trip time.
    pub fn on_feedback(&mut self, now: Time, header: &FeedbackHeader, rtt: Option<Duration>) {
        let Some(feedback) = &header.cc else { return };
        match self {
            RateControl::NormCc(limiter) => limiter.on_feedback(now, header.source, feedback, rtt),
            RateControl::Delivery(control) => control.on_feedback(now, header.source, feedback, rtt),
            RateControl::Fixed(..) | RateControl::NackDriven(_) => {}
        }
    }

    /// A receiver asked for repair.
    pub fn on_nack(&mut self, now: Time, grtt: Duration) {
        if let RateControl::NackDriven(control) = self {
            control.on_nack(now, grtt);
        }
    }

    /// A receiver that counts asked for so many bytes that nobody asked for yet; `sent_bytes` were ever sent. True if
    /// it counts anew from now on.
    pub fn on_lost(&mut self, now: Time, grtt: Duration, lost_bytes: f64, sent_bytes: u64) -> bool {
        let RateControl::Fixed(None, brake) = self else { return false };
        brake.on_lost(now, grtt, lost_bytes, sent_bytes);
        brake.counts_from() == now
    }

    /// Data or repairs are sent, after `sent_bytes` ever.
    pub fn on_sent(&mut self, now: Time, grtt: Duration, sent_bytes: u64) {
        match self {
            RateControl::Fixed(None, brake) => brake.on_sent(now, grtt, sent_bytes),
            RateControl::NackDriven(control) => control.on_sent(now, grtt, sent_bytes),
            RateControl::Delivery(control) => control.on_sent(sent_bytes),
            RateControl::Fixed(..) | RateControl::NormCc(_) => {}
        }
    }

    /// A probe goes out: whom it is to list, and when the next is wanted if not as usual.
    pub fn on_probe(
        &mut self,
        now: Time,
        sequence: u16,
        grtt: Duration,
        nodes: &mut Vec<CcNode>,
    ) -> Option<Duration> {
        nodes.clear();
        match self {
            RateControl::NormCc(limiter) => {
                limiter.on_probe(nodes);
                Some(limiter.probe_interval(grtt))
            }
            RateControl::Delivery(control) => {
                control.on_probe(now, sequence, nodes);
                Some(control.round())
            }
            RateControl::Fixed(..) | RateControl::NackDriven(_) => None,
        }
    }
}
