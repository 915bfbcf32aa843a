//! How publishers reach the thread of a link.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use shoal_node::hub::{LinkBell, Ring};

use super::super::engine::RUN_BYTES;
use super::thread::LinkCore;

/// What the thread is doing, as publishers need to know it.
pub mod state {
    /// It will look at the outbox before it sleeps.
    pub const BUSY: u8 = 0;
    /// It sleeps for a moment to let small amounts gather.
    pub const GATHERING: u8 = 1;
    /// It sleeps until something happens.
    pub const IDLE: u8 = 2;
}

/// How a hub reaches a NORM link, which is opened after the hub knows of it.
pub struct NormBell {
    pub(super) state: Arc<AtomicU8>,
    pub(super) link: Arc<OnceLock<Weak<LinkCore>>>,
}

impl NormBell {
    /// The bell of a link that is not open yet.
    pub fn new() -> NormBell {
        NormBell { state: Arc::new(AtomicU8::new(state::BUSY)), link: Arc::default() }
    }

    /// Another one of the same link.
    fn twin(&self) -> NormBell {
        NormBell { state: self.state.clone(), link: self.link.clone() }
    }

    /// The two halves: what the hub rings, and what the link is opened with.
    pub fn pair() -> (Box<NormBell>, NormBell) {
        let bell = NormBell::new();
        (Box::new(bell.twin()), bell)
    }

    fn shared(&self) -> Option<Arc<LinkCore>> {
        self.link.get().and_then(Weak::upgrade)
    }
}

impl Default for NormBell {
    fn default() -> NormBell {
        NormBell::new()
    }
}

impl LinkBell for NormBell {
    #[inline]
    fn is_slow(&self) -> bool {
        self.state.load(Ordering::SeqCst) == state::IDLE
    }

    #[inline]
    fn ring(&self, why: Ring) {
        match why {
            Ring::Data(_, waiting) => match self.state.load(Ordering::SeqCst) {
                state::IDLE => {
                    if let Some(shared) = self.shared() {
                        shared.send_now();
                    }
                }
                state::GATHERING if waiting >= RUN_BYTES => {
                    if let Some(shared) = self.shared() {
                        shared.waker.wake();
                    }
                }
                _ => {}
            },
            Ring::Interest => {
                if let Some(shared) = self.shared() {
                    shared.serve_now();
                }
            }
            Ring::Turn => {
                if let Some(shared) = self.shared() {
                    shared.waker.wake();
                }
            }
        }
    }
}
