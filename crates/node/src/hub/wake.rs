//! How the hub, which never waits, tells those who do.

/// Somebody may be waiting for what just changed. Called often and from any thread: it must be quick, and must not
/// call back into the hub.
pub trait Wake: Send + Sync {
    /// Look again.
    fn wake(&self);

    /// There is room for somebody who waits. That happens all the time, and is no news to anybody else.
    fn wake_waiting(&self) {
        self.wake();
    }
}

/// For those who look by themselves, as a simulation does.
#[derive(Debug, Default)]
pub struct Asleep;

impl Wake for Asleep {
    fn wake(&self) {}
}
