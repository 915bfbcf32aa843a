//! A session's configuration from Python keywords: their names, and how Python writes their values. What values may
//! be is the engine's to say.

use std::sync::Arc;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_norm::{
    AuthLabel, Config, ConfigError, CongestionControl, FecId, FeedbackMode, NackingMode, NodeId,
    RepairPolicy, SyncPolicy,
};

use crate::convert::{Described, duration, extract};
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
    match options.get_item(field) {
        Ok(Some(value)) => errors::config(format!("{field} is {value:?}, and must be {wanted}")),
        _ => errors::config(format!("{field} must be {wanted}")),
    }
}

/// A field of a session as an option in Python.
trait PythonOption: Sized {
    fn read(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Self>;

    fn show(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl<T> PythonOption for T
where
    T: Described + for<'a, 'py> FromPyObject<'a, 'py> + for<'py> IntoPyObject<'py>,
{
    fn read(field: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
        extract(field, value)
    }

    fn show(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_py_any(py)
    }
}

impl PythonOption for Duration {
    fn read(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
        duration(field, extract(field, value)?)
    }

    fn show(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.as_secs_f64().into_py_any(py)
    }
}

/// What an option chooses from, by name.
macro_rules! choices {
    ($($kind:ident: $($name:literal $choice:ident),+;)+) => {
        $(impl PythonOption for $kind {
            fn read(field: &str, value: &Bound<'_, PyAny>) -> PyResult<$kind> {
                let chosen: String = extract(field, value)?;
                match chosen.as_str() {
                    $($name => Ok($kind::$choice),)+
                    _ => {
                        let names = [$($name),+].join(", ");
                        Err(errors::config(format!("{field} is {value:?}, and must be one of {names}")))
                    }
                }
            }

            #[allow(unreachable_patterns, reason = "not every choice can be made from Python")]
            fn show(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                match self {
                    $($kind::$choice => $name.into_py_any(py),)+
                    _ => Ok(py.None()),
                }
            }
        })+
    };
}

choices! {
    FecId: "reed_solomon_8" ReedSolomon8, "small_block" SmallBlock, "no_code" NoCode;
    RepairPolicy: "at_once" AtOnce, "aggregated" Aggregated;
    FeedbackMode: "multicast" Multicast, "unicast" Unicast, "unicast_acks" UnicastAcks;
    CongestionControl: "fixed" Fixed, "nack_driven" NackDriven, "norm_cc" NormCc, "delivery" Delivery;
    NackingMode: "full" Full, "info_only" InfoOnly, "none" None;
    SyncPolicy: "current" Current, "start" Start, "all" All;
}

/// Every option of a session, and the field that it sets.
macro_rules! options {
    ($($name:literal $field:ident),+ $(,)?) => {
        fn set(config: &mut Config, field: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
            match field {
                $($name => config.$field = PythonOption::read(field, value)?,)+
                "auth_label" => {
                    let (label, required): (Vec<u8>, bool) = extract(field, value)?;
                    config.auth = Some(Arc::new(AuthLabel::new(&label, required)));
                }
                _ => return Err(errors::config(format!("{field} is no option of a NORM session"))),
            }
            Ok(())
        }

        /// The options of a session, each with the default of a LAN.
        #[pyfunction]
        pub fn norm_defaults(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
            let (config, defaults) = (Config::new(1, 0, 0), PyDict::new(py));
            $(defaults.set_item($name, PythonOption::show(config.$field, py)?)?;)+
            Ok(defaults)
        }

        /// A field of the session as Python calls it, where units are part of a name.
        fn python_name(field: &str) -> &str {
            match field {
                $(stringify!($field) => $name,)+
                "auth" => "auth_label",
                other => other,
            }
        }
    };
}

options! {
    "instance" instance,
    "seed" seed,
    "rate_bytes_per_s" rate_bytes_per_s,
    "rate_min_bytes_per_s" rate_min_bytes_per_s,
    "congestion" congestion,
    "send_delay_s" send_delay,
    "epoch_messages" epoch_messages,
    "burst_bytes_max" burst_bytes_max,
    "burst_segments_max" burst_segments_max,
    "segment_bytes" segment_bytes,
    "fec" fec_id,
    "block_symbols" block_symbols,
    "parity_symbols" parity_symbols,
    "auto_parity" auto_parity,
    "interleave_blocks" interleave_blocks,
    "repair" repair,
    "grtt_initial_s" grtt_initial,
    "grtt_min_s" grtt_min,
    "grtt_max_s" grtt_max,
    "backoff_factor" backoff_factor,
    "group_size" group_size,
    "robust_factor" robust_factor,
    "probe_interval_s" probe_interval,
    "probe_interval_max_s" probe_interval_max,
    "acker_patience_s" acker_patience,
    "send_streams_max" send_streams_max,
    "send_objects_max" send_objects_max,
    "send_cache_bytes_max" send_cache_bytes_max,
    "object_window_bytes" object_window_bytes,
    "receive" receive,
    "receive_objects" receive_objects,
    "feedback" feedback,
    "sync" sync,
    "nacking" nacking,
    "receive_window_bytes" receive_window_bytes,
    "receive_bytes_max" receive_bytes_max,
    "senders_max" senders_max,
    "streams_per_sender_max" streams_per_sender_max,
    "objects_per_sender_max" objects_per_sender_max,
    "object_bytes_max" object_bytes_max,
    "object_idle_after_s" object_idle_after,
    "sender_idle_after_s" sender_idle_after,
}
