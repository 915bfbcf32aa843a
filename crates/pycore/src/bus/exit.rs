//! The end of the interpreter.
//!
//! A thread that takes the interpreter's lock after the interpreter is gone is ended by it where it stands,
//! and a thread that stands in Rust takes the whole process down with it. So every wait without the lock is
//! counted, and the interpreter's exit waits, shortly, until nobody is left in one; connections are closed
//! by then, and what is closed does not wait.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

use crate::convert::duration;

static WAITING: AtomicUsize = AtomicUsize::new(0);
static EXITING: AtomicBool = AtomicBool::new(false);
/// The thread on which the interpreter exits.
static MAIN: Mutex<Option<ThreadId>> = Mutex::new(None);

/// `py.detach`, counted.
pub fn detached<R: Send>(py: Python<'_>, wait: impl FnOnce() -> R + Send) -> R {
    WAITING.fetch_add(1, Ordering::SeqCst);
    let result = py.detach(wait);
    WAITING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Says that the interpreter exits, on this thread.
#[pyfunction]
pub fn mark_exiting() {
    *MAIN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(std::thread::current().id());
    EXITING.store(true, Ordering::SeqCst);
}

/// Whether the interpreter exits, and this thread is not the one that does.
#[pyfunction]
pub fn is_abandoned() -> bool {
    let main = || *MAIN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    EXITING.load(Ordering::SeqCst) && main() != Some(std::thread::current().id())
}

/// Between two waits: raises what a signal asks for, and ends a thread that is left behind at exit.
pub fn check(py: Python<'_>) -> PyResult<()> {
    if is_abandoned() {
        return Err(PySystemExit::new_err(()));
    }
    py.check_signals()
}

/// Waits until no other thread is in a wait, or about to come out of one. False if the time was over first.
#[pyfunction]
pub fn wait_for_waiting_threads(py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
    let limit = duration("timeout_s", timeout_s)?;
    let began = Instant::now();
    while WAITING.load(Ordering::SeqCst) > 0 {
        if began.elapsed() >= limit {
            return Ok(false);
        }
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
    }
    Ok(true)
}

/// In a forked child nobody waits but those who begin to.
pub fn forget_waiting() {
    WAITING.store(0, Ordering::SeqCst);
}
