//! Waking an event loop: one descriptor for everything that a program waits for, and what it was that happened.
//!
//! Each thing that can happen is a *source*, a number its owner chose. A source that rings again before the bell was
//! answered costs no system call.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::sys::{self, Descriptor};
use crate::udp::Waker;

/// A descriptor that can be read when a source rang.
#[derive(Debug)]
pub struct Bell {
    rung: Mutex<BTreeSet<u64>>,
    waker: Waker,
}

impl Bell {
    /// One that nobody rang.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell { rung: Mutex::default(), waker: Waker::new()? })
    }

    fn rung(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened to `source`.
    pub fn ring(&self, source: u64) {
        self.rung().insert(source);
        self.waker.wake();
    }

    /// The sources that rang since the last call.
    pub fn take(&self) -> Vec<u64> {
        // Silenced first: whoever rings in between is in the list, and the descriptor says so once too often.
        self.waker.clear();
        std::mem::take(&mut *self.rung()).into_iter().collect()
    }

    /// What to watch.
    pub fn descriptor(&self) -> Descriptor {
        sys::number(&self.waker.descriptor())
    }
}

/// The bells of those who want to know of one thing. Dropping a bell takes it out.
#[derive(Debug, Default)]
pub struct Bells(Mutex<Vec<(Weak<Bell>, u64)>>);

impl Bells {
    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<Bell>, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rings `bell` as `source` from now on.
    pub fn add(&self, bell: &Arc<Bell>, source: u64) {
        let mut bells = self.lock();
        bells.retain(|(other, _)| other.strong_count() > 0);
        bells.push((Arc::downgrade(bell), source));
    }

    /// It happened.
    pub fn ring(&self) {
        for (bell, source) in self.lock().iter() {
            if let Some(bell) = bell.upgrade() {
                bell.ring(*source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_tells_each_source_once_until_it_is_answered() {
        let bell = Bell::new().unwrap();
        for source in [7, 3, 7] {
            bell.ring(source);
        }
        assert_eq!(bell.take(), [3, 7]);
        assert!(bell.take().is_empty());
        bell.ring(3);
        assert_eq!(bell.take(), [3]);
    }

    #[test]
    fn a_bell_that_nobody_keeps_is_not_rung() {
        let (bells, kept, dropped) = (Bells::default(), Arc::new(Bell::new().unwrap()), Bell::new().unwrap());
        bells.add(&Arc::new(dropped), 1);
        bells.add(&kept, 2);
        bells.ring();
        assert_eq!(kept.take(), [2]);
        assert_eq!(bells.lock().len(), 1);
    }
}
