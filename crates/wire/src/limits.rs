//! Every bound of the message encoding. Writers refuse what exceeds one; readers report it.

/// Longest topic, queue name, reply-to name or pattern. One byte carries the length.
pub const TOPIC_BYTES_MAX: usize = 255;

/// Highest number of a message in its chain. Numbers count from 1.
pub const NUMBER_MAX: u64 = u64::MAX >> 1;

/// Most properties a message may have.
pub const PROPERTIES_COUNT_MAX: usize = 1024;

/// Longest property name. One byte carries the length.
pub const PROPERTY_NAME_BYTES_MAX: usize = 255;

/// All properties of a message, names and values, encoded. Two bytes carry the length.
pub const PROPERTIES_BYTES_MAX: usize = 65_535;

/// Longest correlation id.
pub const CORRELATION_ID_BYTES_MAX: usize = 128;

/// Longest message type (JMSType).
pub const MESSAGE_TYPE_BYTES_MAX: usize = 255;

/// Longest group (JMSXGroupID).
pub const GROUP_BYTES_MAX: usize = 255;

/// Longest trace context: version, trace, span and flags of W3C Trace Context, in binary.
pub const TRACE_BYTES_MAX: usize = 26;

/// Longest trace state (W3C Trace Context).
pub const TRACE_STATE_BYTES_MAX: usize = 512;

/// Longest body detail: the name of a registered type, or the layout of an array.
pub const BODY_DETAIL_BYTES_MAX: usize = 1024;

/// Deepest nesting of lists and mappings in a body. A plain number has depth 0, `[1]` has depth 1.
pub const VALUE_DEPTH_MAX: usize = 64;

/// Most dimensions of an array body; the same as numpy's own bound.
pub const ARRAY_DIMENSIONS_MAX: usize = 64;

/// Longest record by which nodes keep track of each other. Writers of long announcements cut them into parts.
pub const CONTROL_RECORD_BYTES_MAX: usize = 1 << 20;

/// Longest filter of a subscription, in its wire form. A subscription with a longer one is announced without it.
pub const FILTER_BYTES_MAX: usize = 256 << 10;

/// Most filters of one subscription.
pub const FILTERS_MAX: usize = 16;

/// Most subscriptions a node may announce, all parts together.
pub const SUBSCRIPTIONS_MAX: u64 = 1_000_000;

/// Longest fact of an announcement.
pub const FACT_BYTES_MAX: usize = 1024;
