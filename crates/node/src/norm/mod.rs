//! NORM links without sockets.
//!
//! A [`Driver`] runs a [`shoal_norm::Session`] under an [`Application`], and takes what is to be sent from the buffers of a
//! [`crate::Chains`]. [`NormBus`] is the application that makes a NORM link a link of a hub.

mod application;
mod bus;
mod driver;
mod frames;
mod groups;
mod lane;
mod lanes;
mod losses;

pub use application::{Application, Taken};
pub use bus::NormBus;
pub use driver::Driver;
pub use frames::{Frames, Unread};
pub use groups::{GROUPS_MAX, Groups, group_of_lane};
pub use lane::LaneWriter;
pub use lanes::{LANES, Lane, lane_name, lane_streams};
