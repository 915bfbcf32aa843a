//! The receiving half of a session: one [`remote::Remote`] for each sender that was heard.

pub mod asked;
pub mod blocks;
pub mod commands;
pub mod entry;
pub mod feedback;
pub mod front;
pub mod given_up;
pub mod joining;
pub mod missing;
pub mod nack;
pub mod nack_pacer;
pub mod object;
pub mod object_acks;
pub mod object_requests;
pub mod objects;
pub mod parity;
pub mod partial_block;
pub mod reader;
pub mod remote;
pub mod remotes;
pub mod requests;
pub mod rest;
pub mod scope;
pub mod slot;
pub mod stream;
pub mod window;

pub use reader::{Chunk, Take};
