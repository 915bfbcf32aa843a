//! What nodes subscribe to, as they tell each other: what a node announces to each of its neighbours ([`AskedInterest`]), and
//! what another one made of it ([`AnnouncedInterest`]).
//!
//! Subscriptions are numbered by whoever announces them. A change is announced as what began and what ended; whoever
//! missed one, or comes later, gets everything. Count and digest of all subscriptions say whether the two agree.

mod announced;
mod own;

pub use announced::{AnnouncedInterest, Applied, Entry, InterestBounds};
pub use own::{Announcer, AskedInterest, Asker, OwnInterest};

#[cfg(test)]
mod tests;
