//! A link from Python keywords: where it is, and what it is told beside what its session is told.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use shoal_io::interfaces::Interface;
use shoal_io::norm::{LinkOptions, fresh_instance};
use shoal_io::udp::{LinkAddress, Mark};
use shoal_node::norm::{GROUPS_MAX, Groups, LANES, Lane};
use shoal_norm::{Config, CongestionControl, NodeId, StreamOptions};
use shoal_seal::Keys;
use shoal_wire::PriorityClass;
use shoal_wire::frame::FRAME_BYTES_MAX;

use crate::convert::{Described, extract};
use crate::errors;
use crate::options;

/// What a stream may keep for repair: it takes this memory when it is opened.
const CACHE_BYTES: RangeInclusive<usize> = 65_536..=1 << 32;
/// What the kernel may be asked to keep of what came.
const RECEIVE_BUFFER_BYTES: RangeInclusive<usize> = 4096..=i32::MAX as usize;

/// One more than the routers that multicast may pass.
const MULTICAST_TTL: RangeInclusive<usize> = 1..=255;

/// Where a link is.
pub fn address(group: &str, port: u16, interface: &str) -> PyResult<LinkAddress> {
    let group: IpAddr = group.parse().map_err(|_| {
        errors::config(format!("group is '{group}', and must be an IP address such as 239.192.74.2"))
    })?;
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

fn require_in(range: &RangeInclusive<usize>, field: &str, value: usize) -> PyResult<()> {
    let wanted = format!("from {} to {}", range.start(), range.end());
    require(range.contains(&value), field, &value, &wanted)
}

/// The keys of a group, one in a line.
pub fn keys_of(text: &str) -> PyResult<Keys> {
    Keys::parse(text).map_err(|error| errors::config(format!("key cannot be read: {error}")))
}

/// Nodes other than ourselves, each once.
pub fn node_ids(field: &str, nodes: Vec<NodeId>, own: NodeId) -> PyResult<Vec<NodeId>> {
    let given = format!("{nodes:?}");
    other_nodes(field, nodes, own, &given)
}

fn other_nodes(field: &str, mut nodes: Vec<NodeId>, own: NodeId, given: &str) -> PyResult<Vec<NodeId>> {
    let wanted = format!("ids of other nodes: not 0, not 4294967295, not {own}, which is our own");
    require(!nodes.iter().any(|node| [0, u32::MAX, own].contains(node)), field, &given, &wanted)?;
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

/// Refuses caches that memory cannot hold, before anything tries to take so much.
pub fn check_cache(cache_bytes: usize, lanes: usize) -> PyResult<()> {
    require_in(&CACHE_BYTES, "cache_bytes", cache_bytes)?;
    let fits = Vec::<u8>::new().try_reserve_exact(cache_bytes * lanes).is_ok();
    require(fits, "cache_bytes", &cache_bytes, &format!("so small that memory holds it for {lanes} streams"))
}

/// DSCP and priority of each class.
pub type ClassMarks = Vec<(u8, u8)>;

/// The marks of a node's lanes from those of the classes high, normal and low.
pub fn lane_marks(classes: Option<&[(u8, u8)]>) -> PyResult<Vec<Mark>> {
    let Some(classes) = classes else { return Ok(Vec::new()) };
    let given = format!("{classes:?}");
    let fine = classes.len() == 3 && classes.iter().all(|&(dscp, priority)| dscp < 64 && priority < 7);
    require(
        fine,
        "marks",
        &given,
        "a DSCP from 0 to 63 and a priority from 0 to 6 for each of three classes",
    )?;
    let of = |lane| {
        let (dscp, priority) = match Lane::class(lane) {
            PriorityClass::High => classes[0],
            PriorityClass::Normal => classes[1],
            PriorityClass::Low => classes[2],
        };
        Mark { dscp, priority }
    };
    Ok((0..LANES + 3 * GROUPS_MAX).map(of).collect())
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
    let lanes: usize = take(&options, "lanes", 1)?;
    let stream = StreamOptions {
        cache_bytes: take(&options, "cache_bytes", 16 << 20)?,
        window_bytes: take(&options, "window_bytes", None)?,
        info: take(&options, "info", Vec::new())?,
        ..StreamOptions::default()
    };
    let given = options.get_item("ackers")?.map_or_else(String::new, |ackers| format!("{ackers:?}"));
    let ackers = other_nodes("ackers", take(&options, "ackers", Vec::new())?, node, &given)?;
    let keys: Option<String> = take(&options, "keys", None)?;
    let drop_received = take(&options, "drop_received", 0.0)?;
    let receive_buffer_bytes = take(&options, "receive_buffer_bytes", 8 << 20)?;
    let listen_port = take(&options, "listen_port", None)?;
    let multicast_ttl: u32 = take(&options, "multicast_ttl", 1)?;
    let marks: Option<ClassMarks> = take(&options, "marks", None)?;
    let groups: Vec<String> = take(&options, "groups", Vec::new())?;
    let files_directory: Option<PathBuf> = take(&options, "files_directory", None)?;
    let message_bytes_max = take(&options, "message_bytes_max", 128 << 20)?;
    let fit_segments = options.get_item("segment_bytes")?.is_some_and(|bytes| bytes.is_none());
    if fit_segments {
        options.del_item("segment_bytes")?;
    }
    let norm = options::config(node, fresh_instance(), seed, &options)?;
    check_streams(&stream, lanes, &norm, fit_segments)?;

    let mut link = LinkOptions::new(address, norm);
    link.fit_segments = fit_segments;
    link.lanes = (0..lanes).map(|lane| StreamOptions { precedence: lane as u8, ..stream.clone() }).collect();
    link.drop_received = drop_received;
    link.sockets.receive_buffer_bytes = receive_buffer_bytes;
    link.sockets.listen_port = listen_port;
    link.sockets.ttl = multicast_ttl;
    link.sockets.marks = lane_marks(marks.as_deref())?;
    for address in &groups {
        let read = address.parse();
        link.sockets
            .groups
            .push(read.map_err(|_| errors::config(format!("groups has '{address}', no IP address")))?);
    }
    link.ackers = ackers;
    link.files_directory = files_directory;
    link.message_bytes_max = message_bytes_max;
    link.keys = keys.map(|text| keys_of(&text)).transpose()?;
    check_link(&link)?;
    Ok(link)
}

/// Which of a link's groups carries what. First levels of topics may be assigned to a group.
pub fn groups_of(link: &LinkOptions, assigned: Vec<(String, usize)>) -> PyResult<Groups> {
    let count = link.sockets.groups.len();
    require(count <= GROUPS_MAX, "groups", &count, &format!("at most {GROUPS_MAX}"))?;
    let is_multicast =
        |address: &IpAddr| address.is_multicast() && address.is_ipv6() == link.address.group.is_ipv6();
    let given = format!("{:?}", link.sockets.groups);
    require(
        link.sockets.groups.iter().all(is_multicast),
        "groups",
        &given,
        "multicast addresses as the group's",
    )?;
    for (level, group) in &assigned {
        require(*group < count, "group", group, &format!("below {count} for {level:?}"))?;
    }
    let assigned = assigned.into_iter().map(|(level, group)| (level.into_bytes().into(), group));
    Ok(Groups::new(count, assigned.collect()))
}

/// Refuses streams that a session cannot have.
fn check_streams(stream: &StreamOptions, lanes: usize, norm: &Config, fit_segments: bool) -> PyResult<()> {
    let lanes_max = norm.send_streams_max.min(u8::MAX.into());
    let wanted = format!("from 0 to {lanes_max}, which send_streams_max allows");
    require(lanes <= lanes_max, "lanes", &lanes, &wanted)?;
    check_cache(stream.cache_bytes, lanes)?;
    if let Some(window_bytes) = stream.window_bytes {
        let fine = (1..=stream.cache_bytes).contains(&window_bytes);
        require(fine, "window_bytes", &window_bytes, "from 1 to cache_bytes, or None")?;
    }
    let info = format!("{} bytes long", stream.info.len());
    let fits = fit_segments || stream.info.len() <= norm.segment_bytes.into();
    require(fits, "info", &info, "no longer than segment_bytes")?;
    require(stream.info.is_empty() || lanes > 0, "info", &info, "left out without lanes, whose it is")
}

/// Refuses what a link cannot be told.
fn check_link(link: &LinkOptions) -> PyResult<()> {
    let multicast = link.address.group.ip().is_multicast();
    let share = link.drop_received;
    require((0.0..=1.0).contains(&share), "drop_received", &share, "a share from 0 to 1")?;
    require_in(&RECEIVE_BUFFER_BYTES, "receive_buffer_bytes", link.sockets.receive_buffer_bytes)?;
    require_in(&MULTICAST_TTL, "multicast_ttl", link.sockets.ttl as usize)?;
    require_in(&(1..=FRAME_BYTES_MAX), "message_bytes_max", link.message_bytes_max)?;
    if let Some(port) = link.sockets.listen_port {
        require(port > 0, "listen_port", &port, "from 1 to 65535")?;
        let wanted = "left out on a multicast group, on whose port everybody listens";
        require(!multicast, "listen_port", &port, wanted)?;
    }
    let has_two_ends = link.norm.congestion == CongestionControl::Delivery;
    let wanted = "fixed, nack_driven or norm_cc on a multicast group: it is for two ends";
    require(!(has_two_ends && multicast), "congestion", &"'delivery'", wanted)?;
    if let Some(directory) = &link.files_directory {
        let shown = format!("{directory:?}");
        require(directory.is_dir(), "files_directory", &shown, "a directory that exists")?;
    }
    Ok(())
}

/// Refuses what a link with these options would refuse when it is opened.
#[pyfunction]
#[pyo3(signature = (node, *, group, port, interface = "auto", seed = None, **options))]
pub fn check_norm_options(
    py: Python<'_>,
    node: &Bound<'_, PyAny>,
    group: &str,
    port: &Bound<'_, PyAny>,
    interface: &str,
    seed: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    named_link(py, node, group, port, interface, seed, options).map(drop)
}

/// A link from what Python calls it by.
pub fn named_link(
    py: Python<'_>,
    node: &Bound<'_, PyAny>,
    group: &str,
    port: &Bound<'_, PyAny>,
    interface: &str,
    seed: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<LinkOptions> {
    let seed = seed.map_or(Ok(0), |seed| extract("seed", seed))?;
    let address = address(group, extract("port", port)?, interface)?;
    link_options(address, extract("node", node)?, seed, options, py)
}
