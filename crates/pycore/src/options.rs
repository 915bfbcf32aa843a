//! A session's configuration from Python keywords.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_norm::{
    AuthLabel, Config, ConfigError, CongestionControl, FecId, FeedbackMode, NackingMode, NodeId,
    RepairPolicy, SyncPolicy,
};

use crate::convert::{duration, extract as number};
use crate::errors;

/// A configuration with everything `options` names, and the defaults of a LAN for the rest.
pub fn config(node: NodeId, instance: u16, seed: u64, options: &Bound<'_, PyDict>) -> PyResult<Config> {
    let mut config = Config::new(node, instance, seed);
    for (key, value) in options {
        let field: String = key.extract()?;
        set(&mut config, &field, &value)?;
    }
    match config.check() {
        Err(error) if error.field == "node" => {
            Err(errors::config(format!("node is {node}, and must be {}", error.wanted)))
        }
        checked => checked.map(|()| config).map_err(|error| refused(&error, options)),
    }
}

/// What a session refused, with the value that it was given.
fn refused(error: &ConfigError, options: &Bound<'_, PyDict>) -> PyErr {
    let field = python_name(error.field);
    let wanted = error.wanted.split(' ').map(python_name).collect::<Vec<_>>().join(" ");
    match options.get_item(&field) {
        Ok(Some(value)) => errors::config(format!("{field} is {value:?}, and must be {wanted}")),
        _ => errors::config(format!("{field} must be {wanted}")),
    }
}

/// A field of the session as Python calls it, where units are part of a name.
fn python_name(field: &str) -> String {
    match field {
        "auth" => "auth_label".to_owned(),
        "fec_id" => "fec".to_owned(),
        "grtt_initial" | "grtt_min" | "grtt_max" | "probe_interval" | "probe_interval_max"
        | "acker_patience" | "object_idle_after" | "sender_idle_after" => format!("{field}_s"),
        other => other.to_owned(),
    }
}

fn set(config: &mut Config, field: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match field {
        "instance" => config.instance = number(field, value)?,
        "seed" => config.seed = number(field, value)?,
        "rate_bytes_per_s" => config.rate_bytes_per_s = number(field, value)?,
        "rate_min_bytes_per_s" => config.rate_min_bytes_per_s = number(field, value)?,
        "burst_bytes_max" => config.burst_bytes_max = number(field, value)?,
        "burst_segments_max" => config.burst_segments_max = number(field, value)?,
        "segment_bytes" => config.segment_bytes = number(field, value)?,
        "block_symbols" => config.block_symbols = number(field, value)?,
        "parity_symbols" => config.parity_symbols = number(field, value)?,
        "auto_parity" => config.auto_parity = number(field, value)?,
        "interleave_blocks" => config.interleave_blocks = number(field, value)?,
        "grtt_initial_s" => config.grtt_initial = span(field, value)?,
        "grtt_min_s" => config.grtt_min = span(field, value)?,
        "grtt_max_s" => config.grtt_max = span(field, value)?,
        "backoff_factor" => config.backoff_factor = number(field, value)?,
        "group_size" => config.group_size = number(field, value)?,
        "robust_factor" => config.robust_factor = number(field, value)?,
        "probe_interval_s" => config.probe_interval = span(field, value)?,
        "probe_interval_max_s" => config.probe_interval_max = span(field, value)?,
        "acker_patience_s" => config.acker_patience = span(field, value)?,
        "send_streams_max" => config.send_streams_max = number(field, value)?,
        "send_objects_max" => config.send_objects_max = number(field, value)?,
        "send_cache_bytes_max" => config.send_cache_bytes_max = number(field, value)?,
        "object_window_bytes" => config.object_window_bytes = number(field, value)?,
        "objects_per_sender_max" => config.objects_per_sender_max = number(field, value)?,
        "object_bytes_max" => config.object_bytes_max = number(field, value)?,
        "object_idle_after_s" => config.object_idle_after = span(field, value)?,
        "receive" => config.receive = number(field, value)?,
        "receive_objects" => config.receive_objects = number(field, value)?,
        "receive_window_bytes" => config.receive_window_bytes = number(field, value)?,
        "receive_bytes_max" => config.receive_bytes_max = number(field, value)?,
        "senders_max" => config.senders_max = number(field, value)?,
        "streams_per_sender_max" => config.streams_per_sender_max = number(field, value)?,
        "auth_label" => {
            let (label, required): (Vec<u8>, bool) = number(field, value)?;
            config.auth = Some(Arc::new(AuthLabel::new(&label, required)));
        }
        "sender_idle_after_s" => config.sender_idle_after = span(field, value)?,
        "fec" => {
            let all = [
                ("no_code", FecId::NoCode),
                ("reed_solomon_8", FecId::ReedSolomon8),
                ("small_block", FecId::SmallBlock),
            ];
            config.fec_id = choice(field, value, all)?;
        }
        "repair" => {
            let all = [("at_once", RepairPolicy::AtOnce), ("aggregated", RepairPolicy::Aggregated)];
            config.repair = choice(field, value, all)?;
        }
        "feedback" => {
            let all = [
                ("multicast", FeedbackMode::Multicast),
                ("unicast", FeedbackMode::Unicast),
                ("unicast_acks", FeedbackMode::UnicastAcks),
            ];
            config.feedback = choice(field, value, all)?;
        }
        "congestion" => {
            let all = [
                ("fixed", CongestionControl::Fixed),
                ("nack_driven", CongestionControl::NackDriven),
                ("norm_cc", CongestionControl::NormCc),
                ("delivery", CongestionControl::Delivery),
            ];
            config.congestion = choice(field, value, all)?;
        }
        "nacking" => {
            let all = [
                ("full", NackingMode::Full),
                ("info_only", NackingMode::InfoOnly),
                ("none", NackingMode::None),
            ];
            config.nacking = choice(field, value, all)?;
        }
        "sync" => {
            let all =
                [("current", SyncPolicy::Current), ("start", SyncPolicy::Start), ("all", SyncPolicy::All)];
            config.sync = choice(field, value, all)?;
        }
        _ => return Err(errors::config(format!("{field} is no option of a NORM session"))),
    }
    Ok(())
}

fn span(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    duration(field, number(field, value)?)
}

fn choice<T: Copy, const N: usize>(
    field: &str,
    value: &Bound<'_, PyAny>,
    all: [(&str, T); N],
) -> PyResult<T> {
    let chosen: String = number(field, value)?;
    let found = all.iter().find(|(name, _)| *name == chosen);
    found.map(|&(_, choice)| choice).ok_or_else(|| {
        let names = all.map(|(name, _)| name).join(", ");
        errors::config(format!("{field} must be one of {names}, not {chosen:?}"))
    })
}
