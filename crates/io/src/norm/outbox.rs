//! What waits to be sent: one bounded buffer of frames per lane.
//!
//! Publishers append, the link's thread takes the whole buffer and leaves its emptied one in exchange,
//! so neither allocates in the steady state and neither holds the lock for longer than a copy.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_wire::frame;

use crate::bell::{Bell, Bells};

/// What to do when a lane is full.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Full {
    /// Wait for room, so long at the most.
    Wait(Option<Duration>),
    /// Refuse.
    Refuse,
}

/// Why nothing was appended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The lane is full, and stayed so for as long as was allowed.
    Full,
    /// The link is closed.
    Closed,
    /// Longer than a frame may be: its length, and the bound.
    TooLong(usize, usize),
    /// There is no such lane.
    NoLane,
}

impl fmt::Display for SendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => {
                write!(out, "the send buffer is full: its receivers are slower than its publishers")
            }
            SendError::Closed => write!(out, "the link is closed"),
            SendError::TooLong(length, bound) => {
                write!(out, "a message of {length} bytes is longer than the bound of {bound} bytes")
            }
            SendError::NoLane => write!(out, "there is no such lane"),
        }
    }
}

impl std::error::Error for SendError {}

#[derive(Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    /// Bytes ever appended.
    appended: u64,
}

#[derive(Debug)]
struct State {
    lanes: Vec<Lane>,
    closed: bool,
    writers_waiting: usize,
    /// Somebody was refused, and may try again when there is room.
    refused: bool,
}

/// The buffers.
#[derive(Debug)]
pub struct Outbox {
    state: Mutex<State>,
    room: Condvar,
    bells: Bells,
    /// Bytes of each lane that its stream has taken, ever.
    written: Box<[AtomicU64]>,
    lane_bytes_max: usize,
    message_bytes_max: usize,
}

impl Outbox {
    /// Empty buffers for so many lanes.
    pub fn new(lanes: usize, lane_bytes_max: usize, message_bytes_max: usize) -> Outbox {
        let written = (0..lanes).map(|_| AtomicU64::new(0)).collect();
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        Outbox {
            written,
            state: Mutex::new(State { lanes, closed: false, writers_waiting: 0, refused: false }),
            room: Condvar::new(),
            bells: Bells::default(),
            lane_bytes_max,
            message_bytes_max: message_bytes_max.min(frame::FRAME_BYTES_MAX),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends one frame made of `parts`. Returns how many bytes wait in the lane now. A frame larger
    /// than the lane is taken when the lane is empty, so the lane's bound is exceeded by one frame at most.
    pub fn append(&self, lane: usize, parts: &[&[u8]], full: Full) -> Result<usize, SendError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.message_bytes_max {
            return Err(SendError::TooLong(length, self.message_bytes_max));
        }
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(SendError::Closed);
            }
            let waiting = state.lanes.get(lane).ok_or(SendError::NoLane)?.bytes.len();
            if waiting == 0 || waiting + length <= self.lane_bytes_max {
                break;
            }
            match full {
                Full::Refuse => {
                    state.refused = true;
                    return Err(SendError::Full);
                }
                Full::Wait(limit) => state = self.wait_for_room(state, limit)?,
            }
        }
        let Lane { bytes, appended } = &mut state.lanes[lane];
        let before = bytes.len();
        frame::write_length(length, bytes);
        for part in parts {
            bytes.extend_from_slice(part);
        }
        *appended += (bytes.len() - before) as u64;
        Ok(bytes.len())
    }

    fn wait_for_room<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> Result<MutexGuard<'a, State>, SendError> {
        state.writers_waiting += 1;
        let (mut state, timed_out) = match limit {
            None => (self.room.wait(state).unwrap_or_else(PoisonError::into_inner), false),
            Some(limit) => {
                let began = Instant::now();
                let (state, _) = self.room.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner);
                (state, began.elapsed() >= limit)
            }
        };
        state.writers_waiting -= 1;
        if timed_out { Err(SendError::Full) } else { Ok(state) }
    }

    /// Takes what waits in a lane in exchange for `emptied`. False if nothing waits.
    pub fn exchange(&self, lane: usize, emptied: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        if state.lanes[lane].bytes.is_empty() {
            return false;
        }
        emptied.clear();
        std::mem::swap(&mut state.lanes[lane].bytes, emptied);
        if state.writers_waiting > 0 {
            self.room.notify_all();
        }
        if std::mem::take(&mut state.refused) {
            self.bells.ring();
        }
        true
    }

    /// Bytes that wait, in all lanes.
    pub fn waiting(&self) -> usize {
        self.lock().lanes.iter().map(|lane| lane.bytes.len()).sum()
    }

    /// Bytes ever appended to each lane.
    pub fn appended(&self) -> Vec<u64> {
        self.lock().lanes.iter().map(|lane| lane.appended).collect()
    }

    /// Bytes of a lane that its stream has taken, ever.
    pub fn written(&self, lane: usize) -> u64 {
        self.written[lane].load(Ordering::Acquire)
    }

    pub(super) fn add_written(&self, lane: usize, bytes: usize) {
        self.written[lane].fetch_add(bytes as u64, Ordering::Release);
    }

    /// Rings `bell` as `source` when there is room after somebody was refused.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.bells.add(bell, source);
    }

    /// Takes nothing more, and lets nobody wait.
    pub fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
        self.bells.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let outbox = Outbox::new(1, 100, 1000);
        outbox.append(0, &[b"ab", b"c"], Full::Refuse).unwrap();
        outbox.append(0, &[b"d"], Full::Refuse).unwrap();
        let mut taken = Vec::new();
        assert!(outbox.exchange(0, &mut taken));
        assert_eq!(taken, b"\x03abc\x01d");
        assert!(!outbox.exchange(0, &mut taken));
    }

    #[test]
    fn a_full_lane_refuses_but_takes_one_large_frame_when_empty() {
        let outbox = Outbox::new(1, 10, 1000);
        outbox.append(0, &[&[0; 500]], Full::Refuse).unwrap();
        assert_eq!(outbox.append(0, &[b"x"], Full::Refuse), Err(SendError::Full));
        assert_eq!(outbox.append(0, &[b"x"], Full::Wait(Some(Duration::ZERO))), Err(SendError::Full));
        assert_eq!(outbox.append(0, &[&[0; 1001]], Full::Refuse), Err(SendError::TooLong(1001, 1000)));
        outbox.close();
        assert_eq!(outbox.append(0, &[b"x"], Full::Wait(None)), Err(SendError::Closed));
    }

    #[test]
    fn whoever_was_refused_hears_of_room() {
        let (outbox, bell) = (Outbox::new(1, 10, 1000), Arc::new(Bell::new().unwrap()));
        outbox.attach(&bell, 0);
        outbox.append(0, &[&[0; 10]], Full::Refuse).unwrap();
        assert!(outbox.exchange(0, &mut Vec::new()));
        assert!(bell.take().is_empty());
        outbox.append(0, &[&[0; 10]], Full::Refuse).unwrap();
        assert_eq!(outbox.append(0, &[b"x"], Full::Refuse), Err(SendError::Full));
        assert!(outbox.exchange(0, &mut Vec::new()));
        assert_eq!(bell.take(), [0]);
    }

    #[test]
    fn a_waiting_publisher_goes_on_when_the_lane_is_taken() {
        let outbox = Outbox::new(1, 10, 1000);
        outbox.append(0, &[&[0; 10]], Full::Refuse).unwrap();
        std::thread::scope(|scope| {
            let publisher = scope.spawn(|| outbox.append(0, &[b"x"], Full::Wait(None)));
            while outbox.lock().writers_waiting == 0 {
                std::thread::yield_now();
            }
            assert!(outbox.exchange(0, &mut Vec::new()));
            assert_eq!(publisher.join().unwrap(), Ok(2));
        });
    }
}
