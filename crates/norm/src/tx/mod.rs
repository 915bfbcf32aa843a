//! The sending half of a session.

pub mod acker;
pub mod acks;
pub mod advertisement;
pub mod announcements;
pub mod cache;
pub mod commands;
pub mod nack_budget;
pub mod object;
pub mod object_acks;
pub mod object_window;
pub mod objects;
pub mod order;
pub mod owed;
pub mod parity;
pub mod questions;
pub mod repair_gate;
pub mod repairs;
pub mod requests;
pub mod run;
pub mod sender;
pub mod stream;
pub mod stream_acks;
pub mod template;
pub mod transmission;
pub mod window;
