//! TCP links for Python, which decides when there is one: addresses in, what became of connections out.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::Descriptor;
use shoal_io::tcp::{Certificates, Congestion, Door, Place, TcpNet};
use shoal_node::tcp::{Over, TcpNews};

use super::exit::detached;
use super::node::{Inner, Node};
use super::rights::Rights;
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
        Over::Elsewhere(places) => ("elsewhere", Some(places), None),
    }
}

/// Whether the first thing that a connection brings is a greeting that has come whole; raises why it is none.
#[pyfunction]
pub fn is_greeting_whole(said: &[u8]) -> PyResult<bool> {
    shoal_node::tcp::is_greeting_whole(said).map_err(PyValueError::new_err)
}

/// What connections over TLS are made with: certificates as files hold them. May be shared between threads.
#[pyclass(module = "shoal._core", frozen)]
pub struct Tls(shoal_io::tcp::Tls);

#[pymethods]
impl Tls {
    /// `trusted` sign the certificates of others; `own` is our certificate and its key; with `mutual`, those who connect to
    /// us have to show one, too; `pinned` is the SHA-256 fingerprint of the one certificate we connect to.
    #[new]
    #[pyo3(signature = (trusted, own = None, *, mutual = false, pinned = None))]
    fn new(
        py: Python<'_>,
        trusted: Vec<u8>,
        own: Option<(Vec<u8>, Vec<u8>)>,
        mutual: bool,
        pinned: Option<[u8; 32]>,
    ) -> PyResult<Tls> {
        let certificates = Certificates { trusted, own, mutual, pinned };
        py.detach(|| shoal_io::tcp::Tls::new(&certificates)).map(Tls).map_err(errors::config)
    }

    /// Uses others for connections that are made from now on.
    #[pyo3(signature = (trusted, own = None, *, mutual = false, pinned = None))]
    fn replace(
        &self,
        py: Python<'_>,
        trusted: Vec<u8>,
        own: Option<(Vec<u8>, Vec<u8>)>,
        mutual: bool,
        pinned: Option<[u8; 32]>,
    ) -> PyResult<()> {
        let certificates = Certificates { trusted, own, mutual, pinned };
        py.detach(|| self.0.replace(&certificates)).map_err(errors::config)
    }
}

/// What went over a link, among what is told of it.
pub(super) fn set_traffic(item: &Bound<'_, PyDict>, traffic: shoal_node::hub::Traffic) -> PyResult<()> {
    item.set_item("messages_sent", traffic.messages_sent)?;
    item.set_item("messages_received", traffic.messages_received)?;
    item.set_item("resting", traffic.is_resting)
}

fn set_place(item: &Bound<'_, PyDict>, place: Place) -> PyResult<()> {
    item.set_item("address", place.address)?;
    item.set_item("identity", place.identity)?;
    item.set_item("listener", place.listener)
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

    /// Listens at an address: the listener's number, and the port. With `asks`, whoever says hello there waits for `admit`.
    #[pyo3(signature = (host, port, connections_max, tls = None, *, asks = false))]
    fn listen(
        &self,
        py: Python<'_>,
        host: &str,
        port: u16,
        connections_max: usize,
        tls: Option<&Bound<'_, Tls>>,
        asks: bool,
    ) -> PyResult<(u64, u16)> {
        let address = socket_address(host, port)?;
        let tls = tls.map(|tls| &tls.get().0);
        let listening = self.with(py, |tcp| tcp.listen(address, Door { connections_max, asks }, tls))?;
        let (listener, bound) = listening.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok((listener, bound.port()))
    }

    /// Begins to connect to an address: the connection's number. `last` is the publisher that was there before.
    /// With TLS, `name` is whose certificate it has to be.
    #[pyo3(signature = (host, port, timeout_s, last = None, tls = None, name = ""))]
    #[expect(clippy::too_many_arguments)]
    fn dial(
        &self,
        py: Python<'_>,
        host: &str,
        port: u16,
        timeout_s: f64,
        last: Option<u64>,
        tls: Option<&Bound<'_, Tls>>,
        name: &str,
    ) -> PyResult<u64> {
        let (address, patience) = (socket_address(host, port)?, duration("timeout_s", timeout_s)?);
        let tls = tls.map(|tls| (&tls.get().0, name));
        let dialled = self.with(py, |tcp| tcp.dial(address, last, patience, tls))?;
        dialled.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// A listener that a transport written in Python has: its number. `asks` as of `listen`.
    #[pyo3(signature = (connections_max, *, asks = false))]
    fn add_listener(&self, py: Python<'_>, connections_max: usize, asks: bool) -> PyResult<u64> {
        self.with(py, |tcp| tcp.add_listener(Door { connections_max, asks }))
    }

    /// Lets somebody in who was told as news of kind `asks`, with rights if rules count there; or not, with the reason that it
    /// hears.
    #[pyo3(signature = (connection, refused = None, rights = None))]
    fn admit(
        &self,
        py: Python<'_>,
        connection: u64,
        refused: Option<&str>,
        rights: Option<&Bound<'_, Rights>>,
    ) -> PyResult<()> {
        let rights = rights.map(|rights| rights.get().0.clone());
        self.with(py, |tcp| tcp.admit(connection, refused, rights))
    }

    /// Rights were replaced: links use the new ones.
    fn use_rules(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, TcpNet::use_rules)
    }

    /// Sends the other end elsewhere, to the addresses that `places` names: one that was told as news of kind `asks` is refused
    /// with them, and one that is linked hears them.
    fn redirect(&self, py: Python<'_>, connection: u64, places: &str) -> PyResult<()> {
        self.with(py, |tcp| tcp.redirect(connection, places))
    }

    /// Makes a connection that such a transport carries: its number, and a descriptor, the caller's from now on, of the pipe
    /// that its bytes come and go through; or nothing if the listener has too many.
    #[pyo3(signature = (address, identity, *, listener = None, last = None))]
    fn adopt(
        &self,
        py: Python<'_>,
        address: String,
        identity: String,
        listener: Option<u64>,
        last: Option<u64>,
    ) -> PyResult<Option<(u64, Descriptor)>> {
        let place = Place { address, identity, listener };
        let taken = self.with(py, |tcp| tcp.adopt(place, last))?;
        let taken = taken.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(taken.map(|(connection, pipe)| (connection, shoal_io::into_descriptor(pipe))))
    }

    /// Makes a connection with another node of this process: its number. `last` as of `dial`.
    #[pyo3(signature = (other, last = None))]
    fn join(&self, py: Python<'_>, other: &Bound<'_, TcpLinks>, last: Option<u64>) -> PyResult<u64> {
        let other = other.get().0.bus.tcp().ok_or_else(errors::closed)?;
        let joined = self.with(py, |tcp| tcp.join(&other, last))?;
        joined.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// The other end of such a connection proved its name.
    fn identify(&self, py: Python<'_>, connection: u64, identity: &str) -> PyResult<()> {
        self.with(py, |tcp| tcp.identify(connection, identity))
    }

    /// Such a connection is over: why. `refused` says that trying again does not help.
    fn end(&self, py: Python<'_>, connection: u64, why: &str, refused: bool) -> PyResult<()> {
        self.with(py, |tcp| tcp.end(connection, why, refused))
    }

    /// Ends a connection: goodbye is said once everything was sent.
    fn part(&self, py: Python<'_>, connection: u64) -> PyResult<()> {
        self.with(py, |tcp| tcp.part(connection))
    }

    /// Says what a step over the link with a publisher costs; `None` if it costs as usual. False if there is no such link.
    fn set_cost(&self, py: Python<'_>, publisher: u64, cost: Option<NonZeroU32>) -> PyResult<bool> {
        let Some(link) = self.with(py, |tcp| tcp.link(publisher))? else { return Ok(false) };
        detached(py, || self.0.bus.hub().set_cost(link, cost));
        Ok(true)
    }

    /// Closes a listener, and ends its connections so.
    fn close_listener(&self, py: Python<'_>, listener: u64) -> PyResult<()> {
        self.with(py, |tcp| tcp.close_listener(listener))
    }

    /// What decides the rate of connections made from now on, as the kernel calls it; with `loopback`, also between programs of
    /// this machine.
    fn set_congestion(&self, py: Python<'_>, name: String, loopback: bool) -> PyResult<()> {
        self.with(py, |tcp| tcp.set_congestion(Some(Congestion { name, loopback })))
    }

    /// Rings `bell` as source 0 when something became of a connection.
    fn attach_bell(&self, py: Python<'_>, bell: &Bound<'_, Bell>) -> PyResult<()> {
        let bell = bell.get().inner().clone();
        self.with(py, |tcp| tcp.attach(&bell, 0))
    }

    /// What became of connections since the last call.
    fn take_news<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let told = self.with(py, TcpNet::take_news)?;
        let to_python = |(news, place): (TcpNews, Place)| {
            let item = PyDict::new(py);
            set_place(&item, place)?;
            match news {
                TcpNews::Asks { connection, publisher, node } => {
                    item.set_item("kind", "asks")?;
                    item.set_item("connection", connection)?;
                    item.set_item("publisher", publisher)?;
                    item.set_item("node", node)?;
                    item.set_item("resumed", false)?;
                    item.set_item("why", "")?;
                }
                TcpNews::Up { connection, publisher, node, resumed } => {
                    item.set_item("kind", "up")?;
                    item.set_item("connection", connection)?;
                    item.set_item("publisher", publisher)?;
                    item.set_item("node", node)?;
                    item.set_item("resumed", resumed)?;
                    item.set_item("why", "")?;
                }
                TcpNews::Redirected { connection, places } => {
                    item.set_item("kind", "redirected")?;
                    item.set_item("connection", connection)?;
                    item.set_item("publisher", None::<u64>)?;
                    item.set_item("node", 0)?;
                    item.set_item("resumed", false)?;
                    item.set_item("why", places)?;
                }
                TcpNews::Denied { connection, ours, why } => {
                    item.set_item("kind", if ours { "denied" } else { "denied there" })?;
                    item.set_item("connection", connection)?;
                    item.set_item("publisher", None::<u64>)?;
                    item.set_item("node", 0)?;
                    item.set_item("resumed", false)?;
                    item.set_item("why", why)?;
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
        let to_python = |(state, place): (_, Place)| {
            let shoal_node::tcp::LinkState { publisher, node, connection, round_trip, .. } = state;
            let item = PyDict::new(py);
            item.set_item("publisher", publisher)?;
            item.set_item("node", node)?;
            item.set_item("connection", connection)?;
            set_place(&item, place)?;
            item.set_item("round_trip_s", round_trip.map(|span| span.as_secs_f64()))?;
            item.set_item("bytes_sent", state.bytes_sent)?;
            item.set_item("bytes_received", state.bytes_received)?;
            set_traffic(&item, state.traffic)?;
            item.set_item("send_bytes_per_s", state.send_rate)?;
            item.set_item("receive_bytes_per_s", state.receive_rate)?;
            item.set_item("unsent_bytes", state.waiting)?;
            item.set_item("unacknowledged_bytes", state.lacking)?;
            item.set_item("denied", state.denied)?;
            Ok(item)
        };
        states.into_iter().map(to_python).collect()
    }

    /// The nodes at the other end of open connections, and how many seconds ago each was heard.
    fn heard(&self, py: Python<'_>) -> PyResult<HashMap<u32, f64>> {
        let heard = self.with(py, TcpNet::heard)?;
        Ok(heard.into_iter().map(|(node, age)| (node, age.as_secs_f64())).collect())
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
