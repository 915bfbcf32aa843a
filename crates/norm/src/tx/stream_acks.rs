//! Who has how much of a stream, and how far it may therefore go.

use std::ops::Range;
use std::time::Duration;

use super::stream::TxStream;
use super::window::SendWindow;
use crate::NodeId;
use crate::time::Time;

impl TxStream {
    /// The application wants to know when everybody has everything written so far.
    pub fn want_acks(&mut self, now: Time) {
        self.push();
        self.acks.want(self.head);
        self.ask(now);
    }

    /// Asks for acknowledgement of what was sent, if the application waits for it, or if enough of the
    /// window is unacknowledged. Never of what is still to be sent: nobody could acknowledge it, and the
    /// window would never move again.
    pub fn ask(&mut self, now: Time) {
        let epoch_over = self.take_epoch_end();
        let due = match (&mut self.window, self.acks.reached) {
            // Small amounts sent one by one fill the window with segments, but hardly with bytes.
            (Some(window), Some(reached)) => {
                let bytes = (window.open() * self.cache.segment_bytes() as u64 / 8).max(1);
                let used = window.on_sent(now, self.sent, reached);
                let over = match self.epoch_messages {
                    None => self.sent_bytes - self.asked_bytes >= bytes,
                    Some(_) => epoch_over,
                };
                self.sent > reached.acked && (used || over)
            }
            _ => false,
        };
        if due || self.acks.is_answer_owed(self.sent) {
            self.asked_bytes = self.sent_bytes;
            self.acks.request(now, self.sent);
        }
    }

    /// How long an epoch took that every member acknowledged just now; once.
    pub fn take_epoch(&mut self, now: Time) -> Option<Duration> {
        if self.quiet { None } else { self.acks.take_round(now) }
    }

    /// Whether the last message of an epoch was sent since this was asked last.
    fn take_epoch_end(&mut self) -> bool {
        let before = self.epoch_ends.len();
        while self.epoch_ends.front().is_some_and(|&segment| segment < self.sent) {
            self.epoch_ends.pop_front();
        }
        self.epoch_ends.len() < before
    }

    /// `node` has everything before `segment`. One that fell silent counts again when it has caught up: earlier,
    /// everybody else would wait for it to.
    pub fn on_ack(&mut self, now: Time, node: NodeId, segment: u64) {
        self.account_held(now);
        let caught_up = self.window.as_ref().map_or(0, |window| self.sent.saturating_sub(window.open()));
        if !self.acks.on_ack(now, node, segment, caught_up) {
            self.acks.on_full(node);
        }
        self.on_reached(now);
        self.ask(now);
    }

    /// Takes note of who held back what waits to be sent, until now.
    fn account_held(&mut self, now: Time) {
        let Some(window) = &mut self.window else { return };
        if let Some(since) = self.held_since.take() {
            let sent = self.sent;
            if self.acks.on_held(since, now, window.blamed(now), |reached| window.end(reached) <= sent) {
                window.forgive();
            }
        }
        self.held_since = (self.waiting() > 0 && self.sendable() <= self.sent).then_some(now);
    }

    /// `node` asks for repair of segments, `lost` of which nobody had asked for yet.
    pub fn on_request(&mut self, now: Time, node: NodeId, segments: &Range<u64>, lost: u64) {
        self.account_held(now);
        if segments.start < self.first {
            self.acks.on_refused(now, node, self.first);
        }
        if self.acks.on_request(node, segments) {
            self.acks.settle_requests();
            if let Some(window) = &mut self.window {
                window.on_lost(now, node, self.sent, lost);
            }
        }
    }

    /// Somebody may have got farther.
    pub fn on_reached(&mut self, now: Time) {
        if let (Some(window), Some(reached)) = (&mut self.window, self.acks.reached) {
            window.on_reached(now, reached);
        }
    }

    /// For how long a repair that was sent may be on its way: what is asked for again before that crossed it.
    pub fn repair_hold_off(&self, grtt: Duration) -> Duration {
        self.window.as_ref().map_or(grtt, |window| grtt.max(window.round_trip))
    }

    /// Takes note of the time.
    pub fn pass_time(&mut self, now: Time, grtt: Duration) {
        if let Some(window) = &mut self.window {
            window.pass_time(now, grtt, self.sent);
        }
        self.account_held(now);
        // A new acker may owe what was sent long ago, and close the window: nothing is sent then that would ask.
        if self.waiting() > 0 && self.sendable() <= self.sent && !self.acks.is_waiting() {
            self.ask(now);
        }
    }

    /// When time alone lets it send more.
    pub fn window_deadline(&self) -> Time {
        match &self.window {
            Some(window) if self.sendable() < self.head => window.deadline(),
            _ => Time::NEVER,
        }
    }

    /// Whether something other than its window decides how fast to send.
    pub fn set_paced(&mut self, paced: bool) {
        if let Some(window) = &mut self.window {
            window.set_paced(paced);
        }
    }

    /// Whether a window keeps it from sending more than its receivers take.
    pub fn has_window(&self) -> bool {
        self.window.is_some() && self.acks.acked().is_some()
    }

    /// Who has not acknowledged everything written so far, and how many bytes each; what is no longer kept counts as
    /// full segments.
    pub fn lacking(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let end = self.head + u64::from(self.filled > 0);
        let bytes = |acked: u64| {
            let gone = self.first.saturating_sub(acked) * self.cache.segment_bytes() as u64;
            let kept =
                (acked.max(self.first)..self.head).map(|segment| self.cache.data_bytes(segment) as u64);
            gone + kept.sum::<u64>() + self.filled as u64
        };
        self.acks.lacking(end).map(move |(node, acked)| (node, bytes(acked)))
    }

    /// Whether somebody listed as acker, though he may be silent, has not acknowledged everything.
    pub fn is_owed_acks(&self) -> bool {
        !self.quiet && self.acks.is_owed(self.head)
    }

    /// Segments before this one may be sent: all, or as far as the window reaches.
    pub fn sendable(&self) -> u64 {
        match (&self.window, self.acks.reached) {
            (Some(window), Some(reached)) => self.head.min(window.end(reached)),
            _ => self.head,
        }
    }

    /// The most segments to send in one go.
    pub fn run_max(&self) -> u64 {
        self.window.as_ref().map_or(u64::MAX, SendWindow::run_max)
    }
}
