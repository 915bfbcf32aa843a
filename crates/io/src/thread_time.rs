//! How much processor time a thread used, for any thread that asks: the thread itself does nothing for it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::{ThreadClock, thread_clock};

/// The time of one thread, also after it ended.
#[derive(Debug, Default)]
pub(crate) struct ThreadTime(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    clock: Option<ThreadClock>,
    /// Once it ended.
    used_ns: u64,
}

impl ThreadTime {
    /// Does a thread's work in the calling thread, whose time it is from now on.
    pub fn run(self: &Arc<ThreadTime>, work: impl FnOnce()) {
        self.state().clock = thread_clock();
        work();
        let mut state = self.state();
        state.used_ns = state.clock.take().and_then(|clock| clock.read_ns()).unwrap_or_default();
    }

    /// Nanoseconds that the thread used so far; 0 where the system does not tell.
    pub fn used_ns(&self) -> u64 {
        let state = self.state();
        // The lock keeps the thread from ending meanwhile.
        state.clock.as_ref().and_then(ThreadClock::read_ns).unwrap_or(state.used_ns)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn another_thread_reads_what_a_thread_used_while_it_runs_and_afterwards() {
        let time = Arc::new(ThreadTime::default());
        assert_eq!(time.used_ns(), 0);
        let ((told, tells), (heard, hears)) = (channel(), channel());
        let thread = {
            let time = time.clone();
            std::thread::spawn(move || {
                time.run(|| {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(30) {
                        std::hint::spin_loop();
                    }
                    told.send(()).unwrap();
                    hears.recv().unwrap();
                });
            })
        };
        tells.recv().unwrap();
        let busy = time.used_ns();
        assert!(busy > 0);
        // It waits now, and a thread that waits uses nothing.
        std::thread::sleep(Duration::from_millis(30));
        assert!(time.used_ns() < busy + 20_000_000);
        heard.send(()).unwrap();
        thread.join().unwrap();
        assert!(time.used_ns() >= busy);
    }
}
