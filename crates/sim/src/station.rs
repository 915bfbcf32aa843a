//! What a simulated network moves datagrams for: an engine, its application, and its clocks.

use shoal_norm::{Destination, Source, Time};

/// A station. Times are the simulation's; what its own clock shows is its own business.
pub trait Station {
    /// A datagram came over one of its links.
    fn handle_datagram(&mut self, now: Time, link: usize, from: Source, datagram: &[u8]);

    /// Its deadline has come.
    fn handle_timeout(&mut self, now: Time);

    /// Its turn to read what came and to write what is to be sent.
    fn turn(&mut self, now: Time);

    /// Hands over the next run of datagrams of a link. False if there is none.
    fn transmit(&mut self, now: Time, link: usize, datagram: &mut dyn FnMut(Destination, &[u8])) -> bool;

    /// Everything that could be sent now was handed over.
    fn finish_turn(&mut self, now: Time);

    /// When it wants to be called again though nothing comes.
    fn deadline(&self) -> Time;
}
