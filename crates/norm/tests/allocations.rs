//! In the steady state nothing is allocated per packet, neither to send nor to receive nor to repair.

// A global allocator is an unsafe trait; this one only counts and passes on.
#![allow(unsafe_code)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use shoal_norm::{Config, Event, Session, StreamId, StreamOptions, SyncPolicy, Time};
use support::{Loss, START, carry, session};

thread_local! {
    // Per thread, because the test runner's own threads allocate as they please.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

const SEGMENT: usize = 1400;

/// A sender and a receiver that reads all it gets.
struct Transfer {
    sender: Session,
    receiver: Session,
    object: u16,
    reading: Option<StreamId>,
    loss: Loss,
    no_loss: Loss,
    now: Time,
}

impl Transfer {
    fn new(loss: f64) -> Transfer {
        let adjust = |config: &mut Config| {
            config.sync = SyncPolicy::Start;
            config.grtt_initial = Duration::from_millis(1);
        };
        let mut sender = session(1, adjust);
        let object = sender.open_stream(&StreamOptions::default()).unwrap();
        Transfer {
            sender,
            receiver: session(2, adjust),
            object,
            reading: None,
            loss: Loss::new(5, loss),
            no_loss: Loss::new(5, 0.0),
            now: START,
        }
    }

    /// Sends so many segments, a few at a time.
    fn run(&mut self, segments: usize) {
        for _ in 0..segments / 10 {
            for _ in 0..10 {
                let taken = self.sender.write(self.now, self.object, &[9; SEGMENT], true).unwrap();
                assert_eq!(taken, SEGMENT, "the cache is larger than what is under way");
            }
            carry(&mut self.sender, &mut self.receiver, self.now, &mut self.loss);
            self.now += Duration::from_micros(200);
            carry(&mut self.receiver, &mut self.sender, self.now, &mut self.no_loss);
            while self.sender.poll_event().is_some() {}
            while let Some(event) = self.receiver.poll_event() {
                if let Event::StreamOpened { stream } = event {
                    self.reading = Some(stream);
                }
            }
            if let Some(stream) = self.reading {
                while let Some(chunk) = self.receiver.read(stream) {
                    let length = chunk.bytes.len();
                    self.receiver.consume(self.now, stream, length);
                }
            }
            self.sender.handle_timeout(self.now);
            self.receiver.handle_timeout(self.now);
        }
    }
}

fn count_in_steady_state(loss: f64) -> (u64, Transfer) {
    let mut transfer = Transfer::new(loss);
    transfer.run(50_000);
    let before = allocations();
    transfer.run(10_000);
    (allocations() - before, transfer)
}

#[test]
fn ten_thousand_segments_without_loss_allocate_nothing() {
    let (count, transfer) = count_in_steady_state(0.0);
    assert_eq!(transfer.receiver.stats().segments_received, 60_000);
    assert_eq!(count, 0);
}

#[test]
fn ten_thousand_segments_with_loss_and_repair_allocate_nothing() {
    let (count, transfer) = count_in_steady_state(0.05);
    assert!(transfer.sender.stats().repairs_sent > 2_000, "{:?}", transfer.sender.stats());
    assert!(transfer.receiver.stats().nacks_sent > 100);
    assert_eq!(count, 0);
}

#[test]
fn the_allocator_counts() {
    let before = allocations();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(allocations() - before, 1);
}
