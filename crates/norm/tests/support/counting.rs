//! An allocator that counts what a thread holds, and that may have no more to give.

// A global allocator is an unsafe trait; this one only counts and passes on.
#![allow(unsafe_code, dead_code, reason = "each test uses some of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Pieces no longer than a datagram are always given: whoever asks for them does not expect a refusal.
const REFUSED_MIN: usize = 64 << 10;

thread_local! {
    // Per thread, because the test runner's own threads allocate as they please.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(isize::MAX) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
    static REFUSED_FROM: Cell<usize> = const { Cell::new(REFUSED_MIN) };
}

struct Counting;

fn count(change: isize) {
    let live = LIVE.get() + change;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

/// Whether there is no memory for so many bytes more, in a piece of so many.
fn is_refused(more: isize, piece: usize) -> bool {
    let refused = piece >= REFUSED_FROM.get() && LIVE.get() + more > MOST.get();
    REFUSED.set(REFUSED.get() + u64::from(refused));
    refused
}

// SAFETY: every call goes to the system's allocator unchanged, or gives nothing, as an allocator may.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_refused(layout.size() as isize, layout.size()) {
            return std::ptr::null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let more = size as isize - layout.size() as isize;
        if more > 0 && is_refused(more, size) {
            return std::ptr::null_mut();
        }
        count(more);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that were allocated at once while something was done, beyond those before.
pub fn peak_of<R>(act: impl FnOnce() -> R) -> (usize, R) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = act();
    ((PEAK.get() - before) as usize, result)
}

/// Does something while there are only so many bytes more. Says how often there was no memory.
pub fn with_memory<R>(bytes: usize, act: impl FnOnce() -> R) -> (u64, R) {
    MOST.set(LIVE.get() + bytes as isize);
    REFUSED.set(0);
    let result = act();
    MOST.set(isize::MAX);
    (REFUSED.get(), result)
}

/// Does something while there is no memory for pieces of so many bytes and more. Says how often there was none.
pub fn without_pieces<R>(bytes: usize, act: impl FnOnce() -> R) -> (u64, R) {
    REFUSED_FROM.set(bytes);
    let result = with_memory(0, act);
    REFUSED_FROM.set(REFUSED_MIN);
    result
}
