//! Engines on the simulated network and disk, one subject to a file.

mod congestion;
mod crowd;
mod equals;
mod fec;
mod freeze;
mod log_crashes;
mod log_index;
mod log_verify;
mod object_window;
mod objects;
mod recovery;
mod transfer;
mod tunnel;
