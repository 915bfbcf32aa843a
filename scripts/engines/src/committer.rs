//! One commit for everybody who waits: whoever finds nobody committing takes what all have put.

use std::sync::{Condvar, Mutex};

use crate::engine::Engine;

#[derive(Default)]
struct State {
    waiting: Vec<Vec<u8>>,
    put: u64,
    durable: u64,
    is_committing: bool,
}

pub struct Committer<'a> {
    engine: &'a dyn Engine,
    state: Mutex<State>,
    changed: Condvar,
}

impl<'a> Committer<'a> {
    pub fn new(engine: &'a dyn Engine) -> Committer<'a> {
        Committer { engine, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns when the record is durable.
    pub fn put(&self, record: &[u8]) {
        let mut state = self.state.lock().expect("no writer panics");
        state.waiting.push(record.to_vec());
        state.put += 1;
        let mine = state.put;
        while state.durable < mine {
            if state.is_committing {
                state = self.changed.wait(state).expect("no writer panics");
                continue;
            }
            state.is_committing = true;
            let (batch, reached) = (std::mem::take(&mut state.waiting), state.put);
            drop(state);
            self.engine.commit(&batch.iter().map(Vec::as_slice).collect::<Vec<_>>());
            state = self.state.lock().expect("no writer panics");
            (state.durable, state.is_committing) = (reached, false);
            self.changed.notify_all();
        }
    }
}
