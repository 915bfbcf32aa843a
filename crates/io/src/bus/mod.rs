//! Publish and subscribe: a hub, its links with their threads, and the places where threads wait for it.

mod handle;
mod reader;

pub use handle::{Bus, BusOptions, Flush, InprocOptions, TcpOptions, UdpOptions};
pub use reader::Reader;
