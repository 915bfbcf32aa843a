//! What a session tells its owner.

use crate::config::Watermark;
use crate::{NodeId, ObjectId, Time};

/// A stream of a remote sender. A sender that restarts is another instance, with streams of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// The sender.
    pub node: NodeId,
    /// Its instance.
    pub instance: u16,
    /// The stream's object_transport_id.
    pub object: ObjectId,
}

/// What an object of known length is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// NORM_OBJECT_DATA: bytes that are handed over as a whole.
    Data,
    /// NORM_OBJECT_FILE: bytes that are handed over block by block.
    File,
}

/// Why an object was given up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// The sender no longer has it.
    Squelched,
    /// Nothing of it came for too long.
    Expired,
    /// Newer objects needed its place.
    Overrun,
    /// It is larger than the configured bound.
    TooLarge,
    /// The sender is gone.
    SenderGone,
    /// Our application wanted no more of it.
    Abandoned,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A sender was heard for the first time.
    SenderHeard {
        /// The sender.
        node: NodeId,
        /// Its instance.
        instance: u16,
    },
    /// A sender is no longer listened to; its streams were closed before.
    SenderGone {
        /// The sender.
        node: NodeId,
        /// Its instance.
        instance: u16,
        /// Why.
        reason: CloseReason,
    },
    /// A stream was heard, and [`crate::SyncPolicy::Ask`] leaves it to the owner where to join it.
    StreamHeard {
        /// The stream.
        stream: StreamId,
    },
    /// A stream can be read from here on.
    StreamOpened {
        /// The stream.
        stream: StreamId,
    },
    /// The stream's NORM_INFO arrived.
    Info {
        /// The stream.
        stream: StreamId,
        /// What it says.
        content: Vec<u8>,
    },
    /// There is something to read; said once until everything was read.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// Segments are lost for good. What is read next starts with a message.
    Gap {
        /// The stream.
        stream: StreamId,
        /// The first segment lost, counted from the stream's first.
        first_segment: u64,
        /// How many.
        segments: u64,
        /// Why.
        reason: GapReason,
    },
    /// The stream ended; everything before its end was read.
    StreamClosed {
        /// The stream.
        stream: StreamId,
        /// Why.
        reason: CloseReason,
    },
    /// An object of known length begins to arrive.
    ObjectOpened {
        /// The object.
        object: StreamId,
        /// What it is.
        kind: ObjectKind,
        /// How long it is.
        bytes: u64,
    },
    /// A NORM_OBJECT_DATA arrived completely.
    DataReceived {
        /// The object.
        object: StreamId,
        /// Its bytes.
        content: Vec<u8>,
    },
    /// Bytes of a NORM_OBJECT_FILE arrived, to be written at their offset; in no particular order.
    FileChunk {
        /// The object.
        object: StreamId,
        /// Where they belong.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// All of a NORM_OBJECT_FILE was handed over.
    FileReceived {
        /// The object.
        object: StreamId,
        /// How long it is.
        bytes: u64,
    },
    /// An object that was not complete was given up.
    ObjectAborted {
        /// The object.
        object: StreamId,
        /// Why.
        reason: AbortReason,
    },
    /// All of an object was sent once.
    ObjectSent {
        /// The object.
        object: ObjectId,
    },
    /// An object left the cache; it can no longer be repaired.
    ObjectReleased {
        /// The object.
        object: ObjectId,
    },
    /// An object that was refused for want of room may have room now.
    ObjectRoom,
    /// A sender said something to everybody, with NORM_CMD(APPLICATION). Repetitions are told too.
    CommandReceived {
        /// The sender.
        node: NodeId,
        /// Its instance.
        instance: u16,
        /// What it said.
        content: Vec<u8>,
    },
    /// A sender asked us for an acknowledgement that an application defined; it was given.
    AckGiven {
        /// The sender.
        node: NodeId,
        /// ack_type
        ack_type: u8,
        /// ack_id
        ack_id: u8,
    },
    /// Everybody answered our question, or it was repeated often enough.
    AcksDone {
        /// ack_type
        ack_type: u8,
        /// ack_id
        ack_id: u8,
        /// Who answered.
        acked: Vec<NodeId>,
        /// Who did not.
        silent: Vec<NodeId>,
    },
    /// A stream that refused a write has room again.
    Writable {
        /// The stream.
        object: ObjectId,
    },
    /// A watermark was acknowledged, or given up.
    WatermarkDone(Watermark),
    /// A listed acker did not answer, or held back others for too long, and no longer holds the window.
    AckerSilent {
        /// The stream.
        object: ObjectId,
        /// Who.
        node: NodeId,
    },
    /// A listed acker asked for what can no longer be repaired: it lacks some of what was sent, for good. Told at once, every
    /// second as long as it asks, and when it got past that.
    AckerLost {
        /// The stream.
        object: ObjectId,
        /// Who.
        node: NodeId,
        /// When it got on last, before it lost that.
        since: Time,
    },
    /// Somebody else speaks under our node id. Told once until [`crate::Session::rename`].
    NodeIdTaken,
    /// Everything was sent and announced as often as the robust factor asks.
    Flushed {
        /// The stream.
        object: ObjectId,
    },
}

/// Why data was lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The sender no longer has it.
    Squelched,
}

/// Why a stream or a sender went.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It ended as its owner wished.
    Ended,
    /// The sender started again.
    Restarted,
    /// The sender dropped the stream before everybody had it.
    Dropped,
    /// The sender was silent for too long.
    Idle,
}
