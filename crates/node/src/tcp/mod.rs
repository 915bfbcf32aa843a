//! Links over TCP: what two nodes say to each other on a connection, and what outlives one.
//!
//! Two nodes have one *session* with each other, whoever connected. It has a stream of bytes in each direction for each lane of the
//! hub, numbered by byte; a *connection* carries it, and another one takes over where the last one broke. The receiver
//! says how far it read, so what it has not got is sent again, and nothing it has.
//!
//! | state of a connection | of whom | on …                           | do                                             |
//! |-----------------------|---------|--------------------------------|------------------------------------------------|
//! | `Hailing`             | dialler | welcome                        | confirm, `Open`                                |
//! |                       |         | refusal                        | over                                           |
//! | `Listening`           | listener| hello                          | welcome, `Answered`; or refuse, `Ending`       |
//! | `Answered`            | listener| confirmation                   | `Open`                                         |
//! | `Open`                | both    | data, acknowledgement, ping, … | the session's business                         |
//! |                       |         | goodbye                        | the session ends, `Ending`                     |
//! | any but `Ending`      | both    | anything else, silence         | say why, `Ending`; the session waits for another |
//! | `Ending`              | both    | everything is written          | over                                           |
//!
//! Who listens stops reading the session's other connection before it welcomes, and says by then how far it is. Who dials does the
//! same before it confirms. So neither side is told a position that still moves.
//!
//! Both ends may connect to each other at once, and a session stands only once. If neither is confirmed, the connection stays
//! that the smaller publisher dialled; a session that is confirmed stays, whoever dialled it. Whoever is refused for a session
//! that it does not have insists, and gets a new one.
//!
//! [`TcpLinks`] is the engine: bytes and time in, bytes, deadlines and news out. When to connect is decided elsewhere.

mod agenda;
mod block;
mod connection;
mod ends;
mod flow;
mod gate;
mod greeting;
mod links;
mod meeting;
mod memory;
mod meter;
mod news;
mod rights;
mod sending;
mod session;
mod sieve;
mod visit;

pub use greeting::is_greeting_whole;
pub use links::{Bells, TcpLinks};
pub use news::{ConnectionId, LinkState, Over, Role, TcpConfig, TcpNews};
pub use rights::{Action, Rights, Rule, Rules};
