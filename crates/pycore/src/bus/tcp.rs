//! TCP links for Python, which decides when there is one: addresses in, what became of connections out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::tcp::TcpNet;
use shoal_node::tcp::{Over, TcpNews};

use super::exit::detached;
use super::node::{Inner, Node};
use crate::bell::Bell;
use crate::convert::duration;
use crate::errors;

fn socket_address(host: &str, port: u16) -> PyResult<SocketAddr> {
    // A zone, which only link-local addresses have, is not part of what Rust parses as an address alone.
    let with_port = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let parsed = host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)).or_else(|_| with_port.parse());
    parsed.map_err(|_| errors::config(format!("{host:?} is not an IP address")))
}

fn over_words(why: &Over) -> (&'static str, Option<&str>, Option<u64>) {
    match why {
        Over::Left => ("left", None, None),
        Over::Closed => ("closed", None, None),
        Over::Broken(why) => ("broken", Some(why), None),
        Over::Refused(why) => ("refused", Some(why), None),
        Over::Turned(why) => ("turned", Some(why), None),
        Over::Duplicate(publisher) => ("duplicate", None, Some(*publisher)),
        Over::Stale(publisher) => ("stale", None, Some(*publisher)),
    }
}

/// The TCP links of a node. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct TcpLinks(Arc<Inner>);

impl TcpLinks {
    fn with<R: Send>(&self, py: Python<'_>, act: impl FnOnce(&TcpNet) -> R + Send) -> PyResult<R> {
        self.0.birth.check()?;
        let tcp = self.0.bus.tcp().ok_or_else(errors::closed)?;
        Ok(detached(py, || act(&tcp)))
    }
}

#[pymethods]
impl TcpLinks {
    /// Those of a node that has some.
    #[new]
    fn new(node: &Bound<'_, Node>) -> PyResult<TcpLinks> {
        let inner = node.get().inner()?;
        if inner.bus.tcp().is_none() {
            return Err(errors::config("this connection has no TCP links".to_owned()));
        }
        Ok(TcpLinks(inner.clone()))
    }

    /// Listens at an address: the listener's number, and the port.
    fn listen(&self, py: Python<'_>, host: &str, port: u16, connections_max: usize) -> PyResult<(u64, u16)> {
        let address = socket_address(host, port)?;
        let listening = self.with(py, |tcp| tcp.listen(address, connections_max))?;
        let (listener, bound) = listening.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok((listener, bound.port()))
    }

    /// Begins to connect to an address: the connection's number. `last` is the publisher that was there before.
    #[pyo3(signature = (host, port, timeout_s, last = None))]
    fn dial(
        &self,
        py: Python<'_>,
        host: &str,
        port: u16,
        timeout_s: f64,
        last: Option<u64>,
    ) -> PyResult<u64> {
        let (address, patience) = (socket_address(host, port)?, duration("timeout_s", timeout_s)?);
        let dialled = self.with(py, |tcp| tcp.dial(address, last, patience))?;
        dialled.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Rings `bell` as source 0 when something became of a connection.
    fn attach_bell(&self, py: Python<'_>, bell: &Bound<'_, Bell>) -> PyResult<()> {
        let bell = bell.get().inner().clone();
        self.with(py, |tcp| tcp.attach(&bell, 0))
    }

    /// What became of connections since the last call.
    fn take_news<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let told = self.with(py, TcpNet::take_news)?;
        let to_python = |(news, address, listener): (TcpNews, Option<SocketAddr>, Option<u64>)| {
            let item = PyDict::new(py);
            item.set_item("address", address.map(|address| address.to_string()))?;
            item.set_item("listener", listener)?;
            match news {
                TcpNews::Up { connection, publisher, node, resumed } => {
                    item.set_item("kind", "up")?;
                    item.set_item("connection", connection)?;
                    item.set_item("publisher", publisher)?;
                    item.set_item("node", node)?;
                    item.set_item("resumed", resumed)?;
                    item.set_item("why", "")?;
                }
                TcpNews::Over { connection, peer, why } => {
                    let (kind, words, other) = over_words(&why);
                    item.set_item("kind", kind)?;
                    item.set_item("connection", connection)?;
                    item.set_item("publisher", other.or(peer.map(|(publisher, _)| publisher)))?;
                    item.set_item("node", peer.map_or(0, |(_, node)| node))?;
                    item.set_item("resumed", false)?;
                    item.set_item("why", words.unwrap_or(""))?;
                }
            }
            Ok(item)
        };
        told.into_iter().map(to_python).collect()
    }

    /// The links as they are now.
    fn states<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let states = self.with(py, TcpNet::states)?;
        let to_python = |(state, address, listener): (_, Option<SocketAddr>, Option<u64>)| {
            let shoal_node::tcp::LinkState { publisher, node, connection, round_trip, .. } = state;
            let item = PyDict::new(py);
            item.set_item("publisher", publisher)?;
            item.set_item("node", node)?;
            item.set_item("connection", connection)?;
            item.set_item("address", address.map(|address| address.to_string()))?;
            item.set_item("listener", listener)?;
            item.set_item("round_trip_s", round_trip.map(|span| span.as_secs_f64()))?;
            item.set_item("bytes_sent", state.bytes_sent)?;
            item.set_item("bytes_received", state.bytes_received)?;
            item.set_item("send_bytes_per_s", state.send_rate)?;
            item.set_item("receive_bytes_per_s", state.receive_rate)?;
            item.set_item("unsent_bytes", state.waiting)?;
            item.set_item("unacknowledged_bytes", state.lacking)?;
            Ok(item)
        };
        states.into_iter().map(to_python).collect()
    }

    /// Connections that a listener has, and how many it did not let in because there were too many.
    fn listener(&self, py: Python<'_>, listener: u64) -> PyResult<(usize, u64)> {
        self.with(py, |tcp| tcp.listener(listener))
    }

    /// Wakes whoever waits for the connection.
    fn wake(&self, py: Python<'_>) {
        detached(py, || self.0.bus.wake());
    }
}
