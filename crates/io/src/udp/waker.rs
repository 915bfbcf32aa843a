//! Waking a thread that waits for its sockets.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::wake_channel;
use crate::sys::{self, Borrowed, WakeEnd};

/// Makes [`Sockets::wait`](super::Sockets::wait) return, from any thread.
///
/// Wake-ups that come before the waiting thread has seen the last one cost one atomic operation and no system call.
#[derive(Clone, Debug)]
pub struct Waker(Arc<WakeChannel>);

#[derive(Debug)]
struct WakeChannel {
    reader: WakeEnd,
    /// None where the same descriptor does for both.
    writer: Option<WakeEnd>,
    pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = wake_channel()?;
        Ok(Self(Arc::new(WakeChannel { reader, writer, pending: AtomicBool::new(false) })))
    }

    /// Wakes the waiting thread, or the next that waits.
    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // Writing fails only when the channel is full, and then the waiting thread wakes anyway.
            let mut writer = self.0.writer.as_ref().unwrap_or(&self.0.reader);
            let _ = writer.write(&1u64.to_ne_bytes());
        }
    }

    pub(crate) fn descriptor(&self) -> Borrowed<'_> {
        sys::borrow(&self.0.reader)
    }

    /// Takes the wake-up back. What was published before a `wake` that this swallows is visible afterwards.
    pub(crate) fn clear(&self) {
        // Emptied first: a wake-up between the two lines is then swallowed together with the one before it, and its
        // caller's data is there to be seen; the other way round it would be lost.
        let _ = (&self.0.reader).read(&mut [0; 8]);
        self.0.pending.swap(false, Ordering::AcqRel);
    }
}
