//! Waiting for something that an engine may do, which itself never waits.
//!
//! Whoever waits looks first, remembers how often it was woken by then, and waits only if that is still true: so no
//! wake-up is missed, and waking when nobody waits costs two atomic operations.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use shoal_node::hub::Wake;

use crate::bell::{Bell, Bells};

/// Lets threads wait for each other.
#[derive(Debug, Default)]
pub struct Waiter {
    woken: AtomicU64,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    condition: Condvar,
    bells: Bells,
    has_bells: AtomicBool,
    /// Its bells ring once until [`Waiter::lower`].
    rings_once: bool,
    /// Its bells rang, and what they rang for was not taken yet.
    raised: AtomicBool,
}

impl Waiter {
    /// How often it was woken. To be asked before looking.
    pub fn seen(&self) -> u64 {
        self.woken.load(Ordering::SeqCst)
    }

    /// Waits until it was woken more often than `seen`, at the latest until `deadline`. False if the time was over.
    pub fn wait(&self, seen: u64, deadline: Instant) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut woken = self.seen() != seen;
        while !woken {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            guard = self.condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
            woken = self.seen() != seen;
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        woken
    }
}

impl Waiter {
    /// One whose bells ring once until [`Waiter::lower`], for a queue that is filled often and emptied at once.
    pub fn ringing_once() -> Waiter {
        Waiter { rings_once: true, ..Waiter::default() }
    }

    /// Rings `bell` as `source` from now on whenever it is woken.
    pub fn attach(&self, bell: &Arc<Bell>, source: u64) {
        self.bells.add(bell, source);
        self.has_bells.store(true, Ordering::SeqCst);
    }

    /// What its bells rang for was taken: they may ring again. Look once more afterwards.
    pub fn lower(&self) {
        self.raised.store(false, Ordering::SeqCst);
    }
}

impl Wake for Waiter {
    fn wake(&self) {
        self.wake_waiting();
        if self.has_bells.load(Ordering::SeqCst)
            && !(self.raised.swap(true, Ordering::SeqCst) && self.rings_once)
        {
            self.bells.ring();
        }
    }

    fn wake_waiting(&self) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Whoever looked before that is waiting once this is free.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.condition.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wake_up_between_looking_and_waiting_is_not_missed() {
        let waiter = Waiter::default();
        let seen = waiter.seen();
        waiter.wake();
        assert!(waiter.wait(seen, Instant::now() + Duration::from_secs(60)));
        assert!(!waiter.wait(waiter.seen(), Instant::now()));
    }

    #[test]
    fn a_bell_rings_once_until_what_it_rang_for_was_taken() {
        let (waiter, bell) = (Waiter::ringing_once(), Arc::new(Bell::new().unwrap()));
        waiter.attach(&bell, 5);
        waiter.wake();
        assert_eq!(bell.take(), [5]);
        waiter.wake();
        assert!(bell.take().is_empty());
        waiter.lower();
        waiter.wake();
        assert_eq!(bell.take(), [5]);
    }

    #[test]
    fn every_waiting_thread_is_woken() {
        let waiter = Waiter::default();
        std::thread::scope(|scope| {
            let threads = [0; 3].map(|_| {
                let seen = waiter.seen();
                let waiter = &waiter;
                scope.spawn(move || waiter.wait(seen, Instant::now() + Duration::from_secs(60)))
            });
            while waiter.waiting.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            waiter.wake();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        });
    }
}
