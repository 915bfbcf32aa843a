//! A link from Python keywords: where it is, and what it is told beside what its session is told.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::interfaces::Interface;
use shoal_io::norm::{LinkOptions, fresh_instance};
use shoal_io::udp::LinkAddress;
use shoal_norm::{NodeId, StreamOptions};
use shoal_seal::Keys;
use shoal_wire::frame::FRAME_BYTES_MAX;

use crate::convert::{Described, extract};
use crate::errors;
use crate::options;

/// The most a stream may keep for repair: it takes this memory when it is opened.
const CACHE_BYTES_MAX: usize = 1 << 32;

/// Where a link is.
pub fn address(group: &str, port: u16, interface: &str) -> PyResult<LinkAddress> {
    let group: IpAddr = group
        .parse()
        .map_err(|_| errors::config(format!("group is {group:?}, and must be an IP address")))?;
    require(port > 0, "port", &port, "from 1 to 65535")?;
    let interface = match interface.parse::<IpAddr>() {
        Ok(address) => Interface::Address(address),
        Err(_) if interface == "auto" => Interface::Auto,
        Err(_) => Interface::Name(interface.to_owned()),
    };
    Ok(LinkAddress { group: SocketAddr::new(group, port), interface })
}

/// Refuses a value that cannot work.
fn require(fine: bool, field: &str, value: &dyn std::fmt::Display, wanted: &str) -> PyResult<()> {
    if fine { Ok(()) } else { Err(errors::config(format!("{field} is {value}, and must be {wanted}"))) }
}

/// The keys of a group, one in a line.
pub fn keys_of(text: &str) -> PyResult<Keys> {
    Keys::parse(text).map_err(|error| errors::config(format!("key cannot be read: {error}")))
}

/// Nodes other than ourselves, each once.
pub fn node_ids(field: &str, mut nodes: Vec<NodeId>, own: NodeId) -> PyResult<Vec<NodeId>> {
    for node in &nodes {
        require(
            ![0, u32::MAX, own].contains(node),
            field,
            &format_args!("{nodes:?}"),
            &format!("ids of other nodes: not 0, not 4294967295, not {own}, which is our own"),
        )?;
    }
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

/// Refuses caches that memory cannot hold, before anything tries to take so much.
pub fn check_cache(cache_bytes: usize, lanes: usize) -> PyResult<()> {
    let wanted = format!("at most {CACHE_BYTES_MAX}");
    require(cache_bytes <= CACHE_BYTES_MAX, "cache_bytes", &cache_bytes, &wanted)?;
    let fits = Vec::<u8>::new().try_reserve_exact(cache_bytes * lanes).is_ok();
    require(fits, "cache_bytes", &cache_bytes, &format!("so small that memory holds it for {lanes} streams"))
}

/// Takes a keyword that is not the session's out of `options`.
fn take<'py, T>(options: &Bound<'py, PyDict>, name: &str, default: T) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py> + Described,
{
    let Some(value) = options.get_item(name)? else {
        return Ok(default);
    };
    options.del_item(name)?;
    extract(name, &value)
}

/// A link with everything `options` names, and the defaults of a LAN for the rest.
pub fn link_options(
    address: LinkAddress,
    node: NodeId,
    seed: u64,
    options: Option<&Bound<'_, PyDict>>,
    py: Python<'_>,
) -> PyResult<LinkOptions> {
    let options = match options {
        Some(options) => options.copy()?,
        None => PyDict::new(py),
    };
    let multicast = address.group.ip().is_multicast();
    let lanes: usize = take(&options, "lanes", 1)?;
    let stream = StreamOptions {
        cache_bytes: take(&options, "cache_bytes", 16 << 20)?,
        window_bytes: take(&options, "window_bytes", None)?,
        info: take(&options, "info", Vec::new())?,
        precedence: 0,
        quiet: false,
    };
    let drop_received: f64 = take(&options, "drop_received", 0.0)?;
    let receive_buffer_bytes: usize = take(&options, "receive_buffer_bytes", 8 << 20)?;
    let listen_port: Option<u16> = take(&options, "listen_port", None)?;
    let files_directory: Option<PathBuf> = take(&options, "files_directory", None)?;
    let ackers = node_ids("ackers", take(&options, "ackers", Vec::new())?, node)?;
    let message_bytes_max: usize = take(&options, "message_bytes_max", 128 << 20)?;
    let fit_segments = take(&options, "fit_segments", false)?;
    let keys: Option<String> = take(&options, "keys", None)?;
    let keys = keys.map(|text| keys_of(&text)).transpose()?;
    let norm = options::config(node, fresh_instance(), seed, &options)?;

    let lanes_max = norm.send_streams_max.min(u8::MAX.into());
    require(
        lanes <= lanes_max,
        "lanes",
        &lanes,
        &format!("from 0 to {lanes_max}, which send_streams_max allows"),
    )?;
    check_cache(stream.cache_bytes, lanes)?;
    if let Some(window_bytes) = stream.window_bytes {
        let fine = (1..=stream.cache_bytes).contains(&window_bytes);
        require(fine, "window_bytes", &window_bytes, "from 1 to cache_bytes")?;
    }
    require((0.0..=1.0).contains(&drop_received), "drop_received", &drop_received, "a share from 0 to 1")?;
    require(
        (1..=i32::MAX as usize).contains(&receive_buffer_bytes),
        "receive_buffer_bytes",
        &receive_buffer_bytes,
        "from 1 to 2147483647",
    )?;
    if let Some(port) = listen_port {
        require(port > 0, "listen_port", &port, "from 1 to 65535")?;
        let wanted = "left out on a multicast group, on whose port everybody listens";
        require(!multicast, "listen_port", &port, wanted)?;
    }
    if let Some(directory) = &files_directory {
        let shown = format!("{directory:?}");
        require(directory.is_dir(), "files_directory", &shown, "a directory that exists")?;
    }
    require(
        (1..=FRAME_BYTES_MAX).contains(&message_bytes_max),
        "message_bytes_max",
        &message_bytes_max,
        &format!("from 1 to {FRAME_BYTES_MAX}"),
    )?;
    require(
        norm.interleave_blocks == 1 || norm.parity_symbols > 0,
        "interleave_blocks",
        &norm.interleave_blocks,
        "1 without parity_symbols, which interleaving is for",
    )?;

    let mut link = LinkOptions::new(address, norm);
    link.fit_segments = fit_segments;
    link.lanes = (0..lanes).map(|lane| StreamOptions { precedence: lane as u8, ..stream.clone() }).collect();
    link.drop_received = drop_received;
    link.sockets.receive_buffer_bytes = receive_buffer_bytes;
    link.sockets.listen_port = listen_port;
    link.ackers = ackers;
    link.files_directory = files_directory;
    link.message_bytes_max = message_bytes_max;
    link.keys = keys;
    Ok(link)
}
