//! Best effort: messages in plain datagrams, to a group, to one peer, or to whoever asked. Nothing is repaired, acknowledged or
//! put in order again.
//!
//! Each lane is a stream of frames, cut into datagrams that say where they belong and where the first frame in them begins. After a
//! datagram that did not come, reading goes on with the next frame that begins; an older one that comes late is dropped.
//!
//! | on …              | do                                                                                        |
//! |-------------------|-------------------------------------------------------------------------------------------|
//! | announcement      | its sender is a member, and what it wants is known; who is new is announced to, soon       |
//! | data              | feed what fits; a full queue drops it                                                      |
//! | goodbye, silence  | its sender is gone                                                                         |
//! | an unknown address, where we listen | ask it to say a number again; who does is sent to from then on, and nobody else is |
//! | anything else     | count it                                                                                   |
//!
//! [`UdpLink`] is the engine: datagrams and time in, datagrams and deadlines out.

mod datagram;
mod lane;
mod link;
mod peer;

pub use link::{To, Transmit, UdpConfig, UdpCounters, UdpLink, Way};
