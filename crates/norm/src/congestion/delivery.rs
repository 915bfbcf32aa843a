//! Rate control for one receiver behind a long path that loses: what is delivered decides, and how long it waits.
//!
//! NORM-CC takes every loss for a sign of congestion, and where one packet in a hundred is lost anyway it hardly
//! sends. This control asks two other things. How much comes out at the far end? A path that is not full delivers what
//! goes in; one that is full delivers what it can. How long does a packet wait on its way? A queue that does not drain
//! though less than that goes in is somebody else's, too. It is made in the manner of BBR, with rounds for segments
//! in flight: a probe ends each round, the receiver answers with what came since the probe before it, and so every answer
//! tells of one round.
//!
//! *Delivered* is the most that came in one of the last ten rounds that sent as much as they were allowed, and what the best of
//! them lost on top: that is lost anyway. What comes faster than it was sent only waited before. A round lasts a round
//! trip, so that what a round did is known at the end of the next one. The *queue* is what a round trip is longer than the
//! shortest one of late; it is *short* up to 5 ms or a quarter of that one. It *stands* as far as two in a row were longer: a
//! host that was away for a moment is no queue.
//!
//! | phase   | rate                             | on …                                                 | next                |
//! |---------|----------------------------------|------------------------------------------------------|---------------------|
//! | startup | 2 × delivered                    | the queue is no longer short, or a fifth is missing  | drain               |
//! | drain   | ½ × delivered                    | the queue is short, or 6 rounds are over             | cruise              |
//! | cruise  | delivered, less where it queues  | what stands was not short for 5 rounds               | share, at 0.85 × delivered |
//! |         |                                  | 5 rounds over; twice as many after each rise in vain, up to 40 | up        |
//! | up      | 1¼ × delivered                   | a round over                                         | hold                |
//! | hold    | delivered                        | it is known that the rise came, and did not queue    | up                  |
//! |         |                                  | … that it did not, or nothing is known in 3 rounds   | down                |
//! | down    | ¾ × delivered                    | a round over                                         | cruise              |
//! | share   | a segment per round trip more in each round; 0.7 of it when more is lost than usual while nearly as much stands as ever | 10 s over | check |
//! | check   | half of that                     | the queue is short: nobody else fills it             | cruise              |
//! |         |                                  | 5 rounds over                                        | share               |
//! | any     |                                  | ten probes and half a second without an answer       | startup, from the beginning |
//!
//! Only *share* heeds loss, as TCP does, but not loss alone: beside others who fill a queue until it overflows a sender
//! that keeps it short would get nothing, and one that only counts what comes would leave them nothing.
//!
//! It follows one receiver, the first that answers. The rate stays above a segment per round trip and the configured
//! least, whatever that one claims; what it claims to have got beyond what was sent does not count.

use std::collections::VecDeque;
use std::time::Duration;

use super::extremes::Extreme;
use super::rate_at_start;
use crate::NodeId;
use crate::quantize;
use crate::time::Time;
use crate::wire::command::CcNode;
use crate::wire::{CcFeedback, Delivered};

/// Rounds whose deliveries are remembered.
const DELIVERIES: usize = 10;
/// Probes whose answers may still come.
const PROBES_MAX: usize = 64;
/// Probes are not closer than this, nor farther apart.
const ROUND_MIN: Duration = Duration::from_millis(5);
const ROUND_MAX: Duration = Duration::from_secs(1);
/// A queue is short up to this, and up to this part of the round trip.
const SHORT_MIN: Duration = Duration::from_millis(5);
const SHORT_PART: u32 = 4;
/// A round that sent less than this share of what it might have tells nothing of the path.
const USED_MIN: f64 = 0.8;
/// In startup, the path is full where less than this share of what was sent came.
const CAME_MIN: f64 = 0.8;
/// A rise was worth it where at least so many times more came than before.
const RISE_MIN: f64 = 1.1;
const STARTUP_GAIN: f64 = 2.0;
const DRAIN_GAIN: f64 = 0.5;
const UP_GAIN: f64 = 1.25;
const DOWN_GAIN: f64 = 0.75;
/// What a queue as long as the path makes the rate smaller by, and the least that is left.
const QUEUE_GAIN: f64 = 0.5;
const CRUISE_GAIN_MIN: f64 = 0.75;
const DRAIN_ROUNDS: u32 = 6;
const CRUISE_ROUNDS: u32 = 5;
/// After so many rises in vain it cruises no longer than before.
const VAIN_RISES_MAX: u32 = 3;
const CHECK_ROUNDS: u32 = 5;
/// So long an answer that tells of a rise is waited for.
const HOLD_ROUNDS: u32 = 3;
/// How long to share before looking whether there is still somebody to share with.
const SHARE_FOR: Duration = Duration::from_secs(10);
/// What is left of the rate when sharing begins, and when the queue overflows.
const SHARE_FIRST: f64 = 0.85;
const SHARE_DOWN: f64 = 0.7;
/// More is lost than usual from so many times that on.
const LOST_MORE: u32 = 2;
/// A queue is nearly full at this share of the longest one.
const NEARLY_FULL: f64 = 0.75;
/// The share, in 255ths, that may be lost anyway.
const LOST_ANYWAY_MAX: u8 = 51;
/// A receiver that leaves so many probes unanswered, for so long, is gone.
const UNANSWERED_MAX: u32 = 10;
const SILENCE_MIN: Duration = Duration::from_millis(500);

#[derive(Copy, Clone, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Startup,
    Drain {
        rounds: u32,
    },
    Cruise {
        rounds: u32,
    },
    Up,
    Hold {
        rounds: u32,
    },
    Down,
    Share {
        rate: f64,
        since: Time,
        cut_at: Time,
    },
    Check {
        rate: f64,
        rounds: u32,
        since: Time,
    },
}

/// A probe that went out, which ended a round and began the next.
#[derive(Copy, Clone, Debug)]
struct Probe {
    sequence: u16,
    at: Time,
    /// What had been sent by then, and how fast the round after it may send.
    sent_bytes: u64,
    rate: f64,
    /// Whether that round tries whether more comes through.
    rises: bool,
}

#[derive(Copy, Clone, Debug)]
struct Follower {
    node: NodeId,
    unanswered: u32,
    heard_at: Time,
}

#[derive(Debug, Default)]
pub struct DeliveryControl {
    packet_bytes: f64,
    rate_start: f64,
    rate_min: f64,
    rate_max: f64,
    follower: Option<Follower>,
    phase: Phase,
    round_began: Time,
    sent_bytes: u64,
    probes: VecDeque<Probe>,
    /// What came in each, and the share that was lost.
    deliveries: VecDeque<(f64, u8)>,
    rtt: Duration,
    /// The one before it.
    rtt_before: Duration,
    shortest: Extreme,
    /// Of queues that stood.
    longest: Extreme,
    /// Of late: whether the queue was ever short, and whether enough was sent to tell.
    was_short: bool,
    was_used: bool,
    /// What was delivered before the last rise, and whether that was worth it, once it is known.
    before_rise: f64,
    rise: Option<bool>,
    vain_rises: u32,
}

impl DeliveryControl {
    pub fn new(packet_bytes: usize, grtt: Duration, rate_min: f64, rate_max: Option<f64>) -> DeliveryControl {
        let packet_bytes = packet_bytes as f64;
        let rate_max = rate_max.unwrap_or(f64::MAX);
        DeliveryControl {
            packet_bytes,
            rate_start: rate_at_start(packet_bytes, grtt).max(rate_min).min(rate_max),
            rate_min,
            rate_max,
            probes: VecDeque::with_capacity(PROBES_MAX),
            deliveries: VecDeque::with_capacity(DELIVERIES),
            rtt: grtt,
            rtt_before: grtt,
            was_short: true,
            ..DeliveryControl::default()
        }
    }

    // --- getters ---

    /// Bytes per second that may be sent.
    pub fn rate(&self) -> f64 {
        let delivered = self.delivered();
        let rate = match self.phase {
            Phase::Startup => (STARTUP_GAIN * delivered).max(self.rate_start),
            Phase::Drain { .. } => DRAIN_GAIN * delivered,
            Phase::Cruise { .. } => self.cruise_gain() * delivered,
            Phase::Up => UP_GAIN * delivered,
            Phase::Hold { .. } => delivered,
            Phase::Down => DOWN_GAIN * delivered,
            Phase::Share { rate, .. } => rate,
            Phase::Check { rate, .. } => DRAIN_GAIN * rate,
        };
        rate.max(self.floor()).max(self.rate_min).min(self.rate_max)
    }

    /// The receiver that is followed.
    pub fn limiting_receiver(&self) -> Option<NodeId> {
        self.follower.map(|follower| follower.node)
    }

    /// How long until the next probe.
    pub fn round(&self) -> Duration {
        self.rtt.clamp(ROUND_MIN, ROUND_MAX)
    }

    fn delivered(&self) -> f64 {
        let came = self.deliveries.iter().map(|(came, _)| *came).fold(0.0, f64::max);
        let lost = self.deliveries.iter().map(|(_, lost)| *lost).min().unwrap_or_default();
        // More than that nobody loses whom it is worth to send to.
        came / (1.0 - f64::from(lost.min(LOST_ANYWAY_MAX)) / 255.0)
    }

    fn floor(&self) -> f64 {
        self.packet_bytes / self.rtt.as_secs_f64().clamp(1e-3, 1.0)
    }

    fn path(&self) -> Duration {
        self.shortest.get(Duration::min).unwrap_or(self.rtt)
    }

    fn queue(&self) -> Duration {
        self.rtt.saturating_sub(self.path())
    }

    /// The queue that is no passing moment.
    fn standing(&self) -> Duration {
        self.rtt.min(self.rtt_before).saturating_sub(self.path())
    }

    /// Whether more was lost in a round than in those before it.
    fn is_more_than_usual(&self, lost: u8) -> bool {
        let usual: u32 = self.deliveries.iter().map(|(_, lost)| u32::from(*lost)).sum();
        u32::from(lost) * self.deliveries.len() as u32 > LOST_MORE * usual
    }

    fn short(&self) -> Duration {
        SHORT_MIN.max(self.path() / SHORT_PART)
    }

    fn cruise_gain(&self) -> f64 {
        let short = self.short();
        let beyond = self.queue().saturating_sub(short / 2).as_secs_f64();
        let gain = 1.0 - QUEUE_GAIN * beyond / self.path().max(2 * short).as_secs_f64();
        gain.max(CRUISE_GAIN_MIN)
    }

    // --- commands ---

    /// Sets the most that may be sent.
    pub fn set_max(&mut self, rate_max: Option<f64>) {
        self.rate_max = rate_max.unwrap_or(f64::MAX);
    }

    // --- input ---

    /// Something is sent, after `sent_bytes` ever.
    pub fn on_sent(&mut self, sent_bytes: u64) {
        self.sent_bytes = sent_bytes;
    }

    /// A probe goes out: ends a round if it lasted a round trip, and lists the receiver that is to answer.
    pub fn on_probe(&mut self, now: Time, sequence: u16, nodes: &mut Vec<CcNode>) {
        nodes.clear();
        if let Some(follower) = &mut self.follower {
            follower.unanswered += 1;
            if follower.unanswered > UNANSWERED_MAX && now.since(follower.heard_at) >= SILENCE_MIN {
                self.begin_anew();
            }
        }
        if now.since(self.round_began) >= self.round().mul_f64(0.9) {
            self.round_began = now;
            self.end_round(now);
        }
        if self.probes.len() == PROBES_MAX {
            self.probes.pop_front();
        }
        let (sent_bytes, rate) = (self.sent_bytes, self.rate());
        let rises = self.phase == Phase::Up;
        self.probes.push_back(Probe { sequence, at: now, sent_bytes, rate, rises });
        nodes.extend(self.follower.map(|follower| CcNode {
            node: follower.node,
            flags: CcFeedback::CLR | CcFeedback::RTT | CcFeedback::DELIVERED,
            rtt: quantize::quantize_rtt(self.rtt),
            rate: quantize::quantize_rate(self.delivered()),
        }));
    }

    /// A receiver answered; `rtt` if its answer tells the round-trip time.
    pub fn on_feedback(&mut self, now: Time, node: NodeId, feedback: &CcFeedback, rtt: Option<Duration>) {
        let heard = Follower { node, unanswered: 0, heard_at: now };
        if self.follower.get_or_insert(heard).node != node {
            return;
        }
        self.follower = Some(heard);
        let answered = self.probes.iter().position(|probe| probe.sequence == feedback.sequence);
        let Some(index) = answered else { return };
        if let Some(rtt) = rtt {
            (self.rtt_before, self.rtt) = (self.rtt, rtt.max(Duration::from_micros(1)));
            self.shortest.add(now, self.rtt, Duration::min);
            self.longest.add(now, self.standing(), Duration::max);
        }
        if let Some(delivered) = feedback.delivered.filter(|_| index > 0) {
            let (began, ended) = (self.probes[index - 1], self.probes[index]);
            self.probes.drain(..index);
            self.hear_round(now, began, ended, delivered);
        }
    }

    /// Takes note of how a round went, which lasted from one probe to another.
    fn hear_round(&mut self, now: Time, began: Probe, ended: Probe, delivered: Delivered) {
        let span = ended.at.since(began.at).as_secs_f64().max(1e-6);
        let sent = (ended.sent_bytes - began.sent_bytes) as f64 / span;
        let came = quantize::unquantize_rate(delivered.rate).min(sent);
        let is_used = sent >= USED_MIN * began.rate;
        let queues = self.queue() > self.short();
        let stands = self.standing() > self.short();
        let overflows = self.is_more_than_usual(delivered.lost);
        let before = self.delivered();
        if is_used || came > before {
            if self.deliveries.len() == DELIVERIES {
                self.deliveries.pop_front();
            }
            self.deliveries.push_back((came, delivered.lost));
        }
        self.was_used |= is_used;
        self.was_short |= !stands;
        if began.rises {
            let worth = came > RISE_MIN * self.before_rise && !queues;
            self.rise = Some(worth);
            self.vain_rises = if worth { 0 } else { (self.vain_rises + 1).min(VAIN_RISES_MAX) };
        }
        match self.phase {
            Phase::Startup if is_used && (queues || came < CAME_MIN * sent) => {
                self.phase = Phase::Drain { rounds: 0 };
            }
            Phase::Drain { .. } if !queues => self.begin_cruise(),
            Phase::Share { rate, since, cut_at } => {
                let full = self.longest.get(Duration::max).unwrap_or_default().mul_f64(NEARLY_FULL);
                if overflows && stands && self.standing() >= full && began.at >= cut_at {
                    self.phase = Phase::Share { rate: SHARE_DOWN * rate, since, cut_at: now };
                }
            }
            Phase::Check { since, .. } if !queues && began.at >= since => self.begin_cruise(),
            _ => {}
        }
    }

    /// A round is over: what the next one does.
    fn end_round(&mut self, now: Time) {
        self.phase = match self.phase {
            Phase::Drain { rounds } if rounds < DRAIN_ROUNDS => Phase::Drain { rounds: rounds + 1 },
            Phase::Cruise { rounds } if (rounds + 1) % CRUISE_ROUNDS != 0 => {
                Phase::Cruise { rounds: rounds + 1 }
            }
            Phase::Cruise { .. } if self.was_used && !self.was_short => {
                Phase::Share { rate: SHARE_FIRST * self.delivered(), since: now, cut_at: now }
            }
            Phase::Cruise { rounds } if rounds + 1 < CRUISE_ROUNDS << self.vain_rises => {
                (self.was_short, self.was_used) = (false, false);
                Phase::Cruise { rounds: rounds + 1 }
            }
            Phase::Cruise { .. } => self.up(),
            Phase::Up => Phase::Hold { rounds: 0 },
            Phase::Hold { .. } if self.rise == Some(true) => self.up(),
            Phase::Hold { rounds } if self.rise.is_none() && rounds + 1 < HOLD_ROUNDS => {
                Phase::Hold { rounds: rounds + 1 }
            }
            Phase::Hold { .. } => Phase::Down,
            Phase::Drain { .. } | Phase::Down => {
                (self.was_short, self.was_used) = (false, false);
                Phase::Cruise { rounds: 0 }
            }
            Phase::Share { rate, since, .. } if now.since(since) >= SHARE_FOR => {
                Phase::Check { rate, rounds: 0, since: now }
            }
            Phase::Share { rate, since, cut_at } => {
                let more = rate + self.packet_bytes / self.rtt.as_secs_f64().max(1e-3);
                let most = UP_GAIN * self.delivered();
                Phase::Share { rate: more.min(most).max(self.floor()), since, cut_at }
            }
            Phase::Check { rate, rounds, since } if rounds < CHECK_ROUNDS => {
                Phase::Check { rate, rounds: rounds + 1, since }
            }
            Phase::Check { rate, .. } => Phase::Share { rate, since: now, cut_at: now },
            Phase::Startup => Phase::Startup,
        };
    }

    fn up(&mut self) -> Phase {
        (self.before_rise, self.rise) = (self.delivered(), None);
        Phase::Up
    }

    fn begin_cruise(&mut self) {
        self.phase = Phase::Cruise { rounds: 0 };
        // What was before tells nothing of who fills the queue now.
        self.was_short = true;
    }

    /// Nobody answers any more: whoever does so next is behind a path that nobody knows.
    fn begin_anew(&mut self) {
        self.follower = None;
        self.phase = Phase::Startup;
        self.deliveries.clear();
        self.probes.clear();
        (self.shortest, self.longest) = (Extreme::default(), Extreme::default());
        (self.was_short, self.was_used) = (true, false);
    }
}

#[cfg(test)]
mod tests;
