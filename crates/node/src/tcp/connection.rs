//! One connection: how far its greetings are, what came of the block that is being read, and what is to be written.

use std::sync::Arc;
use std::time::Duration;

use shoal_norm::{NodeId, Time};
use shoal_wire::frame::FrameReader;
use shoal_wire::limits::CONTROL_RECORD_BYTES_MAX;

use super::block::{self, Reader, kind};
use super::greeting::Identity;
use super::rights::Rights;

/// Greetings have to be over by then.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(5);
/// Pings of all connections go out together, in so many turns of a heartbeat: each turn of its own costs as much as they do.
const BEATS: u64 = 16;
/// The end that connected measures the round trip with every such answer.
const ANSWERS: u32 = 8;
/// The last words have to be written by then.
pub(super) const ENDING: Duration = Duration::from_secs(1);

/// How far a connection is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// We said hello.
    Hailing,
    /// Nobody said anything.
    Listening,
    /// It said hello, and the owner decides whether it is let in.
    Asked,
    /// We said welcome.
    Answered,
    /// It carries a session.
    Open,
    /// What is here is still written, and nothing read.
    Ending,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub stage: Stage,
    /// We dialled.
    pub dialled: bool,
    /// The owner decides whether whoever is there is let in.
    pub is_guest: bool,
    /// What whoever is there may do, if rules count here.
    pub rights: Option<Arc<Rights>>,
    /// What it said, while that is decided, and whether it insists.
    pub hello: Option<Box<(Identity, bool)>>,
    /// The session it is about.
    pub session: u64,
    /// Whose that is, and its node.
    pub publisher: Option<u64>,
    pub node: NodeId,
    /// The longest message that it takes.
    pub message_bytes_max: u64,
    /// Who was there the last time, where we dialled.
    pub last: Option<u64>,
    /// That it is over was told.
    pub is_over: bool,
    pub reader: Reader,
    /// The records that the other side says of itself.
    pub control: FrameReader,
    out: Vec<u8>,
    /// What of it was written.
    at: usize,
    pub began: Time,
    pub heard_at: Time,
    /// After so much silence it is taken for dead.
    pub silence: Duration,
    pub ping_at: Time,
    /// A ping to be answered.
    pub pong: Option<u64>,
    /// Pings that were answered since the last one of ours.
    answers: u32,
    /// The version of what we want that was said here.
    pub announced: u64,
    /// Its socket takes no more.
    pub clogged: bool,
    /// When to say goodbye at the latest, though not everything was sent.
    pub leave_by: Option<Time>,
    /// Its session ends with it: nobody connects again.
    pub parting: bool,
    /// When it is over at the latest.
    pub end_by: Time,
}

impl Connection {
    pub fn new(now: Time, dialled: bool, session: u64) -> Connection {
        Connection {
            stage: if dialled { Stage::Hailing } else { Stage::Listening },
            dialled,
            is_guest: false,
            rights: None,
            hello: None,
            session,
            publisher: None,
            node: 0,
            message_bytes_max: u64::MAX,
            last: None,
            is_over: false,
            reader: Reader::new(),
            control: FrameReader::new(CONTROL_RECORD_BYTES_MAX),
            out: Vec::new(),
            at: 0,
            began: now,
            heard_at: now,
            silence: HANDSHAKE,
            ping_at: Time::NEVER,
            pong: None,
            answers: 0,
            announced: 0,
            clogged: false,
            leave_by: None,
            parting: false,
            end_by: Time::NEVER,
        }
    }

    /// What is to be written.
    pub fn unwritten(&self) -> &[u8] {
        &self.out[self.at..]
    }

    /// So much was written.
    pub fn wrote(&mut self, bytes: usize) {
        self.at += bytes;
        if self.at >= self.out.len() {
            self.at = 0;
            self.out.clear();
        }
    }

    /// Where to append what is to be written.
    pub fn out(&mut self) -> &mut Vec<u8> {
        if self.at > self.out.len() / 2 {
            self.out.drain(..self.at);
            self.at = 0;
        }
        &mut self.out
    }

    /// A ping came. The answer is a heartbeat, too: the end that connected leaves the pings to the other as long as they come, so
    /// that an idle connection costs each end one message and its answer.
    pub fn on_ping(&mut self, now: Time, sent_us: u64, heartbeat: Duration) {
        self.pong = Some(sent_us);
        if self.dialled {
            self.answers += 1;
            self.ping_at = if self.answers < ANSWERS { now + heartbeat + heartbeat / 4 } else { now };
        }
    }

    /// A ping is sent now. The next one is due with those of other connections, after a heartbeat at the most.
    pub fn note_ping(&mut self, now: Time, heartbeat: Duration) {
        let next = (now + heartbeat).as_nanos();
        let step = (heartbeat.as_nanos() as u64 / BEATS).max(1);
        self.answers = 0;
        self.ping_at = Time::from_nanos(next - next % step);
    }

    /// Says why it ends, and ends.
    pub fn end(&mut self, now: Time, why: &str) {
        if self.stage == Stage::Open || self.stage == Stage::Answered {
            let cut = why.len().min(500);
            let cut = (0..=cut).rev().find(|&at| why.is_char_boundary(at)).unwrap_or(0);
            block::write(kind::END, &why.as_bytes()[..cut], self.out());
        }
        self.begin_ending(now);
    }

    /// Reads nothing more.
    pub fn begin_ending(&mut self, now: Time) {
        self.stage = Stage::Ending;
        self.end_by = self.end_by.min(now + ENDING);
    }

    /// When something is said that is due at a time: not before the socket takes more.
    pub fn say_at(&self, due: Time) -> Time {
        if self.clogged { Time::NEVER } else { due }
    }

    /// When something is to be done with it, as far as it knows by itself.
    pub fn deadline(&self) -> Time {
        let silent = self.heard_at + self.silence;
        match self.stage {
            Stage::Hailing | Stage::Listening | Stage::Asked | Stage::Answered => self.began + HANDSHAKE,
            Stage::Open => silent.min(self.say_at(self.ping_at)).min(self.leave_by.unwrap_or(Time::NEVER)),
            Stage::Ending => self.end_by,
        }
    }
}
