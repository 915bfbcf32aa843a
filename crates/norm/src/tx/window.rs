//! How far a stream may be ahead of its receivers: as far as they have room for, and as the path takes it.
//!
//! The *limit* is the receiver window: what is not acknowledged can be repaired. Within it the window is *open* for what
//! is on its way, as far as that is not lost in numbers. No longer on its way is what everybody who counts has seen,
//! since a NACK for a segment shows that its sender saw all before it, and what was sent a round trip ago.
//! A *round* lasts from sending something until everybody saw it.
//!
//! | state | in a round                                               | do                                            |
//! |-------|----------------------------------------------------------|-----------------------------------------------|
//! | free  | most of the window was used, nothing was lost            | open twice as far                             |
//! |       | … but something was lost, or waited in a queue           | met; open by a 128th                          |
//! |       | more than two segments are lost                          | met; open half as far                         |
//! | met   | most of the window was used                              | open by a 128th                               |
//! |       | more is lost than two segments and an 8th of the window  | open less far by what is lost, at least a 4th |
//! |       | anything is lost, after 4 rounds with a queue and no loss | the same                                     |
//! | any   | what was sent before it opened less far is not seen yet  | nothing, whatever is lost                     |
//!
//! It begins free, and has met the path's bound afterwards. A round that took 5 ms longer than twice the shortest one
//! waited in a queue. So a stream begins like TCP and finds the size of a queue on its way without flooding it, while
//! losses that have nothing to do with the window, a few in a hundred, leave it open. Without any it is open after a
//! few round trips, and stays so.
//!
//! If the window becomes smaller again and again on behalf of one and the same node, and that loses more than the window
//! bears, it is to *blame*: the path to everybody would lose for others too, who would now and then be the first to say so.
//!
//! Only a stream that nothing else paces looks for what the path takes: given a rate, the window is open to its limit.

use std::time::Duration;

use super::acks::Reached;
use crate::NodeId;
use crate::time::Time;

/// Segments it is open for at first, and at the least.
const OPEN_FIRST: u64 = 32;
const OPEN_MIN: u64 = 16;
/// So many may be lost in a round, beside one in so many of the window.
pub const LOST_TOLERATED: u64 = 2;
pub const LOST_TOLERATED_ONE_IN: u64 = 8;
/// One in so many segments is given up when too many are lost, and won when not.
const SHRINK_ONE_IN: u64 = 4;
const GROW_ONE_IN: u64 = 128;
/// What is lost after so many rounds without loss and with a queue, the queue did not take.
const LOSSLESS_ROUNDS: u32 = 4;
/// A round that takes this much longer than twice the shortest one fills a queue.
const QUEUE_MIN: Duration = Duration::from_millis(5);

/// Who made the window smaller so many times in a row is to blame for that, until it is as open as before or nothing was
/// lost in so many rounds.
const BLAMED_TIMES: u32 = 8;
const BLAMED_ROUNDS: u32 = 64;
/// Who lost nothing for so long is not to blame now: a program that was stopped for a moment drops much at once, and then
/// nothing.
const BLAMED_AFTER_LOSS: Duration = Duration::from_millis(100);

/// On whose behalf the window became smaller.
#[derive(Copy, Clone, Debug)]
struct Blame {
    node: NodeId,
    /// How many times in a row.
    times: u32,
    /// What it lost since then, of what was sent since `from`.
    lost: u64,
    from: u64,
    lost_at: Time,
    /// How far it was open before anybody made it smaller.
    open: u64,
}

/// What is being waited for.
#[derive(Copy, Clone, Debug)]
struct Round {
    began: Time,
    /// It is over when everybody saw what comes before this segment.
    end: u64,
    lost: u64,
    /// What is lost in it was sent before the window became smaller.
    shrunk: bool,
    /// Most of the window was used.
    used: bool,
}

/// The window of one stream, in segments.
#[derive(Debug, Default)]
pub struct SendWindow {
    limit: u64,
    open: u64,
    /// Something else decides how fast to send.
    paced: bool,
    /// Neither loss nor a queue was met yet.
    free: bool,
    round: Option<Round>,
    /// Rounds without loss, up to the last one.
    lossless: u32,
    /// How long rounds without loss took: the last one, and the shortest one.
    pub round_trip: Duration,
    shortest: Duration,
    /// What was sent before this segment is no longer on its way, whether anybody told or not.
    passed: u64,
    /// When that is true of what was sent before a later one.
    passes: Option<(Time, u64)>,
    blame: Option<Blame>,
    /// How much was sent when something was lost last.
    sent: u64,
}

impl SendWindow {
    pub fn new(limit: u64) -> SendWindow {
        let open = OPEN_FIRST.min(limit);
        SendWindow { limit, open, free: true, shortest: Duration::MAX, ..SendWindow::default() }
    }

    /// Whether something else decides how fast to send.
    pub fn set_paced(&mut self, paced: bool) {
        self.paced = paced;
    }

    /// No more than so many segments can be kept.
    pub fn limit_to(&mut self, segments: u64) {
        self.limit = self.limit.min(segments.max(1));
        self.open = self.open.min(self.limit);
    }

    /// Segments before this one may be sent.
    pub fn end(&self, reached: Reached) -> u64 {
        (reached.acked + self.limit).min(reached.seen.max(self.passed) + self.open())
    }

    /// How many segments may be on their way.
    pub fn open(&self) -> u64 {
        if self.paced { self.limit } else { self.open }
    }

    /// The most to send in one go: what follows is on its way while the first part is acknowledged.
    pub fn run_max(&self) -> u64 {
        (self.open() / 2).max(1)
    }

    /// Everything before `sent` was sent. True if most of the window is used.
    pub fn on_sent(&mut self, now: Time, sent: u64, reached: Reached) -> bool {
        let is_used = |from: u64, most: u64| sent.saturating_sub(from) >= (most * 3 / 4).max(1);
        let used = is_used(reached.seen, self.open());
        if self.round.is_none() && sent > reached.seen {
            self.round = Some(Round { began: now, end: sent, lost: 0, shrunk: false, used: false });
        }
        if let Some(round) = &mut self.round {
            round.used |= used;
        }
        used || is_used(reached.acked, self.limit)
    }

    /// Takes note of the time: what was sent a round trip ago came, or was lost.
    pub fn pass_time(&mut self, now: Time, grtt: Duration, sent: u64) {
        if let Some((_, passed)) = self.passes.take_if(|(at, _)| *at <= now) {
            self.passed = passed;
        }
        if self.passes.is_none() && sent > self.passed && !self.free {
            self.passes = Some((now + grtt.max(self.round_trip), sent));
        }
    }

    /// When to take note of it.
    pub fn deadline(&self) -> Time {
        self.passes.map_or(Time::NEVER, |(at, _)| at)
    }

    /// Everybody got so far.
    pub fn on_reached(&mut self, now: Time, reached: Reached) {
        let Some(round) = self.round.take_if(|round| reached.seen >= round.end) else { return };
        if round.lost > 0 {
            self.lossless = 0;
        } else if !round.shrunk {
            self.lossless += 1;
            self.round_trip = now.since(round.began);
            self.shortest = self.shortest.min(self.round_trip);
        }
        if round.used && !round.shrunk {
            self.free &= round.lost == 0 && !self.meets_queue();
            let more = if self.free { self.open } else { (self.open / GROW_ONE_IN).max(1) };
            self.open = (self.open + more).min(self.limit);
        }
        let over = self.lossless >= BLAMED_ROUNDS;
        self.blame = self.blame.filter(|blame| !over && self.open < blame.open);
    }

    /// Whether what was sent lately waited in a queue.
    fn meets_queue(&self) -> bool {
        self.round_trip > self.shortest.saturating_mul(2).saturating_add(QUEUE_MIN)
    }

    /// The node that keeps the window small, if it is one alone and loses still.
    pub fn blamed(&self, now: Time) -> Option<NodeId> {
        let is_blamed = |blame: &Blame| {
            let borne = self.sent.saturating_sub(blame.from) / LOST_TOLERATED_ONE_IN;
            let loses_still = now.since(blame.lost_at) <= BLAMED_AFTER_LOSS;
            blame.times >= BLAMED_TIMES && blame.lost > borne && loses_still
        };
        self.blame.filter(is_blamed).map(|blame| blame.node)
    }

    /// Who was to blame no longer counts: it is open again as far as it was.
    pub fn forgive(&mut self) {
        if let Some(blame) = self.blame.take() {
            self.open = self.open.max(blame.open);
            self.round = None;
        }
    }

    /// `node`, who counts, lost so many segments, of which nobody had told yet.
    pub fn on_lost(&mut self, now: Time, node: NodeId, sent: u64, segments: u64) {
        let overflow = self.meets_queue() && self.lossless >= LOSSLESS_ROUNDS;
        let tolerated = match (overflow, self.free) {
            (true, _) => 0,
            (false, true) => LOST_TOLERATED,
            (false, false) => LOST_TOLERATED + self.open / LOST_TOLERATED_ONE_IN,
        };
        self.sent = sent;
        if let Some(blame) = self.blame.as_mut().filter(|blame| blame.node == node) {
            blame.lost += segments;
            blame.lost_at = now;
        }
        let Some(round) = &mut self.round else { return };
        round.lost += segments;
        if !round.shrunk && round.lost > tolerated {
            // Where it opened too far at once, it was open half as far before.
            let less = if self.free { self.open / 2 } else { round.lost.max(self.open / SHRINK_ONE_IN) };
            self.blame = match self.blame {
                Some(blame) if blame.node == node => Some(Blame { times: blame.times + 1, ..blame }),
                other => {
                    let open = other.map_or(0, |other| other.open).max(self.open);
                    Some(Blame { node, times: 1, lost: 0, from: sent, lost_at: now, open })
                }
            };
            self.open = self.open.saturating_sub(less).max(OPEN_MIN.min(self.limit));
            self.free = false;
            *round = Round { began: now, end: sent, lost: 0, shrunk: true, used: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 700;
    const NOW: Time = Time::from_nanos(2);

    /// A path that carries a segment per millisecond and holds so many in its queue, and a sender that always sends
    /// all its window lets it. What is lost is known when what followed it would have come.
    struct Path {
        now: Time,
        queue: u64,
        loses: fn(u64) -> bool,
        window: SendWindow,
        sent: u64,
        seen: u64,
        lost: u64,
    }

    impl Path {
        fn new(queue: u64, loses: fn(u64) -> bool) -> Path {
            let window = SendWindow::new(LIMIT);
            Path { now: Time::from_nanos(1), queue, loses, window, sent: 0, seen: 0, lost: 0 }
        }

        fn round(&mut self) -> &mut Path {
            let reached = Reached { acked: self.seen, seen: self.seen };
            let first = self.sent;
            self.sent = self.window.end(reached);
            self.window.on_sent(self.now, self.sent, reached);
            let overflow = (self.sent - self.seen).saturating_sub(self.queue);
            let lost = overflow + (first..self.sent).filter(|segment| (self.loses)(*segment)).count() as u64;
            self.now += Duration::from_millis((self.sent - self.seen).min(self.queue));
            self.seen = self.sent;
            self.lost += lost;
            if lost > 0 {
                self.window.on_lost(self.now, 1, self.sent, lost);
            }
            self.window.on_reached(self.now, Reached { acked: self.seen, seen: self.seen });
            self
        }

        fn rounds(mut self, count: usize) -> Path {
            for _ in 0..count {
                self.round();
            }
            self
        }
    }

    #[test]
    fn without_loss_and_queue_it_doubles_up_to_its_limit() {
        let mut path = Path::new(u64::MAX, |_| false);
        for expected in [32, 64, 128, 256, 512, LIMIT, LIMIT] {
            assert_eq!(path.window.open(), expected);
            path.round();
            path.window.shortest = Duration::from_secs(60);
        }
    }

    #[test]
    fn it_finds_the_size_of_a_queue_and_hardly_loses_anything_there() {
        let mut path = Path::new(130, |_| false).rounds(100);
        path.lost = 0;
        let from = path.sent;
        let mut widths = Vec::new();
        for _ in 0..1000 {
            widths.push(path.round().window.open());
        }
        let mean = widths.iter().sum::<u64>() as f64 / widths.len() as f64;
        assert!((100.0..=131.0).contains(&mean), "{mean} segments");
        assert!(path.lost * 200 < path.sent - from, "{} of {} lost", path.lost, path.sent - from);
    }

    #[test]
    fn a_few_losses_in_a_hundred_leave_it_open() {
        let mut path = Path::new(u64::MAX, |segment| segment % 33 == 0);
        path.window.shortest = Duration::from_secs(60);
        let path = path.rounds(200_000);
        assert!(path.window.open() > LIMIT / 2, "{} segments", path.window.open());
    }

    #[test]
    fn what_was_sent_a_round_trip_ago_does_not_hold_up_more() {
        let mut path = Path::new(130, |_| false).rounds(100);
        let (open, reached) = (path.window.open(), Reached { acked: path.seen, seen: path.seen });
        let sent = path.window.end(reached);
        path.window.pass_time(path.now, Duration::ZERO, sent);
        assert_eq!(path.window.end(reached), sent);
        path.window.pass_time(path.window.deadline(), Duration::ZERO, sent);
        assert_eq!(path.window.end(reached), sent + open);
    }

    #[test]
    fn whatever_is_lost_it_stays_open_for_a_few() {
        let path = Path::new(u64::MAX, |_| true).rounds(100);
        assert_eq!(path.window.open(), OPEN_MIN);
    }

    #[test]
    fn what_was_sent_before_it_shrank_does_not_shrink_it_again() {
        let mut window = SendWindow::new(LIMIT);
        (window.open, window.free) = (400, false);
        let reached = Reached { acked: 0, seen: 0 };
        window.on_sent(Time::from_nanos(1), 400, reached);
        window.on_lost(Time::from_nanos(2), 1, 400, 60);
        assert_eq!(window.open(), 300);
        window.on_lost(Time::from_nanos(3), 1, 400, 60);
        window.on_reached(Time::from_nanos(4), Reached { acked: 0, seen: 399 });
        window.on_lost(Time::from_nanos(5), 1, 400, 60);
        assert_eq!(window.open(), 300);
    }

    #[test]
    fn who_alone_keeps_it_small_is_to_blame_and_it_opens_again_without_it() {
        let mut window = SendWindow::new(LIMIT);
        (window.open, window.free) = (400, false);
        let lose = |window: &mut SendWindow, node: NodeId| {
            let reached = Reached { acked: 0, seen: 0 };
            window.round = None;
            window.on_sent(Time::from_nanos(1), 400, reached);
            window.on_lost(Time::from_nanos(2), node, 400, 60);
        };
        for _ in 1..BLAMED_TIMES {
            lose(&mut window, 7);
        }
        assert_eq!(window.blamed(NOW), None);
        lose(&mut window, 8);
        lose(&mut window, 7);
        assert_eq!(window.blamed(NOW), None, "others lose, too");
        let open = window.open();
        for _ in 1..BLAMED_TIMES {
            lose(&mut window, 7);
        }
        assert_eq!(window.blamed(NOW), Some(7));
        assert_eq!(window.open(), OPEN_MIN);
        assert_eq!(window.blamed(NOW + 2 * BLAMED_AFTER_LOSS), None, "it loses no longer");
        let mut passed = SendWindow { round: None, ..SendWindow::new(LIMIT) };
        (passed.blame, passed.open, passed.free) = (window.blame, window.open, false);
        passed.sent = window.sent;
        for segment in 1..=u64::from(BLAMED_ROUNDS) {
            assert_eq!(passed.blamed(NOW), Some(7), "round {segment}");
            passed.on_sent(
                Time::from_nanos(segment),
                segment,
                Reached { acked: segment - 1, seen: segment - 1 },
            );
            passed.on_reached(Time::from_nanos(segment), Reached { acked: segment, seen: segment });
        }
        assert_eq!(passed.blamed(NOW), None, "it lost nothing for a long time");
        let mut seldom = window.blame.unwrap();
        (seldom.lost, seldom.from) = (10, 320);
        let seldom = SendWindow { blame: Some(seldom), sent: 400, ..SendWindow::new(LIMIT) };
        assert_eq!(seldom.blamed(NOW), None, "an eighth is borne");
        window.forgive();
        assert!(window.open() >= open && window.blamed(NOW).is_none());
    }

    #[test]
    fn given_a_rate_it_is_open_to_its_limit() {
        let mut window = SendWindow::new(LIMIT);
        window.set_paced(true);
        assert_eq!(window.end(Reached { acked: 5, seen: 50 }), 5 + LIMIT);
        window.set_paced(false);
        assert_eq!(window.end(Reached { acked: 5, seen: 50 }), 50 + OPEN_FIRST);
        assert_eq!(window.end(Reached { acked: 5, seen: 5 + LIMIT }), 5 + LIMIT, "the limit holds anyway");
    }
}
