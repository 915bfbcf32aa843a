//! What happens to open handles in a forked child: they have no threads there, so they must not be used.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::errors;

static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called in every forked child.
#[pyfunction]
pub fn mark_forked() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    super::exit::forget_waiting();
}

/// In which process a handle was made.
#[derive(Copy, Clone)]
pub struct Birth(u64);

impl Birth {
    pub fn now() -> Birth {
        Birth(FORKS.load(Ordering::Relaxed))
    }

    /// How many forks lie between the first process and this one.
    pub fn forks(self) -> u64 {
        self.0
    }

    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// Refuses to work in a child.
    pub fn check(self) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(errors::forked())
    }
}
