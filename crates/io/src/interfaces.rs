//! Network interfaces, and which one a link uses.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::sys;

/// The longest packet of an ordinary Ethernet.
pub const ETHERNET_MTU: usize = 1500;

/// Which network interface to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The one of the default route if it can do multicast, else another that can, else loopback.
    #[default]
    Auto,
    /// By name, such as `eth0`.
    Name(String),
    /// By one of its addresses.
    Address(IpAddr),
}

/// A network interface of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceInfo {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its addresses, in the system's order.
    pub addresses: Vec<IpAddr>,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether there is something at the other end of its cable.
    pub running: bool,
    /// Whether it can do multicast. Loopback says no on Linux, and can.
    pub multicast: bool,
    /// Whether it leads nowhere but to this machine.
    pub loopback: bool,
}

impl InterfaceInfo {
    /// The longest packet it sends, with its IP header; what Ethernet takes if the system does not say.
    pub fn mtu(&self) -> usize {
        let told = std::fs::read_to_string(format!("/sys/class/net/{}/mtu", self.name));
        told.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(ETHERNET_MTU)
    }

    /// Its address of this IP version; of IPv6 addresses one that is not link-local if there is one.
    pub fn address(&self, ipv6: bool) -> Option<IpAddr> {
        let mut of_version = self.addresses.iter().filter(|address| address.is_ipv6() == ipv6);
        let link_local =
            |address: &&IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let global = of_version.clone().find(|address| !link_local(address));
        global.or_else(|| of_version.next()).copied()
    }
}

impl fmt::Display for InterfaceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.up { "" } else { ", down" };
        let multicast = if self.multicast || self.loopback { "" } else { ", no multicast" };
        write!(f, "{} (", self.name)?;
        for (position, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if position == 0 { "" } else { " " })?;
        }
        write!(f, "{}{state}{multicast})", if self.addresses.is_empty() { "no address" } else { "" })
    }
}

/// The interfaces of this machine.
pub fn list() -> io::Result<Vec<InterfaceInfo>> {
    let mut found: Vec<InterfaceInfo> = Vec::new();
    for raw in sys::interfaces()? {
        let position = found.iter().position(|known| known.name == raw.name).unwrap_or_else(|| {
            found.push(InterfaceInfo {
                name: raw.name,
                index: raw.index,
                addresses: Vec::new(),
                up: raw.up,
                running: raw.running,
                multicast: raw.multicast,
                loopback: raw.loopback,
            });
            found.len() - 1
        });
        found[position].addresses.extend(raw.address);
    }
    Ok(found)
}

/// The interface that `wanted` means, for IPv4 or IPv6; the error lists what there is.
pub fn choose(wanted: &Interface, ipv6: bool) -> io::Result<InterfaceInfo> {
    choose_from(&list()?, wanted, ipv6, default_route_address(ipv6)).cloned()
}

/// [`choose`] without a look at the machine.
pub fn choose_from<'a>(
    interfaces: &'a [InterfaceInfo],
    wanted: &Interface,
    ipv6: bool,
    default_route: Option<IpAddr>,
) -> io::Result<&'a InterfaceInfo> {
    let usable = |info: &&InterfaceInfo| info.up && info.address(ipv6).is_some();
    let chosen = match wanted {
        Interface::Name(name) => interfaces.iter().find(|info| info.name == *name),
        Interface::Address(address) => interfaces.iter().find(|info| info.addresses.contains(address)),
        Interface::Auto => {
            let candidates =
                || interfaces.iter().filter(usable).filter(|info| info.multicast && !info.loopback);
            candidates()
                .find(|info| default_route.is_some_and(|address| info.addresses.contains(&address)))
                .or_else(|| candidates().next())
                .or_else(|| interfaces.iter().filter(usable).find(|info| info.loopback))
        }
    };
    chosen.filter(usable).ok_or_else(|| no_interface(interfaces, wanted, ipv6, chosen))
}

fn no_interface(
    interfaces: &[InterfaceInfo],
    wanted: &Interface,
    ipv6: bool,
    found: Option<&InterfaceInfo>,
) -> io::Error {
    let version = if ipv6 { "IPv6" } else { "IPv4" };
    let problem = match (wanted, found) {
        (_, Some(info)) => format!("interface {info} is down or has no {version} address"),
        (Interface::Name(name), None) => format!("there is no interface {name:?}"),
        (Interface::Address(address), None) => format!("no interface has the address {address}"),
        (Interface::Auto, None) => format!("no interface is up and has an {version} address"),
    };
    let tried: Vec<String> = interfaces.iter().map(ToString::to_string).collect();
    io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        format!("{problem}; this machine has {}", tried.join(", ")),
    )
}

/// How the interface of a link is, compared with what it was when the link was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it was.
    Same,
    /// The link cannot be used: why.
    Away(String),
    /// The link has to be opened anew, on this one.
    Changed(String),
}

/// Looks at the interface that a link `used`, where it was asked for as `wanted`.
pub fn look(wanted: &Interface, used: &InterfaceInfo, ipv6: bool) -> io::Result<Standing> {
    let found = list()?;
    let standing = look_among(&found, wanted, used, ipv6, None);
    match standing {
        // Where nobody said which one, the link follows the default route.
        Standing::Away(_) if *wanted == Interface::Auto => {
            Ok(look_among(&found, wanted, used, ipv6, default_route_address(ipv6)))
        }
        standing => Ok(standing),
    }
}

/// [`look`] without a look at the machine.
pub fn look_among(
    interfaces: &[InterfaceInfo],
    wanted: &Interface,
    used: &InterfaceInfo,
    ipv6: bool,
    default_route: Option<IpAddr>,
) -> Standing {
    let name = &used.name;
    let now = interfaces.iter().find(|info| info.name == *name);
    let (here, there) = (now.and_then(|info| info.address(ipv6)), used.address(ipv6));
    let why = match now {
        None => format!("the interface {name} is gone"),
        Some(info) if !info.up => format!("the interface {name} is switched off"),
        // One that had no cable when the link was opened serves programs of this machine.
        Some(info) if used.running && !info.running => format!("the interface {name} has no carrier"),
        Some(_) if here.is_none() => format!("the interface {name} has no address"),
        Some(info) => match wanted {
            Interface::Address(address) if !info.addresses.contains(address) => {
                format!("the interface {name} has another address than {address}")
            }
            _ if info.index == used.index && there.is_some_and(|there| info.addresses.contains(&there)) => {
                return Standing::Same;
            }
            _ => return Standing::Changed(name.clone()),
        },
    };
    let usable = |info: &&InterfaceInfo| {
        info.name != *name && info.up && info.running && info.multicast && !info.loopback
    };
    let route =
        |info: &&InterfaceInfo| default_route.is_some_and(|address| info.addresses.contains(&address));
    match interfaces.iter().filter(usable).find(route) {
        Some(other) => Standing::Changed(other.name.clone()),
        None => Standing::Away(why),
    }
}

/// The address from which packets to the rest of the world would be sent. Sends nothing.
fn default_route_address(ipv6: bool) -> Option<IpAddr> {
    // Documentation addresses: routed like any other, owned by nobody.
    let (local, remote): (IpAddr, IpAddr) = if ipv6 {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    } else {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(203, 0, 113, 1).into())
    };
    let socket = UdpSocket::bind(SocketAddr::new(local, 0)).ok()?;
    socket.connect(SocketAddr::new(remote, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, addresses: &[&str], multicast: bool) -> InterfaceInfo {
        InterfaceInfo {
            name: name.into(),
            index: 1,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            up: true,
            running: true,
            multicast,
            loopback: name == "lo",
        }
    }

    fn machine() -> Vec<InterfaceInfo> {
        vec![
            info("lo", &["127.0.0.1", "::1"], false),
            info("tun0", &["10.9.0.1"], false),
            info("eth0", &["10.0.0.1", "fe80::1", "fd00::1"], true),
            info("eth1", &["10.1.0.1"], true),
            InterfaceInfo { up: false, ..info("eth2", &["10.2.0.1"], true) },
        ]
    }

    fn name_of(wanted: &Interface, ipv6: bool, route: Option<&str>) -> Result<String, String> {
        let route = route.map(|text| text.parse().unwrap());
        choose_from(&machine(), wanted, ipv6, route)
            .map(|info| info.name.clone())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn auto_prefers_the_default_route_among_those_that_can_do_multicast() {
        assert_eq!(name_of(&Interface::Auto, false, Some("10.1.0.1")).unwrap(), "eth1");
        assert_eq!(name_of(&Interface::Auto, false, Some("10.9.0.1")).unwrap(), "eth0");
        assert_eq!(name_of(&Interface::Auto, false, None).unwrap(), "eth0");
    }

    #[test]
    fn auto_falls_back_to_loopback() {
        let machine = [info("tun0", &["10.9.0.1"], false), info("lo", &["127.0.0.1"], false)];
        assert_eq!(choose_from(&machine, &Interface::Auto, false, None).unwrap().name, "lo");
    }

    #[test]
    fn an_interface_is_found_by_name_and_by_address() {
        assert_eq!(name_of(&Interface::Name("tun0".into()), false, None).unwrap(), "tun0");
        assert_eq!(name_of(&Interface::Address("fd00::1".parse().unwrap()), true, None).unwrap(), "eth0");
    }

    #[test]
    fn a_global_ipv6_address_is_preferred_to_a_link_local_one() {
        assert_eq!(machine()[2].address(true), Some("fd00::1".parse().unwrap()));
        assert_eq!(info("eth0", &["fe80::1"], true).address(true), Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_there_is() {
        let error = name_of(&Interface::Name("wlan0".into()), false, None).unwrap_err();
        assert!(error.contains("no interface \"wlan0\""), "{error}");
        assert!(error.contains("eth0 (10.0.0.1 fe80::1 fd00::1)"), "{error}");
        assert!(error.contains("eth2 (10.2.0.1, down)"), "{error}");
        assert!(error.contains("tun0 (10.9.0.1, no multicast)"), "{error}");
        let error = name_of(&Interface::Name("eth1".into()), true, None).unwrap_err();
        assert!(error.contains("eth1 (10.1.0.1) is down or has no IPv6 address"), "{error}");
    }

    /// How `eth0` of a machine is whose interfaces changed in this way.
    fn seen(
        wanted: &Interface,
        change: impl FnOnce(&mut Vec<InterfaceInfo>),
        route: Option<&str>,
    ) -> Standing {
        let (used, mut now) = (machine().remove(2), machine());
        change(&mut now);
        look_among(&now, wanted, &used, false, route.map(|text| text.parse().unwrap()))
    }

    fn away(why: &str) -> Standing {
        Standing::Away(why.to_owned())
    }

    #[test]
    fn a_link_is_away_while_its_interface_is() {
        let auto = Interface::Auto;
        assert_eq!(seen(&auto, |_| {}, None), Standing::Same);
        assert_eq!(seen(&auto, |all| all[2].up = false, None), away("the interface eth0 is switched off"));
        assert_eq!(
            seen(&auto, |all| all[2].running = false, None),
            away("the interface eth0 has no carrier")
        );
        assert_eq!(
            seen(&auto, |all| all[2].addresses.clear(), None),
            away("the interface eth0 has no address")
        );
        assert_eq!(seen(&auto, |all| drop(all.remove(2)), None), away("the interface eth0 is gone"));
    }

    #[test]
    fn a_link_is_opened_anew_where_its_interface_comes_back_as_another_one() {
        let changed = Standing::Changed("eth0".to_owned());
        let (name, other) = (Interface::Name("eth0".into()), "10.0.0.9".parse().unwrap());
        assert_eq!(seen(&name, |all| all[2].index = 7, None), changed);
        assert_eq!(seen(&name, |all| all[2].addresses = vec![other], None), changed);
        assert_eq!(seen(&name, |all| all[2].addresses.insert(0, other), None), Standing::Same, "one more");
        let address = Interface::Address("10.0.0.1".parse().unwrap());
        assert_eq!(
            seen(&address, |all| all[2].addresses = vec![other], None),
            away("the interface eth0 has another address than 10.0.0.1")
        );
    }

    #[test]
    fn a_link_that_was_left_to_choose_follows_the_default_route_and_nothing_else() {
        let off = |all: &mut Vec<InterfaceInfo>| all[2].up = false;
        let moved = Standing::Changed("eth1".to_owned());
        assert_eq!(seen(&Interface::Auto, off, Some("10.1.0.1")), moved);
        assert_eq!(seen(&Interface::Auto, off, Some("10.9.0.1")), away("the interface eth0 is switched off"));
        assert_eq!(seen(&Interface::Auto, |_| {}, Some("10.1.0.1")), Standing::Same, "its own one works");
    }

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let loopback = list().unwrap().into_iter().find(|info| info.loopback).unwrap();
        assert!(loopback.up && loopback.index > 0);
        assert_eq!(loopback.address(false), Some(Ipv4Addr::LOCALHOST.into()));
    }
}
