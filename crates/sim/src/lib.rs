//! A simulated network with one clock and one seed, for the sans-IO engines.
//!
//! [`Simulation`] holds [`Station`]s, such as NORM sessions, moves their datagrams through [`link`]s that lose,
//! delay, double and reorder, and the bytes of their connections through cables that keep them in order, and lets nothing happen except in the order of its clock. Two runs
//! with the same seed and the same calls do the same, byte for byte.

#![forbid(unsafe_code)]

pub mod agenda;
mod cable;
mod dialler;
pub mod disk;
pub mod link;
pub mod log_model;
pub mod log_reader;
pub mod log_run;
pub mod node;
pub mod simulation;
pub mod station;
pub mod whole;

pub use cable::WireId;
pub use disk::{DiskFaults, SimDisk, SimFile};
pub use link::{Conditions, Port};
pub use log_run::{LogRun, run_log};
pub use node::{Clock, Delivery, Node, Occurrence};
pub use simulation::{Simulation, TraceEntry};
pub use station::Station;
pub use whole::{Flushed, Peaks, Published, Read, Whole};
