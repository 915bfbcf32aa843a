//! What a session can be told. Checked once, when the session is made: see [`Config::check`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::{self, Authenticator};
pub use crate::wire::FecId;
use crate::wire::{Data, SEGMENT_HEADER_BYTES};
use crate::{NodeId, ObjectId};

/// Where receivers send their feedback.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FeedbackMode {
    /// To the group, so that others with the same loss can stay silent.
    Multicast,
    /// To the sender alone, which tells the group with NORM_CMD(REPAIR_ADV).
    Unicast,
    /// Acknowledgements to the sender alone, since nobody else needs them; the rest to the group.
    UnicastAcks,
}

/// When a sender repairs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RepairPolicy {
    /// As soon as one receiver asks.
    AtOnce,
    /// After collecting requests for (K + 1) round-trip times, as RFC 5740 section 5.4 describes.
    Aggregated,
}

/// What a receiver that joins late asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Nothing older than the first segment it hears.
    Current,
    /// The stream it hears, from its first segment that the sender still has.
    Start,
    /// Every stream the sender still has, also those it did not hear of.
    All,
    /// What its owner says: [`crate::Event::StreamHeard`] asks, [`crate::Session::join`] answers.
    Ask,
}

/// Where to join a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Join {
    /// At the first segment heard.
    Here,
    /// At this segment, counted from the stream's first, as [`crate::Session::segments_sent`] counts.
    At(u64),
}

/// What decides how fast a sender sends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// `rate_bytes_per_s` alone.
    Fixed,
    /// NACKs slow it down, their absence speeds it up; `rate_bytes_per_s` is the bound.
    NackDriven,
    /// NORM-CC (RFC 5740 section 5.5.2): it shares the path of its slowest receiver as TCP would;
    /// `rate_bytes_per_s` is the bound.
    NormCc,
    /// What one receiver gets and how long it takes: for a long path that loses; `rate_bytes_per_s` is the bound.
    Delivery,
}

/// What a receiver asks for when something is missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NackingMode {
    /// Everything.
    Full,
    /// Only NORM_INFO.
    InfoOnly,
    /// Nothing: what is lost is lost, unless parity or somebody else's request brings it.
    None,
}

/// One member of a group.
#[derive(Clone, Debug)]
pub struct Config {
    /// Our node id; neither 0 nor 0xffff_ffff.
    pub node: NodeId,
    /// Distinguishes this run of the sender from its earlier ones.
    pub instance: u16,
    /// Everything random follows from it.
    pub seed: u64,

    /// The rate to send at, or the most rate control may choose; `None` is as fast as the caller polls.
    pub rate_bytes_per_s: Option<f64>,
    /// The least rate control may choose, whatever receivers report; 0 lets one receiver slow the group down to a
    /// segment per round-trip time. Not more than `rate_bytes_per_s`; a fixed rate is what it is.
    pub rate_min_bytes_per_s: f64,
    /// What decides the rate.
    pub congestion: CongestionControl,
    /// The least time from one datagram of data to the next, on average over a run; 0 delays nothing.
    pub send_delay: Duration,
    /// A stream with a window asks for acknowledgement after so many messages; `None` asks whenever an eighth of
    /// the window was sent.
    pub epoch_messages: Option<u32>,
    /// The most bytes handed out in one run of equal datagrams.
    pub burst_bytes_max: usize,
    /// The most datagrams handed out in one run.
    pub burst_segments_max: usize,
    /// Bytes of stream data in a full segment.
    pub segment_bytes: u16,
    /// The FEC scheme, which gives positions their form.
    pub fec_id: FecId,
    /// Source symbols in a block.
    pub block_symbols: u16,
    /// Reed-Solomon parity symbols a block can have; 0 repairs with the lost segments themselves.
    pub parity_symbols: u16,
    /// How many of them follow each block unasked; the others answer requests for repair.
    pub auto_parity: u16,
    /// Blocks whose segments and unasked parity are sent in turn, so that a burst of loss takes a little of each; 1
    /// sends block after block. Streams are only mixed while so many whole blocks wait to be sent, objects only
    /// where they have parity.
    pub interleave_blocks: u16,
    /// When to repair.
    pub repair: RepairPolicy,
    /// The group's round-trip time until it is measured.
    pub grtt_initial: Duration,
    /// The least round-trip time to advertise.
    pub grtt_min: Duration,
    /// The greatest round-trip time to believe.
    pub grtt_max: Duration,
    /// K: receivers back off up to K round-trip times before they ask for repair.
    pub backoff_factor: u8,
    /// The group's size, as far as known; it spreads the back-off.
    pub group_size: u32,
    /// How often a command that may be lost is repeated (NORM_ROBUST_FACTOR).
    pub robust_factor: u32,
    /// How often round-trip times are probed while data flows; eight times more rarely each time it does not,
    /// down to `probe_interval_max`.
    pub probe_interval: Duration,
    /// How often they are probed at least.
    pub probe_interval_max: Duration,
    /// The most streams open for sending at once.
    pub send_streams_max: usize,
    /// The most objects of known length kept for sending and repair.
    pub send_objects_max: usize,
    /// The most bytes of memory they take; a single larger one is taken all the same.
    pub send_cache_bytes_max: usize,
    /// Bytes of objects sent but not yet acknowledged by every listed acker; without ackers nothing is waited for.
    pub object_window_bytes: usize,
    /// An acker that gets nowhere for so long, or that for so long holds others back, no longer holds the window.
    pub acker_patience: Duration,

    /// Whether to receive at all.
    pub receive: bool,
    /// Where feedback goes.
    pub feedback: FeedbackMode,
    /// What to ask for when joining late.
    pub sync: SyncPolicy,
    /// How far ahead of the reader one stream is buffered.
    pub receive_window_bytes: usize,
    /// All receive buffers together.
    pub receive_bytes_max: usize,
    /// The most senders listened to at once.
    pub senders_max: usize,
    /// The most streams of one sender listened to at once.
    pub streams_per_sender_max: usize,
    /// What to ask for when something is missing.
    pub nacking: NackingMode,
    /// Whether to receive objects of known length at all; streams are received in any case.
    pub receive_objects: bool,
    /// From the oldest incomplete object to the newest one of a sender there are at most so many.
    pub objects_per_sender_max: usize,
    /// The longest NORM_OBJECT_DATA taken; files may be longer.
    pub object_bytes_max: u64,
    /// An object of which nothing came for so long is given up.
    pub object_idle_after: Duration,
    /// A sender silent for so long may be forgotten to make room for another.
    pub sender_idle_after: Duration,

    /// Seals every message we send, and says which of those that come to believe; `None` believes all.
    pub auth: Option<Arc<dyn Authenticator>>,
}

impl Config {
    /// Sensible values for a LAN.
    pub fn new(node: NodeId, instance: u16, seed: u64) -> Config {
        Config {
            node,
            instance,
            seed,
            rate_bytes_per_s: None,
            rate_min_bytes_per_s: 0.0,
            congestion: CongestionControl::Fixed,
            send_delay: Duration::ZERO,
            epoch_messages: None,
            burst_bytes_max: 65_000,
            burst_segments_max: 64,
            segment_bytes: 1400,
            fec_id: FecId::ReedSolomon8,
            block_symbols: 64,
            parity_symbols: 0,
            auto_parity: 0,
            interleave_blocks: 1,
            repair: RepairPolicy::AtOnce,
            grtt_initial: Duration::from_millis(10),
            grtt_min: Duration::from_micros(100),
            grtt_max: Duration::from_secs(15),
            backoff_factor: 4,
            group_size: 10,
            robust_factor: 20,
            probe_interval: Duration::from_millis(100),
            probe_interval_max: Duration::from_secs(30),
            send_streams_max: 16,
            send_objects_max: 16_384,
            send_cache_bytes_max: 64 << 20,
            object_window_bytes: 4 << 20,
            acker_patience: Duration::from_millis(500),
            receive: true,
            feedback: FeedbackMode::Multicast,
            sync: SyncPolicy::Current,
            receive_window_bytes: 16 << 20,
            receive_bytes_max: 512 << 20,
            senders_max: 1024,
            streams_per_sender_max: 16,
            nacking: NackingMode::Full,
            receive_objects: true,
            objects_per_sender_max: 16_384,
            object_bytes_max: 128 << 20,
            object_idle_after: Duration::from_secs(60),
            sender_idle_after: Duration::from_secs(60),
            auth: None,
        }
    }

    /// Bytes before the payload of a NORM_DATA message.
    pub(crate) fn data_header_bytes(&self) -> usize {
        Data::header_bytes(self.fec_id) + auth::extension_bytes(&self.auth)
    }

    /// Bytes of a datagram with stream data that are not the data.
    pub fn header_bytes(&self) -> usize {
        self.data_header_bytes() + SEGMENT_HEADER_BYTES
    }
}

/// A field whose value cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Its name.
    pub field: &'static str,
    /// What would be accepted.
    pub wanted: Cow<'static, str>,
}

impl ConfigError {
    /// What is wrong with a field: what would be accepted.
    pub const fn new(field: &'static str, wanted: &'static str) -> ConfigError {
        ConfigError { field, wanted: Cow::Borrowed(wanted) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} must be {}", self.field, self.wanted)
    }
}

impl std::error::Error for ConfigError {}

/// One stream to send.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// What the sender keeps for repair; it also bounds what waits to be sent.
    pub cache_bytes: usize,
    /// Streams with a smaller number go first.
    pub precedence: u8,
    /// Its part of what streams of its precedence send, in proportion to their weights; 1 at the least.
    pub weight: u16,
    /// NORM_INFO of the stream; at most one segment.
    pub info: Vec<u8>,
    /// Bytes sent but not yet acknowledged by every listed acker; `None` sends without waiting.
    pub window_bytes: Option<usize>,
    /// Little is written to it, and its owner notices by itself if something is lost for long: to a large group its
    /// last segment is announced a few times only, and writing to it is no reason to measure round-trip times.
    pub quiet: bool,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        StreamOptions {
            cache_bytes: 16 << 20,
            precedence: 0,
            weight: 1,
            info: vec![],
            window_bytes: None,
            quiet: false,
        }
    }
}

/// The outcome of a watermark for one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The stream.
    pub object: ObjectId,
    /// Who acknowledged it.
    pub acked: Vec<NodeId>,
    /// Who did not answer.
    pub silent: Vec<NodeId>,
}
