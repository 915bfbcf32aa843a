//! Shoal's frames and message encoding.

#![forbid(unsafe_code)]

pub mod frame;
