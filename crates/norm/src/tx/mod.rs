//! The sending half of a session.

pub mod acks;
pub mod cache;
pub mod repair;
pub mod sender;
pub mod stream;
