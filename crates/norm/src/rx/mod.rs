//! The receiving half of a session: one [`remote::Remote`] for each sender that was heard.

pub mod nack;
pub mod remote;
pub mod stream;
pub mod window;

pub use stream::Chunk;
