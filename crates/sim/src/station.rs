//! What a simulated network moves datagrams for: an engine, its application, and its clocks.

use shoal_norm::{Destination, Source, Time};

use crate::cable::WireId;

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

    // --- connections, for stations that have cables ---

    /// It is at an end of a cable; whether it is the one that dials.
    fn add_cable(&mut self, _now: Time, _cable: usize, _dials: bool) {}

    /// A cable to dial on.
    fn poll_dial(&mut self, _now: Time) -> Option<usize> {
        None
    }

    /// A connection will be there on a cable, or the other end is not to be reached.
    fn dialled(&mut self, _now: Time, _cable: usize, _wire: Option<WireId>) {}

    /// A connection is there; and a random number.
    fn handle_open(&mut self, _now: Time, _wire: WireId, _fresh: u64) {}

    /// Bytes came over a connection.
    fn handle_bytes(&mut self, _now: Time, _wire: WireId, _bytes: &[u8]) {}

    /// A connection ended.
    fn handle_end(&mut self, _now: Time, _wire: WireId) {}

    /// What it says on a connection, at the most so many bytes.
    fn speak(&mut self, _now: Time, _wire: WireId, _room: usize) -> Vec<u8> {
        Vec::new()
    }

    /// Whether it has said its last word on a connection.
    fn is_through(&self, _wire: WireId) -> bool {
        false
    }

    /// A connection that it closes.
    fn poll_close(&mut self) -> Option<WireId> {
        None
    }
}
