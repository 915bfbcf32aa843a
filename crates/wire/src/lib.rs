//! Shoal's frames and message encoding: what travels inside the streams and links of a domain.
//!
//! Sans-IO and stateless: a record is bytes in, bytes out. Writers append to a `Vec<u8>` the caller
//! owns; readers borrow from the received bytes and decode only what is asked for. Outside bytes never
//! panic: they end in a [`DecodeError`] that says what was wrong and where.
//!
//! - [`Outgoing`] and [`MessageView`] are a message on its way out and in;
//! - [`ValueWriter`] and [`read_value`] are the encoding of bodies and properties (MessagePack);
//! - [`Mark`] and [`Skip`] number the messages of a stream, [`Announce`], [`Heartbeat`], [`Welcome`] and [`Goodbye`]
//!   are what nodes say of themselves;
//! - [`Topic`] and [`TopicPattern`] are destination names and what subscribes to them.
//!
//! The format is described byte by byte in `docs/reference/wire-format.md`.

pub mod frame;
pub mod limits;

mod announce;
mod body;
mod control;
mod cursor;
mod destination;
mod error;
mod fields;
mod interest;
mod message;
mod message_id;
mod message_view;
mod priority;
mod properties;
mod record;
mod reply_status;
mod routing;
mod topic;
mod topic_pattern;
mod topic_text;
mod value;
mod value_reader;
mod value_writer;
mod varint;

pub use announce::{
    Announce, AnnounceHeader, Announced, Announcement, FACT_GROUPS, FACT_PROCESS, FACT_ROLES, Fact,
    JoinedGroups, Process, Roles,
};
pub use body::{ArrayLayout, ArrayOrder, BodyKind};
pub use control::{
    Answered, Applied, Forgets, Goodbye, Heartbeat, Mark, PassedOn, Position, Skip, SkipReason, Welcome,
};
pub use destination::{Destination, DestinationKind};
pub use error::{DecodeError, EncodeError, MessageIdError, TopicError};
pub use fields::HeaderFields;
pub use interest::{Filter, FilterKind, InterestEntry, NumberedEntry};
pub use message::Outgoing;
pub use message_id::MessageId;
pub use message_view::MessageView;
pub use priority::{Priority, PriorityClass};
pub use properties::{Properties, PropertiesWriter, PropertyIter};
pub use record::{RecordKind, WIRE_VERSION};
pub use reply_status::ReplyStatus;
pub use routing::{About, Answer, Lacking, LinkState, Loser, Question, Reach, Replay};
pub use topic::{Topic, TopicBuf, is_reserved};
pub use topic_pattern::{PatternLevel, PatternLevels, TopicPattern};
pub use topic_text::{Levels, TopicForm};
pub use value::{Scalar, Typed};
pub use value_reader::{ValueBuilder, check_value, read_value};
pub use value_writer::ValueWriter;
pub use varint::{VARINT_BYTES_MAX, read_varint, varint_len, write_varint};
