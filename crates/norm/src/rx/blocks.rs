//! What a stream and an object of known length have in common where they are received.

use super::asked::AskedSegments;
use super::parity::ParityStore;
use crate::event::StreamId;
use crate::layout::Layout;
use crate::wire::Fti;

/// How it is cut into segments and blocks, and what its blocks can be repaired from.
#[derive(Debug)]
pub struct Blocks {
    pub id: StreamId,
    pub fti: Fti,
    pub layout: Layout,
    /// Parity that waits, if blocks have any.
    pub parity: Option<Box<ParityStore>>,
    /// What other receivers asked for.
    pub asked: AskedSegments,
}
