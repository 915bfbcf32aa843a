//! `shoal._core`: thin PyO3 bindings. No logic lives here; every class wraps one Rust type.

use pyo3::prelude::*;

mod aging;
mod bell;
mod bench;
mod bus;
mod columns;
mod convert;
mod errors;
mod fec;
mod link_options;
mod log;
mod memory;
mod norm;
mod options;
mod selector;
mod sim;
mod sim_domain;
mod staging;

#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::bell::Bell;
    #[pymodule_export]
    use crate::bench::{CodingLoad, SelectorBench, norm_receive_bulk, norm_send_bulk, raw_receive, raw_send};
    #[pymodule_export]
    use crate::bus::body::RawBody;
    #[pymodule_export]
    use crate::bus::exit::{is_abandoned, mark_exiting, wait_for_waiting_threads};
    #[pymodule_export]
    use crate::bus::rows::{
        RowsBuilder, age_rows, forward_rows, offsets_of, pass_on, read_rows, split_rows, take_rows,
    };
    #[pymodule_export]
    use crate::bus::tcp::is_greeting_whole;
    #[pymodule_export]
    use crate::bus::{
        LoadPublisher, LoadSink, Message, Node, Publisher, Rights, Subscription, TcpLinks, Tls, mark_forked,
    };
    #[pymodule_export]
    use crate::columns::{HistoryScan, columnise, encode_record};
    #[pymodule_export]
    use crate::fec::ReedSolomon;
    #[pymodule_export]
    use crate::link_options::check_norm_options;
    #[pymodule_export]
    use crate::log::{
        Backlog, Hearing, Lanes, Log, Member, Recorder, SimulatedDisk, Turn, check_forwarded, check_rows,
        heard_rows, match_topics, publish_rows, sift_forwarded, verify_log,
    };
    #[pymodule_export]
    use crate::memory::ArrowBuffer;
    #[pymodule_export]
    use crate::norm::NormLink;
    #[pymodule_export]
    use crate::options::norm_defaults;
    #[pymodule_export]
    use crate::selector::{CorrelationFilter, Selector, SelectorIndex, SelectorSyntaxError};
    #[pymodule_export]
    use crate::sim::Simulation;
    #[pymodule_export]
    use crate::sim_domain::DomainSimulation;
    #[pymodule_export]
    use crate::staging::StagedRows;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("WIRE_VERSION", shoal_wire::WIRE_VERSION)
    }
}
