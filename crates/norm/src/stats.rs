//! Counters. They only grow; rates are the reader's business.

macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident = $name:literal),* $(,)?) => {
        /// Why a datagram, or part of one, was refused.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Reject {
            $($(#[$doc])* $reason,)*
        }

        impl Reject {
            /// Every reason, in the order of [`Stats::rejected`].
            pub const ALL: [Reject; [$($name),*].len()] = [$(Reject::$reason),*];

            /// A name for reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reject::$reason => $name,)*
                }
            }
        }
    };
}

reasons! {
    /// Shorter than its header says, or than its type needs.
    Truncated = "truncated",
    /// Not NORM version 1.
    Version = "version",
    /// A message type or command flavor that RFC 5740 does not define.
    UnknownType = "unknown_type",
    /// Its header length contradicts its type or its extensions.
    HeaderLength = "header_length",
    /// Carries our own node id.
    OwnNode = "own_node",
    /// Carries a reserved node id.
    ReservedNode = "reserved_node",
    /// An FEC scheme this engine does not speak.
    UnknownFec = "unknown_fec",
    /// Object information that is missing, impossible, or contradicts what was said before.
    ObjectInfo = "object_info",
    /// A position outside its block, or a length outside its segment.
    Position = "position",
    /// A repair request that cannot be parsed or names what was never sent.
    RepairRequest = "repair_request",
    /// More senders at once than the configured bound.
    TooManySenders = "too_many_senders",
    /// More streams of one sender at once than the configured bound.
    TooManyObjects = "too_many_objects",
    /// Receive memory is at its configured bound.
    NoMemory = "no_memory",
    /// Farther ahead than the receive window reaches.
    BeyondWindow = "beyond_window",
    /// A stale instance of a sender that restarted.
    StaleInstance = "stale_instance",
    /// A message of an object contradicts what kind of object it is.
    ObjectType = "object_type",
    /// An object longer than the configured bound.
    TooLarge = "too_large",
    /// Not what [`crate::Config::auth`] accepts.
    Authentication = "authentication",
    /// Of an object of known length, where none are received.
    Unwanted = "unwanted",
    /// Of an object, or a command, for which our application has no room now.
    NoRoom = "no_room",
}

/// Something that came was taken, or why it was not.
pub(crate) type Taken<T = ()> = Result<T, Reject>;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a session has done so far.
        #[derive(Clone, Debug, Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Refused datagrams by [`Reject`], in the order of [`Reject::ALL`].
            pub rejected: [u64; Reject::ALL.len()],
        }

        impl Stats {
            /// Every counter with its name, refusals included.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                let counters = [$((stringify!($name), self.$name)),*];
                let rejects = Reject::ALL.into_iter().map(|reason| (reason.name(), self.count(reason)));
                counters.into_iter().chain(rejects)
            }
        }
    };
}

counters! {
    /// Datagrams sent, of every type.
    datagrams_sent,
    /// Bytes sent, with NORM headers.
    bytes_sent,
    /// Stream bytes sent for the first time.
    payload_bytes_sent,
    /// NORM_DATA segments sent for the first time.
    segments_sent,
    /// NORM_DATA segments sent again.
    repairs_sent,
    /// Parity segments sent, asked for or not.
    parity_sent,
    /// NORM_NACK messages sent.
    nacks_sent,
    /// NORM_NACK messages that somebody else's made needless.
    nacks_suppressed,
    /// NORM_ACK messages sent.
    acks_sent,
    /// NORM_CMD messages sent.
    commands_sent,
    /// Datagrams received, refused ones included.
    datagrams_received,
    /// Bytes received, refused ones included.
    bytes_received,
    /// Stream bytes received for the first time.
    payload_bytes_received,
    /// NORM_DATA segments received for the first time.
    segments_received,
    /// NORM_DATA segments received again.
    duplicates_received,
    /// Parity segments received for blocks that miss something.
    parity_received,
    /// Segments computed from parity.
    segments_recovered,
    /// Segments found missing.
    losses_detected,
    /// Segments given up because the sender could not repair them.
    segments_lost,
    /// NORM_NACK messages received that ask us for repair.
    nacks_received,
    /// NORM_ACK messages received that answer us.
    acks_received,
    /// Segments that others asked us to repair.
    repairs_requested,
    /// Epochs that every member acknowledged: from a request for acknowledgement to the last answer.
    epochs_acknowledged,
    /// Nanoseconds that took, all epochs together.
    epoch_ack_ns,
    /// Nanoseconds in which data waited for the rate or the send delay.
    pacing_ns,
    /// Nanoseconds between the beginnings of two consecutive runs of data while more waited, all together.
    send_gap_ns,
    /// Datagrams of data that another run followed: the gaps divided by them are the mean gap.
    send_gap_datagrams,
}

impl Stats {
    /// How often something was refused for this reason.
    pub fn count(&self, reason: Reject) -> u64 {
        self.rejected[reason as usize]
    }

    pub(crate) fn reject(&mut self, reason: Reject) {
        self.rejected[reason as usize] += 1;
    }
}
