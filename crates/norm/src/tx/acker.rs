//! One node whose acknowledgement counts, and when it no longer holds the others back.
//!
//! | standing | holds the window | becomes                                                                          |
//! |----------|------------------|----------------------------------------------------------------------------------|
//! | New      | yes, from where it was listed; [not after one that did so in vain](super::acks::AckProcess) | Counts: it acknowledges something, or nobody counts |
//! |          |                  | Silent: it was asked often enough, for long enough, and did not                  |
//! | Counts   | yes              | Silent: it was asked often enough, for long enough, and got nowhere; one that says that it is full only if others have room |
//! |          |                  | Slow: it was what held back others that had room for [too long](Acker::on_held), because it got less far or because its losses made the window small |
//! | Silent   | no               | Counts: it has caught up, or acknowledges something while nobody counts          |
//! | Slow     | no               | Counts: it has caught up and stayed so for a while without losing anything, or nobody else counts; one that lost too much, losing no more than the window bears |
//!
//! Somebody is always last, and a host that runs many programs stops each of them now and then. So one that holds others
//! back is slow only if it does so for two fifths of the time and more, as one does that takes about half of what they could or less,
//! and if it is asked again and again meanwhile: among equals another one is last soon. One that is *indispensable* is neither
//! slow nor silent, whatever it does.
//!
//! An application's watermark waits for everybody, whatever their standing, but only as long as they answer: whoever
//! does not is *excused*. That a watermark waits for somebody does not make him hold the window.

use std::ops::Range;
use std::time::Duration;

use super::window::{LOST_TOLERATED, LOST_TOLERATED_ONE_IN};
use crate::NodeId;
use crate::time::Time;

/// Whoever holds the window is asked so often at the least before it no longer does: any of the requests may be
/// lost, but so long everybody waits. Where an application waits for the answer it is `robust_factor` times.
pub const REQUESTS_MIN: u32 = 4;
/// However patient publishers are, a node that never acknowledged anything holds the window for no longer: it may hear nothing of
/// this sender.
const WELCOME_MAX: Duration = Duration::from_secs(10);
/// Who goes on to ask for what can no longer be repaired is told of again after so long.
const LOST_AGAIN: Duration = Duration::from_secs(1);
/// Who answers so often that it got no farther is full. An acknowledgement that was sent twice looks like such an answer.
const FULL_ANSWERS: u32 = 3;
/// Who was slow has to keep up for so many times the patience before it holds the window again, and twice as long
/// after each time it was slow again.
const KEEP_UP_FACTOR: u32 = 4;
const KEEP_UP_DOUBLINGS_MAX: u32 = 3;
/// Who counted for so many times the patience without being slow begins anew.
const FORGIVEN_FACTOR: u32 = 60;

/// Of the time in which somebody holds nobody back two parts in so many count against the time in which it does: whoever does
/// so for less than two fifths of the time is never slow.
const FREE_TIME_TWO_IN: u32 = 3;
/// Who holds others back has to be asked for so much meanwhile, or to do so for so many times the patience: a program that
/// was stopped for a moment is asked once.
const HELD_REQUESTS_MIN: u32 = 12;
const HELD_FACTOR: u32 = 6;
/// Time in which another one held back somebody like it counts so many times against it besides: among equals the last one
/// changes.
const OTHERS_TIME_FACTOR: u32 = 32;
/// Time in which the losses of somebody do not make the window small counts so many times against the time in which they do.
const LOSSLESS_TIME_FACTOR: u32 = 2;

/// Whether it holds the window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    #[default]
    New,
    Counts,
    Silent,
    Slow,
}

/// How far somebody got.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Everything before this segment is there.
    pub acked: u64,
    /// Everything before this one is there, or was asked for: none of it is on its way any more.
    pub seen: u64,
}

/// For how long something was so, other time deducted, and until when.
#[derive(Copy, Clone, Debug, Default)]
struct Balance {
    time: Duration,
    until: Time,
}

impl Balance {
    /// It was not so until `from`: deducts what that time counts, and returns what is left.
    fn deduct(&mut self, from: Time, counts: impl Fn(Duration) -> Duration) -> Duration {
        self.time = self.time.saturating_sub(counts(from.since(self.until)));
        self.time
    }

    /// It was so until `now`.
    fn add(&mut self, from: Time, now: Time) -> Duration {
        (self.time, self.until) = (self.time + now.since(from), now);
        self.time
    }
}

#[derive(Clone, Debug, Default)]
pub struct Acker {
    pub node: NodeId,
    pub standing: Standing,
    /// It owes nothing before this segment, whether it has it or not.
    pub owes_from: u64,
    pub reached: Reached,
    /// Requests since its last acknowledgement, and when the first of them was sent.
    unanswered: u32,
    asked_at: Time,
    /// Answers since its last acknowledgement that it got no farther, and requests since the last of them.
    full_answers: u32,
    full_requests: u32,
    /// It asked for repair from here on: it got so far, though it could not acknowledge yet.
    repaired: u64,
    /// The application's watermark no longer waits for it.
    pub excused: bool,
    /// Anything was heard of it since it fell silent.
    heard: bool,
    /// That it no longer counts was told.
    pub told: bool,
    /// It lost something for good since then, when it had got on last, which is not told yet.
    pub lost: Option<Time>,
    /// The same until it got past that: since when, what is not there before which segment, and when it was told.
    loses_now: Option<(Time, u64, Time)>,
    got_on: Time,
    /// It is waited for, however slow.
    pub indispensable: bool,
    /// It reads nothing: that it has room is no reason to go on without others.
    pub bystander: bool,
    /// For how long it held others back, less what the time counts in which it did not.
    held: Balance,
    /// In how many requests that was, and the last of them.
    held_requests: u32,
    held_request: u64,
    /// For how long its losses made the window small.
    blamed: Balance,
    /// How often it was slow, when it counted again after that, and since when it keeps up.
    slow_times: u32,
    back_at: Time,
    keeps_up_since: Option<Time>,
    /// Its losses made it slow; how far it was when it began to keep up, and how many segments it asked for since then.
    loses: bool,
    kept_from: u64,
    asked: u64,
}

impl Acker {
    pub fn new(node: NodeId, owes_from: u64) -> Acker {
        let reached = Reached { acked: owes_from, seen: owes_from };
        Acker { node, owes_from, reached, heard: true, ..Acker::default() }
    }

    pub fn counts(&self) -> bool {
        self.standing == Standing::Counts
    }

    pub fn is_new(&self) -> bool {
        self.standing == Standing::New
    }

    /// Whether its answer is waited for: because it counts or may come to, or by an application's watermark if there
    /// `is_watermark`.
    pub fn is_awaited(&self, is_watermark: bool) -> bool {
        matches!(self.standing, Standing::New | Standing::Counts) || (is_watermark && !self.excused)
    }

    /// An application wants to know from everybody.
    pub fn on_watermark(&mut self) {
        (self.unanswered, self.excused) = (0, false);
    }

    /// Anything was heard of it.
    pub fn on_heard(&mut self) {
        self.heard = true;
    }

    /// Whether it answers, though it gets nowhere: it is full of what was not read.
    pub fn is_full(&self) -> bool {
        self.full_answers >= FULL_ANSWERS && self.full_requests <= REQUESTS_MIN
    }

    /// It answered, and got no farther.
    pub fn on_full(&mut self) {
        (self.full_answers, self.full_requests) = (self.full_answers.saturating_add(1), 0);
    }

    /// It is asked. If it was asked so many times, for so long, and got nowhere, it is waited for no longer, unless it is
    /// full and `nobody_waits` for it.
    pub fn on_asked(&mut self, now: Time, requests: u32, patience: Duration, nobody_waits: bool) {
        // Of whom nothing was heard since it fell silent is asked a few times only.
        let gone = self.standing == Standing::Silent && !self.heard;
        let (requests, patience) =
            if gone { (requests.min(REQUESTS_MIN), Duration::ZERO) } else { (requests, patience) };
        let patience = if self.is_new() { patience.min(WELCOME_MAX) } else { patience };
        if self.unanswered == 0 {
            self.asked_at = now;
        }
        self.unanswered += 1;
        self.full_requests = self.full_requests.saturating_add(1);
        if self.unanswered > requests && now.since(self.asked_at) >= patience && !self.indispensable {
            self.excused = true;
            let paces = nobody_waits && self.is_full();
            if !paces && (self.counts() || self.is_new()) {
                self.standing = Standing::Silent;
            }
            self.heard &= self.standing != Standing::Silent;
        }
    }

    /// It has everything before a segment: whether that is news. One that does not count does so again from `caught_up` on, or
    /// at once if `nobody_counts`.
    pub fn on_ack(
        &mut self,
        now: Time,
        segment: u64,
        caught_up: u64,
        nobody_counts: bool,
        patience: Duration,
    ) -> bool {
        if segment <= self.reached.acked {
            return false;
        }
        self.reached = Reached { acked: segment, seen: self.reached.seen.max(segment) };
        (self.unanswered, self.full_answers, self.heard, self.got_on) = (0, 0, true, now);
        if let Some((since, ..)) = self.loses_now.take_if(|(_, first, _)| segment >= *first) {
            // What it was told before that may be among what it lost.
            self.lost = Some(since);
        }
        if segment < caught_up {
            self.keeps_up_since = None;
        }
        if segment >= caught_up && self.keeps_up_since.is_none() {
            (self.keeps_up_since, self.kept_from, self.asked) = (Some(now), segment, 0);
        }
        let keeps_up =
            self.keeps_up_since.is_some_and(|since| now.since(since) >= self.keep_up_for(patience));
        if nobody_counts || keeps_up || self.is_new() {
            self.count_again(now);
        }
        true
    }

    /// For how long it has to keep up before it counts again.
    fn keep_up_for(&self, patience: Duration) -> Duration {
        match self.standing {
            Standing::New | Standing::Counts | Standing::Silent => Duration::ZERO,
            Standing::Slow => {
                let doublings = self.slow_times.saturating_sub(1).min(KEEP_UP_DOUBLINGS_MAX);
                patience.saturating_mul(KEEP_UP_FACTOR << doublings)
            }
        }
    }

    /// It holds the window from now on.
    pub fn count_again(&mut self, now: Time) {
        if !self.counts() {
            (self.standing, self.back_at) = (Standing::Counts, now);
            (self.held, self.blamed, self.keeps_up_since) = (Balance::default(), Balance::default(), None);
        }
        (self.unanswered, self.excused, self.told) = (0, false, false);
    }

    /// It asks for repair of segments. If they begin farther on than before it gets on, however slowly.
    pub fn on_request(&mut self, segments: &Range<u64>) {
        self.heard = true;
        if segments.start > self.repaired {
            self.repaired = segments.start;
            (self.unanswered, self.full_answers) = (0, 0);
        }
        self.reached.seen = self.reached.seen.max(segments.end);
        self.asked = self.asked.saturating_add(segments.end.saturating_sub(segments.start));
        let tolerated =
            LOST_TOLERATED + self.reached.acked.saturating_sub(self.kept_from) / LOST_TOLERATED_ONE_IN;
        if self.loses && self.asked > tolerated {
            self.keeps_up_since = None;
        }
    }

    /// It asked for what can no longer be repaired, of which there is nothing before `first`: it may be here now, but it did not
    /// keep up. What it asks for though it acknowledged it crossed that.
    pub fn on_refused(&mut self, now: Time, first: u64) {
        self.keeps_up_since = None;
        if self.reached.acked >= first {
            return;
        }
        let (since, _, told) = self.loses_now.unwrap_or((self.got_on, first, Time::ZERO));
        let is_due = self.loses_now.is_none() || now >= told + LOST_AGAIN;
        if is_due {
            self.lost = Some(since);
        }
        self.loses_now = Some((since, first, if is_due { now } else { told }));
    }

    /// It held others back from `from` to `now`, and was asked for what comes before `request`. True if it did so for as long
    /// as `patience`, other time deducted, and was asked often enough meanwhile.
    pub fn on_held(&mut self, from: Time, now: Time, request: u64, patience: Duration) -> bool {
        let before = self.held.deduct(from, |other| other * 2 / FREE_TIME_TWO_IN);
        if before.is_zero() {
            self.held_requests = 0;
        }
        if self.held_requests == 0 || self.held_request != request {
            (self.held_requests, self.held_request) = (self.held_requests + 1, request);
        }
        let held = self.held.add(from, now);
        let often = self.held_requests >= HELD_REQUESTS_MIN;
        held >= patience && (often || held >= patience.saturating_mul(HELD_FACTOR))
    }

    /// Another one held others back for so long, and this one was among those who had room.
    pub fn on_other_held(&mut self, span: Duration) {
        self.held.time = self.held.time.saturating_sub(span.saturating_mul(OTHERS_TIME_FACTOR));
    }

    /// Its losses made the window small, and so held others back, from `from` to `now`. True if altogether they did so for
    /// as long as `patience`.
    pub fn on_blamed(&mut self, from: Time, now: Time, patience: Duration) -> bool {
        self.blamed.deduct(from, |other| other.saturating_mul(LOSSLESS_TIME_FACTOR));
        self.blamed.add(from, now) >= patience
    }

    /// It held others back for too long, because it `loses` too much or otherwise.
    pub fn on_slow(&mut self, now: Time, patience: Duration, loses: bool) {
        self.loses = loses;
        let is_forgiven = now.since(self.back_at) > patience.saturating_mul(FORGIVEN_FACTOR);
        self.slow_times = if is_forgiven { 1 } else { self.slow_times + 1 };
        (self.standing, self.told, self.keeps_up_since) = (Standing::Slow, false, None);
        (self.held, self.blamed) = (Balance::default(), Balance::default());
    }
}
