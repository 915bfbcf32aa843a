//! How the hub, which never waits, tells those who do.

/// Somebody may be waiting for what just changed. Called often and from any thread: it must be quick, and must not
/// call back into the hub.
pub trait Wake: Send + Sync {
    /// Look again.
    fn wake(&self);
}

/// For those who look by themselves, as a simulation does.
#[derive(Debug, Default)]
pub struct Asleep;

impl Wake for Asleep {
    fn wake(&self) {}
}
