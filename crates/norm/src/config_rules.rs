//! What a configuration's numbers may be, and what has to hold between them. Nobody else checks them: Python asks here too.

use crate::config::{Config, ConfigError, CongestionControl, FecId};
use crate::{NodeId, auth};

/// What UDP carries in a datagram, and what of it is left for data when NORM's headers are in it.
const DATAGRAM_BYTES_MAX: usize = 65_507;
const SEGMENT_BYTES_MAX: f64 = 65_400.0;
/// The longest round trip that RFC 5740 can express.
const GRTT_MAX_S: f64 = 1000.0;
/// A datagram each minute: a sender that is slower seems to have left.
const SEND_DELAY_MAX_S: f64 = 60.0;
/// Longer than anybody waits, and more than anybody has.
const SECONDS_MAX: f64 = 1e9;
const BYTES_MAX: f64 = (1u64 << 40) as f64;
/// A window or a buffer holds a few segments.
const BUFFER_BYTES_MIN: f64 = 4096.0;
/// A quarter of the numbers that objects have.
const OBJECTS_MAX: f64 = 16_384.0;

/// A number's field, its value, and the least and the most it may be.
type Range = (&'static str, f64, f64, f64);
/// Whether a rule holds, the field whose value is wrong if it does not, and what would be right.
type Rule = (bool, &'static str, &'static str);

impl Config {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), ConfigError> {
        let is_out = |(_, value, least, most): &Range| !(least..=most).contains(&value);
        if let Some((field, _, least, most)) = self.ranges().into_iter().find(is_out) {
            return Err(ConfigError { field, wanted: format!("from {least} to {most}").into() });
        }
        let broken = self.rules().into_iter().find(|(holds, ..)| !holds);
        broken.map_or(Ok(()), |(_, field, wanted)| Err(ConfigError::new(field, wanted)))
    }

    fn ranges(&self) -> [Range; 27] {
        // A block has so many symbols with its parity.
        let parity_max = (shoal_fec::SYMBOLS_MAX as u16).saturating_sub(self.block_symbols);
        [
            ("node", self.node.into(), 1.0, (NodeId::MAX - 1).into()),
            ("send_delay", self.send_delay.as_secs_f64(), 0.0, SEND_DELAY_MAX_S),
            ("epoch_messages", self.epoch_messages.unwrap_or(1).into(), 1.0, u32::MAX.into()),
            ("burst_bytes_max", self.burst_bytes_max as f64, 0.0, DATAGRAM_BYTES_MAX as f64),
            // The kernel segments no more in one call.
            ("burst_segments_max", self.burst_segments_max as f64, 1.0, 64.0),
            ("segment_bytes", self.segment_bytes.into(), 16.0, SEGMENT_BYTES_MAX),
            ("block_symbols", self.block_symbols.into(), 1.0, self.fec_id.symbols_max().into()),
            ("parity_symbols", self.parity_symbols.into(), 0.0, parity_max.into()),
            ("interleave_blocks", self.interleave_blocks.into(), 1.0, 64.0),
            ("grtt_min", self.grtt_min.as_secs_f64(), 1e-6, GRTT_MAX_S),
            ("grtt_max", self.grtt_max.as_secs_f64(), 1e-6, GRTT_MAX_S),
            ("backoff_factor", self.backoff_factor.into(), 0.0, 15.0),
            ("group_size", self.group_size.into(), 1.0, 500_000_000.0),
            ("robust_factor", self.robust_factor.into(), 1.0, 1000.0),
            ("probe_interval", self.probe_interval.as_secs_f64(), 1e-3, SECONDS_MAX),
            ("acker_patience", self.acker_patience.as_secs_f64(), 0.0, SECONDS_MAX),
            ("send_objects_max", self.send_objects_max as f64, 1.0, OBJECTS_MAX),
            ("send_cache_bytes_max", self.send_cache_bytes_max as f64, 0.0, BYTES_MAX),
            ("object_window_bytes", self.object_window_bytes as f64, BUFFER_BYTES_MIN, BYTES_MAX),
            ("receive_window_bytes", self.receive_window_bytes as f64, BUFFER_BYTES_MIN, BYTES_MAX),
            ("receive_bytes_max", self.receive_bytes_max as f64, BUFFER_BYTES_MIN, BYTES_MAX),
            ("senders_max", self.senders_max as f64, 1.0, f64::from(1 << 20)),
            ("streams_per_sender_max", self.streams_per_sender_max as f64, 1.0, 65_535.0),
            ("objects_per_sender_max", self.objects_per_sender_max as f64, 1.0, OBJECTS_MAX),
            ("object_bytes_max", self.object_bytes_max as f64, 1.0, BYTES_MAX),
            ("object_idle_after", self.object_idle_after.as_secs_f64(), 1e-3, SECONDS_MAX),
            ("sender_idle_after", self.sender_idle_after.as_secs_f64(), 1e-3, SECONDS_MAX),
        ]
    }

    fn rules(&self) -> [Rule; 12] {
        let (parity, rate, rate_min) =
            (self.parity_symbols, self.rate_bytes_per_s, self.rate_min_bytes_per_s);
        let has_code = parity == 0 || self.fec_id != FecId::NoCode;
        let can_interleave = self.interleave_blocks == 1 || parity > 0;
        let is_rate = rate.is_none_or(|rate| rate.is_finite() && rate >= 1.0);
        let is_low = (0.0..=rate.unwrap_or(f64::MAX)).contains(&rate_min);
        let can_change = self.congestion != CongestionControl::Fixed || rate.is_none();
        let fits = usize::from(self.segment_bytes) + self.header_bytes() <= DATAGRAM_BYTES_MAX;
        let is_between = (self.grtt_min..=self.grtt_max).contains(&self.grtt_initial);
        let probes = self.probe_interval.as_secs_f64()..=SECONDS_MAX;
        let probes_fit = probes.contains(&self.probe_interval_max.as_secs_f64());
        let window_fits = self.receive_window_bytes <= self.receive_bytes_max;
        [
            (fits, "segment_bytes", "so small that a datagram is at most 65507"),
            (has_code, "parity_symbols", "0 with no_code, which has none"),
            (self.auto_parity <= parity, "auto_parity", "at most parity_symbols"),
            (can_interleave, "interleave_blocks", "1 without parity_symbols, which interleaving is for"),
            (is_rate, "rate_bytes_per_s", "at least 1, or None"),
            (is_low, "rate_min_bytes_per_s", "at least 0, and at most rate_bytes_per_s where that is given"),
            (can_change || rate_min == 0.0, "rate_min_bytes_per_s", "0 beside a fixed rate_bytes_per_s"),
            (self.grtt_min <= self.grtt_max, "grtt_min", "at most grtt_max"),
            (is_between, "grtt_initial", "from grtt_min to grtt_max"),
            (probes_fit, "probe_interval_max", "from probe_interval to 1e9"),
            (
                auth::fits(&self.auth),
                "auth",
                "content of 510 bytes at most, two more than a multiple of four",
            ),
            (window_fits, "receive_window_bytes", "at most receive_bytes_max"),
        ]
    }
}
