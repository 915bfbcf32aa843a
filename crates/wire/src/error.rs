//! What can be wrong: with what this program asked for ([`EncodeError`]), with what others sent
//! ([`DecodeError`]), or with a destination name, whoever wrote it ([`TopicError`]).

use crate::limits::{
    ARRAY_DIMENSIONS_MAX, FILTERS_MAX, NUMBER_MAX, PROPERTIES_BYTES_MAX, PROPERTIES_COUNT_MAX,
    PROPERTY_NAME_BYTES_MAX, TOPIC_BYTES_MAX, VALUE_DEPTH_MAX,
};
use crate::record::WIRE_VERSION;

/// A message that cannot be encoded, because it breaks a bound. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A header field is longer than its bound.
    #[error("the {field} has {bytes} bytes; at most {max} are allowed")]
    FieldTooLong {
        /// Which field.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// Its bound.
        max: usize,
    },
    /// A property without a name.
    #[error("a property has an empty name")]
    PropertyNameEmpty,
    /// A property name longer than its bound.
    #[error("a property name has {bytes} bytes; at most {PROPERTY_NAME_BYTES_MAX} are allowed")]
    PropertyNameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// More properties than a message may have.
    #[error("a message has at most {PROPERTIES_COUNT_MAX} properties")]
    TooManyProperties,
    /// The properties together are longer than their bound.
    #[error("the properties take {bytes} bytes; at most {PROPERTIES_BYTES_MAX} are allowed")]
    PropertiesTooLong {
        /// Their encoded length.
        bytes: usize,
    },
    /// A subscription without a pattern.
    #[error("a subscription has an empty pattern")]
    PatternEmpty,
    /// A subscription with more filters than the bound.
    #[error("a subscription has {filters} filters; at most {FILTERS_MAX} are allowed")]
    TooManyFilters {
        /// How many it has.
        filters: usize,
    },
    /// Lists and mappings nested too deep.
    #[error("lists and mappings are nested more than {VALUE_DEPTH_MAX} deep")]
    TooDeep,
    /// A text, byte string, list or mapping too long for MessagePack.
    #[error("a single value has a length of {length}; MessagePack allows 4294967295")]
    ValueTooLong {
        /// Its length in bytes or elements.
        length: usize,
    },
    /// There is no memory for it.
    #[error("there is no memory for {bytes} bytes more")]
    NoMemory {
        /// What was needed.
        bytes: usize,
    },
    /// An array with more dimensions than the bound.
    #[error("the array has {dimensions} dimensions; at most {ARRAY_DIMENSIONS_MAX} are allowed")]
    TooManyDimensions {
        /// How many it has.
        dimensions: usize,
    },
    /// A priority outside 0–9.
    #[error("priority {priority} is not between 0 and 9")]
    Priority {
        /// What was asked for.
        priority: u8,
    },
}

/// Bytes from outside that are not what the format says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside something.
    #[error("the bytes end inside the {what}")]
    Truncated {
        /// Inside what.
        what: &'static str,
    },
    /// Something is followed by bytes that belong to nothing.
    #[error("{bytes} bytes are left over after the {what}")]
    LeftOver {
        /// After what.
        what: &'static str,
        /// How many.
        bytes: usize,
    },
    /// Written by a version this one does not speak.
    #[error("the sender speaks version {found} of the format, this program version {WIRE_VERSION}")]
    UnsupportedVersion {
        /// The sender's version.
        found: u8,
    },
    /// A record of a kind other than the one expected; a reader of records skips it.
    #[error("record kind {found} is not a message")]
    NotAMessage {
        /// The kind found.
        found: u8,
    },
    /// A number that no message can have.
    #[error("message number {number} is not between 1 and {NUMBER_MAX}")]
    Number {
        /// What was found.
        number: u64,
    },
    /// A priority outside 0–9.
    #[error("priority {priority} is not between 0 and 9")]
    Priority {
        /// What was found.
        priority: u8,
    },
    /// A message to nowhere.
    #[error("the message has no destination")]
    NoDestination,
    /// A destination that is not a valid name.
    #[error("the {what} is not valid: {error}")]
    Destination {
        /// Destination or reply-to.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        error: TopicError,
    },
    /// A body of a kind this version does not know.
    #[error("body kind {found} is not known to version {WIRE_VERSION} of the format")]
    UnknownBodyKind {
        /// The kind found.
        found: u8,
    },
    /// A body that needs a detail (an array's layout, an object's type) and has none.
    #[error("the body's kind needs a body detail, and the message has none")]
    NoBodyDetail,
    /// A field longer than its bound.
    #[error("the {what} has {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// Which field.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// Its bound.
        max: usize,
    },
    /// Text that is not UTF-8.
    #[error("the {what} is not UTF-8 text")]
    NotText {
        /// Which text.
        what: &'static str,
    },
    /// A variable-length number of more than 64 bits.
    #[error("the {what} does not fit 64 bits")]
    NumberTooLarge {
        /// Which number.
        what: &'static str,
    },
    /// A number outside the range its field allows.
    #[error("the {what} is {value}; at most {max} is allowed")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// The number.
        value: u64,
        /// The largest allowed.
        max: u64,
    },
    /// A MessagePack type that Shoal does not use (most extensions, and the byte 0xc1).
    #[error("MessagePack type {marker:#04x} is not used by Shoal")]
    UnknownValueType {
        /// The type's first byte.
        marker: u8,
    },
    /// A MessagePack extension that Shoal does not use.
    #[error("MessagePack extension {kind} of {bytes} bytes is not used by Shoal")]
    UnknownExtension {
        /// Its type.
        kind: i8,
        /// Its length.
        bytes: usize,
    },
    /// A list or mapping where only a single value may be: a property or a mapping's key.
    #[error("a {what} is a list or a mapping; only single values are allowed there")]
    NotSingle {
        /// Property or mapping key.
        what: &'static str,
    },
    /// A list or mapping that claims more elements than there are bytes.
    #[error("a list or mapping claims {elements} elements; the bytes that are left cannot hold them")]
    LengthClaim {
        /// How many it claims.
        elements: usize,
    },
    /// A count of more things than there are bytes.
    #[error("the {what} is {elements}; the bytes that are left cannot hold so many")]
    CountClaim {
        /// Which count.
        what: &'static str,
        /// How many it claims.
        elements: usize,
    },
    /// Lists and mappings nested too deep.
    #[error("lists and mappings are nested more than {VALUE_DEPTH_MAX} deep")]
    TooDeep,
    /// More properties than a message may have.
    #[error("the message has more than {PROPERTIES_COUNT_MAX} properties")]
    TooManyProperties,
    /// A property without a name.
    #[error("a property has an empty name")]
    PropertyNameEmpty,
    /// A subscription without a pattern.
    #[error("a subscription has an empty pattern")]
    PatternEmpty,
    /// An announcement whose part number is not below the number of its parts.
    #[error("the announcement is part {part} of {parts}")]
    NoSuchPart {
        /// Which part, from 0.
        part: u64,
        /// How many there are.
        parts: u64,
    },
    /// An array layout with an order other than C or F.
    #[error("array order {found:#04x} is neither 'C' nor 'F'")]
    ArrayOrder {
        /// The byte found.
        found: u8,
    },
}

/// A text that is not a message's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a message id; one reads ID:0123456789abcdef-2-77: publisher, chain, number")]
pub struct MessageIdError;

/// A topic, queue name or pattern that is not valid. Positions count bytes from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// No text at all.
    #[error("a topic must have at least one level")]
    Empty,
    /// Longer than the bound.
    #[error("a topic has at most {TOPIC_BYTES_MAX} bytes; this one has {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A level, tag or value without a character.
    #[error("{}", empty_level(*position))]
    EmptyLevel {
        /// Where it would start.
        position: usize,
    },
    /// A wildcard in a name that a message is sent to.
    #[error("'{wildcard}' at position {position}: a wildcard may be subscribed to, not published to")]
    WildcardInTopic {
        /// Which wildcard.
        wildcard: char,
        /// Where.
        position: usize,
    },
    /// A wildcard that is only part of a level.
    #[error("'{wildcard}' at position {position}: a wildcard stands for a whole level")]
    WildcardInsideLevel {
        /// Which wildcard.
        wildcard: char,
        /// Where.
        position: usize,
    },
    /// `>` before the last level.
    #[error("'>' at position {position}: it stands for the rest, so it must be last")]
    RestNotLast {
        /// Where.
        position: usize,
    },
    /// A control character, such as a line break.
    #[error("control character at position {position}")]
    ControlCharacter {
        /// Where.
        position: usize,
    },
    /// A tag without a value, before the last one.
    #[error("the tag at position {position} has no value: write tag=value")]
    TagWithoutValue {
        /// Where the tag starts.
        position: usize,
    },
    /// A second `=` in one pair.
    #[error("second '=' at position {position} in one tag=value pair")]
    SecondEquals {
        /// Where.
        position: usize,
    },
    /// A level that cannot be part of a tag=value name.
    #[error(
        "the level at position {position} cannot be written as a tag or a value: it has ',' or '=' or an outer space"
    )]
    NotATag {
        /// Where the level starts.
        position: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("not UTF-8 text at position {position}")]
    NotText {
        /// Where the text ends.
        position: usize,
    },
}

fn empty_level(position: usize) -> String {
    match position {
        0 => "it must not start with '/'".to_owned(),
        _ => format!("the level at position {position} is empty"),
    }
}
