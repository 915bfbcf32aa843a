//! The engine from outside, one subject to a file; one program, because linking many takes longer than running them.

#[path = "../support/mod.rs"]
mod support;

mod advertisement;
mod auth;
mod forged;
mod fuzz;
mod given_up;
mod hostile;
mod losses;
mod mutated;
mod object_numbers;
mod refusal;
mod repair_cache;
mod rest;
mod restart;
mod room;
mod shares;
mod timing;
mod watermark;
mod wrap;
